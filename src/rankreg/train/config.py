"""What a run is, as a frozen value: from TOML or Python, to JSON; unknown keys are refused."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from rankreg._names import look_up
from rankreg.augment import AUGMENTATIONS
from rankreg.losses import LOSSES, PerSampleLoss, check_settings, cross_entropy, make_loss
from rankreg.models import ModelShape
from rankreg.safe_files import read_toml
from rankreg.train.methods import ALMMethod, BufferMethod, NoMethod, RankRegMethod
from rankreg.train.optimisers import AdamWSettings, SGDSettings

MULTICLASS_LOSS = "ce"
SHOWN, LONGEST = 8, 500  # faults in a message, and characters of one


class LossSettings(BaseModel):
    """A base loss and its settings, e.g. name "a-fl" with settings gamma = 2."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "bce"
    settings: dict[str, float] = {}

    @model_validator(mode="after")
    def _is_known(self) -> "LossSettings":
        if self.name != MULTICLASS_LOSS:
            look_up(LOSSES | {MULTICLASS_LOSS: cross_entropy}, self.name, "loss")
            check_settings(self.name, self.settings)
            self.make((1, 1))
        elif self.settings:
            raise ValueError(f"{MULTICLASS_LOSS!r} has no settings, got {', '.join(self.settings)}")
        return self

    def make(self, counts: tuple[int, int]) -> PerSampleLoss:
        """The loss, given the training set's negatives and positives."""
        if self.name == MULTICLASS_LOSS:
            return cross_entropy
        settings: dict[str, Any] = dict(self.settings)
        return make_loss(self.name, counts=counts, **settings)


def _named(value: Any) -> Any:
    """A name alone stands for that choice with its default settings."""
    return {"name": value} if isinstance(value, str) else value


class TrainConfig(BaseModel):
    """One run: everything but the data, the folder and a network of one's own.

    batch_size: at most so many samples a step over all processes, without the buffer; an epoch's batches differ by
    one sample at most. sampling: "balanced" draws every class equally often, as many samples an epoch as
    "shuffled". selection: the epoch of the highest validation AUC, or of the lowest validation FPR at TPR `tpr`,
    or, with several classes, of the lowest mean error of the others there; or the last epoch, whatever its results
    (the validation part is looked at all the same). Of epochs that tie, the one with the lower validation loss is
    kept, then the later one. patience: stop after so many epochs without a better one. critical: the critical class
    of a multi-class data set, if it is not the one the data set names. A name alone stands for a choice with its
    default settings: method = "rankreg".
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: NonNegativeInt = 0
    epochs: PositiveInt = 100
    batch_size: PositiveInt = 64
    learning_rate: PositiveFloat = 0.01
    schedule: Literal["constant", "cosine"] = "constant"
    optimiser: Annotated[SGDSettings | AdamWSettings, Field(discriminator="name"), BeforeValidator(_named)] = (
        SGDSettings()
    )
    loss: Annotated[LossSettings, BeforeValidator(_named)] | None = None  # None: "bce", or "ce" for many classes
    method: Annotated[
        NoMethod | BufferMethod | RankRegMethod | ALMMethod, Field(discriminator="name"), BeforeValidator(_named)
    ] = NoMethod()
    model: Annotated[ModelShape, BeforeValidator(_named)] | None = None  # None: ResNet-10, or an MLP for tables
    sampling: Literal["shuffled", "balanced"] = "shuffled"
    augmentation: str = "none"
    selection: Literal["auc", "fpr", "error", "last"] = "auc"
    tpr: float = Field(default=0.98, gt=0, le=1)
    patience: PositiveInt | None = None
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    critical: NonNegativeInt | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainConfig":
        look_up(AUGMENTATIONS, self.augmentation, "augmentation")
        head = self.model.head if self.model is not None else None
        if self.loss is not None and self.loss.name == "ldam" and head not in (None, "cosine"):
            raise ValueError(f"loss 'ldam' needs a normalised last layer, got head {head!r}: use head 'cosine'")
        if self.selection == "last" and self.patience is not None:
            raise ValueError(
                "selection 'last' takes no patience, for every epoch counts as better: leave patience out"
            )
        return self

    @classmethod
    def from_toml(cls, path: Path) -> "TrainConfig":
        """Read a TOML file with these keys."""
        try:
            return cls.model_validate(read_toml(Path(path)))
        except OSError as error:
            raise type(error)(f"cannot read the settings in {path}: {error.strerror}") from error
        except ValidationError as error:
            raise ValueError(f"{path}: {faults(error)}") from error


def faults(error: ValidationError) -> str:
    """What is wrong with which key, on one line; the first few of many."""
    found = error.errors()
    lines = [f"{'.'.join(map(str, fault['loc'])) or 'config'}: {_words(fault)}" for fault in found[:SHOWN]]
    return "; ".join(line[:LONGEST] for line in lines) + (
        f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    )


def _words(fault: ErrorDetails) -> str:
    """pydantic's message, without its own vocabulary where ours says it better."""
    context = fault.get("ctx", {})
    if fault["type"] == "value_error":
        return str(context["error"])
    if fault["type"] == "union_tag_invalid":
        names = [name.strip("'") for name in context["expected_tags"].split(", ")]
        try:
            look_up(dict.fromkeys(names), context["tag"], str(fault["loc"][-1]))
        except ValueError as unknown:
            return str(unknown)
    return fault["msg"]
