"""A search for good settings on one's own data: `search(data, space, out)`; needs the extra "tune"."""

try:
    import optuna as _optuna  # noqa: F401 - asked for here, once, so that its absence is said in one line
except ImportError as error:
    raise ImportError("a search needs Optuna: pip install 'rankreg[tune]'") from error

from rankreg.tune.asking import Asked, base_config, plan_of
from rankreg.tune.data import Named, Own, judged_parts, load_parts, name_data
from rankreg.tune.presets import AlmGrid, Plan, Search
from rankreg.tune.results import Result, Tried, best_of_each_method, results_of, write_results
from rankreg.tune.search import Request, search
from rankreg.tune.space import Space

__all__ = [
    "AlmGrid",
    "Asked",
    "Named",
    "Own",
    "Plan",
    "Request",
    "Result",
    "Search",
    "Space",
    "Tried",
    "base_config",
    "best_of_each_method",
    "judged_parts",
    "load_parts",
    "name_data",
    "plan_of",
    "results_of",
    "search",
    "write_results",
]
