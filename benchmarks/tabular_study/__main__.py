"""`python -m benchmarks.tabular_study run` trains what has no record; `table` renders docs/tabular.md.

`choose` compares settings of the ranking term on inner validation parts, in records/tabular/choice.csv.
"""

import argparse
from pathlib import Path

import torch
from rich.progress import track

from benchmarks.tabular_study.choosing import choose
from benchmarks.tabular_study.data import SHARED, TABLES, load
from benchmarks.tabular_study.methods import METHODS
from benchmarks.tabular_study.records import FOLDER, run
from benchmarks.tabular_study.rendering import page

PAGE = Path(__file__).parents[2] / "docs/tabular.md"


def main() -> None:
    """Run or render."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabular_study", description=__doc__)
    parser.add_argument("command", choices=["run", "table", "choose"])
    parser.add_argument("--data-dir", type=Path, default=SHARED, help="the folder that holds tabular/")
    parser.add_argument("--records", type=Path, default=FOLDER)
    parser.add_argument("--tables", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--out", type=Path, default=PAGE)
    asked = parser.parse_args()
    if asked.command == "run":
        torch.set_num_threads(1)
        tables = {name: load(name, asked.data_dir) for name in asked.tables}
        pairs = [(name, method) for method in asked.methods for name in asked.tables]
        for name, method in track(pairs, "training"):
            run(tables[name], method, asked.records)
    elif asked.command == "choose":
        for name in track(asked.tables, "choosing"):
            choose(load(name, asked.data_dir), asked.records / "choice.csv")
    else:
        text = page(asked.records)
        partial = asked.out.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(asked.out)


if __name__ == "__main__":
    main()
