"""BCE, BCE + buffer and BCE + RankReg on CIFAR-100 1:100, sharks against aquatic mammals: quarter width, 25 epochs.

`python -m benchmarks.cifar100_pilot train --data-dir DIR --runs DIR` trains what is missing, one record per run in
`records/cifar100-1-100/`; run again, it goes on where it stopped. `python -m benchmarks.cifar100_pilot table`
prints the table from the records alone.
"""

import argparse
import json
import platform
import subprocess
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student

import rankreg
from rankreg.datasets import load
from rankreg.ensemble import mean_scores
from rankreg.metrics import auc, fpr_at_tpr
from rankreg.models import ResNetShape
from rankreg.scores import Scores
from rankreg.train import TrainConfig, train

RECORDS = Path(__file__).parents[1] / "records/cifar100-1-100"
METHODS: dict[str, dict[str, Any]] = {
    "bce": {"method": "none", "batch_size": 64},
    "bce + buffer": {"method": "buffer", "batch_size": 32},
    "bce + rankreg": {"method": "rankreg", "batch_size": 32},
}
TPRS = [0.98, 0.95, 0.90]
COLUMNS = ("FPR@98", "FPR@95", "FPR@90", "AUC")


def config_of(method: str, split: int) -> TrainConfig:
    """The protocol's CIFAR training at what two cores can do."""
    return TrainConfig(
        seed=split,
        epochs=25,
        learning_rate=0.01,
        augmentation="cifar",
        model=ResNetShape(width=0.25),
        precision="float32",
        **METHODS[method],
    )


def percentages(scores: Scores) -> NDArray[np.float64]:
    """FPR at each TPR, then AUC, in percent."""
    return 100 * np.append(fpr_at_tpr(scores.labels, scores.values, TPRS), auc(scores.labels, scores.values))


def record_run(method: str, split: int, data_dir: Path, runs: Path) -> None:
    """Train, then write scores and record; the record comes last, so a run without one is unfinished."""
    name = f"{method.replace(' + ', '-')}-{split}"
    if (RECORDS / f"{name}.json").exists():
        return
    splits = load("cifar100", data_dir, ratio=100, seed=split)
    run = train(splits, config_of(method, split), runs / name)
    seconds = sum(len(splits["train"]) / epoch["samples_per_second"] for epoch in run.history)  # of training alone
    parts = [run.scores["test"], run.scores["extended"]]
    extended = Scores(
        *(np.concatenate([getattr(part, field) for part in parts]) for field in ("ids", "labels", "values"))
    )
    extended.save(RECORDS / f"{name}.npz")
    config = run.config.model_dump(mode="json")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    record = {
        "method": method,
        "split": split,
        "command": "python -m benchmarks.cifar100_pilot train",
        "config": config,
        "config_sha256": sha256(json.dumps(config, sort_keys=True).encode()).hexdigest(),
        "commit": commit,
        "versions": {
            "rankreg": rankreg.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "training_seconds": round(seconds, 1),
        "best_epoch": run.best_epoch,
        "official_test": dict(zip(COLUMNS, percentages(parts[0]).round(2).tolist(), strict=True)),
        "extended_test": dict(zip(COLUMNS, percentages(extended).round(2).tolist(), strict=True)),
    }
    unfinished = RECORDS / f"{name}.json.unfinished"
    unfinished.write_text(json.dumps(record, indent=1) + "\n")
    unfinished.replace(RECORDS / f"{name}.json")
    print(name, f"{seconds:.0f} s", record["extended_test"], flush=True)


def spread(values: NDArray[np.float64]) -> str:
    """Mean ± half width of the 95 % Student interval."""
    half = (
        student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    )
    return f"{values.mean():.1f} ± {half:.1f}"


def table() -> str:
    """Markdown: means over single splits, ensembles, and paired differences, on both test sets."""
    records = [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]
    lines = []
    for test in ("official_test", "extended_test"):
        results = {
            method: np.array(
                [
                    list(r[test].values())
                    for r in sorted(records, key=lambda r: int(r["split"]))
                    if r["method"] == method
                ]
            )
            for method in METHODS
        }
        lines += [f"| {test.replace('_', ' ')} | {' | '.join(COLUMNS)} |", "|---" * 5 + "|"]
        for method, values in results.items():
            lines.append(f"| {method}, mean of {len(values)} splits | {' | '.join(map(spread, values.T))} |")
        for method in METHODS:
            members = {p.stem: Scores.load(p) for p in RECORDS.glob(f"{method.replace(' + ', '-')}-[0-9]*.npz")}
            mean = mean_scores(dict(sorted(members.items())))
            chosen = np.arange(len(mean)) < (
                600 if test == "official_test" else len(mean)
            )  # the official part is first
            numbers = percentages(Scores(mean.ids[chosen], mean.labels[chosen], mean.values[chosen]))
            lines.append(f"| {method}, ensemble | {' | '.join(f'{number:.1f}' for number in numbers)} |")
        for one, other in (("bce + buffer", "bce"), ("bce + rankreg", "bce + buffer"), ("bce + rankreg", "bce")):
            pairs = min(len(results[one]), len(results[other]))
            difference = results[one][:pairs] - results[other][:pairs]
            lines.append(f"| {one} less {other}, paired | {' | '.join(map(spread, difference.T))} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Train, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "table"])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.what == "table":
        print(table())
        return
    torch.set_num_threads(1)
    RECORDS.mkdir(parents=True, exist_ok=True)
    for split, method in product(range(arguments.splits), METHODS):
        record_run(method, split, arguments.data_dir, arguments.runs)


if __name__ == "__main__":
    main()
