"""Log-loss plus the ranking term as gradient and Hessian per row (docs/decisions/0061)."""

import math
from typing import Any

import numpy as np

from rankreg._names import look_up
from rankreg.boosting.data import Batch, taken
from rankreg.boosting.ranks import SLOPES, PenaltyName, Rows, Vector, rank_gradient

DEFAULT_WEIGHT = 1.0  # docs/decisions/0061
DEFAULT_REACH = 1.0
LEAST_HESSIAN = 1e-16  # as in XGBoost: a leaf's value is divided by the sum


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
