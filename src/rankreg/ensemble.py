"""Ensembles: the mean of the members' scores, in logit space. numpy only."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rankreg.scores import Scores


def mean_scores(members: Mapping[str, Scores]) -> Scores:
    """The mean of raw scores or logits, sample by sample; members have the same samples in the same order."""
    if not members:
        raise ValueError("an ensemble needs at least one member, got none")
    (first_name, first), *others = members.items()
    for name, scores in others:
        _check_same_samples(first_name, first, name, scores)
    total = np.mean([scores.values for scores in members.values()], axis=0, dtype=np.float64)
    return Scores(first.ids, first.labels, total.astype(first.values.dtype))


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
