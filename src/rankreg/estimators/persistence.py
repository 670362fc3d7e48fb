"""A fitted classifier as a bundle, and back."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from rankreg.bundle import Threshold, load_bundle, save_bundle
from rankreg.bundle.card import ImageInputs, TableInputs, finite, first_fault, read_inputs, versions_of
from rankreg.estimators.network_fit import Chosen, Fit, Images, Rows
from rankreg.operating import OperatingPoint, Per
from rankreg.train import TrainConfig
from rankreg.train.config import renamed

Classifier = TypeVar("Classifier")
Label = bool | int | float | str
KINDS: dict[str, Any] = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64, "U": np.str_, "O": object}
OWN = (
    *("validation_size", "target_tpr", "confidence", "threshold", "calibration_size", "folds", "per"),
    *("keep_copies_together", "pos_label", "random_state"),
)
FROM_CONFIG = (
    *("loss", "method", "epochs", "batch_size", "learning_rate", "schedule", "augmentation"),
    *("selection", "patience"),
)
Share = Annotated[float, Field(gt=0, lt=1)]
_POINT = TypeAdapter(OperatingPoint)


class Own(BaseModel):
    """What a bundle does not say by itself: labels with their types, and parameters beyond the training's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    classes: Annotated[list[Label], Field(min_length=2, max_length=2)]
    kind: Literal["b", "i", "u", "f", "U", "O"]
    place: Literal[0, 1]
    named: bool
    best_epoch: Annotated[int, Field(ge=0)]
    n_iter: Annotated[int, Field(ge=1)]
    validation_size: Share
    target_tpr: Share | None
    confidence: Share
    threshold: Literal["certified", "cross-validated"]
    calibration_size: Share
    folds: int
    per: Per = "row"  # older bundles do not say
    keep_copies_together: bool = True
    pos_label: Label | None
    random_state: int | None

    @model_validator(mode="after")
    def _labels_have_their_type(self) -> "Own":
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


def save_classifier(model: Any, folder: Path) -> Path:
    """Write the bundle; a network of one's own is refused, as only described ones can be built again."""
    found: Fit = model._fit
    if found.config.model is None:
        raise ValueError(
            "a network made by one's own function cannot be described in a bundle: use an MLPShape or ResNetShape,"
            " or keep network_.state_dict() and the function"
        )
    place, chosen = model._place, model._chosen
    classes = str(model.classes_[1 - place]), str(model.classes_[place])
    parts = found.parts | ({"calibration": chosen.calibration} if chosen.calibration is not None else {})
    save_bundle(
        folder,
        found.network,
        name="RankRegClassifier",
        model=found.config.model,
        preprocessing=_described(model, found, classes[1]),
        classes=classes,
        threshold=_threshold(model, found, chosen),
        training=found.config.model_dump(mode="json") | {"estimator": _own(model).model_dump(mode="json")},
        parts=parts,
        metrics={},
        versions=versions_of("rankreg", "scikit-learn", "torch", "numpy", "safetensors"),
    )
    return folder


def load_classifier(kind: type[Classifier], folder: Path) -> Classifier:
    """Read it back: the network, the threshold with its certificate, and settings that would train it again."""
    bundle = load_bundle(folder)
    training = dict(bundle.card.training)
    if "estimator" not in training:
        raise ValueError(f"{folder} is a bundle of `rankreg fit`, not of RankRegClassifier: use `rankreg predict`")
    try:
        own, config = Own.model_validate(training.pop("estimator")), TrainConfig.model_validate(renamed(training))
        said = bundle.card.threshold.certificate
        point = None if said is None else _POINT.validate_python(said)
    except ValidationError as error:
        raise ValueError(f"{folder} is damaged: {first_fault(error)}; get the bundle again") from error
    inputs = read_inputs(bundle.card.preprocessing)
    settings = {name: getattr(config, name) for name in FROM_CONFIG} | {name: getattr(own, name) for name in OWN}
    make: Any = kind
    model = make(network=bundle.card.model, optimiser=config.optimizer, **settings)
    _name_features(model, inputs, own)
    model.classes_ = own.labels()
    model.pos_label_, model._place = model.classes_[own.place], own.place
    parts = dict(bundle.card.parts)
    chosen = Chosen(bundle.card.threshold.value, point, parts.pop("calibration", None))
    recall = bundle.card.threshold.tpr
    model._take(Fit(bundle.model, config, _inputs(inputs), [], own.best_epoch, recall, parts), chosen)
    model.n_iter_ = own.n_iter
    loaded: Classifier = model
    return loaded


def _own(model: Any) -> Own:
    given = {name: _plain(getattr(model, name)) for name in OWN}
    if not isinstance(given["random_state"], int):  # a generator has moved on since
        given["random_state"] = None
    try:
        return Own(
            classes=[_plain(label) for label in model.classes_.tolist()],
            kind=model.classes_.dtype.kind,
            place=model._place,
            named=hasattr(model, "feature_names_in_"),
            best_epoch=model.best_epoch_,
            n_iter=model.n_iter_,
            **given,
        )
    except ValidationError as error:
        raise ValueError(f"the classifier cannot be saved: {first_fault(error)}") from error


def _described(model: Any, found: Fit, positive: str) -> dict[str, Any]:
    if isinstance(found.inputs, Images):
        return found.inputs.described()
    names = getattr(model, "feature_names_in_", [f"x{k}" for k in range(model.n_features_in_)])
    target = "target"
    while target in names:
        target += "_"
    table = found.inputs.described([str(name) for name in names])
    return table | {"target": target, "positive": positive, "id_column": None, "header": True}


def _threshold(model: Any, found: Fit, chosen: Chosen) -> Threshold:
    """The threshold; the usual one has no target, so the recall it had on the validation part stands there."""
    recall = float(np.clip(found.recall, 1e-6, 1 - 1e-6))
    return Threshold(
        value=chosen.threshold,
        tpr=recall if model.target_tpr is None else float(model.target_tpr),
        confidence=float(model.confidence),
        certified=chosen.point is not None,
        calibration_positives=0 if chosen.calibration is None else chosen.calibration["positives"],
        units=None if chosen.point is None else chosen.point.units,
        per=model.per,
        certificate=None if chosen.point is None else finite(chosen.point.to_dict()),
    )


def _inputs(said: ImageInputs | TableInputs) -> Rows | Images:
    if isinstance(said, ImageInputs):
        return Images(said.height, said.width)
    if said.categorical or any(column.may_miss for column in said.numeric):
        raise ValueError(
            "the bundle's table has columns that RankRegClassifier does not know: use `rankreg predict`"
        )
    columns: list[NDArray[np.float64]] = [
        np.asarray([getattr(column, name) for column in said.numeric]) for name in ("median", "mean", "scale")
    ]
    return Rows(*columns)


def _name_features(model: Any, said: ImageInputs | TableInputs, own: Own) -> None:
    if isinstance(said, TableInputs):
        model.n_features_in_ = len(said.numeric)
        if own.named:
            model.feature_names_in_ = np.asarray([column.name for column in said.numeric], dtype=object)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
