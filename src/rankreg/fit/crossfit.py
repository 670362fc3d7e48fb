"""Cross-fitting: every row trains, and every row is judged by members that have not seen it.

Also the race of the learners out of fold, and what a fit that was stopped goes on from.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save

from rankreg.bundle.card import LearnerCard, tree_file
from rankreg.bundle.ensemble import (
    LARGEST_TREES,
    Ensemble,
    FittedLearner,
    Member,
    NegativeRanks,
    View,
    Views,
    learner_card,
    pack,
    unpack,
)
from rankreg.bundle.storage import CARD, INNER
from rankreg.datasets.partitions import deal_folds
from rankreg.datasets.splits import OwnData, OwnImages
from rankreg.datasets.table import OwnTable
from rankreg.fit.learners import Folds, Learner, shape_of
from rankreg.fit.sources import PreparedData
from rankreg.metrics import auc, fpr_at_tpr
from rankreg.notation import Record
from rankreg.operating import Interval, fpr_at_tpr_interval
from rankreg.safe_files import read_json, read_within, write_json, write_whole

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

FOLDS, MORE_ROUNDS = 5, 2
FEW_POSITIVES = 200  # below, rows are dealt twice


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """One learner after cross-fitting: a member and a scale for every fold of every round.

    levels: of every row in every round, by the member that has not seen it, (R, N). seconds: of training.
    """

    name: str
    view: View
    members: Sequence[Member]
    scales: Sequence[NegativeRanks]
    levels: Floats
    seconds: float
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mean_levels(self) -> Floats:
        """The mean over the rounds, (N,)."""
        return np.asarray(self.levels.mean(axis=0))

    def fitted(self, weights: Floats) -> FittedLearner:
        """The members with a weight above 0; weights: one per member."""
        used = np.flatnonzero(weights).tolist()
        return FittedLearner(
            self.name,
            self.view,
            [self.members[place] for place in used],
            [self.scales[place] for place in used],
            weights[used].tolist(),
        )


def folds_for(
    labels: Labels,
    units: NDArray[np.int64] | None,
    count: int | None = None,
    seed: int = 0,
    *,
    rounds: int | None = None,
) -> Folds:
    """Stratified folds that keep units together, in one round or several.

    Args:
        labels: 0 or 1, (N,).
        units: one number per row, the same for rows that stay together; None: each row alone.
        count: how many folds a round has; by default 5, and never more than there are independent positives.
        seed: decides the folds and the training.
        rounds: how often the rows are dealt anew; by default once, or twice when fewer than 200 independent
            positives are there. Then two members judge every row, more like the average of all members.

    Raises:
        ValueError: if a class has too few independent rows.
    """
    apart = np.arange(len(labels)) if units is None else units
    independent = [len(np.unique(apart[labels == kind])) for kind in (0, 1)]
    fewest = min(independent)
    if fewest < 3:
        name = "positives" if independent[1] < 3 else "negatives"
        raise ValueError(
            f"only {fewest} independent {name}: cross-fitting needs 3 at least, one to judge and two to train;"
            " collect more"
        )
    if count is None:
        count = min(FOLDS, fewest)
    if not 2 <= count <= fewest:
        raise ValueError(
            f"--folds must be at least 2 and at most {fewest}, the independent samples of the smaller class,"
            f" got {count}"
        )
    if rounds is None:
        rounds = MORE_ROUNDS if independent[1] < FEW_POSITIVES else 1
    dealt = [deal_folds(labels, apart, count, seed=seed + 1000 * k) for k in range(rounds)]
    return Folds(np.stack(dealt), count, seed)


def cross_fit(
    learner: Learner,
    name: str,
    views: Views,
    labels: Labels,
    folds: Folds,
    *,
    members: Sequence[Member] | None = None,
) -> OutOfFold:
    """Train a learner's members and score every row by the member that has not seen it.

    members: trained before, to be taken instead of training.
    """
    start = time.perf_counter()
    trained = learner.fit(views, labels, folds) if members is None else list(members)
    seconds = time.perf_counter() - start
    rows = views[learner.view]
    levels, scales = np.empty(folds.of_row.shape), []
    if len(trained) != folds.members:
        raise ValueError(f"the learner {name!r} has {len(trained)} members, the folds ask for {folds.members}")
    for place, member in enumerate(trained):
        held = folds.held(place)
        raw = member.score(rows[held])
        if not np.isfinite(raw).all():
            raise ValueError(f"the learner {name!r} gives scores that are not finite numbers: leave it out")
        scales.append(NegativeRanks.of(raw[labels[held] == 0]))
        levels[place // folds.count, held] = scales[-1](raw)
    return OutOfFold(name, learner.view, trained, scales, levels, seconds, learner.settings)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Several learners, cross-fitted on the same folds, and their average.

    weights: of every member of each learner, (M,). Over the learners, the weights of one fold sum to 1.
    """

    learners: Mapping[str, OutOfFold]
    weights: Mapping[str, Floats]
    folds: Folds

    @property
    def scores(self) -> NDArray[np.float32]:
        """The average, every row judged by members that have not seen it, (N,)."""
        total = np.zeros(self.folds.of_row.shape)
        for name, found in self.learners.items():
            for turn, of_row in enumerate(self.folds.of_row):
                own = self.weights[name][turn * self.folds.count + of_row]
                total[turn] += own * found.levels[turn]
        return np.asarray(total.mean(axis=0), dtype=np.float32)

    @property
    def ensemble(self) -> Ensemble:
        """The model for new samples: all members that have a weight."""
        used = [name for name in self.learners if self.weights[name].any()]
        return Ensemble([self.learners[name].fitted(self.weights[name]) for name in used])


def averaged(
    learners: Mapping[str, OutOfFold], labels: Labels, folds: Folds, *, tpr: float = 0.95, best: int | None = None
) -> CrossFitted:
    """The average of the learners with equal weights, or of the best of them.

    The best learners have the lowest FPR at the TPR, out of fold. They are chosen for every fold by the rows
    of the other folds. The score and the label of a row do not choose the learners that judge it. Its only
    influence is that it trained the members whose scores of other rows do.

    Args:
        learners: cross-fitted on the same folds.
        labels: 0 or 1, (N,).
        folds: the folds.
        tpr: the target recall.
        best: how many learners are averaged; by default all (docs/decisions/0045).

    Raises:
        ValueError: best is below 1, or no learner tells the rows apart.
    """
    if best is not None and best < 1:
        raise ValueError(f"--best must be at least 1, got {best}")
    names, levels = list(learners), {name: found.mean_levels for name, found in learners.items()}
    # scores may all be equal: on a few dozen rows trees may not find a split
    learners = {
        name: found
        for name, found in learners.items()
        if all(np.ptp(levels[name][folds.kept(member)]) > 0 for member in range(folds.members))
    }
    if not learners:
        raise ValueError(f"no learner of {', '.join(names)} tells these rows apart: use more rows, or another one")
    if best is None or best >= len(learners):
        return CrossFitted(learners, {name: np.full(folds.members, 1 / len(learners)) for name in learners}, folds)
    weights = {name: np.zeros(folds.members) for name in learners}
    for place in range(folds.members):
        rows = folds.kept(place)
        rates = {
            name: (fpr_at_tpr(labels[rows], own, tpr), -auc(labels[rows], own))
            for name in learners
            for own in [levels[name][rows]]
        }
        for name in sorted(rates, key=lambda name: rates[name])[:best]:
            weights[name][place] = 1 / best
    return CrossFitted(learners, weights, folds)


@dataclass(frozen=True)
class RacedLearner(Record):
    """How one learner, or the "average", did out of fold.

    fpr: at the target TPR, with its interval. weight: in the average, between 0 and 1. seconds: of training.
    """

    name: str
    fpr: Interval
    weight: float
    seconds: float


def race_of(
    crossed: CrossFitted, labels: NDArray[np.int64], units: NDArray[np.int64] | None, tpr: float, confidence: float
) -> tuple[RacedLearner, ...]:
    """Every learner out of fold, the best first, then the average if there are several."""

    def rate(values: NDArray[np.floating[Any]]) -> Interval:
        return fpr_at_tpr_interval(labels, values, tpr=tpr, confidence=confidence, units=units)

    found = [
        RacedLearner(name, rate(one.mean_levels), float(crossed.weights[name].mean()), one.seconds)
        for name, one in crossed.learners.items()
    ]
    found.sort(key=lambda one: one.fpr.estimate)
    if len(found) > 1:
        found.append(RacedLearner("average", rate(crossed.scores), 1.0, sum(one.seconds for one in found)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class FinishedLearners:
    """Learners that were cross-fitted on the same rows and folds; folder: theirs alone."""

    folder: Path
    features: int | None

    @classmethod
    def open(cls, home: Path, prepared: PreparedData, rows: NDArray[np.int64], folds: Folds) -> "FinishedLearners":
        """The folder for such a fit, within the folder of all fits of these data."""
        inputs = prepared.inputs
        this = _digest(np.ascontiguousarray(inputs), rows, folds.of_row, np.array([folds.seed, folds.count]))
        features = int(inputs.shape[1]) if prepared.preparation is not None else None
        if prepared.features is not None:
            features = int(prepared.features.shape[1])
        return cls(home / this[:16], features)

    def members(self, name: str, learner: Learner) -> list[Member] | None:
        """The members of a learner that was finished with the same settings; None if there are none."""
        place = self.folder / f"{name}.json"
        if not place.exists():
            return None
        try:
            content = read_json(place)
            card = LearnerCard.model_validate(content["card"])
            if card.settings != json.loads(json.dumps(dict(learner.settings))):
                return None
            arrays = load(read_within(self.folder / f"{name}.safetensors", LARGEST_TREES))
            texts = {}
            for fold in range(card.members if card.kind == "trees" else 0):
                file = tree_file(name, fold)
                texts[file] = read_within(self.folder / file, LARGEST_TREES).decode("ascii")
            return list(unpack(card, self.features, arrays, texts).members)
        except (ValueError, KeyError, TypeError, OSError, SafetensorError):
            return None  # whatever is wrong with it: train again

    def keep(self, found: OutOfFold) -> OutOfFold:
        """Write a finished learner; one that was kept before has its time from then."""
        name, place = found.name, self.folder / f"{found.name}.json"
        if place.exists() and found.seconds < 1e-3:
            return replace(found, seconds=float(read_json(place).get("seconds", 0.0)))
        self.folder.mkdir(parents=True, exist_ok=True)
        fitted = found.fitted(np.ones(len(found.members)))
        arrays, texts = pack(fitted)
        write_whole(self.folder / f"{name}.safetensors", save(arrays))
        for file, text in texts.items():
            write_whole(self.folder / file, text.encode())
        card = learner_card(fitted, model=shape_of(fitted), settings=found.settings)
        write_json(place, {"card": card.model_dump(mode="json"), "seconds": found.seconds})
        return found


def claim_folder(home: Path, data: OwnData, *, force: bool = False) -> None:
    """Say whose fit the folder of a fit holds, or refuse if something else is there that would be replaced.

    Args:
        home: the folder, which need not exist.
        data: what is to be fitted. A fit of the same rows and columns goes on.
        force: what is there may be replaced, unless it is a bundle itself, which would hide the new one.

    Raises:
        ValueError: the folder holds a bundle, the fit of other data, or files of unknown data.
    """
    if (home / CARD).exists():
        raise ValueError(f"{home} is a model itself, with a {CARD}: choose another --out")
    this = {
        "data": _digest(np.ascontiguousarray(data.labels), np.asarray(data.ids.astype(str))),
        "features": _digest(*_features(data)),
    }
    place = home / "run/fit.json"
    replace_it = "choose another --out, or replace it with --force (force=True)"
    if place.exists():
        before = read_json(place, ": remove the folder, or choose another --out")
        known = before if isinstance(before, dict) else {}
        # older versions say nothing of the features
        same = {"features": this["features"], **known}.items() >= this.items()
        if not (same or force):
            name = f"{known['name']!r:.80}: " if isinstance(known.get("name"), str) else ""
            raise ValueError(
                f"{home} holds the fit of other data ({name}other rows, columns or values): {replace_it}"
            )
    elif not force:
        for name in (f"{INNER}/{CARD}", "summary.json", "report.html"):
            if (home / name).exists():
                raise ValueError(f"{home} holds a {name} already, of unknown data: {replace_it}")
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, this | {"name": data.name})


def _features(data: OwnData) -> tuple[NDArray[np.generic], ...]:
    """What the rows hold beside label and id, in few numbers."""
    if isinstance(data, OwnTable):
        rows = pd.util.hash_pandas_object(data.features, index=False).to_numpy()
        return np.asarray(data.features.columns, dtype=str), rows
    return (data.images,) if isinstance(data, OwnImages) else ()


def _digest(*arrays: NDArray[np.generic]) -> str:
    content = hashlib.sha256()
    for array in arrays:
        content.update(str((array.dtype.str, array.shape)).encode())
        content.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return content.hexdigest()
