"""Search for good training settings on your own data; needs the extra "tune".

`tune_data` names the data, `plan_search` says what is tried, `search` runs the trials and goes on where it
stopped, `rank_trials` finds the winner and the baseline, and `write_results` writes them for `rankreg fit`.
"""

try:
    import optuna as _optuna  # noqa: F401 - asked for here, once, so that its absence is said in one line
except ImportError as error:
    raise ImportError("a search needs Optuna: pip install 'rankreg[tune]'") from error

from rankreg.tune.results import SearchResult, TriedSettings, rank_trials
from rankreg.tune.search import search
from rankreg.tune.search_data import tune_data
from rankreg.tune.space import AlmGrid, Space, plan_search

__all__ = ["AlmGrid", "SearchResult", "Space", "TriedSettings", "plan_search", "rank_trials", "search", "tune_data"]
