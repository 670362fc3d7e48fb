# ruff: noqa: N803, N806 - scikit-learn's name for the data is X
"""For any scikit-learn classifier: a threshold whose recall is certified, and a scorer of false alarms."""

import math
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import make_scorer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_method_params,
    _check_response_method,
    check_is_fitted,
    has_fit_parameter,
)

from rankreg.labels import binary_target, positive_class
from rankreg.metrics import fpr_at_tpr
from rankreg.names import look_up
from rankreg.operating import NotEnoughPositives, OperatingPoint, choose_threshold
from rankreg.operating.guarantees import certified_rank, units_needed
from rankreg.operating.units import Per, Sample, UnitSizes, unit_codes

Places = NDArray[np.int64]
Units = NDArray[np.int64] | None  # a number per sample, the same for dependent ones; None: all are independent

METHODS = {  # what is asked for → what is tried, in this order: scores tie less than probabilities do
    "auto": ["decision_function", "predict_proba"],
    "decision_function": ["decision_function"],
    "predict_proba": ["predict_proba"],
}
ROUNDINGS = 64  # how many roundings a sum may differ by when it is computed in another order


def _inner_has(name: str) -> Callable[[Any], bool]:
    """For methods that are there if the wrapped classifier has them."""
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), name)


class CertifiedThresholdClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any binary classifier, at a threshold that guarantees its recall.

    `fit` holds out a share of each class, fits a clone of the classifier on the rest, and certifies the
    threshold on the share (`rankreg.operating.certify`):

        P(recall on new positives ≥ tpr) ≥ confidence, whatever the distribution.

    This holds if new positives come like these and rows are independent. Rows that are not, such as
    several of one patient, get the same value in `fit(X, y, groups=…)`. Too few positives are refused
    before anything is fitted, with the number that is needed.

    A fitted classifier is fitted anew, as everywhere in scikit-learn, and a warning says so. To keep it,
    pass `FrozenEstimator(fitted)` from `sklearn.frozen`. Then all rows certify the threshold, and they
    must be rows that it has not seen.

    Args:
        estimator: The classifier.
        tpr: Share of new positives that must raise an alarm, 0.95.
        confidence: Confidence of the certificate, 0.95.
        per: "row" promises the recall of rows; "unit" promises the recall of groups, each caught by
            at least one of its positive rows.
        pos_label: The critical class. None is 1, or the greater of two numbers. Strings need it.
        response_method: "decision_function", "predict_proba", or "auto": the first of them that exists.
        prefit: True keeps a fitted `estimator` as it is, like `FrozenEstimator`.
        calibration_size: Share of each class that is held out, 0.25.
        random_state: Seed of the choice of that share.

    Attributes:
        estimator_: The fitted classifier.
        classes_: The two labels, sorted.
        pos_label_: The critical one.
        threshold_: A score at or above it is an alarm.
        certificate_: The `OperatingPoint` that was certified, with the false alarms it costs.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedThresholdClassifier(GaussianNB(), tpr=0.9, pos_label=0, random_state=0).fit(X, y)
    >>> model.certificate_.positives, bool((model.predict(X[y == 0]) == 0).mean() > 0.9)
    (53, True)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        tpr: float = 0.95,
        confidence: float = 0.95,
        per: Per = "row",
        pos_label: Any = None,
        response_method: str = "auto",
        prefit: bool = False,
        calibration_size: float = 0.25,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.tpr = tpr
        self.confidence = confidence
        self.per = per
        self.pos_label = pos_label
        self.response_method = response_method
        self.prefit = prefit
        self.calibration_size = calibration_size
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None, **params: Any) -> Self:
        """Fit the classifier on one part and certify the threshold on the other; if it is frozen, on all.

        Args:
            X: The inputs, as the classifier takes them.
            y: Two labels of any kind.
            groups: One value per row, the same for rows that are not independent of each other. Passed on
                to a classifier whose own `fit` takes groups.
            **params: Passed on to the classifier's `fit`. Rows of `sample_weight` 0 are left out; the
                certificate counts all other rows alike.

        Returns:
            The classifier itself.

        Raises:
            ValueError: The labels or a parameter are not usable; `NotEnoughPositives`, a ValueError too,
                says how many positives the certificate needs.
        """
        look_up(METHODS, self.response_method, "response_method")
        X, y, groups = indexable(X, y, groups)
        X, y, params = _weighed(X, y, params | {"groups": groups})
        members = params.pop("groups")
        if members is None and self.per == "unit":
            raise ValueError('per="unit" promises a recall of groups: pass them to fit, fit(X, y, groups=…)')
        units = None if members is None else unit_codes(members, len(members))
        target, classes = binary_target(y)
        fitted = self.prefit or isinstance(self.estimator, FrozenEstimator)
        if fitted:
            check_is_fitted(self.estimator)
            classes = _classes_of(self.estimator, classes)
        elif hasattr(self.estimator, "classes_"):
            warnings.warn(
                f"{type(self.estimator).__name__} is fitted already, and a clone of it is now fitted anew on some"
                " of these rows. To keep it as it is, pass FrozenEstimator(estimator) from sklearn.frozen.",
                UserWarning,
                stacklevel=2,
            )
        place = positive_class(classes, self.pos_label, must_be_named=True)
        positive = target == classes[place]

        kept, held = np.arange(0), np.arange(len(positive))
        if not fitted:
            share = check_share(self.calibration_size, "calibration_size")
            kept, held = hold_out(positive, share, check_random_state(self.random_state), units)
        promise: dict[str, Any] = {"tpr": self.tpr, "confidence": self.confidence, "per": self.per}
        check_enough(positive, held, units, **promise, size=f"calibration_size={self.calibration_size:g}")
        estimator = self.estimator if fitted else self._fitted_on(kept, X, target, members, params)
        method = _check_response_method(estimator, METHODS[self.response_method]).__name__
        scores = scores_of(estimator, _safe_indexing(X, held), method, place)
        kind = scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)
        chosen = choose_threshold(
            positive[held],
            scores,
            **promise,
            units=None if units is None else units[held],
            rounding=ROUNDINGS * float(np.finfo(kind).eps),
            scale=0.0 if method == "predict_proba" else float(np.abs(scores).max()),
        )
        assert chosen.point is not None  # check_enough has counted the positives
        self.certificate_: OperatingPoint = chosen.point
        self.threshold_, self.estimator_ = chosen.value, estimator
        self.classes_, self.pos_label_ = classes, classes[place]
        self._method, self._place = method, place
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The critical class where the score reaches the certified threshold, else the other one."""
        check_is_fitted(self, "threshold_")
        alarm = scores_of(self.estimator_, X, self._method, self._place) >= self.threshold_
        labels: NDArray[Any] = self.classes_[np.where(alarm, self._place, 1 - self._place)]
        return labels

    @available_if(_inner_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """The classifier's own probabilities; the certified threshold does not change them."""
        check_is_fitted(self, "threshold_")
        return self.estimator_.predict_proba(X)

    @available_if(_inner_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """The classifier's own log-probabilities."""
        check_is_fitted(self, "threshold_")
        return self.estimator_.predict_log_proba(X)

    @available_if(_inner_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """The classifier's own scores, high for `classes_[1]`, as everywhere in scikit-learn."""
        check_is_fitted(self, "threshold_")
        return self.estimator_.decision_function(X)

    def _fitted_on(self, kept: Places, X: Any, y: NDArray[Any], groups: Any, params: dict[str, Any]) -> Any:
        routed = get_config()["enable_metadata_routing"]
        if groups is not None and _takes_groups(self.estimator, routed):
            params = params | {"groups": groups}
        if routed:
            params = process_routing(self, "fit", **params).estimator.fit
        own = _check_method_params(X, params, indices=kept)
        return clone(self.estimator).fit(_safe_indexing(X, kept), y[kept], **own)

    def get_metadata_routing(self) -> MetadataRouter:
        """Fit parameters are the classifier's; groups are used here too."""
        mapping = MethodMapping().add(callee="fit", caller="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _weighed(X: Any, y: Any, params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Without the rows of weight 0: they must not certify anything."""
    weights = params.get("sample_weight")
    if weights is None or np.shape(weights) != (len(y),) or np.all(weights):
        return X, y, params
    used = np.flatnonzero(weights)
    target = _safe_indexing(y, used)
    if len(np.unique(target)) < 2:
        raise ValueError("Two classes are needed: without the rows of sample_weight 0 fewer are left in y")
    return _safe_indexing(X, used), target, _check_method_params(X, params, indices=used)


def _classes_of(estimator: Any, seen: NDArray[Any]) -> NDArray[Any]:
    """The fitted classifier's two classes, among which those of the calibration rows must be."""
    classes = np.asarray(estimator.classes_)
    if classes.ndim != 1 or len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported. The fitted classifier has {len(classes)} classes."
        )
    unknown = sorted(set(seen.tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(f"y contains labels that the fitted classifier does not know: {unknown!r:.80}")
    return classes


def _takes_groups(estimator: Any, routed: bool) -> bool:
    """Whether the classifier's own fit is to get the groups: a search over splits by group needs them."""
    if routed:
        return bool(get_routing_for_object(estimator).consumes("fit", ["groups"]))
    return has_fit_parameter(estimator, "groups") or isinstance(estimator, BaseSearchCV)


def scores_of(estimator: Any, X: Any, method: str, place: int) -> NDArray[np.floating]:
    """Scores of the class at that place, all finite: NaN ≥ threshold would read as "no alarm"."""
    values = np.asarray(getattr(estimator, method)(X))
    if method == "predict_proba":
        values = values[:, place]
    elif place == 0:
        values = -values
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(
            f"{type(estimator).__name__}.{method} gave {values[bad[0]]} for X[{bad[0]}], and no finite score for"
            f" {len(bad):,} rows in all: mend or leave out those rows"
        )
    return values


def hold_out(
    positive: NDArray[np.bool_], share: float, random: np.random.RandomState, units: Units = None
) -> tuple[Places, Places]:
    """The places that are kept and those held out: ⌈share · n⌉ of each class, at least one on either side.

    With units, n counts units: those with positives for the one class, all others for the other. No unit is on both
    sides. One that holds more than half of a class is kept.
    """
    codes = np.arange(len(positive)) if units is None else np.unique(units, return_inverse=True)[1]
    classes = np.stack([np.bincount(codes, weights=positive == kind) for kind in (False, True)])
    huge = (classes > classes.sum(axis=1, keepdims=True) / 2).any(axis=0)
    held = []
    for kind in (classes[1] == 0, classes[1] > 0):
        members = np.flatnonzero(kind & ~huge)
        number = math.ceil(share * np.count_nonzero(kind) - 1e-9)
        most = len(members) - (not (kind & huge).any())
        held.append(random.permutation(members)[: max(0, min(number, most))])
    out = np.isin(codes, np.concatenate(held))
    for kind in (False, True):
        if out[positive == kind].all() or not out[positive == kind].any():
            least = int(np.count_nonzero(classes[int(kind)]))
            what = "member" if units is None else "independent unit"
            together = "" if units is None else " of similar size; rows of one group and equal rows are one unit"
            raise ValueError(
                f"The least populated class in y has only {least} {what}{'s' if least != 1 else ''}: a share is"
                f" held out of each class, for which at least 2 are needed{together}."
            )
    return np.flatnonzero(~out), np.flatnonzero(out)


def check_share(share: Any, name: str) -> float:
    """A share of the samples."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share < 1:
        raise ValueError(
            f"{name} must be a share strictly between 0 and 1, got {share!r}: write 0.25 for a quarter"
        )
    return float(share)


def check_enough(
    positive: NDArray[np.bool_],
    held: Places,
    units: Units,
    *,
    tpr: float,
    confidence: float,
    per: Per = "row",
    size: str,
) -> None:
    """Whether the positives among the places held out can certify the TPR; said before anything is fitted.

    size: how the share was asked for, for the message.
    """
    scores = np.zeros(len(positive))  # not known yet, and not looked at
    found = Sample(positive[held], scores[held], None if units is None else units[held]).judged(per).trials
    if not certified_rank(found, tpr, confidence):
        counts = np.flatnonzero(positive) if units is None else np.unique(units[positive])
        number, total = found.units if isinstance(found, UnitSizes) else found, len(counts)
        where = f" held out of {total}" if number < total else ""
        in_all = math.ceil(units_needed(found, tpr, confidence) * total / max(number, 1))
        shared = f", which takes about {in_all} in all with {size}" if number < total else ""
        raise NotEnoughPositives(found, tpr, confidence, where, shared)


def make_fpr_at_tpr_scorer(tpr: float = 0.95, *, pos_label: Any = None) -> Any:
    """A scorer for any scikit-learn search: minus the FPR at a TPR, so that greater is better.

    It uses `decision_function`, or else `predict_proba`, and the threshold of each fold. With fewer
    than 1 / (1 − tpr) positives in a fold it is the FPR at a TPR of 100 %.

    Args:
        tpr: The TPR, 0.95.
        pos_label: The critical class. None is 1, or the greater of two numbers. Strings need it.

    Returns:
        A scorer, to be called as `scorer(classifier, X, y)`.

    Raises:
        ValueError: `tpr` does not lie in (0, 1].

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> bool(-0.5 < make_fpr_at_tpr_scorer(0.95, pos_label=0)(GaussianNB().fit(X, y), X, y) < 0)
    True
    """
    fpr_at_tpr([0, 1], [0.0, 1.0], tpr)  # a TPR that makes no sense is said here, not after the first fit
    settings = {} if pos_label is None else {"pos_label": pos_label}
    return make_scorer(
        fpr_at_tpr_of_class,
        greater_is_better=False,
        response_method=("decision_function", "predict_proba"),
        tpr=tpr,
        **settings,
    )


def fpr_at_tpr_of_class(y_true: ArrayLike, y_score: ArrayLike, *, tpr: float, pos_label: Any = None) -> float:
    """`rankreg.metrics.fpr_at_tpr` for labels of any kind; scores are high for the class `pos_label`."""
    labels, classes = binary_target(y_true)
    place = positive_class(classes, pos_label, must_be_named=True)
    return fpr_at_tpr(labels == classes[place], y_score, tpr)
