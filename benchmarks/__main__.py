"""`make bench`: every speed table, or those named on the command line."""

import sys
from importlib import import_module

import torch
from rich.console import Console

TABLES = (
    "ranking_speed",
    "step_speed",
    "metrics_speed",
    "certify_speed",
    "large_scores",
    "train_speed",
    "bench_overhead",
    "boosting_speed",
    "fit_speed",
    "predict_speed",
    "footprint",
)


def main() -> None:
    """Print the tables one by one."""
    unknown = sorted(set(sys.argv[1:]) - set(TABLES))
    if unknown:
        sys.exit(f"no table {unknown[0]!r}: choose from {', '.join(TABLES)}")
    torch.set_num_threads(1)
    console = Console(width=None if sys.stdout.isatty() else 160)
    for name in sys.argv[1:] or TABLES:
        console.print(import_module(f"benchmarks.{name}").table())


main()
