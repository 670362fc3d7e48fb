# ruff: noqa: N803 - scikit-learn's name for the data is X
"""`RankRegClassifier`: fit, score, predict, as scikit-learn's users know it."""

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted

from rankreg.estimators.network_fit import (
    USUAL,
    Chosen,
    Fit,
    certified,
    check_threshold,
    checked,
    checked_units,
    checked_weights,
    cross_validated,
    fit_network,
    hold_out_for,
)
from rankreg.estimators.persistence import load_classifier, save_classifier
from rankreg.labels import binary_target, positive_class
from rankreg.operating import Per
from rankreg.regularizer import DEFAULT_REACH, DEFAULT_WEIGHT


class RankRegClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network for two classes, one of them rare and critical, trained to rank it above the other.

        model = RankRegClassifier(target_tpr=0.95, random_state=0).fit(X, y)
        model.predict(X_new)  # with 95 % confidence catches at least 95 % of new positives

    X: rows of numbers, which are standardised here, or uint8 images (N, H, W, 3). pos_label: the critical class; by
    default `classes_[1]`. Strings should name it, and must where target_tpr is given.

    network: None is an MLP (`hidden`, `dropout`) for rows and a small ResNet-10 for images; or an `MLPShape` or
    `ResNetShape`; or a function from the shape of one sample, (F,) or (3, H, W), to an `nn.Module` that returns one
    raw score per sample, (N,). method: "rankreg" (`penalty`, `reach`, `weight` and the buffer's settings), "buffer"
    (the buffer alone), "alm", "none", or a settings object of `rankreg.train` such as `ALMMethod(mu=1e-3)`; loss: a
    name of `rankreg.LOSSES` or a `LossSettings`. Training is `rankreg.train`'s: None is its usual number for rows
    or images. `validation_size` of each class chooses the epoch, by AUC or, selection="fpr", by the FPR at the
    target TPR ("last": the last one is kept); patience: stop after so many epochs without a better one.

    target_tpr: None predicts where the score reaches 0. Otherwise threshold="certified" holds `calibration_size` of
    each class out of training and certifies the threshold on it with that confidence (`certificate_`), or refuses
    with the number of positives needed; "cross-validated" takes the threshold of that recall on the scores of
    `folds` held-out folds, which guarantees nothing.

    The certificate holds if new positives come like these and rows are independent of each other. Rows that are
    not, such as several of one patient, get the same value in `fit(X, y, groups=…)`; equal rows count as one too,
    unless keep_copies_together=False (for features of few values, where equal rows are chance). Such units are
    never on both sides of a cut, and units are what counts. per: "row" promises the recall of rows, "unit" that of
    units, each caught by at least one of its positive rows.

    Fitted: `classes_`, `pos_label_`, `threshold_` of `criticality`, `certificate_` or None, `network_`, `config_`,
    `history_` (a record per epoch), `n_iter_`, `best_epoch_`. The same random_state gives the same network on the
    same machine.
    """

    def __init__(
        self,
        *,
        network: Any = None,
        hidden: tuple[int, ...] = (64, 64),
        dropout: float = 0.1,
        method: Any = "rankreg",
        loss: Any = "bce",
        weight: float = DEFAULT_WEIGHT,
        reach: float = DEFAULT_REACH,
        penalty: str = "squared",
        buffer_size: int = 32,
        buffer_policy: str = "dequeue-max",
        base_over: str = "union",
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        optimiser: Any = None,
        schedule: str = "cosine",
        augmentation: str | None = None,
        validation_size: float = 0.1,
        selection: str = "auc",
        patience: int | None = None,
        target_tpr: float | None = None,
        confidence: float = 0.95,
        threshold: str = "certified",
        calibration_size: float = 0.25,
        folds: int = 5,
        per: Per = "row",
        keep_copies_together: bool = True,
        pos_label: Any = None,
        device: str = "auto",
        progress: bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.hidden = hidden
        self.dropout = dropout
        self.method = method
        self.loss = loss
        self.weight = weight
        self.reach = reach
        self.penalty = penalty
        self.buffer_size = buffer_size
        self.buffer_policy = buffer_policy
        self.base_over = base_over
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimiser = optimiser
        self.schedule = schedule
        self.augmentation = augmentation
        self.validation_size = validation_size
        self.selection = selection
        self.patience = patience
        self.target_tpr = target_tpr
        self.confidence = confidence
        self.threshold = threshold
        self.calibration_size = calibration_size
        self.folds = folds
        self.per = per
        self.keep_copies_together = keep_copies_together
        self.pos_label = pos_label
        self.device = device
        self.progress = progress
        self.random_state = random_state

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Train on one part of the data, choose the epoch on another, certify on a third where that is asked for.

        sample_weight: multiplies each sample's base loss; only ratios count. The ranking term, the choice of the
        epoch and the certificate take every sample alike, and leave those of weight 0 out. groups: one value per
        row, the same for rows that are not independent of each other.
        """
        data = checked(self, X)
        target, classes = binary_target(y)
        check_consistent_length(data, target)
        weights = checked_weights(sample_weight, len(data))
        units = checked_units(data, groups, copies=self.keep_copies_together)
        if weights is not None and not weights.all():
            data, (target, classes) = data[weights > 0], binary_target(target[weights > 0])
            units, weights = None if units is None else units[weights > 0], weights[weights > 0]
        promised = check_threshold(self)
        place = positive_class(classes, self.pos_label, must_be_named=promised is not None)
        labels = (target == classes[place]).astype(np.int64)

        random = check_random_state(self.random_state)
        if units is None and self.per == "unit":
            units = np.arange(len(data))  # every row is a unit
        kept, held = hold_out_for(self, labels, units, random)
        found = fit_network(self, data, labels, kept, weights=weights, units=units, random=random)
        chosen = USUAL
        if promised == "certified":
            chosen = certified(self, found.scores(data[held]), labels[held], None if units is None else units[held])
        elif promised == "cross-validated":
            chosen = cross_validated(self, data, labels, weights, units, random)
        self.classes_, self.pos_label_, self._place = classes, classes[place], place
        self._take(found, chosen)
        return self

    def criticality(self, X: Any) -> NDArray[np.float32]:
        """Raw scores (N,), higher = more critical, whichever of `classes_` the critical one is."""
        check_is_fitted(self)
        return self._fit.scores(checked(self, X, known=self._fit.inputs))

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Scores (N,), positive ones for `classes_[1]`, as everywhere in scikit-learn."""
        scores = self.criticality(X)
        return scores if self._place == 1 else -scores

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """The sigmoid of the scores, (N, 2).

        Buffer and ranking term raise the base rate of the critical class, so these are no calibrated probabilities:
        wrap the classifier into `CalibratedClassifierCV` for such.
        """
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def predict(self, X: Any) -> NDArray[Any]:
        """The critical class where `criticality` reaches `threshold_`, else the other one."""
        alarm = self.criticality(X) >= self.threshold_
        labels: NDArray[Any] = self.classes_[np.where(alarm, self._place, 1 - self._place)]
        return labels

    def save(self, folder: Path | str) -> Path:
        """Write a bundle (safetensors and JSON), which `load` and `rankreg predict` read; nothing is executed."""
        check_is_fitted(self)
        return save_classifier(self, Path(folder))

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """The fitted classifier that `save` wrote."""
        return load_classifier(cls, Path(folder))

    def _take(self, found: Fit, chosen: Chosen) -> None:
        """What `fit` or `load` came to."""
        self._fit, self._chosen = found, chosen
        self.threshold_, self.certificate_ = chosen.threshold, chosen.point
        self.network_, self.config_ = found.network, found.config
        self.history_, self.n_iter_, self.best_epoch_ = found.history, len(found.history), found.best_epoch

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "threshold_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
