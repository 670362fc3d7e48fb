# ruff: noqa: N803 - scikit-learn's name for the data is X
"""`RankRegClassifier`: a network that is trained with the rank penalty, as a scikit-learn classifier."""

import inspect
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from rankreg.estimators.network_fit import (
    Fit,
    checked_data,
    checked_units,
    counted,
    cross_validated,
    fit_network,
    parts_of,
    promise_of,
    settings_of,
    uncertified,
)
from rankreg.estimators.persistence import load_classifier, save_classifier
from rankreg.labels import binary_target, positive_class
from rankreg.operating import ChosenThreshold, choose_threshold
from rankreg.operating.units import Per

NESTED = ("network", "method", "loss", "training")  # parameters that have settings: method__weight
OLD = {  # until the next version
    "target_tpr": "tpr",
    "calibration_size": "calibration",
    "folds": "calibration",
    "threshold": "calibration",
    "hidden": "network__hidden",
    "dropout": "network__dropout",
    "weight": "method__weight",
    "reach": "method__reach",
    "penalty": "method__penalty",
    "buffer_size": "method__capacity",
    "buffer_policy": "method__policy",
    "base_over": "method__base_over",
    "optimiser": "training__optimizer",
    **{
        name: f"training__{name}"
        for name in ("schedule", "augmentation", "validation_size", "selection", "patience", "device", "progress")
    },
}


class RankRegClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network for two classes, one of them rare and critical, trained to rank it above the other.

    Training minimises loss + weight · rank penalty over batch and buffer (`rankreg.RankReg`). The
    class is a scikit-learn classifier: pipelines, searches, `clone`, pandas and pickle work.

    `network`, `method`, `loss` and `training` have settings of their own. Write them as
    `method__weight=0.3`, in the constructor, in `set_params` and in the grid of a search.

    Args:
        network: None is an MLP for rows (settings `hidden`, `dropout`) and a small ResNet-10 for
            images (`width`, `stem`). Or an `MLPShape`, a `ResNetShape`, or a function from the shape
            of one sample, (F,) or (3, H, W), to an `nn.Module` that returns raw scores, (N,).
        method: "rankreg" (settings `weight`, `reach`, `penalty`), "buffer" (the buffer alone),
            "alm" (`mu`, `delta`, `rho`) or "none"; or a settings object such as
            `rankreg.train.ALMMethod(mu=1e-3)`. The buffer's settings are `capacity`, `policy`,
            `base_over` and `unique`.
        loss: A name of `rankreg.LOSSES`, or a `LossSettings`; `loss__gamma=2` sets one value.
        epochs: Passes over the training part. None is 40 for rows and 30 for images.
        batch_size: Samples per step, without the buffer. None is 128 for rows and 64 for images.
        learning_rate: None is 0.002 for rows (AdamW) and 0.02 for images (SGD).
        sampling: "shuffled", or "balanced", which draws both classes equally often.
        training: Further settings as a dict. `optimizer`: "adamw" or "sgd". `schedule`: "cosine" or
            "constant". `augmentation`: a name of `rankreg.augment`. `validation_size`: share of each
            class that chooses the epoch, 0.1. `selection`: choose it by "auc", by "fpr" at the TPR
            `tpr`, or keep the "last". `patience`: stop after so many epochs without a better one.
            `device`: "auto", "cpu" or "cuda". `progress`: whether to show a bar.
        tpr: Share of new positives that must raise an alarm. None predicts where the score is ≥ 0.
        confidence: Confidence of the certificate, 0.95.
        calibration: A share of each class, 0.25, is held out of training and certifies the threshold.
            A whole number of folds cross-validates the threshold instead: every row trains, nothing
            is promised. Only used with `tpr`.
        per: "row" promises the recall of rows; "unit" promises the recall of groups, each caught by
            at least one of its positive rows.
        keep_copies_together: Equal rows count as one independent sample. Say False where features
            have few values and equal rows are chance.
        pos_label: The critical class. None is `classes_[1]`. Strings need it where `tpr` is given.
        random_state: Seed. The same seed gives the same network on the same machine.
        **settings: Settings of a parameter, such as `method__weight`. Names of version 0.1 still
            work and warn.

    Attributes:
        classes_: The two labels, sorted.
        pos_label_: The critical one.
        threshold_: `criticality` at or above it is an alarm.
        certificate_: The `OperatingPoint` that was certified, or None.
        network_: The trained `nn.Module`.
        config_: The `TrainConfig` of the training.
        history_: A record per epoch.
        n_iter_: Number of epochs that were run.
        best_epoch_: The epoch that was kept, counted from 0.

    The certificate holds if new positives come like these and rows are independent. Rows that are
    not, such as several of one patient, get the same value in `fit(X, y, groups=…)`.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RankRegClassifier(tpr=0.9, pos_label=0, epochs=3, sampling="balanced", method__weight=0.3)
    >>> model.set_params(method__capacity=64, random_state=0).fit(X, y).certificate_.positives
    53
    >>> bool((model.predict(X[y == 0]) == 0).mean() > 0.9)
    True
    """

    def __init__(
        self,
        *,
        network: Any = None,
        method: Any = "rankreg",
        loss: Any = "bce",
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        sampling: str = "shuffled",
        training: Mapping[str, Any] | None = None,
        tpr: float | None = None,
        confidence: float = 0.95,
        calibration: float | int = 0.25,
        per: Per = "row",
        keep_copies_together: bool = True,
        pos_label: Any = None,
        random_state: Any = None,
        **settings: Any,
    ) -> None:
        self.network = network
        self.method = method
        self.loss = loss
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.sampling = sampling
        self.training = training
        self.tpr = tpr
        self.confidence = confidence
        self.calibration = calibration
        self.per = per
        self.keep_copies_together = keep_copies_together
        self.pos_label = pos_label
        self.random_state = random_state
        if settings:
            self.set_params(**settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep`, also the settings that were given, as `method__weight`."""
        params: dict[str, Any] = super().get_params(deep=deep)
        given = {name: params[name] for name in NESTED if deep and isinstance(params[name], Mapping)}
        return params | {f"{name}__{key}": value for name, own in given.items() for key, value in own.items()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; `method__weight=0.3` sets one setting of `method` and keeps the others."""
        params = _renamed(params)
        inner = {
            name: value for name, value in params.items() if name.partition("__")[0] in NESTED and "__" in name
        }
        super().set_params(**{name: value for name, value in params.items() if name not in inner})
        for name, value in inner.items():
            outer, _, key = name.partition("__")
            setattr(self, outer, settings_of(getattr(self, outer), outer) | {key: value})
        return self

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Train on one part of the data, choose the epoch on another, certify on a third if `tpr` is given.

        Args:
            X: Rows of numbers (N, F), which are standardised here, or uint8 images (N, H, W, 3).
            y: Two labels of any kind.
            sample_weight: Multiplies the base loss of each sample; only ratios count. Rows of weight 0
                are left out. The rank penalty and the certificate count all other rows alike.
            groups: One value per row, the same for rows that are not independent of each other.

        Returns:
            The classifier itself.

        Raises:
            ValueError: The data or a parameter is not usable; `NotEnoughPositives`, a ValueError too,
                says how many positives the certificate needs.
        """
        data = checked_data(self, X)
        target, classes = binary_target(y)
        check_consistent_length(data, target)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, data, dtype=np.float64, ensure_non_negative=True)
        units = checked_units(data, groups, copies=self.keep_copies_together)
        if weights is not None and not weights.all():
            used = weights > 0
            data, weights, units = data[used], weights[used], None if units is None else units[used]
            target, classes = binary_target(target[used])
        place = positive_class(classes, self.pos_label, must_be_named=self.tpr is not None)
        labels = (target == classes[place]).astype(np.int64)

        random = check_random_state(self.random_state)
        if units is None and self.per == "unit":
            units = np.arange(len(data))  # every row is a unit
        kept, held = parts_of(self, labels, units, random)
        given: dict[str, Any] = {"weights": weights, "units": units, "random": random}
        found = fit_network(self, data, labels, kept, **given)
        if len(held):
            found.parts["calibration"] = counted(labels[held])
            apart = None if units is None else units[held]
            scores = found.scores(data[held])
            chosen = choose_threshold(labels[held], scores, **promise_of(self), units=apart)
        elif self.tpr is not None:
            chosen = cross_validated(self, data, labels, **given)
        else:
            chosen = uncertified(self, 0.0, tpr=found.recall)
        self.classes_, self.pos_label_, self._place = classes, classes[place], place
        self._take(found, chosen)
        return self

    def criticality(self, X: Any) -> NDArray[np.float32]:
        """Raw scores (N,), higher = more critical, whichever of `classes_` the critical one is."""
        check_is_fitted(self)
        return self._fit.scores(checked_data(self, X, known=self._fit.inputs))

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Scores (N,), high for `classes_[1]`, as everywhere in scikit-learn."""
        scores = self.criticality(X)
        return scores if self._place == 1 else -scores

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """The sigmoid of the scores, (N, 2).

        Buffer and rank penalty raise the base rate of the critical class, so these are not calibrated
        probabilities. Wrap the classifier in `CalibratedClassifierCV` to calibrate them.
        """
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def predict(self, X: Any) -> NDArray[Any]:
        """The critical class where `criticality` reaches `threshold_`, else the other one."""
        alarm = self.criticality(X) >= self.threshold_
        labels: NDArray[Any] = self.classes_[np.where(alarm, self._place, 1 - self._place)]
        return labels

    def save(self, folder: Path | str) -> Path:
        """Write a bundle (safetensors and JSON), which `load` and `rankreg predict` read.

        Args:
            folder: Where to write it; an older bundle there is replaced.
        """
        check_is_fitted(self)
        return save_classifier(self, Path(folder))

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """The fitted classifier that `save` wrote; nothing in the folder is executed.

        Args:
            folder: The folder that `save` wrote.
        """
        return load_classifier(cls, Path(folder))

    def _take(self, found: Fit, chosen: ChosenThreshold) -> None:
        """What `fit` or `load` came to."""
        self._fit, self._chosen = found, chosen
        self.threshold_, self.certificate_ = chosen.value, chosen.point
        self.network_, self.config_ = found.network, found.config
        self.history_, self.n_iter_, self.best_epoch_ = found.history, len(found.history), found.best_epoch

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "threshold_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _renamed(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters by their new names; old names warn."""
    old = {name: value for name, value in params.items() if name in OLD}
    for name in old:
        warnings.warn(f"{name} of RankRegClassifier is now {OLD[name]}", FutureWarning, stacklevel=4)
    new = {OLD[name]: value for name, value in old.items() if OLD[name] != "calibration"}
    if old.get("threshold") == "cross-validated":
        new["calibration"] = old.get("folds", 5)
    elif "calibration_size" in old:
        new["calibration"] = old["calibration_size"]
    return {name: value for name, value in params.items() if name not in old} | new


# scikit-learn's tools take every name of the signature for a parameter: `settings` is none.
_SIGNATURE = inspect.signature(RankRegClassifier)
_SHOWN = [one for one in _SIGNATURE.parameters.values() if one.kind is not one.VAR_KEYWORD]
RankRegClassifier.__signature__ = _SIGNATURE.replace(parameters=_SHOWN)
