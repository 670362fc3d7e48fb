"""False alarms at a true positive rate, exactly, on raw scores. numpy only.

Every function takes (y_true, y_score) in scikit-learn's order, never squashes a score, and raises
where the number is undefined.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.names import renamed

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Roc", "auc", "error_at_tpr", "fpr_at_tpr", "positive_score", "roc", "threshold_at_tpr"]

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]
GRID_CELLS = 1 << 10, 1 << 17  # 16 for each positive, within these limits


class Roc(NamedTuple):
    """A ROC curve: one point per distinct score, from (0, 0) on.

    Attributes:
        fpr: the share of negatives with a score ≥ the threshold.
        tpr: the share of positives with a score ≥ the threshold.
        thresholds: the thresholds, from ∞ downwards.
    """

    fpr: NDArray[np.float64]
    tpr: NDArray[np.float64]
    thresholds: Floats


def roc(y_true: ArrayLike, y_score: ArrayLike) -> Roc:
    """Every point of the ROC curve.

    Args:
        y_true: labels, 1 for the critical class, shape (N,).
        y_score: raw scores, higher = more critical, shape (N,).

    Returns:
        FPRs, TPRs and thresholds.

    Raises:
        ValueError: a class is missing, a score is NaN, or the shapes do not fit.

    >>> roc([0, 1, 1], [0.2, 0.1, 0.9]).tpr.tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    positive, scores = check_binary(y_true, y_score)
    order = np.argsort(scores)[::-1]
    ordered = scores[order]
    last_of_run = np.append(ordered[1:] != ordered[:-1], True)
    true_alarms = np.cumsum(positive[order])[last_of_run]
    alarms = np.flatnonzero(last_of_run) + 1
    negatives = len(scores) - true_alarms[-1]
    return Roc(
        fpr=np.append(0.0, (alarms - true_alarms) / negatives),
        tpr=np.append(0.0, true_alarms / true_alarms[-1]),
        thresholds=np.append(np.array(np.inf, dtype=ordered.dtype), ordered[last_of_run]),
    )


def auc(y_true: ArrayLike, y_score: ArrayLike) -> float:
    """The area under the ROC curve.

        P(s⁺ > s⁻) + ½ P(s⁺ = s⁻)

    Args:
        y_true: labels, 1 for the critical class, shape (N,).
        y_score: raw scores, higher = more critical, shape (N,).

    Returns:
        The area, between 0 and 1.

    Raises:
        ValueError: a class is missing, a score is NaN, or the shapes do not fit.

    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    positive, scores = check_binary(y_true, y_score)
    rare, common = sorted((scores[positive], scores[~positive]), key=len)
    ordered, asked = np.sort(common), np.sort(rare)  # sorted questions stay in the cache
    below = np.searchsorted(ordered, asked, side="left").sum()
    not_above = np.searchsorted(ordered, asked, side="right").sum()
    rare_wins = float(below + not_above) / (2 * len(rare) * len(common))
    return rare_wins if len(rare) == np.count_nonzero(positive) else 1 - rare_wins


@overload
def fpr_at_tpr(y_true: ArrayLike, y_score: ArrayLike, tpr: float) -> float: ...
@overload
def fpr_at_tpr(y_true: ArrayLike, y_score: ArrayLike, tpr: Sequence[float]) -> NDArray[np.float64]: ...
def fpr_at_tpr(y_true: ArrayLike, y_score: ArrayLike, tpr: float | Sequence[float]) -> float | NDArray[np.float64]:
    """The share of negatives that raise an alarm once the wanted share of positives does.

        threshold = the k-th highest positive score,    k = ⌈tpr · #positives⌉

        FPR = share of negatives with a score ≥ threshold

    Args:
        y_true: labels, 1 for the critical class, shape (N,).
        y_score: raw scores, higher = more critical, shape (N,).
        tpr: the true positive rate in (0, 1], or several.

    Returns:
        The FPR, or an array with one FPR per TPR in the same order.

    Raises:
        ValueError: a class is missing, a score is NaN, or the shapes do not fit.

    >>> fpr_at_tpr([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.95)
    0.5
    """
    targets = check_tprs(tpr)
    positive, scores = check_binary(y_true, y_score)
    thresholds = empirical_thresholds(scores[positive], targets)
    negatives = scores[~positive]
    rates = alarm_counts(negatives, thresholds) / len(negatives)
    return rates if np.ndim(tpr) else float(rates[0])


def threshold_at_tpr(y_true: ArrayLike, y_score: ArrayLike, tpr: float) -> float:
    """The highest threshold at which that share of the positives raises an alarm.

    It describes this sample and guarantees nothing for others: `rankreg.operating.certify` does.

    Args:
        y_true: labels, 1 for the critical class, shape (N,).
        y_score: raw scores, higher = more critical, shape (N,).
        tpr: the true positive rate in (0, 1].

    Returns:
        The threshold: the k-th highest positive score, k = ⌈tpr · #positives⌉.

    Raises:
        ValueError: a class is missing, a score is NaN, or the shapes do not fit.

    >>> threshold_at_tpr([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.5)
    0.8
    """
    positive, scores = check_binary(y_true, y_score)
    return float(empirical_thresholds(scores[positive], check_tprs(tpr))[0])


@overload
def positive_score(logits: "Tensor", positive: int) -> "Tensor": ...
@overload
def positive_score(logits: ArrayLike, positive: int) -> Floats: ...
@renamed(critical="positive")
def positive_score(logits: Any, positive: int) -> Any:
    """One score per sample from many classes: the log-odds of the positive class against all others.

        s = z_c − log Σ_{k≠c} exp(z_k),    so that sigmoid(s) = softmax(z)_c

    Args:
        logits: z, shape (N, K), a numpy array or a torch tensor. Half precision becomes float32.
        positive: c, the index of the positive (critical) class.

    Returns:
        s, shape (N,), an array or a tensor like the logits. Tensors keep their gradient.

    Raises:
        ValueError: the logits are not (N, K) with at least two classes, or there is no such class.

    Example:
        >>> positive_score([[0.0, 0.0, 2.0]], positive=2).round(3)
        array([1.307])
    """
    tensor = hasattr(logits, "logsumexp")
    values: Any = logits if tensor else check_scores(logits)
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(f"expected logits (N, K) with at least two classes, got shape {tuple(values.shape)}")
    if not 0 <= positive < values.shape[1]:
        raise ValueError(f"positive must be a class index in 0 … {values.shape[1] - 1}, got {positive}")
    others = [index for index in range(values.shape[1]) if index != positive]
    if tensor:
        values = values if values.is_floating_point() and values.element_size() == 8 else values.float()
        return values[:, positive] - values[:, others].logsumexp(dim=1)
    return values[:, positive] - np.logaddexp.reduce(values[:, others], axis=1)


@overload
def error_at_tpr(y_true: ArrayLike, logits: ArrayLike, tpr: float, *, positive: int) -> float: ...
@overload
def error_at_tpr(
    y_true: ArrayLike, logits: ArrayLike, tpr: Sequence[float], *, positive: int
) -> NDArray[np.float64]: ...
@renamed(critical="positive")
def error_at_tpr(
    y_true: ArrayLike, logits: ArrayLike, tpr: float | Sequence[float], *, positive: int
) -> float | NDArray[np.float64]:
    """The mean error of the other classes once the wanted share of the critical class is found.

    A sample is called critical when the probability of that class reaches the threshold. Otherwise it
    gets the likeliest of the other classes. The threshold is that of `fpr_at_tpr`, on the log-odds of
    the critical class. Each of the other classes present counts alike.

    Args:
        y_true: class indices, shape (N,).
        logits: shape (N, K).
        tpr: the true positive rate of the critical class in (0, 1], or several.
        positive: the index of the critical class.

    Returns:
        The error, or an array with one error per TPR in the same order.

    Raises:
        ValueError: the critical class or all others are missing, a logit is NaN, or the shapes do not fit.

    >>> error_at_tpr([0, 1, 2], [[2.0, 0, 0], [0, 2.0, 0], [0, 0, 2.0]], 0.95, positive=2)
    0.0
    """
    targets = check_tprs(tpr)
    labels, values = _multiclass(y_true, logits, positive)
    scores, best_other = positive_score(values, positive), likeliest_other(values, positive)
    thresholds = empirical_thresholds(scores[labels == positive], targets)
    classes = np.unique(labels[labels != positive])
    members = [np.flatnonzero(labels == label) for label in classes]
    errors = np.array(
        [
            np.mean(
                [np.mean((scores[m] >= t) | (best_other[m] != c)) for c, m in zip(classes, members, strict=True)]
            )
            for t in thresholds
        ]
    )
    return errors if np.ndim(tpr) else float(errors[0])


def likeliest_other(logits: Floats, positive: int) -> NDArray[np.int64]:
    """The index of the likeliest class apart from the positive one."""
    best: NDArray[np.int64] = np.delete(logits, positive, axis=1).argmax(axis=1)
    best += best >= positive  # back to the original class index
    return best


def empirical_thresholds(positives: Floats, targets: NDArray[np.float64]) -> Floats:
    """The k-th highest score for each target, k = ⌈tpr · n⌉."""
    needed = [math.ceil(tpr * len(positives) - 1e-9) for tpr in targets]  # 0.07 * 100 is 7.000000000000001
    places = [len(positives) - max(k, 1) for k in needed]
    return np.partition(positives, sorted(set(places)))[places]


def alarm_counts(scores: Floats, thresholds: Floats) -> NDArray[np.int64]:
    """How many scores reach each threshold, in one pass over the scores."""
    levels = np.sort(thresholds)
    reached = np.bincount(np.searchsorted(levels, scores, side="right"), minlength=len(levels) + 1)
    return len(scores) - np.cumsum(reached)[np.searchsorted(levels, thresholds)]


class ScoreGrid:
    """An even grid over the scores of positives; most of its cells hold none of them.

    The cell of a score is a monotone function of it. So scores in different cells are in the order of
    their cells, and only scores that share a cell with a positive must be compared with it.

    positives: distinct and ascending; they may be infinite.
    """

    def __init__(self, positives: Floats) -> None:
        finite = positives[np.isfinite(positives)].astype(np.float64)
        self.cells = min(max(16 * len(positives), GRID_CELLS[0]), GRID_CELLS[1])
        self.low, self.scale = 0.0, 0.0
        with np.errstate(all="ignore"):
            if len(finite) > 1:
                self.low, self.scale = float(finite[0]), float(self.cells / (finite[-1] - finite[0]))
        self.useful = 0 < self.scale < np.inf
        if self.useful:
            self.places = self._cells(positives)
            self.occupied = np.zeros(self.cells + 2, dtype=bool)
            self.occupied[self.places] = True

    def apart(self, scores: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """The scores that share a cell with a positive, and how many others lie between neighbouring positives."""
        cells = self._cells(scores)
        counts = np.bincount(cells, minlength=len(self.occupied))
        counts[self.occupied] = 0
        below = np.append(0, np.cumsum(counts))
        return scores[self.occupied[cells]], np.diff(below[np.concatenate([[0], self.places, [len(counts)]])])

    def _cells(self, scores: Floats) -> NDArray[np.int32]:
        """From 0, below all finite positives, to `cells` + 1, above them."""
        with np.errstate(over="ignore"):
            found = np.subtract(scores, self.low, dtype=np.float64)
            found *= self.scale
        np.clip(found, -1, self.cells, out=found)
        found += 1
        return found.astype(np.int32)


def float32_below(values: ArrayLike) -> NDArray[np.float32]:
    """The largest float32 numbers that are not above: a float32 number is ≤ either or neither."""
    exact = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        single = exact.astype(np.float32)
        lower = np.nextafter(single, np.float32(-np.inf))
    return np.where(single > exact, lower, single)


def check_tprs(tpr: float | Sequence[float]) -> NDArray[np.float64]:
    """Target TPRs, one or several, as an array."""
    targets = np.atleast_1d(np.asarray(tpr, dtype=np.float64))
    if targets.ndim != 1 or not len(targets) or not np.all((targets > 0) & (targets <= 1)):
        raise ValueError(f"tpr must lie in (0, 1], got {tpr!r}: write 0.95 for 95 %")
    return targets


def raises_alarm(scores: Floats, threshold: float) -> Bools:
    """Where score ≥ threshold; also where the score is not finite, as a fault must not read as "no alarm"."""
    return ~(scores < threshold) | ~np.isfinite(scores)


def check_binary(y_true: ArrayLike, y_score: ArrayLike) -> tuple[Bools, Floats]:
    """Which samples are positive, and finite-or-infinite scores, one each; both classes present."""
    labels, scores = np.asarray(y_true), check_scores(y_score)
    if labels.ndim != 1 or labels.shape != scores.shape:
        hint = column_hint(scores.shape, "y_score") or column_hint(labels.shape, "y_true")
        raise ValueError(
            f"expected y_true and y_score of one shape (N,), got {labels.shape} and {scores.shape}{hint}"
        )
    positive = labels == 1
    if not np.all(positive | (labels == 0)):
        raise ValueError(f"y_true must be 0 or 1 (1 = critical), got {_distinct(labels)}: map the labels first")
    count = np.count_nonzero(positive)
    if count in (0, len(labels)):
        missing = "positives" if count == 0 else "negatives"
        raise ValueError(
            f"undefined without {missing}: all {len(labels):,} samples are {'positive' if count else 'negative'};"
            " give samples of both classes"
        )
    return positive, scores


def column_hint(shape: tuple[int, ...], name: str, flatten: str = "ravel()") -> str:
    """What to pass in place of an array (N, 1) or (N, K), for the end of a message; nothing for other shapes."""
    if len(shape) != 2:
        return ""
    if shape[1] == 1:
        return f": pass {name}.{flatten}"
    if shape[1] == 2:
        return f": pass {name}[:, 1] if these are probabilities, {name}[:, 1] - {name}[:, 0] if they are logits"
    return f": pass the critical class's column, {name}[:, k]"


def _multiclass(y_true: ArrayLike, logits: ArrayLike, positive: int) -> tuple[NDArray[np.integer], Floats]:
    labels, values = np.asarray(y_true), check_scores(logits)
    if values.ndim != 2 or labels.shape != values.shape[:1] or values.shape[1] < 2:
        raise ValueError(f"expected y_true (N,) and logits (N, K), K ≥ 2, got {labels.shape} and {values.shape}")
    if not 0 <= positive < values.shape[1]:
        raise ValueError(f"positive must be a class index in 0 … {values.shape[1] - 1}, got {positive}")
    if not np.issubdtype(labels.dtype, np.integer) or not np.all((labels >= 0) & (labels < values.shape[1])):
        raise ValueError(f"y_true must be class indices 0 … {values.shape[1] - 1}, got {_distinct(labels)}")
    is_positive = labels == positive
    if is_positive.all() or not is_positive.any():
        raise ValueError(f"undefined: y_true needs samples of the critical class {positive} and of another")
    return labels, values


def check_scores(y_score: ArrayLike) -> Floats:
    """Scores as floats of at least 32 bits, none of them NaN."""
    scores = np.asarray(y_score)
    if scores.dtype.kind in "iub":
        scores = scores.astype(np.float64)
    elif scores.dtype == np.float16:
        scores = scores.astype(np.float32)
    elif scores.dtype.kind != "f":
        raise ValueError(f"scores must be numbers, got {scores.dtype}")
    if np.isnan(scores).any():
        raise ValueError("scores contain NaN: drop or repair those samples first")
    return scores


def _distinct(labels: NDArray[np.generic]) -> str:
    """The first few distinct values, for a message."""
    values = np.unique(labels)
    return ", ".join(map(str, values[:5])) + (", …" if len(values) > 5 else "")
