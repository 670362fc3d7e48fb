"""Cross-fitting: every row trains, and every row is judged by members that have not seen it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankreg.bundle.ensemble import Ensemble, FittedLearner, Member, NegativeRanks, View, Views
from rankreg.datasets.partitions import deal_folds
from rankreg.fit.learners import Folds, Learner
from rankreg.metrics import auc, fpr_at_tpr
from rankreg.names import look_up

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

FOLDS, MORE_ROUNDS = 5, 2
FEW_POSITIVES = 200  # below, rows are dealt twice


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """One learner after cross-fitting.

    Args:
        name: of the learner.
        view: what its members take.
        members: one for every fold of every round.
        scales: one per member.
        levels: of every row in every round, by the member that has not seen it, (R, N).
        seconds: how long training took.
    """

    name: str
    view: View
    members: Sequence[Member]
    scales: Sequence[NegativeRanks]
    levels: Floats
    seconds: float

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
    return OutOfFold(name, learner.view, trained, scales, levels, seconds)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Several learners, cross-fitted on the same folds, and their average.

    Args:
        learners: by name.
        weights: of every member of each learner, (M,). Over the learners, the weights of one fold sum to 1.
        folds: which row was held out by which member.
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
    names, learners = list(learners), {name: one for name, one in learners.items() if _tells_apart(one, folds)}
    if not learners:
        raise ValueError(f"no learner of {', '.join(names)} tells these rows apart: use more rows, or another one")
    if best is None or best >= len(learners):
        return CrossFitted(learners, {name: np.full(folds.members, 1 / len(learners)) for name in learners}, folds)
    weights = {name: np.zeros(folds.members) for name in learners}
    levels = {name: found.mean_levels for name, found in learners.items()}
    for place in range(folds.members):
        rows = folds.kept(place)
        rates = {
            name: (fpr_at_tpr(labels[rows], own[rows], tpr), -auc(labels[rows], own[rows]))
            for name, own in levels.items()
        }
        for name in sorted(rates, key=lambda name: rates[name])[:best]:
            weights[name][place] = 1 / best
    return CrossFitted(learners, weights, folds)


def _tells_apart(found: OutOfFold, folds: Folds) -> bool:
    """Whether scores differ: on a few dozen rows trees may not find a split."""
    levels = found.mean_levels
    return all(np.ptp(levels[folds.kept(member)]) > 0 for member in range(folds.members))


def chosen_learners(table: Mapping[str, Learner], names: Sequence[str]) -> dict[str, Learner]:
    """Learners by name; an unknown name is refused with the nearest known one."""
    return {name: look_up(dict(table), name, "learner") for name in names}
