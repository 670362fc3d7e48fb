# ruff: noqa: N803 - scikit-learn's name for the data is X
"""`RankRegClassifier`: a cross-fitted average of learners, or a network with the rank penalty, for scikit-learn."""

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

from rankreg.estimators.average_fit import AverageFit, fit_average, model_of, takes_gaps
from rankreg.estimators.certified_threshold import Units
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

CROSS_VALIDATED = "cross-validated"  # version 0.1 said so where a whole number of folds does now
NESTED = ("network", "method", "loss", "training")  # parameters that have settings: method__weight
OLD = {  # until the next version
    "target_tpr": "tpr",
    "calibration_size": "calibration",
    "folds": "calibration",
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


FITTED = ("network_", "config_", "history_", "n_iter_", "best_epoch_", "ensemble_", "out_of_fold_", "learners_")


class RankRegClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model for two classes, one of them rare and critical, that ranks it above the other.

    For rows of numbers it is what `rankreg fit` makes of a table: several learners are cross-fitted and
    averaged. Every row trains, and every row is judged by members that have not seen it.
    For images, and with `learner="network"`, it is one network that minimises loss + weight · rank penalty
    over batch and buffer (`rankreg.RankReg`).

    The class is a scikit-learn classifier: pipelines, searches, `clone`, pandas and pickle work. `network`,
    `method`, `loss` and `training` have settings of their own. Write them as `method__weight=0.3`, in the
    constructor, in `set_params` and in the grid of a search.

    Args:
        learner: "average" averages all of `rankreg.fit.LEARNERS`. A name such as "boosting", or a
            list of names, takes these instead. "network" trains one network. None is the network if X holds
            images or any of the next eight parameters is given, and the average otherwise.
        network: None is an MLP for rows (settings `hidden`, `dropout`) and a small ResNet-10 for
            images (`width`, `stem`). Or an `MLPShape`, a `ResNetShape`, or a function from the shape
            of one sample, (F,) or (3, H, W), to an `nn.Module` that returns raw scores, (N,).
        method: "rankreg" (settings `weight`, `reach`, `penalty`), "buffer" (the buffer alone),
            "alm" (`mu`, `delta`, `rho`) or "none"; or a settings object such as
            `rankreg.train.ALMMethod(mu=1e-3)`. The buffer's settings are `capacity`, `policy`,
            `base_over` and `unique`. None is "buffer".
        loss: A name of `rankreg.LOSSES`, or a `LossSettings`; `loss__gamma=2` sets one value. None is "bce".
        epochs: Passes over the training part. None is 40 for rows and 30 for images.
        batch_size: Samples per step, without the buffer. None is 128 for rows and 64 for images.
        learning_rate: None is 0.002 for rows (AdamW) and 0.02 for images (SGD).
        sampling: "shuffled", or "balanced", which draws both classes equally often. None is "shuffled".
        training: Further settings as a dict. `optimizer`: "adamw" or "sgd". `schedule`: "cosine" or
            "constant". `augmentation`: a name of `rankreg.augment`. `validation_size`: share of each
            class that chooses the epoch, 0.1. `selection`: choose it by "auc", by "fpr" at the TPR
            `tpr`, or keep the "last". `patience`: stop after so many epochs without a better one.
            `device`: "auto", "cpu" or "cuda". `progress`: whether to show a bar.
        tpr: Share of new positives that must raise an alarm. None predicts the likelier class.
        confidence: Confidence that this share is reached, 0.95.
        threshold: "certified" holds rows out and proves the recall. "cross-fitted" uses the out-of-fold
            scores of all positives, and proves less (`rankreg.operating.cross_fitted_threshold`). "auto"
            certifies where the share held out has enough positives, and is cross-fitted otherwise; for
            the network it certifies. Only used with `tpr`.
        calibration: The share that is held out to certify: None is 0.2, for the network 0.25. A whole number
            holds nothing out. It is the number of folds of the cross-fitting. For the network it
            cross-validates the threshold, which promises nothing.
        per: "row" promises the recall of rows; "unit" promises the recall of groups, each caught by
            at least one of its positive rows.
        keep_copies_together: Equal rows count as one independent sample. Say False where features
            have few values and equal rows are chance.
        pos_label: The critical class. None is `classes_[1]`. Strings need it where `tpr` is given.
        random_state: Seed. The same seed gives the same model on the same machine, and for rows the model
            of `rankreg fit --seed`.
        **settings: Settings of a parameter, such as `method__weight`. Names of version 0.1 still
            work and warn.

    Attributes:
        classes_: The two labels, sorted.
        pos_label_: The critical one.
        threshold_: `criticality` at or above it is an alarm.
        promise_: The `ChosenThreshold` behind it: its `kind`, and what it promises.
        certificate_: The `OperatingPoint` that was certified, or None.
        ensemble_: The average: all members, with their scales and weights.
        out_of_fold_: The average: the `criticality` of every row of the fit, by members that have not seen
            it, (N,). Not there after `load`.
        learners_: The average: every learner by its name, the best first, with its out-of-fold `fpr` (an
            interval; at `tpr`, or 0.95), its `weight` and the `seconds` it took; "average" is the last.
        network_: The network: the trained `nn.Module`.
        config_: The network: the `TrainConfig` of the training.
        history_: The network: a record per epoch.
        n_iter_: The network: number of epochs that were run.
        best_epoch_: The network: the epoch that was kept, counted from 0.

    What is promised holds if new positives come like these and rows are independent. Rows that are
    not, such as several of one patient, get the same value in `fit(X, y, groups=…)`.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RankRegClassifier(tpr=0.9, pos_label=0, learner=["logistic", "boosting"], random_state=0).fit(X, y)
    >>> model.promise_.kind, list(model.learners_)
    ('certified', ['logistic', 'boosting', 'average'])
    >>> bool((model.predict(X[y == 0]) == 0).mean() > 0.9)
    True
    >>> network = RankRegClassifier(tpr=0.9, pos_label=0, epochs=3, sampling="balanced", method__weight=0.3)
    >>> network.set_params(method__capacity=64, random_state=0).fit(X, y).certificate_.positives
    53
    """

    def __init__(
        self,
        *,
        learner: Any = None,
        network: Any = None,
        method: Any = None,
        loss: Any = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        sampling: str | None = None,
        training: Mapping[str, Any] | None = None,
        tpr: float | None = None,
        confidence: float = 0.95,
        threshold: str = "auto",
        calibration: float | int | None = None,
        per: Per = "row",
        keep_copies_together: bool = True,
        pos_label: Any = None,
        random_state: Any = None,
        **settings: Any,
    ) -> None:
        self.learner = learner
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
        self.threshold = threshold
        self.calibration = calibration
        self.per = per
        self.keep_copies_together = keep_copies_together
        self.pos_label = pos_label
        self.random_state = random_state
        if isinstance(threshold, str) and threshold == CROSS_VALIDATED:
            settings["threshold"] = threshold
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
        """Train, and choose the threshold: on rows held out, or by out-of-fold scores.

        Args:
            X: Rows of numbers (N, F), as they are, or uint8 images (N, H, W, 3). The average takes NaN for
                missing values, the network does not.
            y: Two labels of any kind.
            sample_weight: Multiplies the base loss of each sample; only ratios count. Rows of weight 0
                are left out, and NaN in `out_of_fold_`. The rank penalty and the threshold count all
                other rows alike. The average refuses weights that differ otherwise.
            groups: One value per row, the same for rows that are not independent of each other.

        Returns:
            The classifier itself.

        Raises:
            ValueError: The data or a parameter is not usable; `NotEnoughPositives`, a ValueError too,
                says how many positives the certificate needs.
        """
        model = model_of(self, X)
        data = checked_data(self, X, gaps=model == "average")
        target, classes = binary_target(y)
        check_consistent_length(data, target)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, data, dtype=np.float64, ensure_non_negative=True)
        units = checked_units(data, groups, copies=self.keep_copies_together)
        used = np.ones(len(data), dtype=bool)
        if weights is not None and not weights.all():
            used = weights > 0
            data, weights, units = data[used], weights[used], None if units is None else units[used]
            target, classes = binary_target(target[used])
        place = positive_class(classes, self.pos_label, must_be_named=self.tpr is not None)
        labels = (target == classes[place]).astype(np.int64)
        scores = None
        found: Fit | AverageFit
        if model == "network":
            found, chosen = self._fit_network(data, labels, weights, units)
        elif weights is not None and np.ptp(weights) > 0:
            raise ValueError("sample_weight must be 0 or one other value: only learner='network' weighs rows")
        else:
            names = str(classes[1 - place]), str(classes[place])
            found, chosen, seen = fit_average(self, data, labels, units, names)
            scores = np.full(len(used), np.nan, dtype=np.float32)
            scores[used] = seen
        self.classes_, self.pos_label_, self._place = classes, classes[place], place
        self._take(found, chosen)
        if scores is not None:
            self.out_of_fold_ = scores
        return self

    def _fit_network(
        self, data: NDArray[Any], labels: NDArray[np.int64], weights: NDArray[np.float64] | None, units: Units
    ) -> tuple[Fit, ChosenThreshold]:
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
            return found, choose_threshold(labels[held], scores, **promise_of(self), units=apart)
        if self.tpr is not None:
            return found, cross_validated(self, data, labels, **given)
        return found, uncertified(self, 0.0, tpr=found.recall)

    def criticality(self, X: Any) -> NDArray[np.float32]:
        """Scores (N,), higher = more critical, whichever of `classes_` the critical one is.

        Those of the network are raw. Those of the average are about −log of the share of negatives that
        score higher, as `rankreg predict` gives them.
        """
        check_is_fitted(self)
        gaps = isinstance(self._fit, AverageFit)
        return self._fit.scores(checked_data(self, X, known=self._fit.inputs, gaps=gaps))

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Log-odds (N,), high for `classes_[1]`, as everywhere in scikit-learn; they rise with the criticality."""
        scores = self.criticality(X)
        odds = self._fit.log_odds(scores)
        return odds if self._place == 1 else -odds

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """The sigmoid of `decision_function`, (N, 2).

        For the average these are nearly calibrated, as the log-odds were fitted on out-of-fold scores: beta
        calibration (Kull et al. 2017) of the share of negatives that score lower. Only nearly, since new rows
        are scored by more members. For the network they are not calibrated: buffer and rank penalty raise the
        base rate of the critical class. `CalibratedClassifierCV` calibrates them.
        """
        odds = self.decision_function(X)
        return np.column_stack([expit(-odds), expit(odds)])

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

    def _take(self, found: Fit | AverageFit, chosen: ChosenThreshold) -> None:
        """What `fit` or `load` came to."""
        for name in FITTED:  # of a fit before
            if hasattr(self, name):
                delattr(self, name)
        self._fit, self.promise_ = found, chosen
        self.threshold_, self.certificate_ = chosen.value, chosen.point
        if isinstance(found, AverageFit):
            self.ensemble_, self.learners_ = found.ensemble, {one.name: one for one in found.race}
        else:
            self.network_, self.config_ = found.network, found.config
            self.history_, self.n_iter_, self.best_epoch_ = found.history, len(found.history), found.best_epoch

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "threshold_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = takes_gaps(self)
        return tags


def _renamed(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters by their new names; old names warn."""
    old = {name: value for name, value in params.items() if name in OLD}
    if isinstance(params.get("threshold"), str) and params["threshold"] == CROSS_VALIDATED:
        old["threshold"] = params["threshold"]
    for name in old:
        new_name = OLD.get(name, "calibration")
        warnings.warn(f"{name} of RankRegClassifier is now {new_name}", FutureWarning, stacklevel=4)
    new = {OLD[name]: value for name, value in old.items() if OLD.get(name, "calibration") != "calibration"}
    if "threshold" in old:
        new |= {"calibration": old.get("folds", 5), "threshold": "auto"}
    elif "calibration_size" in old:
        new["calibration"] = old["calibration_size"]
    return {name: value for name, value in params.items() if name not in old} | new


# scikit-learn's tools take every name of the signature for a parameter: `settings` is none.
_SIGNATURE = inspect.signature(RankRegClassifier)
_SHOWN = [one for one in _SIGNATURE.parameters.values() if one.kind is not one.VAR_KEYWORD]
RankRegClassifier.__signature__ = _SIGNATURE.replace(parameters=_SHOWN)
