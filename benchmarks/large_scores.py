"""Certifying score files of any size beside the engine's own read of them, in CPU time and memory.

Every run is a process of its own, so that its memory is its own; importing is not timed. The files are made on the
fly in a temporary folder (TMPDIR chooses the disk; 10⁸ rows of Parquet need 1.3 GB) and deleted afterwards.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.timing import verdict

ROUNDS = 3
PIECE = 1_000_000
CSV_ROWS, PARQUET_ROWS = 10_000_000, (10_000_000, 100_000_000)
MOST_MEMORY = 600  # MB
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
}
RUN = """
import json, resource, sys, time
from pathlib import Path
path = Path(sys.argv[1])
{reader}
cpu, wall = time.process_time(), time.perf_counter()
work()
found = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps([*found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000]))
"""
Run = tuple[float, float, float]  # CPU seconds, seconds, MB at most


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


def rows() -> Iterator[tuple[str, str, Run, str]]:
    """Every measurement, with its verdict."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.csv"
        write(path, CSV_ROWS)
        found = runs(path, tuple(READERS))
        path.unlink()
        read = found["Polars' own read"][0]
        for name, run in found.items():
            said = "" if name != "rankreg certify" else f", {verdict(run[2] / MOST_MEMORY, 1)} of {MOST_MEMORY} MB"
            yield f"CSV, {CSV_ROWS:,} rows", name, run, verdict(run[0] / read, 2) + said
        for size in PARQUET_ROWS:
            path = Path(folder) / "scores.parquet"
            write(path, size)
            for name, run in runs(path, ("rankreg certify", "in memory, by pandas"), rounds=1).items():
                yield f"Parquet, {size:,} rows", name, run, ""
            path.unlink()


def table() -> Table:
    """The measurements beside their targets."""
    result = Table(title="Score files of any size")
    for column in ("file", "reader", "CPU time", "time", "memory", "CPU time ÷ Polars' own read"):
        result.add_column(column, justify="right")
    for file, reader, (cpu, wall, memory), said in rows():
        result.add_row(file, reader, f"{cpu:.2f} s", f"{wall:.2f} s", f"{memory:,.0f} MB", said)
    return result
