"""Log-loss plus the ranking term as gradient and Hessian per row (docs/decisions/0061)."""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankreg._names import look_up

Vector = NDArray[np.floating]
Rows = NDArray[np.intp]
PenaltyName = Literal["rank", "squared", "cubed", "exponential"]

# p′ of each penalty p of a normalised rank, as in `rankreg.RankReg`.
SLOPES: dict[str, Callable[[Vector], Vector]] = {
    "rank": np.ones_like,
    "squared": lambda r: 2 * r,
    "cubed": lambda r: 3 * r**2,
    "exponential": np.exp,
}

DEFAULT_WEIGHT = 1.0  # docs/decisions/0061
DEFAULT_REACH = 1.0
LEAST_HESSIAN = 1e-16  # as in XGBoost: a leaf's value is divided by the sum


class Batch(NamedTuple):
    """Raw scores of all rows, the rows of the positives, and weights if there are any."""

    scores: Vector
    positives: Rows
    weights: Vector | None


class RankObjective:
    """The objective that LightGBM and XGBoost call in every round; made by `lightgbm_objective` and its like.

        L = Σ_i w_i log(1 + exp(−±s_i)) + λ · |P| · ℓ,    ℓ: the positives' mean rank penalty

        gradient = ∂L/∂a,    Hessian = w_i σ(s_i) σ(−s_i) + |λ · |P| · ∂ℓ/∂a_i| / reach

    a: the booster's raw scores; s = a + b with b the log-odds of the positives, so that boosting starts at the base
    rate, or s = a with base_rate=False; λ: weight; w: sample weights, |P| then being the sum of the positives'.
    Ranks are over the whole training set. The Hessian is the least at which the ranking term alone asks for no
    step beyond its reach. The object holds settings only: it can be pickled, copied, and used again.
    """

    def __init__(self, *, weight: float, reach: float, penalty: PenaltyName, base_rate: bool) -> None:
        look_up(SLOPES, penalty, "penalty")
        if not (_is_number(weight) and weight >= 0):
            raise ValueError(
                f"weight must be a finite number of at least 0, got {weight!r}: 0 leaves log-loss alone"
            )
        if not (_is_number(reach) and reach > 0):
            raise ValueError(
                f"reach must be a finite number above 0, got {reach!r}: it is the largest shift of a score"
            )
        self.weight, self.reach, self.penalty, self.base_rate = weight, reach, penalty, base_rate

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> tuple[Vector, Vector]:
        """Gradient and Hessian, for (scores, training set) or, as scikit-learn wrappers call, (labels, scores)."""
        return self.terms(taken(first, second, sample_weight))

    def terms(self, batch: Batch) -> tuple[Vector, Vector]:
        """Gradient and Hessian of every row."""
        scores, positives, weights = batch
        offset = log_odds(positives, len(scores), weights) if self.base_rate else 0.0
        gradient, hessian = _logistic(scores, offset, positives)
        if weights is not None:
            gradient *= weights
            hessian *= weights
        if self.weight:
            mass = len(positives) if weights is None else weights[positives].sum()
            term = rank_gradient(
                scores, positives, penalty=self.penalty, reach=self.reach, weights=weights, dtype=np.float32
            )
            term *= self.weight * mass
            gradient += term
            np.abs(term, out=term)
            term /= self.reach
            hessian += term
        return gradient, np.maximum(hessian, LEAST_HESSIAN, out=hessian)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))


def lightgbm_objective(
    *,
    weight: float = DEFAULT_WEIGHT,
    reach: float = DEFAULT_REACH,
    penalty: PenaltyName = "squared",
    base_rate: bool = True,
) -> RankObjective:
    """Log-loss plus the ranking term for LightGBM.

        LGBMClassifier(objective=lightgbm_objective())
        lgb.train({"objective": lightgbm_objective()}, data)

    Predictions are raw scores, 0 being the base rate; `RankRegLGBMClassifier` makes probabilities of them. Give
    base_rate=False where an init_score holds the base rate already. Settings: see `RankObjective`. One process
    only: distributed training is not supported.
    """
    return RankObjective(weight=weight, reach=reach, penalty=penalty, base_rate=base_rate)


def xgboost_objective(
    *,
    weight: float = DEFAULT_WEIGHT,
    reach: float = DEFAULT_REACH,
    penalty: PenaltyName = "squared",
    base_rate: bool = False,
) -> RankObjective:
    """Log-loss plus the ranking term for XGBoost.

        XGBClassifier(objective=xgboost_objective(), base_score=y.mean())
        xgb.train({"objective": "binary:logistic", "base_score": y.mean()}, data, obj=xgboost_objective())

    XGBoost itself adds what base_score says, and its probabilities are right, so base_rate is off: with it on,
    margins count from the base rate. Settings: see `RankObjective`. One process only: distributed training is
    not supported.
    """
    return RankObjective(weight=weight, reach=reach, penalty=penalty, base_rate=base_rate)


def log_odds(positives: Rows, count: int, weights: Vector | None) -> float:
    """The log-odds of a positive in the training set."""
    mass, total = len(positives), float(count)
    if weights is not None:
        mass, total = weights[positives].sum(), float(weights.sum())
    return math.log(mass / (total - mass))


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


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def rank_gradient(
    scores: Vector,
    positives: Rows,
    *,
    penalty: PenaltyName = "squared",
    reach: float = 1.0,
    margin: float = 0.0,
    weights: Vector | None = None,
    dtype: DTypeLike = np.float64,
) -> Vector:
    """The gradient of the mean penalty of the positives' normalised ranks: as published, without torch.

        ℓ = 1/|P| Σ_{i∈P} p(r_i),    r_i = (1 + |{j : a_j > a_i}|) / n

        ∂ℓ/∂a = −(r − r_γ) / γ,    r_γ: the ranks of a + γ·g,    g = ∂ℓ/∂r,    γ = reach / max g

    a: scores, less `margin` at the positives; P: the rows of the positives; p: penalty; reach: the largest shift
    γ·g, in score units. Ties share the better rank. A sample of weight w counts like w samples, and its gradient
    is the sum of theirs; then r_i = 1/n + Σ_{a_j > a_i} w_j / Σ w, which is the same whatever the unit of the
    weights. Zeros where a class is missing. With dtype float32 scores are ranked in single precision too, in about
    half the time. `rankreg.rank_penalty(…, among="all")` is the same in torch.

    Only positives move. So after one sort their new ranks are looked up, and a negative loses as many ranks as
    positives jump over it: each positive is counted in where it stood and out where it lands.
    """
    slope_of = look_up(SLOPES, penalty, "penalty")
    single = np.dtype(dtype) == np.float32
    scores = np.asarray(scores, dtype=np.float64)
    if margin:
        scores = scores.copy()
        scores[positives] -= margin
    if single:
        scores = scores.astype(np.float32).astype(np.float64)  # doubles again: shifted scores are not rounded
    n = len(scores)
    masses, mass, total = None, float(len(positives)), float(n)
    if weights is not None:
        masses = weights[positives]
        mass, total = float(masses.sum()), float(weights.sum())
    if not 0 < mass < total:
        return np.zeros(n, dtype)

    order = _order_of_singles(scores) if single else np.argsort(scores)
    ordered = scores.take(order)
    sums = None if weights is None else np.append(0.0, np.cumsum(weights[order], dtype=np.float64))
    before = scores[positives]
    by_score = np.argsort(before)  # look-ups in order stay in the cache
    positives, before = positives[by_score], before[by_score]
    masses = None if masses is None else masses[by_score]

    ranks = 1 / n + (total - _mass_below(np.searchsorted(ordered, before, side="right"), sums)) / total
    slopes = slope_of(ranks)
    gamma = reach * mass / slopes.max()  # g is slope / mass
    after = before + reach * (slopes / slopes.max())

    # Above a positive that moved: all samples above its new score, with the positives where they now stand.
    above = total - _mass_below(np.searchsorted(ordered, after, side="right"), sums)
    landed = np.argsort(after)
    above += _mass_not_above(after, before, masses)
    above -= _mass_not_above(after, after[landed], None if masses is None else masses[landed])
    starts, ends = (np.searchsorted(ordered, values, side="left") for values in (before, after))
    turns = np.concatenate([np.ones(len(before)), -np.ones(len(before))] if masses is None else [masses, -masses])
    passing: Vector = np.bincount(np.concatenate([starts, ends]), turns, minlength=n + 1)[:n]  # type: ignore[assignment]
    np.cumsum(passing, out=passing)  # in place: a fresh array costs more than the sum
    passing /= total * gamma
    gradient = np.empty(n, dtype)
    gradient[order] = passing.astype(dtype, copy=False)
    gradient[positives] = (1 / n + above / total - ranks) / gamma
    return gradient if weights is None else (gradient * weights).astype(dtype)


def _order_of_singles(scores: Vector) -> Rows:
    """`argsort` of single-precision values: sorting whole numbers that hold key and row is three times as fast."""
    bits = scores.astype(np.float32).view(np.int32)
    keys = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # the bits of a negative float fall where it rises
    packed = keys.astype(np.int64) << 32
    packed |= np.arange(len(scores))
    packed.sort()
    packed &= 0xFFFFFFFF
    return packed.astype(np.intp, copy=False)


def _mass_below(counts: Rows, sums: Vector | None) -> Vector:
    """The mass of the first so many samples of the order."""
    return counts.astype(np.float64) if sums is None else sums[counts]


def _mass_not_above(asked: Vector, ordered: Vector, masses: Vector | None) -> Vector:
    """For each score asked, the mass of the ordered scores that are not above it."""
    sums = None if masses is None else np.append(0.0, np.cumsum(masses))
    return _mass_below(np.searchsorted(ordered, asked, side="right"), sums)


def taken(first: Any, second: Any, sample_weight: Any = None) -> Batch:
    """(scores, Dataset or DMatrix) as the libraries call, or (labels, scores) as their scikit-learn wrappers do."""
    if hasattr(second, "get_label"):
        _check_alone(second)
        return checked(second.get_label(), first, second.get_weight())
    return checked(first, second, sample_weight)


def checked(labels: Any, scores: Any, weights: Any = None) -> Batch:
    """One finite score, one label of 0 or 1 and perhaps one weight per row; both classes are there."""
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
        raise ValueError(f"labels must be 0 or 1 (1 = critical), got {_distinct(labels)}: map them first")
    if not 0 < len(positives) < len(labels):
        missing = "1" if len(positives) == 0 else "0"
        raise ValueError(f"no label is {missing}: with {len(labels)} rows of one class there is nothing to rank")
    if np.isnan(scores.min()):
        raise ValueError("scores contain NaN: training has diverged, or an init score is not finite")
    return Batch(scores, positives, _checked_weights(weights, positive))


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


def _distinct(labels: NDArray[np.generic]) -> str:
    """The first few distinct values, for a message."""
    values = np.unique(labels)
    return ", ".join(map(str, values[:5])) + (", …" if len(values) > 5 else "")
