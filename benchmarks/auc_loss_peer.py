"""LibAUC's AUC-margin loss with its optimizer PESG beside BCE, buffer and term: one MLP, one budget, two tables.

    pip install --no-deps --target peers libauc==2.0.1
    PYTHONPATH=peers python -m benchmarks.auc_loss_peer run      # adds what records/tabular/libauc.csv lacks
    python -m benchmarks.auc_loss_peer table                     # docs/coming-from/libauc.md shows it

Every way trains the same network for as many steps of as many rows. Its learning rate is the best of three by the
AUC on a third of the training half; then it trains on the whole half. LibAUC's sampler needs torchvision, so our
own sampler draws the balanced batches.
"""

import argparse
import csv
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.fit_study.rendering import interval
from benchmarks.tabular_study.data import Fold, halves, inner, load
from benchmarks.timing import Work, best_times
from rankreg import PositiveBuffer, RankReg
from rankreg.metrics import auc, fpr_at_tpr
from rankreg.train.loop import balanced, shuffled

PLACE = Path(__file__).parents[1] / "records/tabular/libauc.csv"
FIELDS = ["table", "repetition", "half", "method", "rate", "fpr98", "fpr95", "fpr90", "auc", "step", "commit"]
TABLES, REPETITIONS = ("mammography", "creditcard subset"), 2
EPOCHS, ROWS, BUFFERED = 20, 64, 32
RATES = (0.01, 0.03, 0.1)
PESG_RATES = (0.1, 0.3, 1.0)  # its momentum gives a gradient a tenth of the weight that torch's does
Step = Callable[[Tensor, Tensor], None]
Way = Callable[[nn.Module, float], tuple[Step, torch.optim.Optimizer]]


def _sgd(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=1e-5)


def _bce(model: nn.Module, rate: float) -> tuple[Step, torch.optim.Optimizer]:
    optimizer = _sgd(model, rate)

    def step(rows: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(model(rows), labels.float()).backward()
        optimizer.step()

    return step, optimizer


def _with_term(model: nn.Module, rate: float) -> tuple[Step, torch.optim.Optimizer]:
    optimizer, buffer, term = _sgd(model, rate), PositiveBuffer(BUFFERED), RankReg()

    def step(rows: Tensor, labels: Tensor) -> None:
        rows, labels = buffer.extend(rows, labels)
        scores = model(rows)
        optimizer.zero_grad()
        (binary_cross_entropy_with_logits(scores, labels.float()) + term(scores, labels)).backward()
        optimizer.step()
        buffer.update(rows, labels, scores)

    return step, optimizer


def _auc_margin(model: nn.Module, rate: float) -> tuple[Step, torch.optim.Optimizer]:
    from libauc.losses import AUCMLoss
    from libauc.optimizers import PESG

    loss = AUCMLoss(version="v2")  # the version that its documentation recommends, for balanced batches
    optimizer = PESG(model.parameters(), loss_fn=loss, lr=rate, verbose=False)

    def step(rows: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad()
        loss(torch.sigmoid(model(rows)), labels).backward()
        optimizer.step()

    return step, optimizer


# how a step is made, how rows are drawn, how many rows a batch has (a buffer adds the rest), and the rates tried
WAYS: dict[str, tuple[Way, Callable[..., Any], int, tuple[float, ...]]] = {
    "BCE": (_bce, shuffled, ROWS, RATES),
    "BCE, balanced batches": (_bce, balanced, ROWS, RATES),
    "BCE, buffer and RankReg()": (_with_term, shuffled, ROWS - BUFFERED, RATES),
    "LibAUC AUCM + PESG, balanced batches": (_auc_margin, balanced, ROWS, PESG_RATES),
}
OURS = "BCE, buffer and RankReg()"


def network(width: int) -> nn.Module:
    """64 and 64 hidden units, one score per row."""
    return nn.Sequential(
        nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0)
    )


def trained(name: str, fold: Fold, rate: float, seed: int) -> NDArray[np.float64]:
    """Scores of the test rows."""
    way, drawn, batch, _ = WAYS[name]
    torch.manual_seed(seed)
    model = network(fold.train_inputs.shape[1])
    step, optimizer = way(model, rate)
    rows, labels = torch.from_numpy(fold.train_inputs), torch.from_numpy(fold.train_labels)
    steps = EPOCHS * len(labels) // ROWS
    for number, places in enumerate(_batches(fold.train_labels, drawn, batch, steps, seed)):
        if number in (steps // 2, 3 * steps // 4):
            _slow_down(optimizer)
        step(rows[places], labels[places])
    with torch.inference_mode():
        scores: NDArray[np.float64] = model(torch.from_numpy(fold.test_inputs)).double().numpy()
    return scores


def seconds_of_a_step(fold: Fold) -> dict[str, float]:
    """Of every way, taking turns, on the same rows."""
    candidates: dict[str, Work] = {}
    positive = np.flatnonzero(fold.train_labels == 1)[:BUFFERED]
    places = np.concatenate([positive, np.flatnonzero(fold.train_labels == 0)[: ROWS - len(positive)]])
    rows, labels = torch.from_numpy(fold.train_inputs[places]), torch.from_numpy(fold.train_labels[places])
    for name, (way, _, batch, rates) in WAYS.items():
        step = way(network(rows.shape[1]), rates[0])[0]
        candidates[name] = partial(step, rows[:batch], labels[:batch])
    return best_times(candidates, seconds=2.0)


def _slow_down(optimizer: Any) -> None:
    """A tenth of the rate; PESG also moves its reference, as its documentation says."""
    if hasattr(optimizer, "update_regularizer"):
        optimizer.update_regularizer(decay_factor=10)
        return
    for group in optimizer.param_groups:
        group["lr"] /= 10


def _batches(labels: NDArray[np.int64], drawn: Any, batch: int, steps: int, seed: int) -> Iterator[Tensor]:
    random, made = np.random.default_rng(seed), 0
    while True:
        order = torch.from_numpy(np.asarray(drawn(labels, random)))
        for places in order.split(batch):
            if len(places) < batch:
                break
            if made == steps:
                return
            made += 1
            yield places


def measure(table: str, repetition: int, half: int) -> list[dict[str, object]]:
    """Every way on one half of one table."""
    fold = halves(load(table), seed=repetition)[half]
    cut, seconds, found = inner(fold, repetition), seconds_of_a_step(fold), list[dict[str, object]]()
    for name in WAYS:
        areas = {rate: auc(cut.test_labels, trained(name, cut, rate, repetition)) for rate in WAYS[name][3]}
        rate = max(areas, key=lambda one: areas[one])
        scores = trained(name, fold, rate, repetition)
        found.append(
            {"table": table, "repetition": repetition, "half": half, "method": name, "rate": rate}
            | {f"fpr{p}": round(100 * fpr_at_tpr(fold.test_labels, scores, p / 100), 4) for p in (98, 95, 90)}
            | {"auc": round(100 * auc(fold.test_labels, scores), 4), "step": round(1e6 * seconds[name])}
        )
    return found


def table(place: Path = PLACE) -> str:
    """Every way's means, and ours less the way, paired over the halves of each table."""
    rows = pd.read_csv(place)
    lines = [
        "| table | way to train | FPR@98 | FPR@95 | FPR@90 | AUC | RankReg − way, FPR@95 | one step |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, own in rows.groupby("table", sort=False):
        cells = own.pivot_table(index=["repetition", "half"], columns="method", values="fpr95", sort=False)
        mean = own.groupby("method", sort=False)[["fpr98", "fpr95", "fpr90", "auc"]].mean()
        steps = own.groupby("method", sort=False)["step"].min().to_dict()
        for method, row in mean.iterrows():
            gap = "" if method == OURS else interval((cells[OURS] - cells[method]).to_numpy())
            values = " | ".join(f"{value:.1f}" for value in row)
            lines.append(f"| {name} | {method} | {values} | {gap} | {steps[method] / steps['BCE']:.1f} × |")
    return "\n".join(lines)


def main() -> None:
    """Measure what has no record, or print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.auc_loss_peer", description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    asked = parser.parse_args()
    if asked.command == "table":
        print(table())
        return
    torch.set_num_threads(1)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    known: set[tuple[object, ...]] = set()
    if PLACE.exists():
        known = set(pd.read_csv(PLACE)[["table", "repetition", "half"]].itertuples(index=False, name=None))
    with PLACE.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not known:
            writer.writeheader()
        for name in TABLES:
            for repetition in range(REPETITIONS):
                for half in (0, 1):
                    if (name, repetition, half) not in known:
                        writer.writerows(row | {"commit": commit} for row in measure(name, repetition, half))
                        file.flush()


if __name__ == "__main__":
    main()
