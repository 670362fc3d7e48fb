"""`python -m benchmarks.image_study run --data DIR --work DIR` trains; `show` prints the tables from the records.

A member that is finished is not repeated; the CSV gets a line for every arm of a split whose members are all there.
Run it from a clean clone: every line names the commit.
"""

import csv
import json
import subprocess
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from scipy import stats
from sklearn.model_selection import StratifiedGroupKFold

from benchmarks.image_study.arms import ARMS, AVERAGES, Fold, Values
from rankreg.backbones import features, load_backbone
from rankreg.datasets.image_sets import ham10000
from rankreg.datasets.splits import Samples
from rankreg.metrics import auc, fpr_at_tpr

RECORDS = Path(__file__).parents[2] / "records" / "images" / "ham10000.csv"
RECORDED = RECORDS.with_name("ham10000-recorded.csv")
SPLITS = 5
COUNTS = ["train_positives", "train_negatives", "test_positives", "test_negatives"]
COLUMNS = ["split", "arm", "folds", "auc", "fpr_at_95", "fpr_at_90", "out_of_fold_auc", *COUNTS]
COLUMNS += ["seconds", "config", "commit"]
MEASURES = {"FPR@95": "fpr_at_95", "FPR@90": "fpr_at_90", "AUC": "auc"}

app = typer.Typer(add_completion=False)


def data(split: int, home: Path, work: Path) -> tuple[Samples, Samples]:
    """70 % of the lesions to train on, melanomas thinned to 1:170; the other 30 % to test on, all of them."""
    parts = ham10000(home, ratio=170, seed=split, partition_seed=split, cache=work / "decoded")
    return parts["train"], parts.join("validation", "test")


def folds(split: int, count: int, train: Samples, test: Samples) -> list[Fold]:
    """Stratified; a lesion is in one fold."""
    cut = StratifiedGroupKFold(count, shuffle=True, random_state=split)
    pairs = cut.split(np.zeros(len(train)), train.labels, train.units)
    return [Fold(split, k, train.take(fit), train.take(held), test) for k, (fit, held) in enumerate(pairs)]


def surprise(values: Values, negatives: Values) -> Values:
    """−log of the share of out-of-fold negatives at or above a score: one scale for all members."""
    above = len(negatives) - np.searchsorted(np.sort(negatives), values, side="left")
    found: Values = -np.log((above + 1) / (len(negatives) + 1))
    return found


def all_features(source: NDArray[np.uint8], work: Path, config: Any) -> NDArray[np.float32]:
    """Of every image, computed once."""
    path = work / f"features-{config['backbone']}-{config['side']}.npy"
    if not path.exists():
        found = features(
            load_backbone(config["backbone"]), source, side=config["side"], flips=config["flips"], progress=False
        )
        partial = path.with_suffix(".partial.npy")
        np.save(partial, found)
        partial.rename(path)
    return np.asarray(np.load(path))


def members(split: int, name: str, train: Samples, test: Samples, work: Path) -> list[dict[str, Any]]:
    """The scores of every member of an arm, trained where they are missing."""
    arm, found = ARMS[name], []
    for fold in folds(split, arm.folds, train, test):
        path = work / f"{split}-{name}-{fold.number}.npz"
        if not path.exists():
            rows = all_features(np.asarray(train.source), work, arm.config) if arm.uses_features else None
            start = time.process_time()
            held, values = arm.member(arm, fold, rows)
            seconds = time.process_time() - start
            np.savez(path, held=held, labels=fold.held.labels, test=values, seconds=seconds)
        with np.load(path) as file:
            found.append(dict(file))
    return found


def combined(found: list[dict[str, Any]]) -> Values:
    """The test scores of an arm: the mean of its members, each on the scale of its own held-out negatives."""
    values = [surprise(m["test"], m["held"][m["labels"] == 0]) for m in found]
    return np.asarray(np.mean(values, axis=0))


def add_line(
    path: Path,
    split: int,
    arm: str,
    train: Samples,
    test: Samples,
    values: Values,
    state: str,
    more: dict[str, Any],
) -> None:
    """One finished run, unless it is there already."""
    if (str(split), arm) in {(line["split"], line["arm"]) for line in lines(path)}:
        return
    counts = [int(np.sum(part.labels == label)) for part in (train, test) for label in (1, 0)]
    line = {
        "split": split,
        "arm": arm,
        "auc": round(auc(test.labels, values), 5),
        "fpr_at_95": round(fpr_at_tpr(test.labels, values, 0.95), 5),
        "fpr_at_90": round(fpr_at_tpr(test.labels, values, 0.90), 5),
        **dict(zip(COUNTS, counts, strict=True)),
        **more,
        "commit": state,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    anew = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if anew:
            writer.writeheader()
        writer.writerow(line)


def lines(path: Path) -> list[dict[str, str]]:
    """What is recorded."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def commit() -> str:
    """Of a clean clone, or the run is refused."""
    home = Path(__file__).parent
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", "src", "benchmarks"],
        cwd=home.parents[1], capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    if changed:
        raise typer.BadParameter(f"the working tree is not clean:\n{changed}")
    said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=home, capture_output=True, text=True, check=True)
    return said.stdout.strip()


@app.command()
def run(
    home: Annotated[Path, typer.Option("--data", help="Folder of the data sets.")],
    work: Annotated[Path, typer.Option(help="Folder for features and scores.")],
) -> None:
    """Train what is missing: one arm after the other, the cheapest first, each on all splits."""
    torch.set_num_threads(1)
    work.mkdir(parents=True, exist_ok=True)
    state, scores = commit(), dict[tuple[int, str], Values]()
    for name, arm in ARMS.items():
        for split in range(SPLITS):
            train, test = data(split, home, work)
            found = members(split, name, train, test, work)
            scores[split, name] = combined(found)
            held = np.concatenate([surprise(m["held"], m["held"][m["labels"] == 0]) for m in found])
            labels = np.concatenate([m["labels"] for m in found])
            more = {
                "folds": arm.folds,
                "out_of_fold_auc": round(auc(labels, held), 5),
                "seconds": round(float(sum(m["seconds"] for m in found)), 1),
                "config": json.dumps(arm.config),
            }
            add_line(RECORDS, split, name, train, test, scores[split, name], state, more)
            for average, parts in AVERAGES.items():
                if all((split, part) in scores for part in parts):
                    values = np.mean([scores[split, part] for part in parts], axis=0)
                    add_line(RECORDS, split, average, train, test, np.asarray(values), state, {})


@app.command()
def recorded(
    home: Annotated[Path, typer.Option("--data", help="Folder of the data sets.")],
    work: Annotated[Path, typer.Option(help="Folder for features and scores.")],
) -> None:
    """Frozen features beside the networks from scratch that the bench has recorded, on their samples.

    Those networks chose their epoch on the validation part, whose melanomas are not thinned; its negatives are
    the scale of their scores.
    """
    state, arm = commit(), ARMS["frozen"]
    for path in sorted((RECORDS.parents[1] / "compact" / "ham10000-170").glob("bce-buffer-*.json")):
        record = json.loads(path.read_text())
        parts = ham10000(home, ratio=170, seed=record["split"], cache=work / "decoded")
        train, test, validation = (parts[name] for name in ("train", "test", "validation"))
        with np.load(path.with_suffix(".npz")) as file:
            found = {name: file[name].astype(np.float64) for name in ("validation", "test")}
        assert (
            abs(100 * auc(test.labels, found["test"]) - record["measures"]["test"]["auc"]) < 0.01
        )  # these samples
        scratch = surprise(found["test"], found["validation"][validation.labels == 0])
        rows = all_features(np.asarray(train.source), work, arm.config)
        made = []
        for fold in folds(record["split"], arm.folds, train, test):
            held, values = arm.member(arm, fold, rows)
            made.append({"held": held, "labels": fold.held.labels, "test": values})
        frozen = combined(made)
        for name, values in {
            "scratch, recorded": scratch,
            "frozen": frozen,
            "scratch, recorded + frozen": (scratch + frozen) / 2,
        }.items():
            add_line(RECORDED, record["split"], name, train, test, values, state, {})


@app.command()
def show() -> None:
    """Means over the splits, and paired differences with Student's 95 % intervals, in percentage points."""
    for path in (RECORDS, RECORDED):
        found = lines(path)
        table: dict[str, dict[str, list[float]]] = {}
        for line in found:
            values = [100 * float(line[key]) for key in MEASURES.values()]
            table.setdefault(line["arm"], {})[line["split"]] = values
        print(f"\n{path.stem}\n\n| arm | splits | {' | '.join(MEASURES)} |\n|---|---|{'---|' * len(MEASURES)}")
        for name, rows in table.items():
            means = np.mean(list(rows.values()), axis=0)
            print(f"| {name} | {len(rows)} | {' | '.join(f'{mean:.1f}' for mean in means)} |")
        print(f"\n| difference | splits | {' | '.join(MEASURES)} |\n|---|---|{'---|' * len(MEASURES)}")
        for place, first in enumerate(table):
            for second in list(table)[:place]:
                shared = sorted(set(table[first]) & set(table[second]))
                gaps = np.array([np.subtract(table[first][s], table[second][s]) for s in shared])
                if len(gaps) > 1:
                    print(f"| {first} − {second} | {len(gaps)} | {' | '.join(interval(gap) for gap in gaps.T)} |")


def interval(gaps: NDArray[np.float64]) -> str:
    """The mean with Student's 95 % interval."""
    half = stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps))
    return f"{gaps.mean():+.1f} ({gaps.mean() - half:+.1f} to {gaps.mean() + half:+.1f})"


if __name__ == "__main__":
    app()
