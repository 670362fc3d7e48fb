# ruff: noqa: N803, N806 - scikit-learn's name for the data is X
"""Any scikit-learn classifier, alarming at a threshold whose recall is certified."""

import math
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from rankreg._names import look_up
from rankreg.labels import binary_target, positive_class
from rankreg.operating import (
    NotEnoughPositives,
    OperatingPoint,
    Per,
    UnitSizes,
    certified_rank,
    certify,
    units_needed,
)
from rankreg.operating.units import Sample, unit_codes

Places = NDArray[np.int64]
Units = (
    NDArray[np.int64] | None
)  # a number per sample, the same for samples that are not independent; None: all are
Scores = NDArray[np.floating]

METHODS = {  # what is asked for → what is tried, in this order: scores tie less than probabilities do
    "auto": ("decision_function", "predict_proba"),
    "decision_function": ("decision_function",),
    "predict_proba": ("predict_proba",),
}
ROUNDINGS = 64  # how many roundings a sum may differ by when computed in another order


def _inner_has(name: str) -> Callable[[Any], bool]:
    """For methods that are there if the wrapped classifier has them."""
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), name)


class CertifiedThresholdClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A binary classifier that predicts the critical class so often that its recall is guaranteed.

        model = CertifiedThresholdClassifier(LogisticRegression(), tpr=0.95).fit(X, y)
        model.predict(X_new)  # with 95 % confidence catches at least 95 % of new positives
        model.certificate_    # what was certified, on how many positives, and the false alarms it costs

    `fit` holds out `calibration_size` of each class, fits a clone of `estimator` on the rest and certifies the
    threshold on what was held out (`rankreg.operating.certify`), whatever the distribution. This holds if new
    positives come like these and rows are independent of each other. Rows that are not, such as several of one
    patient, get the same value in `fit(X, y, groups=…)`: then groups must be independent, stay on one side, and are
    what counts. per: "row" promises the recall of rows, "unit" that of groups, each caught by at least one of its
    positive rows. Too few positives are refused before anything is fitted, with the number that is needed.

    A classifier that is fitted already is fitted anew, as everywhere in scikit-learn, and a warning says so. To
    keep it as it is, freeze it; then all rows certify the threshold, and they must be rows that it has not seen:

        from sklearn.frozen import FrozenEstimator
        model = CertifiedThresholdClassifier(FrozenEstimator(fitted), tpr=0.95).fit(X_new, y_new)

    prefit: True freezes `estimator` too. pos_label: the critical class; by default 1, or the greater of two
    numbers; needed when labels are strings. response_method: "decision_function", "predict_proba", or "auto", the
    first of them that is there. Fit parameters such as `sample_weight` go to the classifier, as its metadata
    routing says where that is enabled. Rows of weight 0 are left out; all others count once in the certificate,
    whatever their weight.

    Fitted: `estimator_`, `classes_`, `threshold_`, `certificate_` (an `OperatingPoint`), `pos_label_`.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        tpr: float = 0.98,
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
        """Fit the classifier on a part and certify the threshold on the other; or, if it is frozen, on all.

        groups: one value per row, the same for rows that are not independent of each other. Passed on to a
        classifier whose own `fit` takes groups.
        """
        look_up(METHODS, self.response_method, "response_method")
        X, y, members = indexable(X, y, groups)
        X, y, params = _weighed(X, y, params if members is None else params | {"groups": members})
        members = params.pop("groups", None)
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

        kept, held = self._parts(positive, units, fitted)
        promise: dict[str, Any] = {"tpr": self.tpr, "confidence": self.confidence, "per": self.per}
        check_enough(positive, held, units, **promise, size=f"calibration_size={self.calibration_size:g}")
        estimator = self.estimator if fitted else self._fitted_on(kept, X, target, members, params)
        method = response(estimator, self.response_method)
        scores = scores_of(estimator, _safe_indexing(X, held), method, place)
        point = certify(positive[held], scores, **promise, units=None if units is None else units[held])

        self.estimator_, self.classes_, self.pos_label_ = estimator, classes, classes[place]
        self.certificate_: OperatingPoint = point
        self.threshold_ = lowered(point.threshold, scores, method)
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
        """The classifier's own scores, positive ones for `classes_[1]`, as everywhere in scikit-learn."""
        check_is_fitted(self, "threshold_")
        return self.estimator_.decision_function(X)

    def _parts(self, positive: NDArray[np.bool_], units: Units, fitted: bool) -> tuple[Places, Places]:
        if fitted:
            return np.arange(0), np.arange(len(positive))
        share = check_share(self.calibration_size, "calibration_size")
        return hold_out(positive, share, check_random_state(self.random_state), units)

    def _fitted_on(self, kept: Places, X: Any, y: NDArray[Any], groups: Any, params: dict[str, Any]) -> Any:
        routed = get_config()["enable_metadata_routing"]
        if groups is not None and _takes_groups(self.estimator, routed):
            params = params | {"groups": groups}
        if routed:
            params = process_routing(self, "fit", **params).estimator.fit
        own = {name: _safe_indexing(value, kept) if _per_row(value, y) else value for name, value in params.items()}
        return clone(self.estimator).fit(_safe_indexing(X, kept), y[kept], **own)

    def get_metadata_routing(self) -> MetadataRouter:
        """Fit parameters are the classifier's; groups are used here too."""
        mapping = MethodMapping().add(callee="fit", caller="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.classifier_tags.multi_class = False
        tags.input_tags = inner.input_tags
        return tags


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


def _weighed(X: Any, y: Any, params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Without the rows of weight 0, which are there only in name: they must not certify anything."""
    weights = params.get("sample_weight")
    if weights is None or not _per_row(weights, y) or np.all(np.asarray(weights) != 0):
        return X, y, params
    rows = np.flatnonzero(np.asarray(weights) != 0)
    target = _safe_indexing(y, rows)
    if len(np.unique(target)) < 2:
        raise ValueError("Two classes are needed: without the rows of sample_weight 0 fewer are left in y")
    own = {name: _safe_indexing(value, rows) if _per_row(value, y) else value for name, value in params.items()}
    return _safe_indexing(X, rows), target, own


def _per_row(value: Any, y: Any) -> bool:
    """Whether a fit parameter has one value per row, as sample weights have."""
    has_length = hasattr(value, "__len__") or hasattr(value, "shape")
    return has_length and not isinstance(value, str | bytes | dict) and len(value) == len(y)


def response(estimator: Any, wanted: str) -> str:
    """The method that gives scores."""
    for method in METHODS[wanted]:
        if hasattr(estimator, method):
            return method
    raise AttributeError(
        f"{type(estimator).__name__} has none of the following attributes: {', '.join(METHODS[wanted])}."
    )


def scores_of(estimator: Any, rows: Any, method: str, place: int) -> Scores:
    """The scores of the class at that place of `classes_`, all of them finite: any other is an error.

    An array of predictions has no room for a problem beside a row, and NaN ≥ threshold would read as "no alarm".
    """
    values = np.asarray(getattr(estimator, method)(rows))
    if method == "predict_proba":
        values = values[:, place]
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(
            f"{type(estimator).__name__}.{method} gave {values[bad[0]]} for X[{bad[0]}], and no finite score for"
            f" {len(bad):,} rows in all: no alarm can be told from a miss there; mend or leave out those rows"
        )
    return values if place == 1 or method == "predict_proba" else -values


def lowered(threshold: float, scores: Scores, method: str) -> float:
    """The threshold less a few roundings.

    It is a positive's own score, which others may share. A sum over trees or features computed in another order
    ends in other digits, and would put all of them below it. A lower threshold never catches less.
    """
    finite = np.abs(scores[np.isfinite(scores)])
    scale = abs(threshold) if method == "predict_proba" or not len(finite) else float(finite.max())
    kind = scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)
    return threshold - ROUNDINGS * float(np.finfo(kind).eps) * scale if np.isfinite(threshold) else threshold


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
            least, what = (
                int(np.count_nonzero(classes[int(kind)])),
                "member" if units is None else "independent unit",
            )
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
