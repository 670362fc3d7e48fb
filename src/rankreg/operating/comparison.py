"""Is the new model really better? Two models on the same samples."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rankreg.metrics import Floats
from rankreg.notation import Record, percent
from rankreg.operating.bootstrap import fpr_differences
from rankreg.operating.guarantees import check_confidence, check_target
from rankreg.operating.intervals import CONFIDENCE, aucs, difference_ends, interval_of_auc
from rankreg.operating.score_summary import ScoreSummary
from rankreg.operating.units import Sample, Trials, independent_of, units_of
from rankreg.scores import Scores

POWER = 0.8


@dataclass(frozen=True)
class Difference(Record):
    """One number of models a and b, and a − b with its interval.

    Attributes:
        a: the number of model a.
        b: the number of model b.
        difference: a − b.
        low: the lower bound of the difference.
        high: the upper bound of the difference.
        p_value: two-sided.
    """

    a: float
    b: float
    difference: float
    low: float
    high: float
    p_value: float

    def significant(self, confidence: float) -> bool:
        """Whether a difference of 0 is ruled out: by the test, and by the interval.

        Args:
            confidence: that of the interval.
        """
        return self.p_value <= 1 - confidence and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Comparison(Record):
    """Models a and b on the same samples.

    Attributes:
        tpr: the TPR at which FPRs are compared.
        confidence: of the intervals.
        positives: how many positives there were.
        negatives: how many negatives there were.
        fpr: the FPR at the TPR; lower is better.
        auc: the AUC; higher is better.
        draws: how often the bootstrap drew.
        seed: of the bootstrap.
        warning: what limits the FPR interval where positives · (1 − tpr) < 1; otherwise None.
        units: how many units the positives belong to; None if none were given.
        same: "scores" if both models have the same scores, "order" if they have other scores in the
            same order; the differences are then exactly 0. Otherwise None.
    """

    tpr: float
    confidence: float
    positives: int
    negatives: int
    fpr: Difference
    auc: Difference
    draws: int
    seed: int
    warning: str | None = None
    units: int | None = None
    same: Literal["scores", "order"] | None = None


def compare(
    y_true: ArrayLike,
    score_a: ArrayLike,
    score_b: ArrayLike,
    *,
    tpr: float = 0.95,
    confidence: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
    units: ArrayLike | None = None,
) -> Comparison:
    """Paired differences a − b of the FPR at a TPR and of the AUC, with intervals and p-values.

    FPR: a bootstrap by the gaps between ordered positives, paired and per class. It keeps its level
    from about positives · (1 − tpr) = 1 on. With fewer positives its 95 % interval covered 90 % in
    simulations, and the result carries a warning (docs/decisions/0023). AUC: DeLong's paired test,
    with an interval made of the two areas' own (docs/decisions/0027). Two models that put the
    samples in the same order are equal: the differences are 0.

    Args:
        y_true: labels, 1 for the critical class.
        score_a: the scores of model a, higher = more critical.
        score_b: the scores of model b on the same samples in the same order.
        tpr: the true positive rate at which FPRs are compared, default 0.95.
        confidence: of the intervals, default 0.95.
        draws: how often the bootstrap draws, default 10,000, at least 100.
        seed: of the bootstrap; the same seed gives the same numbers.
        units: one value per sample, the same for dependent samples; whole units are drawn.

    Returns:
        Both differences.

    Raises:
        ValueError: the labels, scores or settings make no sense.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> compare(labels, scores, scores, draws=100).fpr.difference
    0.0
    """
    check_target(tpr)
    check_confidence(confidence)
    if draws < 100:
        raise ValueError(f"draws must be at least 100, got {draws}: the ends of the interval rest on them")
    first, second = _checked(y_true, score_a, units, "first"), _checked(y_true, score_b, units, "second")
    same = _same(first.scores, second.scores)
    if same is None:
        fpr = _fpr_difference(first, second, tpr, confidence, draws, seed)
        auc = auc_difference(first, second, confidence)
    else:
        summary = _summary(first)
        fpr, auc = (
            Difference(both, both, difference=0.0, low=0.0, high=0.0, p_value=1.0)
            for both in (summary.fpr_at_tpr(tpr), summary.auc())
        )
    return Comparison(
        tpr=tpr,
        confidence=confidence,
        positives=len(first.positives),
        negatives=len(first.negatives),
        fpr=fpr,
        auc=auc,
        draws=draws,
        seed=seed,
        warning=None if same else _few(first.positive_trials, tpr),
        units=units_of(first.positive_trials),
        same=same,
    )


def paired(a: Scores, b: Scores) -> tuple[NDArray[np.int64], NDArray[np.floating], NDArray[np.floating]]:
    """Bring the scores of two models into one order, by their ids.

    The order and the units are those of a. Other ids or labels in b are an error.
    """
    order_a, order_b = (_order(scores, name) for scores, name in ((a, "first"), (b, "second")))
    ids_a, ids_b = a.ids[order_a], b.ids[order_b]
    if not np.array_equal(ids_a, ids_b):
        only_a, only_b = np.setdiff1d(ids_a, ids_b), np.setdiff1d(ids_b, ids_a)
        raise ValueError(
            f"the two models were not scored on the same samples: {len(only_a)} ids are only in the first"
            f"{_examples(only_a)}, {len(only_b)} only in the second{_examples(only_b)}; keep the common ones"
        )
    differ = np.flatnonzero(a.labels[order_a] != b.labels[order_b])
    if len(differ):
        raise ValueError(f"the labels of {len(differ)} samples differ between the two{_examples(ids_a[differ])}")
    scores_b = np.empty_like(b.values)
    scores_b[order_a] = b.values[order_b]
    return a.labels, a.values, scores_b


def _checked(y_true: ArrayLike, y_score: ArrayLike, units: ArrayLike | None, which: str) -> Sample:
    try:
        return Sample.of(y_true, y_score, units)
    except ValueError as error:
        raise ValueError(f"{which} model: {error}") from error


def _same(a: Floats, b: Floats) -> Literal["scores", "order"] | None:
    """Whether two models order the samples alike, ties included, so that no threshold tells them apart."""
    if np.array_equal(a, b):
        return "scores"
    order = np.argsort(a, kind="stable")
    a, b = a[order], b[order]
    alike = bool(np.all(b[1:] >= b[:-1])) and np.array_equal(a[1:] > a[:-1], b[1:] > b[:-1])
    return "order" if alike else None


def _summary(sample: Sample) -> ScoreSummary:
    """Each model's own numbers come from its summary; only differences need the pairs."""
    return ScoreSummary.of(sample.positive, sample.scores)


def _few(positives: Trials, tpr: float) -> str | None:
    """The warning of a comparison that rests on less than one expected miss."""
    independent = independent_of(positives)
    if independent * (1 - tpr) >= 1 - 1e-9:
        return None
    what = "positives" if units_of(positives) is None else "units with positives"
    return (
        f"{independent:,} {what} leave room for less than one miss at {percent(tpr)} TPR: the interval of the FPR"
        f" may hold the truth less often than it says; {math.ceil(1 / (1 - tpr) - 1e-9):,} or more are needed"
    )


def _order(scores: Scores, name: str) -> NDArray[np.int64]:
    order = np.argsort(scores.ids, kind="stable")
    ordered = scores.ids[order]
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if len(twice):
        raise ValueError(f"{len(twice)} ids occur more than once in the {name} file{_examples(twice)}")
    return order


def _examples(ids: NDArray[np.generic]) -> str:
    return " (" + ", ".join(map(str, ids[:3])) + (", …" if len(ids) > 3 else "") + ")" if len(ids) else ""


def _fpr_difference(
    first: Sample, second: Sample, tpr: float, confidence: float, draws: int, seed: int
) -> Difference:
    codes, positive = _shared_units(first), first.positive
    drawn = fpr_differences(
        (first.positives, second.positives),
        (first.negatives, second.negatives),
        tpr,
        draws,
        seed,
        None if codes is None else (codes[positive], codes[~positive]),
    )
    rates = [_summary(sample).fpr_at_tpr(tpr) for sample in (first, second)]
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    beyond = min(np.count_nonzero(drawn <= 0), np.count_nonzero(drawn >= 0))
    return Difference(
        a=rates[0],
        b=rates[1],
        difference=rates[0] - rates[1],
        low=float(low),
        high=float(high),
        p_value=min(1.0, 2 * (int(beyond) + 1) / (draws + 1)),
    )


def _shared_units(sample: Sample) -> NDArray[np.int64] | None:
    """The units, unless each is a single row."""
    return None if sample.units is None or len(np.unique(sample.units)) == len(sample.units) else sample.units


def auc_difference(first: Sample, second: Sample, confidence: float) -> Difference:
    """The paired difference of two areas: DeLong's test, an interval from both areas' own."""
    units = _shared_units(first)
    found = aucs(first.positive, [first.scores, second.scores], units)
    contrast = np.array([1.0, -1.0])
    error = float(np.sqrt(max(0.0, contrast @ found.covariance @ contrast)))
    errors = np.sqrt(found.covariance.diagonal())
    correlation = float(found.covariance[0, 1] / errors.prod()) if errors.all() else 0.0
    areas = [
        interval_of_auc(_summary(sample) if units is None else replace(sample, units=units), confidence)
        for sample in (first, second)
    ]
    difference = areas[0].estimate - areas[1].estimate
    low, high = difference_ends(areas[0], areas[1], correlation)
    p_value = float(difference == 0)  # without any spread the difference is certain, one way or the other
    if error > 0:
        p_value = float(2 * special.ndtr(-abs(difference) / error))
    return Difference(
        a=areas[0].estimate,
        b=areas[1].estimate,
        difference=difference,
        low=low,
        high=high,
        p_value=p_value,
    )


def p_value(differences: ArrayLike) -> float | None:
    """Student's two-sided p-value of paired differences over repeats.

    None with fewer than two repeats.
    """
    numbers = np.asarray(differences, dtype=np.float64)
    count = len(numbers)
    if count < 2:
        return None
    mean, error = float(numbers.mean()), float(numbers.std(ddof=1)) / math.sqrt(count)
    if error == 0:
        return float(mean == 0)  # without any spread the difference is certain, one way or the other
    return float(2 * special.stdtr(count - 1, -abs(mean) / error))


def detectable(differences: ArrayLike) -> float | None:
    """The smallest true difference that so many pairs with this spread find with 80 % power at the 5 % level.

        δ · s / √n,    P(T(n − 1, δ) > t) = 0.8,    t the quantile of Student's interval

    T is the noncentral t. The share of the other tail is negligible.

    None with fewer than two repeats, or if all are equal.
    """
    numbers = np.asarray(differences, dtype=np.float64)
    count = len(numbers)
    if count < 2 or np.ptp(numbers) == 0:
        return None
    shift = special.nctdtrinc(count - 1, 1 - POWER, special.stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    return float(shift * numbers.std(ddof=1) / math.sqrt(count))


def still_significant(p_values: ArrayLike) -> int:
    """How many of several p-values stay below 5 % after Holm's correction for their number."""
    ordered = np.sort(np.asarray(p_values, dtype=np.float64))
    passed = ordered <= (1 - CONFIDENCE) / (len(ordered) - np.arange(len(ordered)))
    return len(ordered) if passed.all() else int(passed.argmin())


def standard_deviation(values: ArrayLike) -> float | None:
    """The standard deviation of a sample, with n − 1.

    None with fewer than two values.
    """
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.std(ddof=1)) if len(numbers) > 1 else None
