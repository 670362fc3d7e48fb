"""scikit-learn classifiers around LightGBM's and XGBoost's: base rate, probabilities, early stopping on the FPR."""

from abc import ABC, abstractmethod
from importlib import import_module
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from rankreg.boosting.objectives import (
    DEFAULT_REACH,
    DEFAULT_WEIGHT,
    base_log_odds,
    check_round,
    lightgbm_fpr_at_tpr,
    lightgbm_objective,
    xgboost_fpr_at_tpr,
    xgboost_objective,
)
from rankreg.labels import binary_target, positive_class
from rankreg.names import renamed
from rankreg.regularizer import PenaltyName

Arrays = tuple[Any, Any, Any]  # inputs, labels of 0 and 1, weights or None


class _Boosted(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What both classifiers share: labels in and out, the validation part, probabilities."""

    @renamed(target_tpr="tpr")
    def __init__(
        self,
        estimator: Any = None,
        *,
        weight: float = DEFAULT_WEIGHT,
        reach: float = DEFAULT_REACH,
        penalty: PenaltyName = "squared",
        pos_label: Any = None,
        tpr: float = 0.95,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.2,
        random_state: int | None = 0,
    ) -> None:
        self.estimator = estimator
        self.weight = weight
        self.reach = reach
        self.penalty = penalty
        self.pos_label = pos_label
        self.tpr = tpr
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: tuple[Any, Any] | None = None) -> Self:  # noqa: N803
        """Boost.

        Args:
            X: inputs, an array, a sparse matrix or a frame.
            y: labels of two classes.
            sample_weight: what each row counts. Default: 1 each.
            eval_set: inputs and labels to judge early stopping by. Default: see `validation_fraction`.

        Returns:
            The fitted classifier.
        """
        X = self._inputs(X, reset=True)  # noqa: N806
        labels = self._learn_labels(y)
        check_consistent_length(X, labels)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        train: Arrays = (X, labels, weights)
        validation: Arrays | None = None
        if eval_set is not None:
            validation = (eval_set[0], self._coded(column_or_1d(eval_set[1])), None)
        elif self.early_stopping_rounds is not None:
            train, validation = self._cut(train)
        start = check_round(train[1], np.zeros(len(train[1])), train[2])
        self.base_log_odds_ = base_log_odds(start.positives, len(start.scores), start.weights)
        self.estimator_ = self._boost(train, validation)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Log-odds of `classes_[1]`."""
        scores = self._positive_scores(X)
        return scores if self._positive == 1 else -scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The probabilities of both classes, in the order of `classes_`."""
        scores = self.decision_function(X)
        return np.exp(-np.logaddexp(0, np.stack([scores, -scores], axis=1)))

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The likelier class. For a wanted TPR choose a threshold: `rankreg.operating.certify`."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(np.intp)])

    def _learn_labels(self, y: Any) -> NDArray[np.int64]:
        y, self.classes_ = binary_target(y)
        self._positive = positive_class(self.classes_, self.pos_label, must_be_named=False)
        return self._coded(y)

    def _coded(self, y: NDArray[Any]) -> NDArray[np.int64]:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"eval_set holds labels that training did not: {unknown[:5].tolist()}")
        return np.asarray(y == self.classes_[self._positive], dtype=np.int64)

    def _cut(self, train: Arrays) -> tuple[Arrays, Arrays]:
        X, labels, weights = train  # noqa: N806
        arrays = [X, labels] if weights is None else [X, labels, weights]
        parts = train_test_split(
            *arrays, test_size=self.validation_fraction, stratify=labels, random_state=self.random_state
        )
        return (*parts[0::2], None)[:3], (*parts[1::2], None)[:3]

    def _positive_scores(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        check_is_fitted(self, "estimator_")
        scores = np.asarray(self._raw(self._inputs(X, reset=False)), dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(scores))
        if len(bad):  # NaN > 0 is false: it would read as "no alarm"
            raise ValueError(
                f"{len(bad)} scores are not finite, first that of X[{bad[0]}]: check that row and the trained model"
            )
        return scores

    def _inputs(self, X: Any, *, reset: bool) -> Any:  # noqa: N803
        """Arrays are checked as scikit-learn does; frames go on as they are, with their categories."""
        if hasattr(X, "columns"):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        return validate_data(self, X, reset=reset, accept_sparse="csr", ensure_all_finite="allow-nan")

    @abstractmethod
    def _boost(self, train: Arrays, validation: Arrays | None) -> Any:
        """The library's classifier, fitted."""

    @abstractmethod
    def _raw(self, X: Any) -> Any:  # noqa: N803
        """Log-odds of the positive class."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


class RankRegLGBMClassifier(_Boosted):
    """LightGBM with log-loss plus the ranking term, as a scikit-learn classifier.

    The objective is `lightgbm_objective`. The term bends probabilities upwards where positives are
    hard. They are for ordering and thresholds: calibrate them before you read them as frequencies.

    Args:
        estimator: an unfitted `LGBMClassifier` without objective and early stopping. Default: plain.
        weight: the factor of the ranking term. 0 leaves log-loss alone.
        reach: the largest shift of a score when asking how ranks would change, in score units.
        penalty: one of "rank", "squared", "cubed", "exponential".
        pos_label: the positive (critical) class. Default: the greater of the two labels.
        tpr: the share of positives that must raise an alarm, for early stopping.
        early_stopping_rounds: stop after so many rounds without a lower FPR at `tpr`. Default: never.
        validation_fraction: share of each class that judges early stopping without an `eval_set`.
        random_state: the seed of that draw.

    Example:
        >>> import numpy as np
        >>> from lightgbm import LGBMClassifier
        >>> from rankreg.boosting import RankRegLGBMClassifier
        >>> X, y = np.arange(200.0)[:, None], np.repeat([0, 1], [180, 20])
        >>> model = RankRegLGBMClassifier(LGBMClassifier(n_estimators=20, verbose=-1)).fit(X, y)
        >>> model.predict([[0.0], [199.0]])
        array([0, 1])
    """

    def _boost(self, train: Arrays, validation: Arrays | None) -> Any:
        lightgbm = required("lightgbm")
        booster = lightgbm.LGBMClassifier(verbose=-1) if self.estimator is None else clone(self.estimator)
        objective = lightgbm_objective(weight=self.weight, reach=self.reach, penalty=self.penalty)
        booster.set_params(objective=objective)
        watched: dict[str, Any] = {}
        if validation is not None:
            inputs, labels, weights = validation
            booster.set_params(metric="None")  # or else LightGBM stops by its own metric as well
            new = "eval_X" in signature(booster.fit).parameters  # LightGBM 4.7 renamed eval_set
            watched = {"eval_X": inputs, "eval_y": labels} if new else {"eval_set": [(inputs, labels)]}
            watched |= {
                "eval_sample_weight": None if weights is None else [weights],
                "eval_metric": lightgbm_fpr_at_tpr(self.tpr),
            }
            if self.early_stopping_rounds is not None:
                watched["callbacks"] = [lightgbm.early_stopping(self.early_stopping_rounds, verbose=False)]
        return booster.fit(train[0], train[1], sample_weight=train[2], **watched)

    def _raw(self, X: Any) -> Any:  # noqa: N803
        return self.estimator_.predict(X, raw_score=True) + self.base_log_odds_


class RankRegXGBClassifier(_Boosted):
    """XGBoost with log-loss plus the ranking term, as a scikit-learn classifier.

    The objective is `xgboost_objective`. The term bends probabilities upwards where positives are
    hard. They are for ordering and thresholds: calibrate them before you read them as frequencies.

    Args:
        estimator: an unfitted `XGBClassifier` without objective and early stopping. Default: plain.
        weight: the factor of the ranking term. 0 leaves log-loss alone.
        reach: the largest shift of a score when asking how ranks would change, in score units.
        penalty: one of "rank", "squared", "cubed", "exponential".
        pos_label: the positive (critical) class. Default: the greater of the two labels.
        tpr: the share of positives that must raise an alarm, for early stopping.
        early_stopping_rounds: stop after so many rounds without a lower FPR at `tpr`. Default: never.
        validation_fraction: share of each class that judges early stopping without an `eval_set`.
        random_state: the seed of that draw.

    Example:
        >>> import numpy as np
        >>> from xgboost import XGBClassifier
        >>> from rankreg.boosting import RankRegXGBClassifier
        >>> X, y = np.arange(200.0)[:, None], np.repeat([0, 1], [180, 20])
        >>> model = RankRegXGBClassifier(XGBClassifier(n_estimators=20)).fit(X, y)
        >>> model.predict([[0.0], [199.0]])
        array([0, 1])
    """

    def _boost(self, train: Arrays, validation: Arrays | None) -> Any:
        xgboost = required("xgboost")
        booster = xgboost.XGBClassifier() if self.estimator is None else clone(self.estimator)
        objective = xgboost_objective(weight=self.weight, reach=self.reach, penalty=self.penalty)
        booster.set_params(objective=objective, base_score=float(1 / (1 + np.exp(-self.base_log_odds_))))
        watched: dict[str, Any] = {}
        if validation is not None:
            inputs, labels, weights = validation
            booster.set_params(
                eval_metric=xgboost_fpr_at_tpr(self.tpr),
                early_stopping_rounds=self.early_stopping_rounds,
                disable_default_eval_metric=True,
            )
            watched = {
                "eval_set": [(inputs, labels)],
                "sample_weight_eval_set": None if weights is None else [weights],
                "verbose": False,
            }
        return booster.fit(train[0], train[1], sample_weight=train[2], **watched)

    def _raw(self, X: Any) -> Any:  # noqa: N803
        return self.estimator_.predict(X, output_margin=True)


def required(library: str) -> Any:
    """The library, or a line that says how to get it."""
    try:
        return import_module(library)
    except ImportError as error:
        raise ImportError(f"{library} is not installed: pip install 'rankreg[{library}]'") from error
