"""What LightGBM and XGBoost call in every round: log-loss plus the ranking term, and the FPR to stop early by.

The objective gives gradient and Hessian per row (docs/decisions/0061), the metric the FPR at a TPR.
"""

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankreg._checks import check_not_negative, check_positive, distinct
from rankreg.metrics import fpr_at_tpr
from rankreg.names import look_up
from rankreg.ranking import black_box_gradient, change_by_lookup
from rankreg.regularizer import PENALTIES, PenaltyName, width_of

Vector = NDArray[np.floating]
Rows = NDArray[np.integer]

DEFAULT_WEIGHT = 1.0  # docs/decisions/0061
DEFAULT_REACH = 1.0
LEAST_HESSIAN = 1e-16  # as in XGBoost: a leaf's value is divided by the sum


class Round(NamedTuple):
    """What a library hands over in a round: raw scores of all rows, the rows of the positives, weights if any."""

    scores: Vector
    positives: Rows
    weights: Vector | None


@dataclass(frozen=True, kw_only=True)
class RankObjective:
    """The objective that `lightgbm_objective` and `xgboost_objective` make: log-loss plus the ranking term.

        L = Σ_i w_i log(1 + exp(−±s_i)) + λ · |P| · ℓ,    ℓ = 1/|P| Σ_{i∈P} p(r_i)

        gradient = ∂L/∂a,    Hessian = w_i σ(s_i) σ(−s_i) + |λ · |P| · ∂ℓ/∂a_i| / reach

    a: the booster's raw scores. s: a plus the log-odds of the positives, so that boosting starts at the base rate;
    with base_rate=False, a. w: sample weights; |P| is then the sum of the positives' weights. λ: weight.

    This is the *scores* form of `RankReg`: raw scores are ranked among all rows, with reach 1 and weight 1. Ranks
    are over the whole training set, so no buffer is needed. The Hessian is the least at which the term alone asks
    for no step beyond its reach.

    The object holds settings only. It can be pickled, copied and used again. Distributed training is refused,
    because each machine would rank its own rows only.
    """

    weight: float
    reach: float
    penalty: PenaltyName
    base_rate: bool

    def __post_init__(self) -> None:
        look_up(PENALTIES, self.penalty, "penalty")
        check_not_negative(self.weight, "weight", "0 leaves log-loss alone")
        check_positive(self.reach, "reach", "it is the largest shift of a score")

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> tuple[Vector, Vector]:
        """Gradient and Hessian, for (scores, training set) or, as scikit-learn wrappers call, (labels, scores)."""
        scores, positives, weights = read_round(first, second, sample_weight)
        offset = base_log_odds(positives, len(scores), weights) if self.base_rate else 0.0
        gradient, hessian = _logistic(scores, offset, positives)
        if weights is not None:
            gradient *= weights
            hessian *= weights
        if self.weight:
            mass = len(positives) if weights is None else weights[positives].sum()
            single = scores.astype(np.float32)
            term = rank_gradient(single, positives, penalty=self.penalty, reach=self.reach, weights=weights)
            term *= self.weight * mass
            gradient += term
            np.abs(term, out=term)
            term /= self.reach
            hessian += term
        return gradient, np.maximum(hessian, LEAST_HESSIAN, out=hessian)


def lightgbm_objective(
    *,
    weight: float = DEFAULT_WEIGHT,
    reach: float = DEFAULT_REACH,
    penalty: PenaltyName = "squared",
    base_rate: bool = True,
) -> RankObjective:
    """Log-loss plus the ranking term for LightGBM: `objective=` of `LGBMClassifier` and of `lgb.train`.

    Predictions are raw scores, and 0 is the base rate. `RankRegLGBMClassifier` makes probabilities
    of them. For the formula and the form of the term, see `rankreg.boosting.objectives.RankObjective`.

    Args:
        weight: the factor of the term. 0 leaves log-loss alone.
        reach: the largest shift of a score when asking how ranks would change, in score units.
        penalty: one of "rank", "squared", "cubed", "exponential".
        base_rate: start at the base rate. Give False where an init_score holds it already.

    Returns:
        The objective, a function that LightGBM calls in every round.

    Raises:
        ValueError: the penalty is unknown or a number is out of range.

    Example:
        >>> from lightgbm import LGBMClassifier
        >>> from rankreg.boosting import lightgbm_objective
        >>> model = LGBMClassifier(objective=lightgbm_objective(), n_estimators=10, verbose=-1)
        >>> model = model.fit([[i] for i in range(100)], [0] * 95 + [1] * 5)
        >>> model.predict([[0], [99]], raw_score=True).shape
        (2,)
    """
    return RankObjective(weight=weight, reach=reach, penalty=penalty, base_rate=base_rate)


def xgboost_objective(
    *,
    weight: float = DEFAULT_WEIGHT,
    reach: float = DEFAULT_REACH,
    penalty: PenaltyName = "squared",
    base_rate: bool = False,
) -> RankObjective:
    """Log-loss plus the ranking term for XGBoost: `objective=` of `XGBClassifier`, `obj=` of `xgb.train`.

    XGBoost adds `base_score` itself, so pass `base_score=y.mean()` to it. Then its probabilities are
    right. For the formula and the form of the term, see `rankreg.boosting.objectives.RankObjective`.

    Args:
        weight: the factor of the term. 0 leaves log-loss alone.
        reach: the largest shift of a score when asking how ranks would change, in score units.
        penalty: one of "rank", "squared", "cubed", "exponential".
        base_rate: count raw scores from the base rate, for a booster without `base_score`.

    Returns:
        The objective, a function that XGBoost calls in every round.

    Raises:
        ValueError: the penalty is unknown or a number is out of range.

    Example:
        >>> from rankreg.boosting import xgboost_objective
        >>> xgboost_objective(weight=3.0)  # XGBClassifier(objective=..., base_score=y.mean())
        RankObjective(weight=3.0, reach=1.0, penalty='squared', base_rate=False)
    """
    return RankObjective(weight=weight, reach=reach, penalty=penalty, base_rate=base_rate)


@dataclass(frozen=True)
class LightGBMFprAtTpr:
    """The metric as LightGBM wants it: name, value, whether higher is better."""

    tpr: float

    def __post_init__(self) -> None:
        if not (isinstance(self.tpr, (int, float)) and 0 < self.tpr <= 1):
            raise ValueError(f"tpr must lie in (0, 1], got {self.tpr!r}: write 0.95 for 95 %")

    @property
    def __name__(self) -> str:
        return f"fpr@{100 * self.tpr:g}"  # XGBoost's wrappers and printed rounds name it so

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Any:
        return self.__name__, _rate(read_round(first, second, sample_weight), self.tpr), False


@dataclass(frozen=True)
class XGBoostFprAtTpr(LightGBMFprAtTpr):
    """The metric as XGBoost wants it: name and value, or to its scikit-learn wrappers the value alone."""

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Any:
        named = super().__call__(first, second, sample_weight)[:2]
        return named if hasattr(second, "get_label") else named[1]


def lightgbm_fpr_at_tpr(tpr: float = 0.95) -> LightGBMFprAtTpr:
    """The FPR at a TPR for LightGBM: `feval=` of `lgb.train`, `eval_metric=` of `LGBMClassifier.fit`.

    It is `rankreg.metrics.fpr_at_tpr`, and lower is better. Rows with weights count by them. Scores
    are only compared, so raw scores and probabilities give the same number. To stop early by it
    alone, pass `metric="None"` too. Otherwise LightGBM watches its own metric as well.

    Args:
        tpr: the share of positives that must raise an alarm. Default 0.95.

    Returns:
        The metric, a function that LightGBM calls in every round.

    Raises:
        ValueError: tpr is not in (0, 1].

    Example:
        >>> from rankreg.boosting import lightgbm_fpr_at_tpr
        >>> metric = lightgbm_fpr_at_tpr(0.9)
        >>> metric([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.9])  # labels, scores
        ('fpr@90', 0.5, False)
    """
    return LightGBMFprAtTpr(tpr)


def xgboost_fpr_at_tpr(tpr: float = 0.95) -> XGBoostFprAtTpr:
    """The FPR at a TPR for XGBoost: `custom_metric=` of `xgb.train`, `eval_metric=` of `XGBClassifier`.

    It is `rankreg.metrics.fpr_at_tpr`, and lower is better. Rows with weights count by them. To stop
    early by it alone, pass `disable_default_eval_metric=True` to `xgb.train` too.

    Args:
        tpr: the share of positives that must raise an alarm. Default 0.95.

    Returns:
        The metric, a function that XGBoost calls in every round.

    Raises:
        ValueError: tpr is not in (0, 1].

    Example:
        >>> from rankreg.boosting import xgboost_fpr_at_tpr
        >>> xgboost_fpr_at_tpr(0.9)([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.9])  # labels, scores
        0.5
    """
    return XGBoostFprAtTpr(tpr)


def rank_gradient(
    scores: Vector,
    positives: Rows,
    *,
    penalty: PenaltyName = "squared",
    reach: float = DEFAULT_REACH,
    weights: Vector | None = None,
) -> Vector:
    """The gradient of the mean penalty of the positives' ranks, over a whole training set.

        ℓ = 1/|P| Σ_{i∈P} p(r_i),    r_i = (1 + |{j : a_j > a_i}|) / n

        ∂ℓ/∂a = −(r − r_γ) / γ,    r_γ: the ranks of a + γ·g,    g = ∂ℓ/∂r,    γ = reach / max g

    This is the gradient of `rankreg.rank_penalty(..., among="all")`. Only positives move, so one sort and look-ups
    suffice. Where a class is missing, the gradient is 0. scores: a, shape (N,); in float32 they are ranked in about
    half the time. positives: P, their rows. weights: a row of weight w counts like w rows, and its gradient is the
    sum of theirs; then r_i = 1/n + Σ_{a_j > a_i} w_j / Σ w.
    """
    n = len(scores)
    depths = -scores
    order = _ascending(depths)
    is_positive = np.zeros(n, dtype=bool)
    is_positive[positives] = True
    rows = torch.from_numpy(np.flatnonzero(is_positive[order]))
    ordered = torch.from_numpy(depths[order])
    counted = None if weights is None else torch.from_numpy(weights[order]).double()
    mass, total = float(len(rows)), float(n)
    if counted is not None:
        mass, total = float(counted[rows].sum()), float(counted.sum())
    if not 0 < mass < total:
        return np.zeros_like(scores)

    above, change_of = change_by_lookup(ordered, rows, counted)
    push = look_up(PENALTIES, penalty, "penalty").slope(1 / n + above / total) / mass
    found = black_box_gradient(
        -ordered[rows].double(), push, width_of(reach, push), lambda moved: change_of(moved).div_(total)
    )
    gradient = np.empty_like(scores)
    gradient[order] = (found if counted is None else found * counted).numpy()
    return gradient


def read_round(first: Any, second: Any, sample_weight: Any = None) -> Round:
    """(scores, Dataset or DMatrix) as the libraries call, or (labels, scores) as their scikit-learn wrappers do."""
    if hasattr(second, "get_label"):
        _check_alone(second)
        return check_round(second.get_label(), first, second.get_weight())
    return check_round(first, second, sample_weight)


def check_round(labels: Any, scores: Any, weights: Any = None) -> Round:
    """One score that is not NaN, one label of 0 or 1 and perhaps one weight per row; both classes are there."""
    if labels is None or np.size(labels) == 0:
        raise ValueError("the data set has no labels: pass label=, 1 for the critical class and 0 for the others")
    labels, scores = np.asarray(labels), np.asarray(scores)
    if scores.ndim == 2 and scores.shape[1] > 1:
        raise ValueError(
            f"the ranking term is for two classes, got scores of {scores.shape[1]}: make the critical class 1 and"
            " all others 0"
        )
    scores = scores.reshape(-1)
    if labels.shape != scores.shape:
        raise ValueError(f"expected one label per row, got shapes {labels.shape} and {scores.shape}")
    positive = labels == 1
    positives = np.flatnonzero(positive)
    if len(positives) + np.count_nonzero(labels == 0) != len(labels):
        raise ValueError(f"labels must be 0 or 1 (1 = critical), got {distinct(labels)}: map them first")
    if not 0 < len(positives) < len(labels):
        missing = "1" if len(positives) == 0 else "0"
        raise ValueError(f"no label is {missing}: with {len(labels)} rows of one class there is nothing to rank")
    if np.isnan(scores.min()):
        raise ValueError("scores contain NaN: training has diverged, or an init score is not finite")
    return Round(scores, positives, _checked_weights(weights, positive))


def base_log_odds(positives: Rows, count: int, weights: Vector | None) -> float:
    """The log-odds of a positive in the training set."""
    mass, total = len(positives), float(count)
    if weights is not None:
        mass, total = weights[positives].sum(), float(weights.sum())
    return math.log(mass / (total - mass))


def _rate(given: Round, tpr: float) -> float:
    scores, positives, weights = given
    positive = np.zeros(len(scores), dtype=bool)
    positive[positives] = True
    if weights is None:
        return fpr_at_tpr(positive, scores, tpr)
    falling = positives[np.argsort(-scores[positives])]
    reached = np.cumsum(weights[falling])
    needed = tpr * reached[-1] * (1 - 1e-12)  # a sum of weights may end a rounding below its share
    threshold = scores[falling[np.searchsorted(reached, needed)]]
    return float(weights[~positive & (scores >= threshold)].sum() / weights[~positive].sum())


def _logistic(scores: Vector, offset: float, positives: Rows) -> tuple[Vector, Vector]:
    """Slope and curvature of the log-loss; single precision, which is what boosters keep of it."""
    values = np.subtract(-offset, scores, dtype=np.float32, casting="same_kind")
    with np.errstate(over="ignore"):  # infinity is right: its probability is 0
        np.exp(values, out=values)
    values += 1
    np.reciprocal(values, out=values)  # now the probabilities
    hessian = 1 - values
    hessian *= values
    values[positives] -= 1
    return values, hessian


def _ascending(values: Vector) -> Rows:
    """`argsort`; for single precision three times as fast, by sorting whole numbers that hold key and row."""
    if values.dtype != np.float32:
        return np.argsort(values)
    bits = values.view(np.int32)
    keys = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # the bits of a negative float fall where it rises
    packed = keys.astype(np.int64) << 32
    packed |= np.arange(len(values))
    packed.sort()
    packed &= 0xFFFFFFFF
    return packed


def _checked_weights(weights: Any, positive: NDArray[np.bool_]) -> Vector | None:
    if weights is None or np.size(weights) == 0:
        return None
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != positive.shape or not (np.isfinite(values).all() and values.min() >= 0):
        raise ValueError("weights must be finite numbers of at least 0, one per row")
    if not 0 < values[positive].sum() < values.sum():
        raise ValueError("the weights of a class sum to 0: both classes must count")
    return values


def _check_alone(data: Any) -> None:
    """One process sees all rows: otherwise ranks would be among its own rows only, in silence."""
    if hasattr(data, "params"):  # LightGBM
        settings = data.params or {}
        listed = [str(settings.get(name, "")).split(",") for name in ("machines", "workers", "nodes")]
        machines = max(int(settings.get("num_machines", 1)), *map(len, listed))
    else:
        machines = import_module("xgboost.collective").get_world_size()
    if machines > 1:
        raise ValueError(
            f"distributed training is not supported: ranks are over all rows, and each of {machines} machines sees"
            " its own only; train in one process"
        )
