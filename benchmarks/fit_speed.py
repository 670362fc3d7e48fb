"""`rankreg fit` beside LightGBM's own fit, and its memory beside the table.

python -m benchmarks fit_speed
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from rich.table import Table

from benchmarks.timing import duration, verdict

SIZES = ((5_000, 5, 0.02), (286_000, 10, 0.002))
LARGE = (1_000_000, 30, 0.001)
MEASURE = """
import resource, sys, time
from pathlib import Path
import numpy, pandas, torch, lightgbm, sklearn.linear_model
from rankreg.fit import Source, fit
torch.set_num_threads(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
fit(Source(Path(sys.argv[1]), target="y", keep_copies_together=False), sys.argv[2], progress=False)
print(time.perf_counter() - start, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def table() -> Table:
    """Seconds and bytes of fresh processes, beside their yardsticks."""
    result = Table(title="A fit of a table, default settings")
    for column in ("what", "time", "ratio"):
        result.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for rows, columns, share in SIZES:
            path = write(Path(folder), rows, columns, share)
            own = plain_lightgbm(path)
            seconds, _ = fitted(path, Path(folder) / f"model-{rows}")
            at_most = verdict(seconds / own, 40) if rows > 100_000 else f"{seconds / own:.0f} ×"
            result.add_row(f"fit, {rows:,} × {columns} ÷ LightGBM's own fit", duration(seconds), at_most)
        rows, columns, share = LARGE
        path = write(Path(folder), rows, columns, share)
        seconds, size = fitted(path, Path(folder) / "model-large")
        result.add_row(
            f"memory of a fit, {rows:,} × {columns} ÷ the table in float32",
            duration(seconds),
            verdict(size / (4 * rows * columns), 3),
        )
    return result


def write(folder: Path, rows: int, columns: int, share: float) -> Path:
    """A table with a rare class that some columns tell of."""
    random = np.random.default_rng(0)
    labels = (random.random(rows) < share).astype(int)
    values = random.normal(size=(rows, columns)).astype(np.float32)
    values[:, : columns // 2] += labels[:, None] * random.exponential(1.0, (rows, 1)).astype(np.float32)
    frame = pd.DataFrame(values).add_prefix("x").assign(y=labels)
    frame.to_csv(folder / f"{rows}.csv", index=False, float_format="%.5g")
    return folder / f"{rows}.csv"


def plain_lightgbm(path: Path) -> float:
    """Seconds of one fit with LightGBM's defaults, on both cores; the best of three."""
    from lightgbm import LGBMClassifier

    frame = pd.read_csv(path)
    best = float("inf")
    for _ in range(3):
        start = perf_counter()
        LGBMClassifier(verbose=-1).fit(frame.drop(columns="y"), frame["y"])
        best = min(best, perf_counter() - start)
    return best


def fitted(path: Path, out: Path) -> tuple[float, float]:
    """Seconds of a fit in a fresh process, and the memory it took beyond its imports."""
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), str(out)], check=True, capture_output=True, text=True
    )
    seconds, size = map(float, found.stdout.split()[-2:])
    return seconds, size
