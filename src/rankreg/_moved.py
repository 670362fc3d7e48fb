"""Old module names keep working for one version: importing one warns and hands out the new module's names."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "rankreg.bench": "rankreg_bench",
    "rankreg.boosting.objective": "rankreg.boosting.objectives",
    "rankreg.bundle.files": "rankreg.bundle.storage",
    "rankreg.desk": "rankreg.score_files",
    "rankreg.estimator": "rankreg.estimators",
    "rankreg.export": "rankreg.bundle",
    "rankreg.multiclass": "rankreg",
    "rankreg.predict": "rankreg.bundle",
    "rankreg.thresholding": "rankreg.estimators",
}


class MovedModules(MetaPathFinder, Loader):
    """Finds the modules of `MOVED` under their old names, after every other finder has given up."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = MOVED[module.__name__]
        warnings.warn(f"{module.__name__} is now {new}: import that", FutureWarning, stacklevel=2)
        home = import_module(new)
        module.__getattr__ = lambda name: getattr(home, name)  # type: ignore[method-assign]


def keep_old_names() -> None:
    """Install the finder, once."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
