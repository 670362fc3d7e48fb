"""What a card may say about inputs, checked to the last value: whoever edits a card can seal it again."""

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError, model_validator

from rankreg.datasets.images import MOST_PIXELS, SMALLEST

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


class Numeric(_Strict):
    """As `datasets.preprocessing.NumericColumn`."""

    name: str
    median: FiniteFloat
    mean: FiniteFloat
    scale: Annotated[FiniteFloat, Field(gt=0)]
    may_miss: bool


class Categorical(_Strict):
    """As `datasets.preprocessing.CategoricalColumn`."""

    name: str
    values: list[str]
    may_miss: bool = True

    @model_validator(mode="after")
    def _values_differ(self) -> "Categorical":
        _check_distinct(self.values, f"the values of {self.name!r}")
        return self


class TableInputs(_Strict):
    """Rows of a table: the columns that are features, and those that are not."""

    kind: Literal["table"]
    numeric: list[Numeric]
    categorical: list[Categorical]
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
