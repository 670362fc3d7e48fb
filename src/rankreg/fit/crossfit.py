"""Cross-fitting: every row trains, and every row is judged by members that have not seen it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankreg.bundle.ensemble import Ensemble, FittedLearner, Member, NegativeRanks, Views
from rankreg.datasets.partitions import deal_folds
from rankreg.fit.learners import Folds, Learner
from rankreg.names import look_up

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

FOLDS, MORE_ROUNDS = 5, 2
FEW_POSITIVES = 200  # below, rows are dealt twice


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """One learner after cross-fitting.

    Args:
        fitted: its members and their scales.
        levels: of every row, the mean level of the members that have not seen it, (N,).
        seconds: how long training took.
    """

    fitted: FittedLearner
    levels: Floats
    seconds: float


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
    levels, scales = np.zeros(len(labels)), []
    for place, member in enumerate(trained):
        held = folds.held(place)
        raw = member.score(rows[held])
        if not np.isfinite(raw).all():
            raise ValueError(f"the learner {name!r} gives scores that are not finite numbers: leave it out")
        scales.append(NegativeRanks.of(raw[labels[held] == 0]))
        levels[held] += scales[-1](raw) / len(folds.of_row)
    return OutOfFold(FittedLearner(name, learner.view, trained, scales), levels, seconds)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Several learners, cross-fitted on the same folds and averaged.

    Args:
        learners: by name.
        weights: of each in the average.
        folds: which row was held out by which member.
    """

    learners: Mapping[str, OutOfFold]
    weights: Mapping[str, float]
    folds: Folds

    @property
    def scores(self) -> NDArray[np.float32]:
        """The average of the learners, every row judged by members that have not seen it, (N,)."""
        total = sum(self.weights.values())
        parts = [self.weights[name] / total * found.levels for name, found in self.learners.items()]
        average: Floats = np.sum(parts, axis=0)
        return average.astype(np.float32)

    @property
    def ensemble(self) -> Ensemble:
        """The model for new samples: all members of all learners."""
        return Ensemble(
            [
                FittedLearner(
                    name, found.fitted.view, found.fitted.members, found.fitted.scales, self.weights[name]
                )
                for name, found in self.learners.items()
                if self.weights[name] > 0
            ]
        )


def cross_fit_all(
    learners: Mapping[str, Learner],
    views: Views,
    labels: Labels,
    folds: Folds,
    *,
    done: Callable[[str, OutOfFold], None] | None = None,
) -> CrossFitted:
    """Cross-fit several learners and average them with equal weights; done: told after each learner."""
    found = {}
    for name, learner in learners.items():
        found[name] = cross_fit(learner, name, views, labels, folds)
        if done is not None:
            done(name, found[name])
    return CrossFitted(found, dict.fromkeys(learners, 1.0), folds)


def chosen_learners(table: Mapping[str, Learner], names: Sequence[str]) -> dict[str, Learner]:
    """Learners by name; an unknown name is refused with the nearest known one."""
    return {name: look_up(dict(table), name, "learner") for name in names}
