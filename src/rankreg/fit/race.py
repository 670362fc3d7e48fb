"""The race of learners: how each did out of fold, beside their average."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.bundle.evaluation import bounded
from rankreg.fit.crossfit import CrossFitted
from rankreg.notation import percent
from rankreg.operating import Interval, fpr_at_tpr_interval


@dataclass(frozen=True)
class RacedLearner:
    """How one learner did out of fold.

    Args:
        name: of the learner, or "average".
        fpr: at the target TPR, with its interval.
        weight: in the average, between 0 and 1.
        seconds: of training.
    """

    name: str
    fpr: Interval
    weight: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"name": self.name, "fpr": self.fpr.to_dict(), "weight": self.weight, "seconds": self.seconds}

    def without_time(self) -> dict[str, Any]:
        """The same, but for the seconds: what a bundle says must not depend on how long a fit took."""
        return {name: value for name, value in self.to_dict().items() if name != "seconds"}


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


def race_table(race: Sequence[RacedLearner], tpr: float) -> list[tuple[str, ...]]:
    """A header, then every learner and the average."""
    header = ("learner", f"FPR at {percent(tpr)} TPR", "weight", "seconds")
    rows = [(one.name, bounded(one.fpr), f"{one.weight:.2f}", f"{one.seconds:.1f}") for one in race]
    return [header, *rows]
