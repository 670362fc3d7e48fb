"""A fitted classifier as a bundle, and back: a network, or an ensemble."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError, model_validator
from torch import nn

from rankreg.bundle import Threshold, load_bundle
from rankreg.bundle.card import ImageInputs, TableInputs, first_fault, read_inputs, versions_of
from rankreg.bundle.ensemble import Ensemble, learner_card
from rankreg.bundle.storage import Bundle, save_bundle, save_ensemble
from rankreg.datasets.preprocessing import NumericColumn, TablePreprocessor
from rankreg.estimators.average_fit import KNOWN, AverageFit, Columns, LogOdds
from rankreg.estimators.network_fit import QUARTER, Fit, Images, Rows, is_folds, plain, settings_of
from rankreg.fit.learners import shape_of
from rankreg.fit.race import RacedLearner
from rankreg.notation import json_value
from rankreg.operating import ChosenThreshold, OperatingPoint
from rankreg.operating.units import Per
from rankreg.train import TrainConfig
from rankreg.train.config import renamed

Classifier = TypeVar("Classifier")
Record = TypeVar("Record", bound=BaseModel)
Label = bool | int | float | str
KINDS: dict[str, Any] = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64, "U": np.str_, "O": object}
SAME = ("confidence", "per", "keep_copies_together", "pos_label", "random_state")  # as parameters of the classifier
CONFIG = (
    "loss",
    "method",
    "epochs",
    "batch_size",
    "learning_rate",
    "sampling",
)  # parameters that a TrainConfig holds
TRAINING = ("optimizer", "schedule", "augmentation", "selection", "patience")
Share = Annotated[float, Field(gt=0, lt=1)]
_POINT = TypeAdapter(OperatingPoint)
_RACE = TypeAdapter(list[RacedLearner])


class LabelsRecord(BaseModel):
    """What a bundle does not say by itself: labels with their types, and parameters beyond the training's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    classes: Annotated[list[Label], Field(min_length=2, max_length=2)]
    kind: Literal["b", "i", "u", "f", "U", "O"]
    place: Literal[0, 1]
    named: bool
    target_tpr: Share | None
    confidence: Share
    per: Per = "row"  # older bundles do not say
    keep_copies_together: bool = True
    pos_label: Label | None
    random_state: int | None

    @model_validator(mode="after")
    def _labels_have_their_type(self) -> Self:
        try:
            labels = self.labels().tolist()
        except (OverflowError, TypeError, ValueError):
            labels = []
        if labels != self.classes or labels[0] == labels[1]:
            raise ValueError(f"the classes are not two labels of the type {self.kind!r}")
        return self

    def labels(self) -> NDArray[Any]:
        """The classes as an array of their type."""
        return np.asarray(self.classes, dtype=KINDS[self.kind])


class ClassifierRecord(LabelsRecord):
    """Of a network."""

    best_epoch: Annotated[int, Field(ge=0)]
    n_iter: Annotated[int, Field(ge=1)]
    validation_size: Share
    threshold: Literal["certified", "cross-validated"]
    calibration_size: Share = 0.25
    folds: int = 5


class AverageRecord(LabelsRecord):
    """Of an ensemble. features: all columns of X, used or not; high, low, offset: of its `LogOdds`."""

    features: Annotated[list[str], Field(min_length=1)]
    high: Annotated[FiniteFloat, Field(gt=0)]
    low: Annotated[FiniteFloat, Field(ge=0)]
    offset: FiniteFloat
    learner: str | list[str] | None
    threshold: Literal["auto", "certified", "cross-fitted"]
    calibration: Share | Annotated[int, Field(ge=2)] | None


def save_classifier(model: Any, folder: Path) -> Path:
    """Write the bundle; a network of one's own is refused, as only described ones can be built again."""
    if isinstance(model._fit, AverageFit):
        return _save_average(model, model._fit, folder)
    found: Fit = model._fit
    if found.config.model is None:
        raise ValueError(
            "a network made by one's own function cannot be described in a bundle: use an MLPShape or ResNetShape,"
            " or keep network_.state_dict() and the function"
        )
    negative, positive = str(model.classes_[1 - model._place]), str(model.classes_[model._place])
    save_bundle(
        folder,
        found.network,
        name="RankRegClassifier",
        model=found.config.model,
        preprocessing=_preprocessing(model, found, positive),
        classes=(negative, positive),
        threshold=Threshold.of(model.promise_),
        training=found.config.model_dump(mode="json") | {"estimator": _record(model).model_dump(mode="json")},
        parts=found.parts,
        metrics={},
        versions=versions_of("scikit-learn", "torch", "numpy", "safetensors"),
    )
    return folder


def _save_average(model: Any, found: AverageFit, folder: Path) -> Path:
    cards = [
        learner_card(fitted, model=shape_of(fitted), settings=KNOWN[fitted.name].settings)
        for fitted in found.ensemble.learners
    ]
    one = model.learner is None or isinstance(model.learner, str)
    given = _given(model) | {
        "features": list(found.inputs.names),
        **asdict(found.odds),
        "learner": model.learner if one else [str(name) for name in model.learner],
        "threshold": model.threshold,
        "calibration": plain(model.calibration),
    }
    save_ensemble(
        folder,
        found.ensemble,
        cards,
        name="RankRegClassifier",
        preprocessing=dict(found.preprocessing),
        classes=(str(model.classes_[1 - model._place]), str(model.classes_[model._place])),
        threshold=Threshold.of(model.promise_),
        training=dict(found.training) | {"estimator": _checked(AverageRecord, given).model_dump(mode="json")},
        parts=dict(found.parts),
        metrics=json_value({"learners": [one.to_dict() for one in found.race]}),
        versions=versions_of("scikit-learn", "lightgbm", "torch", "numpy", "safetensors"),
    )
    return folder


def _load_average(kind: Any, bundle: Bundle, folder: Path) -> Any:
    card, ensemble = bundle.card, bundle.model
    assert isinstance(ensemble, Ensemble)
    try:
        training = dict(card.training)
        record = AverageRecord.model_validate(training.pop("estimator"))
        race = _RACE.validate_python(card.metrics.get("learners"))
    except ValidationError as error:
        raise ValueError(f"{folder} is damaged: {first_fault(error)}; get the bundle again") from error
    preparation = TablePreprocessor.from_dict(card.preprocessing)
    if preparation.categorical or {*preparation.columns, *preparation.unused} != {*record.features}:
        raise ValueError(f"{folder} is damaged: its features are not those of its table; get the bundle again")
    model = kind(
        learner=record.learner,
        threshold=record.threshold,
        calibration=record.calibration,
        tpr=record.target_tpr,
        **{name: getattr(record, name) for name in SAME},
    )
    model.classes_, model._place = record.labels(), record.place
    model.pos_label_ = model.classes_[record.place]
    model.n_features_in_ = len(record.features)
    if record.named:
        model.feature_names_in_ = np.asarray(record.features, dtype=object)
    found = AverageFit(
        ensemble=ensemble,
        inputs=Columns(tuple(record.features), replace(preparation, unused=())),
        preprocessing=card.preprocessing,
        odds=LogOdds(record.high, record.low, record.offset),
        race=tuple(race),
        training=training,
        parts=dict(card.parts),
    )
    model._take(found, _chosen(card.threshold, folder))
    return model


def _chosen(said: Threshold, folder: Path) -> ChosenThreshold:
    """The threshold that a card describes."""
    try:
        point = None if said.certificate is None else _POINT.validate_python(said.certificate)
    except ValidationError as error:
        raise ValueError(f"{folder} is damaged: {first_fault(error)}; get the bundle again") from error
    needed = said.positives_needed if said.units is None else said.units_needed
    return ChosenThreshold(
        value=said.value,
        certified=said.certified,
        tpr=said.tpr,
        confidence=said.confidence,
        per=said.per,
        positives=said.positives,
        units=said.units,
        point=point,
        highest_tpr=said.highest_tpr,
        needed=needed,
        kind=said.kind,
        expected_recall=said.expected_recall,
    )


def load_classifier(kind: type[Classifier], folder: Path) -> Classifier:
    """Read it back: the model, the threshold with its certificate, and settings that would train it again."""
    bundle = load_bundle(folder)
    card, training = bundle.card, dict(bundle.card.training)
    if "estimator" in training and isinstance(bundle.model, Ensemble):
        average: Classifier = _load_average(kind, bundle, folder)
        return average
    if "estimator" not in training or not isinstance(bundle.model, nn.Module):
        raise ValueError(f"{folder} is a bundle of `rankreg fit`, not of RankRegClassifier: use `rankreg predict`")
    try:
        record = ClassifierRecord.model_validate(training.pop("estimator"))
        config = TrainConfig.model_validate(renamed(training))
    except ValidationError as error:
        raise ValueError(f"{folder} is damaged: {first_fault(error)}; get the bundle again") from error
    make: Any = kind
    model = make(
        learner="network",
        network=card.model,
        training={"validation_size": record.validation_size} | {name: getattr(config, name) for name in TRAINING},
        tpr=record.target_tpr,
        calibration=record.calibration_size if record.threshold == "certified" else record.folds,
        **{name: getattr(config, name) for name in CONFIG},
        **{name: getattr(record, name) for name in SAME},
    )
    model.classes_, model._place = record.labels(), record.place
    model.pos_label_ = model.classes_[record.place]
    inputs = _inputs(model, read_inputs(card.preprocessing), record.named)
    found = Fit(bundle.model, config, inputs, [], record.best_epoch, card.threshold.tpr, dict(card.parts))
    model._take(found, _chosen(card.threshold, folder))
    model.n_iter_ = record.n_iter
    loaded: Classifier = model
    return loaded


def _record(model: Any) -> ClassifierRecord:
    folds = is_folds(model.calibration)
    share = QUARTER if model.calibration is None else plain(model.calibration)
    given = {
        "threshold": "cross-validated" if folds else "certified",
        "folds" if folds else "calibration_size": share,
        "validation_size": settings_of(model.training, "training").get("validation_size", 0.1),
        "best_epoch": model.best_epoch_,
        "n_iter": model.n_iter_,
    }
    return _checked(ClassifierRecord, _given(model) | given)


def _given(model: Any) -> dict[str, Any]:
    """What both records have."""
    given = {name: plain(getattr(model, name)) for name in SAME} | {
        "target_tpr": plain(model.tpr),
        "classes": [plain(label) for label in model.classes_.tolist()],
        "kind": model.classes_.dtype.kind,
        "place": model._place,
        "named": hasattr(model, "feature_names_in_"),
    }
    if not isinstance(given["random_state"], int):  # a generator has moved on since
        given["random_state"] = None
    return given


def _checked(record: type[Record], given: dict[str, Any]) -> Record:
    try:
        return record(**given)
    except ValidationError as error:
        raise ValueError(f"the classifier cannot be saved: {first_fault(error)}") from error


def _preprocessing(model: Any, found: Fit, positive: str) -> dict[str, Any]:
    if isinstance(found.inputs, Images):
        return found.inputs.described()
    names = [
        str(name) for name in getattr(model, "feature_names_in_", [f"x{k}" for k in range(model.n_features_in_)])
    ]
    target = "target"
    while target in names:
        target += "_"
    described = found.inputs.described(names)
    return described | {"target": target, "positive": positive, "id_column": None, "header": True}


def _inputs(model: Any, said: ImageInputs | TableInputs, named: bool) -> Rows | Images:
    """What the network sees; the classifier learns the names of its features."""
    if isinstance(said, ImageInputs):
        return Images(said.height, said.width)
    known = [column for column in said.numeric if isinstance(column, NumericColumn) and not column.may_miss]
    if said.categorical or len(known) < len(said.numeric):
        raise ValueError(
            "the bundle's table has columns that RankRegClassifier does not know: use `rankreg predict`"
        )
    model.n_features_in_ = len(known)
    if named:
        model.feature_names_in_ = np.asarray([column.name for column in known], dtype=object)
    values = np.asarray([[column.median, column.mean, column.scale] for column in known])
    return Rows(*values.T)
