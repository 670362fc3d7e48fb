"""What bundle.json says, as a frozen value: unknown keys are refused, every value is checked."""

import hashlib
import json
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from rankreg.datasets.images import MOST_PIXELS, SMALLEST
from rankreg.datasets.preprocessing import CategoricalColumn, NumericColumn
from rankreg.labels import LabelRule
from rankreg.models import MLPShape, ModelShape
from rankreg.notation import json_value
from rankreg.operating import ChosenThreshold
from rankreg.operating.units import Per

FORMAT_VERSION = 1

Share = Annotated[float, Field(gt=0, lt=1)]
Side = Annotated[int, Field(ge=SMALLEST, le=MOST_PIXELS)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ImageInputs(_Strict):
    """Images, squeezed to height × width."""

    kind: Literal["image"]
    height: Side
    width: Side
    negative: list[str] = []
    rest_negative: bool = False


class TableInputs(_Strict):
    """Rows of a table: the columns that are features, and those that are not."""

    kind: Literal["table"]
    numeric: list[NumericColumn]
    categorical: list[CategoricalColumn]
    unused: list[str]
    target: str
    positive: str
    negative: list[str] = []
    rest_negative: bool = False
    id_column: str | None
    header: bool

    @property
    def features(self) -> int:
        """How many numbers a row becomes."""
        return sum(1 + column.may_miss for column in self.numeric) + sum(
            len(column.values) + 1 for column in self.categorical
        )

    @model_validator(mode="after")
    def _columns_differ(self) -> "TableInputs":
        features = [number.name for number in self.numeric] + [category.name for category in self.categorical]
        special = {self.target, self.id_column} - {None}  # the target may name the rows too
        _check_distinct([*features, *self.unused, *special], "the columns")
        return self


def read_inputs(preprocessing: dict[str, Any]) -> ImageInputs | TableInputs:
    """The preprocessing as a typed value, or a ValueError that names the first fault."""
    if preprocessing.get("kind") not in ("table", "image"):
        raise ValueError(f"kind must be 'table' or 'image', got {preprocessing.get('kind')!r:.40}")
    try:
        return _INPUTS.validate_python(preprocessing)
    except ValidationError as error:
        raise ValueError(first_fault(error)) from error


def first_fault(error: ValidationError) -> str:
    """Where the first fault is, and what it is."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


def _check_distinct(names: list[Any], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{what} must differ, {twice[0]!r:.80} is there twice")


_INPUTS: TypeAdapter[ImageInputs | TableInputs] = TypeAdapter(
    Annotated[ImageInputs | TableInputs, Field(discriminator="kind")]
)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Threshold(_Part):
    """Alarm when score ≥ value.

    Args:
        value: the threshold.
        tpr: the target: the share of positives that must raise an alarm.
        confidence: of the certificate.
        certified: whether, with `confidence`, the recall on new positives is at least `tpr`. If not,
            the value is the empirical one, which guarantees nothing.
        calibration_positives: how many positives it was chosen on.
        units: how many independent units these belong to; None if every row counts as independent.
        per: "row" for the recall of rows, "unit" for that of units with at least one alarm.
        certificate: the operating point on the calibration part, if certified.
        highest_tpr: the highest TPR that the calibration part can certify, if not certified.
        positives_needed: how many positives certify the target, if not certified and without units.
        units_needed: how many units with positives do, if not certified and with units.

    >>> Threshold(value=0.5, tpr=0.95, confidence=0.95, certified=False, calibration_positives=4).per
    'row'
    """

    value: FiniteFloat
    tpr: Share
    confidence: Share
    certified: bool
    calibration_positives: NonNegativeInt
    units: PositiveInt | None = None
    per: Per = "row"
    certificate: dict[str, Any] | None = None
    highest_tpr: float | None = None
    positives_needed: PositiveInt | None = None
    units_needed: PositiveInt | None = None

    @classmethod
    def of(cls, chosen: ChosenThreshold) -> "Threshold":
        """The threshold that `rankreg.operating.choose_threshold` chose.

        Args:
            chosen: its result.
        """
        with_units = chosen.units is not None
        return cls(
            value=chosen.value,
            tpr=chosen.tpr,
            confidence=chosen.confidence,
            certified=chosen.certified,
            calibration_positives=chosen.positives,
            units=chosen.units,
            per=chosen.per,
            certificate=None if chosen.point is None else json_value(chosen.point.to_dict()),
            highest_tpr=chosen.highest_tpr,
            positives_needed=None if with_units else chosen.needed,
            units_needed=chosen.needed if with_units else None,
        )

    @property
    def positives(self) -> int:
        """The number of calibration positives."""
        return self.calibration_positives

    @model_validator(mode="after")
    def _says_why(self) -> "Threshold":
        if self.certified != (self.certificate is not None):
            raise ValueError("a certified threshold has a certificate, an uncertified one has none")
        return self


class Weights(_Part):
    """The file with the weights and what its bytes must hash to."""

    file: Literal["model.safetensors"] = "model.safetensors"
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class BundleCard(_Part):
    """Everything about a model but its weights: the content of bundle.json.

    Args:
        format: always "rankreg-bundle".
        version: of the format.
        name: of the data.
        model: the network's shape.
        preprocessing: how the network's inputs come from files.
        classes: the negative and the positive class.
        threshold: where to alarm, and what is guaranteed there.
        training: the settings of the run.
        parts: samples and positives of each part of the data.
        metrics: the evaluation on the untouched test part.
        versions: of Python and of packages, when the model was made.
        weights: the file with the weights, and its hash.

    >>> BundleCard.model_fields["format"].default
    'rankreg-bundle'
    """

    format: Literal["rankreg-bundle"] = "rankreg-bundle"
    version: Literal[1] = 1
    name: str
    model: ModelShape
    preprocessing: dict[str, Any]
    classes: tuple[str, str]
    threshold: Threshold
    training: dict[str, Any]
    parts: dict[str, dict[str, int]]
    metrics: dict[str, Any]
    versions: dict[str, str]
    weights: Weights

    @property
    def labels(self) -> LabelRule:
        """How labels are to be read, as in the fit."""
        said = self.preprocessing
        negative = said.get("negative") or [self.classes[0]]
        rest = said.get("rest_negative", False)
        return LabelRule(self.classes[1], () if rest else tuple(negative), rest)

    @model_validator(mode="after")
    def _can_be_used(self) -> "BundleCard":
        if self.model.classes != 2:
            raise ValueError("the network must have two classes")
        try:
            inputs = read_inputs(self.preprocessing)
        except ValueError as error:
            raise ValueError(f"preprocessing: {error}") from error
        if isinstance(inputs, TableInputs) != isinstance(self.model, MLPShape):
            raise ValueError(f"the network {self.model.name!r} does not take inputs of the kind {inputs.kind!r}")
        if isinstance(inputs, TableInputs) and isinstance(self.model, MLPShape):
            if inputs.features != self.model.features:
                raise ValueError(
                    f"preprocessing makes {inputs.features} features, the network takes {self.model.features}"
                )
            if inputs.positive != self.classes[1]:
                raise ValueError(f"preprocessing.positive is not the positive class {self.classes[1]!r:.80}")
        return self


def digest(content: dict[str, Any]) -> str:
    """The SHA-256 of a card's JSON, whatever its layout; `sha256` itself is left out."""
    kept = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def versions_of(*packages: str) -> dict[str, str]:
    """Python's version and those of the packages."""
    found = {"python": python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a source tree
            found[package] = "unknown"
    return found
