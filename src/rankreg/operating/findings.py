"""What makes scores or a threshold useless although every number about them is right: said before any number."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rankreg.metrics import auc
from rankreg.operating._records import Interval, Record
from rankreg.operating.delong import auc_interval
from rankreg.operating.points import Sample

FindingName = Literal["reversed", "below-chance", "two-values", "alarms-on-everything"]


@dataclass(frozen=True)
class Finding(Record):
    """Something to know before any number. refuses: whether no threshold of these scores should be certified."""

    name: FindingName
    sentence: str
    refuses: bool = False


def findings(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    threshold: float | None = None,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
) -> tuple[Finding, ...]:
    """What is wrong with these scores, or with this threshold on them, the most serious first; usually nothing.

    A certified threshold keeps its recall with any scores, even useless ones: it then alarms on nearly everything.
    So look here before you use one. The names:

    - "reversed": positives score lower than negatives; the whole interval of the AUC lies below one half.
    - "below-chance": the AUC is below one half, but its interval is not.
    - "alarms-on-everything": every negative reaches the threshold.
    - "two-values": the scores are hard predictions, between which no threshold can be chosen.

    Args:
        y_true: labels, 1 for the critical class.
        y_score: scores, higher = more critical.
        threshold: the one in use, if any.
        confidence: that of the AUC's interval.
        units: one value per sample, as for `auc_interval`.

    >>> [found.name for found in findings([0, 0, 1, 1], [0, 0, 1, 0], threshold=0)]
    ['alarms-on-everything', 'two-values']
    """
    sample = Sample.of(y_true, y_score)
    found = _about_the_order(sample, confidence, units)
    low, high = sample.scores.min(), sample.scores.max()
    if threshold is not None and sample.negatives.min() >= threshold:
        whom = "sample" if low >= threshold else "negative"
        found.append(
            Finding(
                "alarms-on-everything",
                f"Alarms on every {whom}: all {len(sample.negatives):,} negatives reach {threshold:.6g}."
                " It keeps its recall by telling nothing apart: use a lower TPR or a better model",
            )
        )
    if np.all((sample.scores == low) | (sample.scores == high)):
        found.append(
            Finding(
                "two-values",
                f"The scores have only two values, {low:g} and {high:g}: they are predictions, not scores, and"
                " leave no threshold to choose. Pass what the model computes before it decides, e.g."
                " predict_proba(X)[:, 1] or decision_function(X)",
            )
        )
    return tuple(found)


def _about_the_order(sample: Sample, confidence: float, units: ArrayLike | None) -> list[Finding]:
    area = auc(sample.positive, sample.scores)
    if area >= 0.5:
        return []
    enough = min(len(sample.positives), len(sample.negatives)) > 1
    found = (
        auc_interval(sample.positive, sample.scores, confidence=confidence, units=units)
        if enough
        else Interval(area, 0.0, 1.0, confidence)
    )
    said = f"AUC {100 * area:.1f} %, at most {100 * found.high:.1f} %"
    if found.high < 0.5:
        return [
            Finding(
                "reversed",
                f"The scores look reversed: positives score lower than negatives ({said}). Higher must mean more"
                " critical: negate the scores, pass the probability of the critical class, or name the other label"
                " as the positive one",
                refuses=True,
            )
        ]
    return [
        Finding(
            "below-chance",
            f"The scores are no better than chance here ({said}): check that higher means more critical, and which"
            " label is the positive one",
        )
    ]
