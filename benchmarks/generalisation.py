"""Ways to generalise from few positive images, with the questions of docs/decisions/0057.

python -m benchmarks.generalisation run elpv-50       # adds the runs that have no record
python -m benchmarks.generalisation table elpv-50     # answers from the records
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from benchmarks.converged_runs import RECORDS, difference_cell, prepared, recorded, train_all
from rankreg import RankReg
from rankreg.augment import AUGMENTATIONS
from rankreg.datasets import Splits
from rankreg.metrics import auc, fpr_at_tpr
from rankreg.models import build_model
from rankreg.operating.comparison import p_value, still_significant
from rankreg.pool import keep_freed_memory
from rankreg.scores import joined
from rankreg.train import TrainConfig
from rankreg.train.inference import as_tensor, autocast, resolve_precision, score_samples
from rankreg.train.loop import Batches, borrowed_randomness, compiled, derived_seed
from rankreg_bench.arms import FASTER
from rankreg_bench.records import PARTS, parts_of
from rankreg_bench.runs import provenance

SPLITS = 5
PARTNERS = 4  # one in so many negatives of a batch gets one
LEVELS = (0.0, 0.25, 0.5, 0.75)
LOOKS = 5  # epochs between two of them
SPAN = 5  # epochs that the average of the weights covers
JUDGED_ON = {"cifar100-100": "tuning", "elpv-50": "official"}

Blend = Callable[[Tensor, Tensor, Tensor, Generator], tuple[Tensor, Tensor]]
Network = Callable[[Tensor], Tensor]


def drawn(negatives: Tensor, positives: Tensor, shares: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """The positive takes the negative's place, with a probability equal to the share."""
    whole = torch.rand(len(shares), generator=generator) < shares
    return torch.where(whole[:, None, None, None], positives, negatives), whole.float()


def pasted(negatives: Tensor, positives: Tensor, shares: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """A rectangle of the positive covers about that share of the negative; returned is the exact share."""
    inside = []
    for side in negatives.shape[2:]:
        length = (side * shares.sqrt()).round()
        start = (torch.rand(len(shares), generator=generator) * (side - length + 1)).floor()
        place = torch.arange(side)
        inside.append((place >= start[:, None]) & (place < (start + length)[:, None]))
    rows, columns = inside
    covered = rows[:, :, None] & columns[:, None, :]
    return torch.where(covered[:, None], positives, negatives), covered.float().mean(dim=(1, 2))


def mixed(negatives: Tensor, positives: Tensor, shares: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """The average of the pixels; the positive weighs the share."""
    blended = torch.lerp(negatives.float(), positives.float(), shares[:, None, None, None])
    return blended.round_().to(negatives.dtype), shares


@dataclass(frozen=True)
class Way:
    """A way to train: what becomes of pairs, whether shares are ranked, and how far sharpness is felt for."""

    blend: Blend | None = None
    ranked: bool = False
    radius: float = 0.0


WAYS: dict[str, Way] = {
    "plain": Way(),
    "drawn": Way(drawn),
    "pasted": Way(pasted),
    "mixed": Way(mixed),
    "pasted and ranked": Way(pasted, ranked=True),
    "mixed and ranked": Way(mixed, ranked=True),
    "drawn, sharp": Way(drawn, radius=0.05),
}
LAST, AVERAGED = "last weights", "averaged weights"
MIRRORED = " and mirror images"
VARIANTS = (LAST, LAST + MIRRORED, AVERAGED, AVERAGED + MIRRORED)
QUESTIONS: tuple[tuple[tuple[str, str], tuple[str, str]], ...] = (  # way and variant, less way and variant
    (("pasted", LAST), ("drawn", LAST)),
    (("mixed", LAST), ("drawn", LAST)),
    (("pasted and ranked", LAST), ("pasted", LAST)),
    (("mixed and ranked", LAST), ("mixed", LAST)),
    (("drawn, sharp", LAST), ("drawn", LAST)),
    (("drawn", AVERAGED), ("drawn", LAST)),
    (("drawn", LAST + MIRRORED), ("drawn", LAST)),
)


class Mirrored(nn.Module):
    """The network's scores of the mirror images."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """One score per image."""
        scores: Tensor = self.network(images.flip(3))
        return scores


def order_of_shares(scores: Tensor, shares: Tensor) -> Tensor:
    """The rank penalty of "a larger share is more critical": the mean over `LEVELS`."""
    term = RankReg(weight=1.0)
    return torch.stack([term(scores, (shares > level).long()) for level in LEVELS]).mean()


class BlendedBatches:
    """Augmented images, one in `partners` negatives blended with a positive; the share of a positive in each."""

    def __init__(self, splits: Splits, config: TrainConfig, blend: Blend | None, partners: int = PARTNERS) -> None:
        self.train, self.blend, self.partners, self.seed = splits["train"], blend, partners, config.seed
        self.generator, self.augment = Generator(), AUGMENTATIONS[config.augmentation]
        self.positives = np.flatnonzero(self.train.labels == 1)
        self.batches = Batches(
            self.train,
            batch_size=config.batch_size,
            sampling=config.sampling,
            seed=config.seed,
            rank=0,
            processes=1,
        )

    @property
    def steps(self) -> int:
        """How many batches an epoch has."""
        return self.batches.steps

    def epoch(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of that epoch."""
        self.generator.manual_seed(derived_seed(self.seed, epoch, 0, 0))
        for inputs, labels, *_ in self.batches.epoch(epoch):
            images = self.augment(inputs, self.generator)
            yield self._blended(images, labels) if self.blend else (images, labels.float())

    def _blended(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        assert self.blend is not None
        shares = labels.float()
        chosen = (labels == 0).nonzero().squeeze(1)
        chosen = chosen[: len(chosen) // self.partners]
        which = torch.randint(len(self.positives), (len(chosen),), generator=self.generator)
        partners = self.augment(as_tensor(self.train.inputs(self.positives[which.numpy()])), self.generator)
        wanted = torch.rand(len(chosen), generator=self.generator)
        images = images.clone()
        images[chosen], shares[chosen] = self.blend(images[chosen], partners, wanted, self.generator)
        return images, shares


def update(network: Network, optimizer: Optimizer, images: Tensor, shares: Tensor, way: Way) -> None:
    """One step; with a radius, the gradient is taken where the loss of the positives is higher."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    moved = _climb(network, weights, images, shares, way.radius) if way.radius else []
    scores = network(images)
    loss = binary_cross_entropy_with_logits(scores, shares)
    if way.ranked:
        loss = loss + order_of_shares(scores, shares)
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        for weight, step in moved:
            weight.sub_(step)
    optimizer.step()


def _climb(
    network: Network, weights: Sequence[Tensor], images: Tensor, shares: Tensor, radius: float
) -> list[tuple[Tensor, Tensor]]:
    """Move the weights by `radius` along the gradient of the positives' loss; returned is what was added."""
    losses = binary_cross_entropy_with_logits(network(images), shares, reduction="none")
    gradients = torch.autograd.grad((losses * (shares == 1)).sum(), weights)
    length = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one) for one in gradients]))
    steps = [radius * gradient / length.clamp(min=1e-12) for gradient in gradients]
    with torch.no_grad():
        for weight, step in zip(weights, steps, strict=True):
            weight.add_(step)
    return list(zip(weights, steps, strict=True))


def trained(asked: tuple[str, str, int], *, epochs: int | None = None) -> dict[str, Any]:
    """One run, by data, way and split: its record, with the measures of every look."""
    data, name, split = asked
    torch.set_num_threads(1)
    keep_freed_memory()
    splits, config, _ = prepared(data, "base", split, **FASTER, **({"epochs": epochs} if epochs else {}))
    assert config.model is not None
    way, start, looks = WAYS[name], time.perf_counter(), []
    batches = BlendedBatches(splits, config, way.blend)
    cpu = torch.device("cpu")

    def scores_of(images: Tensor) -> Tensor:
        with autocast(resolve_precision(config.precision, cpu), cpu):
            return cast(Tensor, model(images))

    with borrowed_randomness(config.seed):
        network = build_model(config.model)
        optimizer = config.optimizer.make(network.parameters(), config.learning_rate)
        decay = 1 - 1 / (SPAN * batches.steps)
        model = compiled(network) if config.compile else network
        averaged = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
        for epoch in range(config.epochs):
            network.train()
            for images, shares in batches.epoch(epoch):
                update(scores_of, optimizer, images, shares, way)
                averaged.update_parameters(network)
            if (epoch + 1) % LOOKS == 0 or epoch + 1 == config.epochs:
                looks.append({"epoch": epoch, **look(network, averaged.module, splits, config.precision)})
    return {
        "data": data,
        "way": name,
        "split": split,
        "looks": looks,
        "seconds": round(time.perf_counter() - start, 1),
        **provenance(),
    }


def look(
    network: nn.Module, averaged: nn.Module, splits: Splits, precision: str
) -> dict[str, dict[str, dict[str, float]]]:
    """AUC and FPR@95, in percent, by variant and test set."""
    tests = {"validation": ("validation",)} | {
        str(test): parts for test in PARTS if (parts := parts_of(test, splits.parts))
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, model in ((LAST, network), (AVERAGED, averaged)):
        scores, mirrored = (
            {
                part: score_samples(one, splits[part], precision=precision)
                for part in splits.parts
                if part != "train"
            }
            for one in (model, Mirrored(model))
        )
        for variant, twice in ((name, False), (name + MIRRORED, True)):
            found[variant] = {}
            for test, parts in tests.items():
                whole = joined([scores[part] for part in parts])
                again = joined([mirrored[part] for part in parts])
                values = (whole.values + again.values) / 2 if twice else whole.values
                found[variant][test] = {
                    "auc": round(100 * auc(whole.labels, values), 2),
                    "fpr@95": round(100 * fpr_at_tpr(whole.labels, values, 0.95), 2),
                }
    return found


def kept(record: Mapping[str, Any], variant: str, test: str, measure: str) -> float:
    """A measure at the look with the best validation AUC of this variant, the later one of equals."""
    best = max(record["looks"], key=lambda one: (one[variant]["validation"]["auc"], one["epoch"]))
    return float(best[variant][test][measure])


def place_of(data: str) -> Path:
    """The file of the records: one line per run."""
    return RECORDS / "converged" / f"generalisation-{data}.jsonl"


def run(data: str, workers: int) -> None:
    """Train what has no record, split by split."""
    place = place_of(data)
    done = {(one["way"], one["split"]) for one in recorded(place)}
    left = [(data, way, split) for split in range(SPLITS) for way in WAYS if (way, split) not in done]
    train_all(trained, left, place, workers)


def table(data: str) -> str:
    """The mean of every way and variant over the splits that all ways have, and the answers."""
    by_way: dict[str, dict[int, Mapping[str, Any]]] = {name: {} for name in WAYS}
    for record in recorded(place_of(data)):
        by_way[record["way"]][record["split"]] = record
    shared = sorted(set.intersection(*(set(runs) for runs in by_way.values())))
    if not shared:
        raise SystemExit(f"no split of {data} has a record of every way: python -m benchmarks.generalisation run")
    test = JUDGED_ON[data]

    def values(way: str, variant: str, measure: str) -> NDArray[np.float64]:
        return np.array([kept(by_way[way][split], variant, test, measure) for split in shared])

    lines = [
        f"| {data}, {len(shared)} splits, {test}: AUC (FPR@95) | {' | '.join(VARIANTS)} |",
        "|---|" + "---|" * len(VARIANTS),
    ]
    for way in WAYS:
        cells = [f"{values(way, v, 'auc').mean():.1f} ({values(way, v, 'fpr@95').mean():.1f})" for v in VARIANTS]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    lines += ["", "| question | AUC | FPR@95 | p-value of AUC |", "|---|---|---|---|"]
    p_values: list[float] = []
    for first, second in QUESTIONS:
        gaps = {m: values(*first, m) - values(*second, m) for m in ("auc", "fpr@95")}
        chance = p_value(gaps["auc"])
        p_values += [] if chance is None else [chance]
        cells = [difference_cell(gap) for gap in gaps.values()]
        title = f"{first[0]} − {second[0]}" if first[0] != second[0] else f"{first[0]}: {first[1]} − {second[1]}"
        lines.append(f"| {title} | {' | '.join(cells)} | {'–' if chance is None else f'{chance:.3f}'} |")
    if p_values:
        lines += ["", f"After Holm's correction {still_significant(p_values)} of {len(p_values)} count."]
    return "\n".join(lines)


def main() -> None:
    """Run what has no record, or print the answers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generalisation", description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("data", choices=list(JUDGED_ON))
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    if asked.command == "run":
        run(asked.data, asked.workers)
    else:
        print(table(asked.data))


if __name__ == "__main__":
    main()
