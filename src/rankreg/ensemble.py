"""Ensembles: the mean of the members' scores, in logit space. torch is imported only to train them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankreg.datasets.splits import Splits
from rankreg.scores import Scores

if TYPE_CHECKING:
    from rankreg.train import TrainConfig


def train_ensemble(
    splits_of: Callable[[int], Splits], config: "TrainConfig", out_dir: Path | str, *, members: int = 10
) -> dict[str, Scores]:
    """Train a network on each of several splits and average their scores, for every part that all of them share.

    splits_of: the split of member 0, 1, …, e.g. `lambda k: load("cifar10", seed=k)`; all must keep the same samples
    for testing. Member k trains in out_dir/member-k with seed config.seed + k; finished members are not repeated.
    """
    from rankreg.train import train

    if members < 1:
        raise ValueError(f"members must be at least 1, got {members}")
    runs = {}
    for k in range(members):
        own = config.model_copy(update={"seed": config.seed + k})
        runs[f"member-{k}"] = train(splits_of(k), own, Path(out_dir) / f"member-{k}").scores
    shared = set.intersection(*(set(scores) for scores in runs.values()))
    return {part: mean_scores({name: scores[part] for name, scores in runs.items()}) for part in sorted(shared)}


def mean_scores(members: Mapping[str, Scores]) -> Scores:
    """The mean of raw scores or logits, sample by sample; members have the same samples in the same order."""
    if not members:
        raise ValueError("an ensemble needs at least one member, got none")
    (first_name, first), *others = members.items()
    for name, scores in others:
        _check_same_samples(first_name, first, name, scores)
    total = np.mean([scores.values for scores in members.values()], axis=0, dtype=np.float64)
    return Scores(first.ids, first.labels, total.astype(first.values.dtype), first.units)


def read_ensemble(runs: Mapping[str, Path], part: str) -> Scores:
    """The mean over runs, named and each with its folder; one without scores of that part is named, not skipped."""
    files = {name: Path(folder) / f"scores-{part}.npz" for name, folder in runs.items()}
    missing = [f"{name} ({file})" for name, file in files.items() if not file.is_file()]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(files)} members have no scores of part {part!r}: {', '.join(missing)};"
            " train them, or leave them out of the list knowingly"
        )
    return mean_scores({name: Scores.load(file) for name, file in files.items()})


def _check_same_samples(first_name: str, first: Scores, name: str, scores: Scores) -> None:
    if scores.values.shape != first.values.shape:
        raise ValueError(
            f"member {name} has values of shape {scores.values.shape}, {first_name} {first.values.shape}"
        )
    for what, ours, theirs in (("id", first.ids, scores.ids), ("label", first.labels, scores.labels)):
        different = np.flatnonzero(ours != theirs)
        if len(different):
            row = int(different[0])
            raise ValueError(
                f"member {name} differs from {first_name} in the {what} of {len(different)} samples, first in row"
                f" {row}: {theirs[row]} against {ours[row]}; members must score the same samples in the same order"
            )
