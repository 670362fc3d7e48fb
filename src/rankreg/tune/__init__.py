"""Search for good training settings on your own data; needs the extra "tune".

`tune_data` names the data, `Space` says what is tried, `search` runs the trials and goes on where it
stopped, and `rank_trials` finds the winner and the baseline.
"""

try:
    import optuna as _optuna  # noqa: F401 - asked for here, once, so that its absence is said in one line
except ImportError as error:
    raise ImportError("a search needs Optuna: pip install 'rankreg[tune]'") from error

from rankreg.tune.results import SearchResult, TriedSettings, rank_trials
from rankreg.tune.search import search
from rankreg.tune.search_data import tune_data
from rankreg.tune.space import AlmGrid, Space

__all__ = ["AlmGrid", "SearchResult", "Space", "TriedSettings", "rank_trials", "search", "tune_data"]
