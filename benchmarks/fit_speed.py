"""`rankreg fit` beside LightGBM's own fit, and its memory beside the table: CPU seconds, one core each.

python -m benchmarks fit_speed
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
from rich.table import Table

from benchmarks.timing import duration, verdict

SIZES = ((5_000, 5, 0.02), (286_000, 10, 0.002))
LARGE = (1_000_000, 30, 0.001)
MEASURE = """
import os, sys, time
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
from pathlib import Path
import numpy, pandas, torch, lightgbm, sklearn.linear_model
from rankreg.fit import Source, fit
torch.set_num_threads(1)
def peak():  # not ru_maxrss, which a new process inherits from its parent
    line = next(one for one in open("/proc/self/status") if one.startswith("VmHWM"))
    return 1024 * int(line.split()[1])
before = peak()
start = time.process_time()
fit(Source(Path(sys.argv[1]), target="y", keep_copies_together=False), sys.argv[2], progress=False)
print(time.process_time() - start, peak() - before)
"""


def table() -> Table:
    """CPU seconds and bytes of fresh processes, beside their yardsticks."""
    result = Table(title="A fit of a table, default settings")
    for column in ("what", "CPU time", "ratio"):
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
    """CPU seconds of one fit with LightGBM's defaults on one core; the best of three."""
    from lightgbm import LGBMClassifier

    frame = pd.read_csv(path)
    best = float("inf")
    for _ in range(3):
        start = process_time()
        LGBMClassifier(verbose=-1, n_jobs=1).fit(frame.drop(columns="y"), frame["y"])
        best = min(best, process_time() - start)
    return best


def fitted(path: Path, out: Path) -> tuple[float, float]:
    """CPU seconds of a fit in a fresh process, and the memory it took beyond its imports."""
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), str(out)], check=True, capture_output=True, text=True
    )
    seconds, size = map(float, found.stdout.split()[-2:])
    return seconds, size
