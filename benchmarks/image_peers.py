"""LibAUC's losses with their own optimizers on CIFAR-100 1:100, in the splits and budget of the preset converged.

    pip install --no-deps --target peers libauc==2.0.1
    PYTHONPATH=peers python -m benchmarks.image_peers run        # adds what records/converged/libauc.jsonl lacks
    PYTHONPATH=peers python -m benchmarks.image_peers speed      # one step of each, beside ours
    python -m benchmarks.image_peers table                       # beside our arms on the same splits

Written down before the first run: Every peer trains as the arm "oversampling" does: the same network, 100 epochs of
balanced batches of 64 images. The rate falls to a tenth after half and after three quarters of the epochs, as in
LibAUC's tutorials. Two rates are tried on split 0. The one with the higher AUC on the tuning pool trains on splits
1 to 4. All results are of the epoch with the best validation AUC, as for our arms, and on the extended test set.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.converged_runs import RECORDS, prepared, recorded, train_all
from benchmarks.fit_study.rendering import interval
from benchmarks.timing import Work, best_times
from rankreg import Objective, PositiveBuffer, RankReg, make_loss
from rankreg.datasets import Splits
from rankreg.distributed import World
from rankreg.models import ResNetShape, build_model
from rankreg.pool import keep_freed_memory
from rankreg.train import TrainConfig
from rankreg.train.loop import Training, borrowed_randomness
from rankreg.train.task import Task
from rankreg_bench.grids import plan_run
from rankreg_bench.records import PARTS, RecordFolder, parts_of
from rankreg_bench.runs import provenance

PLACE = RECORDS / "converged/libauc.jsonl"
DATA, SPLITS = "cifar100-100", 5
OURS = {"base": "BCE", "oversampling": "BCE, balanced batches", "buffer": "BCE, buffer"}
MEASURES = ("auc", "fpr@95")
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
Peer = Callable[[nn.Module, float, int], tuple[Loss, Any]]


def _auc_margin(model: nn.Module, rate: float, samples: int) -> tuple[Loss, Any]:
    from libauc.losses import AUCMLoss
    from libauc.optimizers import PESG

    loss = AUCMLoss(version="v2")  # the version that its documentation recommends, for balanced batches
    optimizer = PESG(model.parameters(), loss_fn=loss, lr=rate, verbose=False)
    return lambda scores, labels, ids: loss(scores, labels), optimizer


def _two_way(model: nn.Module, rate: float, samples: int) -> tuple[Loss, Any]:
    from libauc.losses import tpAUC_KL_Loss
    from libauc.optimizers import SOTAs

    return tpAUC_KL_Loss(data_len=samples), SOTAs(model.parameters(), lr=rate, verbose=False)


def _one_way(model: nn.Module, rate: float, samples: int) -> tuple[Loss, Any]:
    from libauc.losses import pAUC_DRO_Loss
    from libauc.optimizers import SOPAs

    return pAUC_DRO_Loss(data_len=samples), SOPAs(model.parameters(), lr=rate, verbose=False)


PEERS: dict[str, tuple[Peer, tuple[float, float]]] = {  # the optimizer's default rate, and a tenth of it
    "AUCM + PESG": (_auc_margin, (0.1, 0.01)),
    "tpAUC-KL + SOTAs": (_two_way, (1e-3, 1e-4)),
    "pAUC-DRO + SOPAs": (_one_way, (1e-3, 1e-4)),
}


def trained(name: str, rate: float, split: int, *, epochs: int | None = None) -> dict[str, Any]:
    """One run: the record of the peer, with the measures of every epoch."""
    splits, config, task = prepared(DATA, "oversampling", split, **({"epochs": epochs} if epochs else {}))
    start = time.perf_counter()
    with borrowed_randomness(config.seed):
        training = _training(splits, config, task)
        loss, optimizer = PEERS[name][0](training.network, rate, len(splits["train"]))
        while not training.over:
            if training.epoch in (config.epochs // 2, 3 * config.epochs // 4):
                _slow_down(optimizer)
            training.start_epoch()
            for inputs, labels, ids, _ in training.batches.epoch(training.epoch):
                scores = training.model(training.augment(inputs, training.randomness.generator))
                optimizer.zero_grad()
                loss(torch.sigmoid(scores), labels, ids).backward()
                optimizer.step()
            training.end_epoch()
    assert training.best is not None
    return {
        "data": DATA,
        "split": split,
        "method": name,
        "rate": rate,
        "best_epoch": training.best["epoch"],
        "curves": {
            test: {key: [round(100 * e["watched"][test][key], 2) for e in training.history] for key in MEASURES}
            for test in training.history[0]["watched"]
        },
        "seconds": round(time.perf_counter() - start, 1),
        **provenance(),
    }


def _training(splits: Splits, config: TrainConfig, task: Task) -> Training:
    """Batches, augmentation and judging of our own loop."""
    assert config.model is not None
    watch = {str(test): wanted for test in PARTS if (wanted := parts_of(test, splits.parts))}
    return Training(splits, config, task, build_model(config.model), World(), watch=watch)


def _slow_down(optimizer: Any) -> None:
    """A tenth of the rate; with an epoch decay, as PESG has, the reference moves too."""
    if optimizer.epoch_decay:
        optimizer.update_regularizer(decay_factor=10)
    else:
        optimizer.update_lr(decay_factor=10)


def kept(record: Mapping[str, Any], test: str, measure: str) -> float:
    """A measure at the epoch of the best validation AUC; records of our arms have the same fields."""
    return float(record["curves"][test][measure][record["best_epoch"]])


def chosen_rate(name: str, runs: list[dict[str, Any]]) -> float:
    """The rate with the higher AUC on the tuning pool, split 0."""
    tried = {r["rate"]: kept(r, "tuning", "auc") for r in runs if (r["method"], r["split"]) == (name, 0)}
    return float(max(tried, key=lambda rate: tried[rate]))


def run(workers: int) -> None:
    """Both rates on split 0, then the better one on the other splits; each finished run is a line."""

    def train(wanted: list[tuple[str, float, int]]) -> None:
        done = {(r["method"], r["rate"], r["split"]) for r in recorded(PLACE)}
        train_all(_trained, (one for one in wanted if one not in done), PLACE, workers)

    train([(name, rate, 0) for name, (_, rates) in PEERS.items() for rate in rates])
    runs = recorded(PLACE)
    train([(name, chosen_rate(name, runs), split) for split in range(1, SPLITS) for name in PEERS])


def _trained(asked: tuple[str, float, int]) -> dict[str, Any]:
    torch.set_num_threads(1)
    keep_freed_memory()
    return trained(*asked)


def table() -> str:
    """Means over the splits that all have, and differences to our arms, paired over them."""
    runs = recorded(PLACE)
    if len(runs) < len(PEERS) * (SPLITS + 1):
        raise SystemExit(f"{len(runs)} of {len(PEERS) * (SPLITS + 1)} runs are there: run first")
    found: dict[str, dict[int, Mapping[str, Any]]] = {
        name: {r["split"]: r for r in runs if (r["method"], r["rate"]) == (name, chosen_rate(name, runs))}
        for name in PEERS
        if any(r["method"] == name for r in runs)
    }
    folder = RecordFolder(RECORDS)
    for arm, title in OURS.items():
        plans = [plan_run("converged", DATA, "bce", arm, split) for split in range(SPLITS)]
        found[title] = {plan.split: folder.read(plan) for plan in plans if folder.has(plan)}
    shared = sorted(set.intersection(*(set(own) for own in found.values())))
    if not shared:
        raise SystemExit("no split has a record of every way to train")
    lines = [
        f"| way to train, {len(shared)} splits | AUC | FPR@95 | AUC − BCE's | AUC − balanced BCE's |",
        "|---|---|---|---|---|",
    ]
    areas = {
        name: np.array([kept(own[split], "extended", "auc") for split in shared]) for name, own in found.items()
    }
    for name, own in found.items():
        rates = np.mean([kept(own[split], "extended", "fpr@95") for split in shared])
        gaps = [
            "" if other == name else interval(areas[name] - areas[other])
            for other in (OURS["base"], OURS["oversampling"])
        ]
        lines.append(f"| {name} | {areas[name].mean():.1f} | {rates:.1f} | {' | '.join(gaps)} |")
    return "\n".join(lines)


def speed() -> str:
    """One step of 64 images, all taking turns, as a multiple of the BCE step."""
    torch.manual_seed(0)
    images = torch.randint(256, (64, 3, 32, 32), dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    labels, ids = (torch.arange(64) % 2).long(), torch.arange(64)
    candidates: dict[str, Work] = {}
    for name, (peer, rates) in PEERS.items():
        model = build_model(ResNetShape(width=0.25, classes=2))
        loss, optimizer = peer(model, rates[0], 64)
        candidates[name] = _step(model, optimizer, _on_probabilities(loss, labels, ids), images)
    for name, term in (("BCE", None), ("BCE, buffer and RankReg()", RankReg())):
        model, objective = build_model(ResNetShape(width=0.25, classes=2)), Objective(make_loss("bce"), term)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        candidates[name] = _step(model, optimizer, _total(objective, labels), images)
    buffer, plain = PositiveBuffer(32), candidates["BCE, buffer and RankReg()"]
    buffer.update(images, labels, torch.zeros(64))

    def buffered() -> None:
        extended, marks = buffer.extend(images[:32], labels[:32])
        plain()
        buffer.update(extended, marks, torch.zeros(len(marks)))

    candidates["BCE, buffer and RankReg()"] = buffered
    times = best_times(candidates, seconds=20.0)
    return "\n".join(f"{name}: {seconds / times['BCE']:.2f} x" for name, seconds in times.items())


def _step(model: nn.Module, optimizer: Any, loss: Callable[[Tensor], Tensor], images: Tensor) -> Work:
    def step() -> None:
        optimizer.zero_grad()
        loss(model(images)).backward()
        optimizer.step()

    return step


def _on_probabilities(loss: Loss, labels: Tensor, ids: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda scores: loss(torch.sigmoid(scores), labels, ids)


def _total(objective: Objective, labels: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda scores: objective(scores, labels).total


def main() -> None:
    """Run what has no record, or print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.image_peers", description=__doc__)
    parser.add_argument("command", choices=["run", "table", "speed"])
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.command == "run":
        run(asked.workers)
    else:
        print(table() if asked.command == "table" else speed())


if __name__ == "__main__":
    main()
