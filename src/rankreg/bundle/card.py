"""What bundle.json says, as a frozen value: unknown keys are refused, every value is checked."""

import hashlib
import json
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from rankreg import __version__
from rankreg.backbones import TimmShape
from rankreg.datasets.images import MOST_PIXELS, SMALLEST
from rankreg.datasets.preprocessing import CategoricalColumn, NumericColumn, QuantileColumn
from rankreg.labels import LabelRule
from rankreg.models import BackboneShape, MLPShape, ModelShape
from rankreg.notation import json_value
from rankreg.operating import ChosenThreshold, PromisedPoint, PromisedThreshold, Review
from rankreg.operating.units import Per

FORMAT_VERSIONS = (1, 2)  # one network; an ensemble of learners
MOST_LEARNERS, MOST_MEMBERS = 50, 100  # members: of one learner
MOST_SETTINGS = 10_000  # characters
VALUES_AT_ONCE = 1 << 20  # of rows that are digested

Digests = NDArray[np.uint64]
Kind = Literal["certified", "cross-fitted", "expected", "empirical"]
Share = Annotated[float, Field(gt=0, lt=1)]
Side = Annotated[int, Field(ge=SMALLEST, le=MOST_PIXELS)]


def _kind_of_column(column: Any) -> str:
    """Version 0.1 standardised by mean and scale; then came quantiles."""
    is_quantile = "knots" in column if isinstance(column, dict) else isinstance(column, QuantileColumn)
    return "quantiles" if is_quantile else "moments"


Numeric = Annotated[
    Annotated[NumericColumn, Tag("moments")] | Annotated[QuantileColumn, Tag("quantiles")],
    Discriminator(_kind_of_column),
]


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
    numeric: list[Numeric]
    categorical: list[CategoricalColumn]
    unused: list[str]
    target: str
    positive: str
    negative: list[str] = []
    rest_negative: bool = False
    id_column: str | None
    header: bool
    columns: dict[str, Any] | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None

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
    """Alarm when score ≥ value; with three answers, review from `value` and alarm from `alarm_from`.

    Args:
        value: the threshold that keeps the recall.
        tpr: the target: the share of positives that must raise an alarm.
        confidence: of the certificate.
        certified: whether, with `confidence`, the recall on new positives is at least `tpr`, proven.
        kind: "certified"; "cross-fitted", the same order statistic of out-of-fold scores; "expected", where
            out-of-fold positives are too few for a confidence; or "empirical", which guarantees nothing.
        expected_recall: what share of new positives is caught on average, for "cross-fitted" and "expected".
        calibration_positives: how many positives it was chosen on.
        units: how many independent units these belong to; None if every row counts as independent.
        per: "row" for the recall of rows, "unit" for that of units with at least one alarm.
        certificate: the operating point on the calibration part, if certified.
        highest_tpr: the highest TPR that the calibration part can certify, if not certified.
        positives_needed: how many positives certify the target, if not certified and without units.
        units_needed: how many units with positives do, if not certified and with units.
        alarm_from: with three answers, the upper threshold: alarm from here, review from `value` to here, dismiss
            below `value`. None with two answers.
        promised: the promises beside the recall and what is shown of them; one without a threshold says why they
            are not kept. None if only a recall is promised.

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
    kind: Kind = "empirical"  # of cards that do not say: see below
    expected_recall: Share | None = None
    alarm_from: FiniteFloat | None = None
    promised: PromisedPoint | Review | None = None

    @model_validator(mode="before")
    @classmethod
    def _older_cards_say_less(cls, values: Any) -> Any:
        if isinstance(values, dict) and "kind" not in values:
            return values | {"kind": "certified" if values.get("certified") else "empirical"}
        return values

    @classmethod
    def of(cls, found: ChosenThreshold | PromisedThreshold) -> "Threshold":
        """The threshold that `choose_threshold` or `promised_threshold` of `rankreg.operating` chose.

        Args:
            found: its result.
        """
        promised = found if isinstance(found, PromisedThreshold) else None
        chosen = found.threshold if isinstance(found, PromisedThreshold) else found
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
            kind=chosen.kind,
            expected_recall=chosen.expected_recall,
            alarm_from=None if promised is None else promised.alarm_from,
            promised=None if promised is None else promised.found,
        )

    @property
    def levels(self) -> list[float]:
        """The scores at which the answer changes, ascending."""
        return [self.value] if self.alarm_from is None else [self.value, self.alarm_from]

    @property
    def kept(self) -> bool:
        """Whether every promise beside the recall is kept; True if there is none."""
        return isinstance(self.promised, Review) or self.promised is None or self.promised.threshold is not None

    @property
    def positives(self) -> int:
        """The number of calibration positives."""
        return self.calibration_positives

    @model_validator(mode="after")
    def _says_why(self) -> "Threshold":
        if self.certified != (self.certificate is not None):
            raise ValueError("a certified threshold has a certificate, an uncertified one has none")
        if self.certified != (self.kind == "certified"):
            raise ValueError(f"a threshold of the kind {self.kind!r} must say so")
        said = self.promised
        review = (said.review_from, said.alarm_from) if isinstance(said, Review) else None
        if (None if review is None else review[1]) != self.alarm_from:
            raise ValueError("alarm_from must be that of the review")
        where = review[0] if review is not None else said.threshold if isinstance(said, PromisedPoint) else None
        if where not in (None, self.value):
            raise ValueError("the threshold must be that of the promises")
        if self.alarm_from is not None and self.alarm_from < self.value:
            raise ValueError("alarm_from must not be lower than the threshold")
        return self


class Weights(_Part):
    """The file with the weights and what its bytes must hash to."""

    file: Literal["model.safetensors"] = "model.safetensors"
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class LearnerCard(_Part):
    """A learner of an ensemble: what its members are.

    Args:
        name: e.g. "boosting".
        kind: "linear", "trees" or "network".
        view: the form of the samples that the members take.
        members: how many there are.
        weights: of each member in the average; only ratios count.
        model: the shape of the networks; None for other kinds.
        settings: how it was trained.

    >>> LearnerCard(name="logistic", kind="linear", view="normal", members=2, weights=(1.0, 1.0)).kind
    'linear'
    """

    name: Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")]
    kind: Literal["linear", "trees", "network"]
    view: Literal["normal", "standardised", "images", "features"]
    members: Annotated[int, Field(ge=1, le=MOST_MEMBERS)]
    weights: tuple[Annotated[float, Field(gt=0, lt=1e6)], ...]
    model: ModelShape | None = None
    settings: dict[str, Any] = {}

    @model_validator(mode="after")
    def _fits_together(self) -> "LearnerCard":
        if (self.kind == "network") != (self.model is not None):
            raise ValueError(f"{self.name}: networks have a model, other learners have none")
        if len(self.weights) != self.members:
            raise ValueError(f"{self.name}: {self.members} members have {len(self.weights)} weights")
        if self.view == "images" and self.kind != "network":
            raise ValueError(f"{self.name}: only networks take images")
        if len(json.dumps(self.settings)) > MOST_SETTINGS:
            raise ValueError(f"{self.name}: the settings are too long")
        return self


def tree_file(learner: str, fold: int) -> str:
    """The name of the file with a member's trees."""
    return f"trees-{learner}-{fold}.txt"


class Fingerprint(BaseModel):
    """How many rows there were, and the sum of their digests modulo 2⁶⁴: rows in another order have the same.

    >>> Fingerprint.of(np.eye(2), np.array([0, 1])) == Fingerprint.of(np.eye(2)[::-1], np.array([1, 0]))
    True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: PositiveInt
    digest: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]

    @classmethod
    def of(cls, inputs: NDArray[Any], labels: NDArray[np.int64]) -> "Fingerprint":
        """That of all rows, as the learners take them.

        Args:
            inputs: prepared rows (N, F), or images (N, H, W, 3).
            labels: 0 or 1, (N,).
        """
        return cls(rows=len(labels), digest=f"{_digests(inputs, labels).sum():016x}")


class Recogniser:
    """Rows that come part by part, and whether the first of them, or all, are those of a fingerprint."""

    def __init__(self, known: Fingerprint | None) -> None:
        self.known = known
        self.found = False
        self._left = known.rows if known else 0
        self._total = np.zeros(1, np.uint64)

    def add(self, inputs: NDArray[Any], labels: NDArray[np.int64]) -> None:
        """The next rows, prepared as in the fit."""
        if self.known is None or not self._left:
            return
        digests = _digests(inputs[: self._left], labels[: self._left])
        self._total += digests.sum()
        self._left -= len(digests)
        self.found = not self._left and f"{self._total[0]:016x}" == self.known.digest


def _digests(inputs: NDArray[Any], labels: NDArray[np.int64]) -> Digests:
    """A number per row, from the bits of its values and its label: a linear form with odd factors, mixed."""
    rows = np.ascontiguousarray(inputs).reshape(len(labels), -1)
    words = rows.view(f"u{rows.itemsize}")
    factors = _mixed(np.arange(1, words.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    found, step = labels.astype(np.uint64), max(1, VALUES_AT_ONCE // words.shape[1])
    for start in range(0, len(words), step):
        found[start : start + step] += words[start : start + step].astype(np.uint64) @ factors
    return _mixed(found)


def _mixed(numbers: Digests) -> Digests:
    """The last steps of SplitMix64: neighbouring numbers become unlike ones; no two become the same."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class BundleCard(_Part):
    """Everything about a model but its weights: the content of bundle.json.

    Args:
        format: always "rankreg-bundle".
        version: of the format: 1 is one network, 2 an ensemble.
        name: of the data.
        model: the network's shape; None for an ensemble.
        learners: of an ensemble; empty for one network.
        trees: the files of trees and what their bytes must hash to.
        backbone: the pretrained network whose features learners take; None without one.
        preprocessing: how the network's inputs come from files.
        classes: the negative and the positive class.
        threshold: where to alarm, and what is guaranteed there.
        training: the settings of the run.
        parts: samples and positives of each part of the data.
        metrics: the evaluation on the untouched test part.
        versions: of Python and of packages, when the model was made.
        weights: the file with the weights, and its hash.
        fitted_on: the fingerprint of all samples of the fit; None in bundles of older versions, and where
            none was taken.

    >>> BundleCard.model_fields["format"].default
    'rankreg-bundle'
    """

    format: Literal["rankreg-bundle"] = "rankreg-bundle"
    version: Literal[1, 2] = 1
    name: str
    model: ModelShape | None = None
    learners: Annotated[tuple[LearnerCard, ...], Field(max_length=MOST_LEARNERS)] = ()
    trees: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = {}
    backbone: BackboneShape | TimmShape | None = None
    preprocessing: dict[str, Any]
    classes: tuple[str, str]
    threshold: Threshold
    training: dict[str, Any]
    parts: dict[str, dict[str, int]]
    metrics: dict[str, Any]
    versions: dict[str, str]
    weights: Weights
    fitted_on: Fingerprint | None = None

    @property
    def labels(self) -> LabelRule:
        """How labels are to be read, as in the fit."""
        said = self.preprocessing
        negative = said.get("negative") or [self.classes[0]]
        rest = said.get("rest_negative", False)
        return LabelRule(self.classes[1], () if rest else tuple(negative), rest)

    @model_validator(mode="after")
    def _can_be_used(self) -> "BundleCard":
        if (self.version == 1) != (self.model is not None) or (self.version == 2) != bool(self.learners):
            raise ValueError("version 1 has a model, version 2 has learners")
        _check_distinct([learner.name for learner in self.learners], "the names of the learners")
        grown = [learner for learner in self.learners if learner.kind == "trees"]
        if self.trees.keys() != {tree_file(one.name, fold) for one in grown for fold in range(one.members)}:
            raise ValueError("it does not list the files of its trees")
        try:
            inputs = read_inputs(self.preprocessing)
        except ValueError as error:
            raise ValueError(f"preprocessing: {error}") from error
        is_table = isinstance(inputs, TableInputs)
        if (self.backbone is not None) != any(learner.view == "features" for learner in self.learners):
            raise ValueError("a backbone is there if, and only if, a learner takes its features")
        if any(is_table == (learner.view in ("images", "features")) for learner in self.learners):
            raise ValueError(f"a learner does not take inputs of the kind {inputs.kind!r}")
        for model in (self.model, *(learner.model for learner in self.learners)):
            if model is None:
                continue
            if model.classes != 2:
                raise ValueError("the network must have two classes")
            if is_table != isinstance(model, MLPShape):
                raise ValueError(f"the network {model.name!r} does not take inputs of the kind {inputs.kind!r}")
            if (
                isinstance(inputs, TableInputs)
                and isinstance(model, MLPShape)
                and inputs.features != model.features
            ):
                raise ValueError(
                    f"preprocessing makes {inputs.features} features, the network takes {model.features}"
                )
        if isinstance(inputs, TableInputs) and inputs.positive != self.classes[1]:
            raise ValueError(f"preprocessing.positive is not the positive class {self.classes[1]!r:.80}")
        return self


def digest(content: dict[str, Any]) -> str:
    """The SHA-256 of a card's JSON, whatever its layout; `sha256` itself is left out."""
    kept = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def versions_of(*packages: str) -> dict[str, str]:
    """The versions of Python, of rankreg and of the packages."""
    found = {"python": python_version(), "rankreg": __version__}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a source tree
            found[package] = "unknown"
    return found
