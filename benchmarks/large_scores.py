"""Score files of any size, certified, reported and evaluated, in CPU time and memory.

Every run is a process of its own; importing is not timed. Its memory is the most that it held since it started, as
Linux counts it, and not that of the process that started it. The files are made on the fly in a temporary folder
(TMPDIR chooses the disk; 10⁸ rows of Parquet need 1.3 GB) and deleted afterwards.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from rich.table import Table

from benchmarks.timing import verdict

ROUNDS = 3
PIECE = 1_000_000
CSV_ROWS, PARQUET_ROWS = 10_000_000, (10_000_000, 100_000_000)
EVALUATED_ROWS = (1_000_000, 10_000_000)  # by a logistic regression of one column
MOST_MEMORY = 600  # MB
REPORT = (
    "import polars, pyarrow.parquet\nfrom rankreg.report import write\n"
    "from rankreg.report.model_files import ModelFile\nfrom rankreg.score_files import ScoreColumns\n"
    "def work():\n"
    "    file = ModelFile(path, ScoreColumns('s', 'y'), 'a')\n"
    "    write(path.with_suffix('.html'), [{read}])"
)
EVALUATE = """
import numpy as np, pyarrow.parquet
from rankreg.bundle import evaluate, load_bundle
from rankreg.bundle.evaluation import evaluate_scores, write_scores
from rankreg.bundle.prediction import scored
from rankreg.scores import Scores
bundle = load_bundle(path.parent / 'fit')
"""
READERS = {
    "Polars' own read": "import polars as pl\nwork = lambda: pl.read_csv(path, columns=['y', 's'])",
    "rankreg certify": (
        "import polars, pyarrow.parquet\nfrom rankreg.operating import certify, findings\n"
        "from rankreg.score_files import ScoreColumns\nfrom rankreg.score_streams import read_summary\n"
        "def work():\n"
        "    data = read_summary(path, ScoreColumns('s', 'y')).data\n"
        "    return certify(*data), findings(*data)"
    ),
    "in memory, by pandas": (
        "import pyarrow.parquet\nfrom rankreg.operating import certify, findings\n"
        "from rankreg.score_files import ScoreColumns, read_scores\n"
        "def work():\n"
        "    data = read_scores(path, ScoreColumns('s', 'y')).data\n"
        "    return certify(*data), findings(*data)"
    ),
    "rankreg report": REPORT.format(read="file.read((0.95,), 0.95)"),
    "report in memory, by pandas": REPORT.format(read="file._in_memory()"),
    "rankreg evaluate": EVALUATE + "work = lambda: evaluate(bundle, path, out=path.with_suffix('.out'))",
    "evaluate in memory": EVALUATE
    + """
def work():
    parts = [(chunk.ids, chunk.labels, values) for chunk, values in scored(bundle, path, labels=bundle.card.labels)]
    ids, labels, values = (np.concatenate(column) for column in zip(*parts))
    write_scores(path.with_suffix('.out'), Scores(ids, labels, values))
    return evaluate_scores(labels, values, threshold=bundle.card.threshold.value)
""",
}
RUN = """
import json, re, sys, time
from pathlib import Path
path = Path(sys.argv[1])
{reader}
cpu, wall = time.process_time(), time.perf_counter()
work()
found = time.process_time() - cpu, time.perf_counter() - wall
most = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps([*found, int(most[1]) / 1000]))
"""
CERTIFIED = ("rankreg certify", "in memory, by pandas")
REPORTED = ("rankreg report", "report in memory, by pandas")
EVALUATED = ("rankreg evaluate", "evaluate in memory")
Run = tuple[float, float, float]  # CPU seconds, seconds, MB at most
Row = tuple[str, str, Run, str]


def runs(path: Path, readers: tuple[str, ...], rounds: int = ROUNDS) -> dict[str, Run]:
    """The least of every number over rounds in which the readers take turns."""
    best = dict.fromkeys(readers, (float("inf"),) * 3)
    for _ in range(rounds):
        for name in readers:
            code = RUN.format(reader=READERS[name])
            done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
            cpu, wall, memory = map(min, zip(best[name], json.loads(done.stdout), strict=True))
            best[name] = cpu, wall, memory
    return best


def write(path: Path, rows: int) -> None:
    """Labels, one in a thousand positive, and scores with all their digits; in pieces."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import csv, parquet

    schema = pa.schema([("id", pa.int64()), ("y", pa.int8()), ("s", pa.float64())])
    writer = csv.CSVWriter if path.suffix == ".csv" else parquet.ParquetWriter
    generator = np.random.default_rng(0)
    with writer(path, schema) as file:
        for start in range(0, rows, PIECE):
            labels = (generator.random(PIECE) < 0.001).astype(np.int8)
            scores = generator.standard_normal(PIECE) + 2 * labels
            file.write_table(pa.table([np.arange(start, start + PIECE), labels, scores], schema=schema))


def csv_rows(folder: Path) -> Iterator[Row]:
    """A CSV file, beside the engine's own read of it."""
    path = folder / "scores.csv"
    write(path, CSV_ROWS)
    found = runs(path, ("Polars' own read", *CERTIFIED, *REPORTED))
    path.unlink()
    read = found["Polars' own read"][0]
    for name, run in found.items():
        said = "" if name != "rankreg certify" else f", {verdict(run[2] / MOST_MEMORY, 1)} of {MOST_MEMORY} MB"
        ratio = verdict(run[0] / read, 2) if name == "rankreg certify" else f"{run[0] / read:.2f} ×"
        yield f"CSV, {CSV_ROWS:,} rows", name, run, ratio + said


def parquet_rows(folder: Path, sizes: tuple[int, ...] = PARQUET_ROWS) -> Iterator[Row]:
    """Parquet files of growing size: the memory stays flat."""
    for size in sizes:
        path = folder / "scores.parquet"
        write(path, size)
        for name, run in runs(path, (*CERTIFIED, *REPORTED), rounds=1).items():
            yield f"Parquet, {size:,} rows", name, run, ""
        path.unlink()


def evaluated_rows(folder: Path, sizes: tuple[int, ...] = EVALUATED_ROWS) -> Iterator[Row]:
    """Labelled data of growing size, scored by a small model."""
    from rankreg.fit import Source, fit

    path = folder / "data.parquet"
    write(path, PIECE)
    pd.read_parquet(path)[["y", "s"]].head(100_000).to_csv(folder / "train.csv", index=False)
    fit(Source(folder / "train.csv", target="y"), folder / "fit", tpr=0.9, learners=["logistic"], progress=False)
    for size in sizes:
        write(path, size)
        for name, run in runs(path, EVALUATED, rounds=1).items():
            yield f"evaluated, {size:,} rows", name, run, ""


def rows() -> Iterator[Row]:
    """Every measurement, with its verdict."""
    with tempfile.TemporaryDirectory() as folder:
        for part in (csv_rows, parquet_rows, evaluated_rows):
            yield from part(Path(folder))


def table() -> Table:
    """The measurements beside their targets."""
    result = Table(title="Score files of any size")
    for column in ("file", "reader", "CPU time", "time", "memory", "CPU time ÷ Polars' own read"):
        result.add_column(column, justify="right")
    for file, reader, (cpu, wall, memory), said in rows():
        result.add_row(file, reader, f"{cpu:.2f} s", f"{wall:.2f} s", f"{memory:,.0f} MB", said)
    return result
