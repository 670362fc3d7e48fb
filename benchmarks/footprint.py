"""What `pip install rankreg` brings beyond torch, and what `import rankreg` costs.

python -m benchmarks footprint
"""

import subprocess
import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from rich.table import Table

import rankreg
from benchmarks.timing import best_times

NOTHING = "pass"
IMPORTS = ("import rankreg", "import rankreg.metrics", "import rankreg.operating", "import torch")


def table() -> Table:
    """Sizes of what is installed without extras, and import times of fresh processes that take turns."""
    shown = Table("what", "how much", title="Footprint", title_justify="left")
    sizes = {name: megabytes(name) for name in needs("rankreg") - needs("torch")}
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:4]
    shown.add_row("installed beyond torch, no extras", f"{sum(sizes.values()):.0f} MB")
    shown.add_row("the largest of it", ", ".join(f"{name} {sizes[name]:.0f} MB" for name in largest))
    shown.add_row("rankreg itself", f"{sizes['rankreg']:.1f} MB")
    run = partial(subprocess.run, check=True)
    seconds = best_times({code: partial(run, [sys.executable, "-c", code]) for code in (NOTHING, *IMPORTS)})
    for code in IMPORTS:
        beyond, ratio = seconds[code] - seconds[NOTHING], seconds[code] / seconds[NOTHING]
        shown.add_row(code, f"{1000 * beyond:.0f} ms, {ratio:.1f} × the start of python")
    return shown


def needs(name: str) -> set[str]:
    """A distribution and all that it requires on this platform, without extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop().lower().replace("_", "-")
        try:
            required = [] if one in found else distribution(one).requires or []
        except PackageNotFoundError:
            continue
        found.add(one)
        asked = [Requirement(text) for text in required]
        waiting += [ask.name for ask in asked if ask.marker is None or ask.marker.evaluate({"extra": ""})]
    return found


def megabytes(name: str) -> float:
    """The files of a distribution; rankreg may be installed in place, where its list names none of them."""
    if name == "rankreg":
        places = [place for place in Path(rankreg.__path__[0]).rglob("*") if "__pycache__" not in place.parts]
    else:
        places = [Path(str(file.locate())) for file in distribution(name).files or []]
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6
