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
from rankreg.estimators.network_fit import (
    QUARTER,
    Fit,
    Images,
    Rows,
    column_names,
    is_folds,
    plain,
    settings_of,
    table_record,
)
from rankreg.fit.crossfit import RacedLearner
from rankreg.fit.learners import shape_of
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
CONFIG = ("loss", "method", "epochs", "batch_size", "learning_rate", "sampling")  # the same, of the network
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


class NetworkRecord(LabelsRecord):
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
    found: Fit | AverageFit = model._fit
    negative, positive = str(model.classes_[1 - model._place]), str(model.classes_[model._place])
    said: dict[str, Any] = {
        "name": "RankRegClassifier",
        "classes": (negative, positive),
        "threshold": Threshold.of(model.promise_),
        "parts": found.parts,
    }
    if isinstance(found, AverageFit):
        record = _average_record(model, found).model_dump(mode="json")
        save_ensemble(
            folder,
            found.ensemble,
            [
                learner_card(learner, model=shape_of(learner), settings=KNOWN[learner.name].settings)
                for learner in found.ensemble.learners
            ],
            preprocessing=dict(found.preprocessing),
            training=dict(found.training) | {"estimator": record},
            metrics=json_value({"learners": [one.to_dict() for one in found.race]}),
            versions=versions_of("scikit-learn", "lightgbm", "torch", "numpy", "safetensors"),
            **said,
        )
        return folder
    if found.config.model is None:
        raise ValueError(
            "a network made by one's own function cannot be described in a bundle: use an MLPShape or ResNetShape,"
            " or keep network_.state_dict() and the function"
        )
    if isinstance(found.inputs, Images):
        preprocessing = found.inputs.described()
    else:
        names = column_names(model)
        preprocessing = found.inputs.described(names) | table_record(names, positive)
    save_bundle(
        folder,
        found.network,
        model=found.config.model,
        preprocessing=preprocessing,
        training=found.config.model_dump(mode="json")
        | {"estimator": _network_record(model).model_dump(mode="json")},
        metrics={},
        versions=versions_of("scikit-learn", "torch", "numpy", "safetensors"),
        **said,
    )
    return folder


def load_classifier(kind: type[Classifier], folder: Path) -> Classifier:
    """Read it back: the model, the threshold with its certificate, and settings that would train it again."""
    bundle = load_bundle(folder)
    training = dict(bundle.card.training)
    is_ensemble = isinstance(bundle.model, Ensemble)
    if "estimator" not in training or not (is_ensemble or isinstance(bundle.model, nn.Module)):
        raise ValueError(f"{folder} is a bundle of `rankreg fit`, not of RankRegClassifier: use `rankreg predict`")
    try:
        said = training.pop("estimator")
        model, record, found = (_load_average if is_ensemble else _load_network)(
            kind, bundle, training, said, folder
        )
        chosen = _chosen(bundle.card.threshold)
    except ValidationError as error:
        raise ValueError(f"{folder} is damaged: {first_fault(error)}; get the bundle again") from error
    model.classes_, model._place = record.labels(), record.place
    model.pos_label_ = model.classes_[record.place]
    model._take(found, chosen)
    if isinstance(record, NetworkRecord):
        model.n_iter_ = record.n_iter
    loaded: Classifier = model
    return loaded


def _load_average(
    kind: Any, bundle: Bundle, training: dict[str, Any], said: Any, folder: Path
) -> tuple[Any, "AverageRecord", AverageFit]:
    card, ensemble = bundle.card, bundle.model
    assert isinstance(ensemble, Ensemble)
    record = AverageRecord.model_validate(said)
    race = _RACE.validate_python(card.metrics.get("learners"))
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
    return model, record, found


def _load_network(
    kind: Any, bundle: Bundle, training: dict[str, Any], said: Any, folder: Path
) -> tuple[Any, "NetworkRecord", Fit]:
    card = bundle.card
    assert isinstance(bundle.model, nn.Module)
    record = NetworkRecord.model_validate(said)
    config = TrainConfig.model_validate(renamed(training))
    model = kind(
        learner="network",
        network=card.model,
        training={"validation_size": record.validation_size} | {name: getattr(config, name) for name in TRAINING},
        tpr=record.target_tpr,
        calibration=record.calibration_size if record.threshold == "certified" else record.folds,
        **{name: getattr(config, name) for name in CONFIG},
        **{name: getattr(record, name) for name in SAME},
    )
    inputs = _inputs(model, read_inputs(card.preprocessing), record.named)
    found = Fit(bundle.model, config, inputs, [], record.best_epoch, card.threshold.tpr, dict(card.parts))
    return model, record, found


def _chosen(said: Threshold) -> ChosenThreshold:
    """The threshold that a card describes."""
    return ChosenThreshold(
        value=said.value,
        certified=said.certified,
        tpr=said.tpr,
        confidence=said.confidence,
        per=said.per,
        positives=said.positives,
        units=said.units,
        point=None if said.certificate is None else _POINT.validate_python(said.certificate),
        highest_tpr=said.highest_tpr,
        needed=said.positives_needed if said.units is None else said.units_needed,
        kind=said.kind,
        expected_recall=said.expected_recall,
    )


def _average_record(model: Any, found: AverageFit) -> AverageRecord:
    one = model.learner is None or isinstance(model.learner, str)
    given = {
        "features": list(found.inputs.names),
        **asdict(found.odds),
        "learner": model.learner if one else [str(name) for name in model.learner],
        "threshold": model.threshold,
        "calibration": plain(model.calibration),
    }
    return _checked(AverageRecord, model, given)


def _network_record(model: Any) -> NetworkRecord:
    folds = is_folds(model.calibration)
    share = QUARTER if model.calibration is None else plain(model.calibration)
    given = {
        "threshold": "cross-validated" if folds else "certified",
        "folds" if folds else "calibration_size": share,
        "validation_size": settings_of(model.training, "training").get("validation_size", 0.1),
        "best_epoch": model.best_epoch_,
        "n_iter": model.n_iter_,
    }
    return _checked(NetworkRecord, model, given)


def _checked(record: type[Record], model: Any, given: dict[str, Any]) -> Record:
    """The record, with what those of both models have."""
    seed = plain(model.random_state)
    both = {name: plain(getattr(model, name)) for name in SAME} | {
        "random_state": seed if isinstance(seed, int) else None,  # a generator has moved on since
        "target_tpr": plain(model.tpr),
        "classes": [plain(label) for label in model.classes_.tolist()],
        "kind": model.classes_.dtype.kind,
        "place": model._place,
        "named": hasattr(model, "feature_names_in_"),
    }
    try:
        return record(**both, **given)
    except ValidationError as error:
        raise ValueError(f"the classifier cannot be saved: {first_fault(error)}") from error


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
