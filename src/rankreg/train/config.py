"""The settings of a run, as frozen values: from TOML or Python, to JSON; unknown keys are refused."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from rankreg.alm import ALM
from rankreg.augment import AUGMENTATIONS
from rankreg.buffer import PolicyName
from rankreg.losses import LOSSES, PerSampleLoss, check_settings, cross_entropy, make_loss
from rankreg.models import ModelShape
from rankreg.names import look_up
from rankreg.objective import Term
from rankreg.regularizer import DEFAULT_REACH, DEFAULT_WEIGHT, AmongName, PenaltyName, RankReg, SpaceName
from rankreg.safe_files import read_toml

MULTICLASS_LOSS = "ce"
SHOWN, LONGEST = 8, 500  # errors in a message, and characters of each

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"sgd": SGD, "adamw": AdamW}

# From the share of the run that is over, in [0, 1), to the factor of the learning rate.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
}


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _OptimizerSettings(_Settings):
    name: str

    def make(self, parameters: Iterable[nn.Parameter], rate: float) -> Optimizer:
        """The optimizer of these parameters.

        Args:
            parameters: of the network.
            rate: the learning rate of the first step.
        """
        settings: dict[str, Any] = self.model_dump(exclude={"name"})
        return OPTIMIZERS[self.name](parameters, rate, fused=True, **settings)


class SGDSettings(_OptimizerSettings):
    """Stochastic gradient descent with momentum; the defaults are the paper's.

    Args:
        name: "sgd".
        momentum: in [0, 1). Default 0.9.
        weight_decay: at least 0. Default 2e-4.

    >>> SGDSettings(momentum=0.8).weight_decay
    0.0002
    """

    name: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: NonNegativeFloat = 2e-4


class AdamWSettings(_OptimizerSettings):
    """Adam with decoupled weight decay.

    Args:
        name: "adamw".
        betas: decay of the two running means. Default (0.9, 0.999).
        weight_decay: at least 0. Default 0.01.

    >>> AdamWSettings().betas
    (0.9, 0.999)
    """

    name: Literal["adamw"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: NonNegativeFloat = 1e-2


class LossSettings(_Settings):
    """A base loss and its settings.

    Args:
        name: a key of `rankreg.LOSSES`, or "ce" for several classes. Default "bce".
        settings: of that loss, e.g. `{"gamma": 2.0}` for "a-fl". Default: the loss's own.

    >>> LossSettings(name="a-fl", settings={"gamma": 2.0}).settings
    {'gamma': 2.0}
    """

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
        """The loss as a function of scores and labels, one value per sample.

        Args:
            counts: the training set's negatives and positives.
        """
        if self.name == MULTICLASS_LOSS:
            return cross_entropy
        settings: dict[str, Any] = dict(self.settings)
        return make_loss(self.name, counts=counts, **settings)


class BufferSettings(_Settings):
    """The positive buffer.

    Args:
        capacity: how many positives it holds, over all processes. Default 32.
        policy: which one leaves for a new one: "dequeue-max" (the highest score), "dequeue-min", "fifo".
        base_over: the base loss sees the "union" of batch and buffer, or the "batch" alone.
        unique: hold no training sample twice. Default False.

    >>> BufferSettings(capacity=16).policy
    'dequeue-max'
    """

    capacity: NonNegativeInt = 32
    policy: PolicyName = "dequeue-max"
    base_over: Literal["union", "batch"] = "union"
    unique: bool = False


class _Method(_Settings):
    def term(self, samples: int, critical: int | None) -> Term | None:
        """What is added to the base loss.

        samples: the size of the training set; critical: the class's index, or None if scores are binary.
        """
        return None

    def end_epoch(self, term: Any, validation_auc: float) -> None:
        """Tell the term that an epoch is over."""


class NoMethod(_Method):
    """The base loss over the batch: the plain baseline.

    Args:
        name: "none".

    >>> NoMethod().buffer.capacity
    0
    """

    name: Literal["none"] = "none"

    @property
    def buffer(self) -> BufferSettings:
        """No buffer."""
        return BufferSettings(capacity=0)


class BufferMethod(_Method):
    """The base loss over batch and buffer, without a ranking term: the control for RankReg.

    Args:
        name: "buffer".
        buffer: the positive buffer.

    >>> BufferMethod().buffer.capacity
    32
    """

    name: Literal["buffer"] = "buffer"
    buffer: BufferSettings = BufferSettings()


class RankRegMethod(_Method):
    """The ranking regularizer over batch and buffer; see `rankreg.RankReg`.

    Without reach and gamma the default reach is written down, so a saved config says what was run.

    Args:
        name: "rankreg".
        penalty: p, one of "rank", "squared", "cubed", "exponential".
        reach: the largest shift of a score when asking how ranks would change. Default 1.
        gamma: the paper's way to say the same; give one of the two.
        space: "score" ranks raw scores, "probability" their sigmoid.
        margin: what positives must be ahead by, in units of the space. Default 0.
        among: rank positives among "negatives", or among "all" samples as published.
        weight: the factor of the term. Default 0.1.
        buffer: the positive buffer.

    >>> RankRegMethod().reach
    1.0
    """

    name: Literal["rankreg"] = "rankreg"
    penalty: PenaltyName = "squared"
    reach: PositiveFloat | None = None
    gamma: PositiveFloat | None = None
    space: SpaceName = "score"
    margin: NonNegativeFloat = 0.0
    among: AmongName = "negatives"
    weight: NonNegativeFloat = DEFAULT_WEIGHT
    buffer: BufferSettings = BufferSettings()

    @model_validator(mode="before")
    @classmethod
    def _states_its_width(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("reach") is None and values.get("gamma") is None:
            return {**values, "reach": DEFAULT_REACH}
        return values

    @model_validator(mode="after")
    def _can_be_made(self) -> "RankRegMethod":
        self.term(1, None)
        return self

    def term(self, samples: int, critical: int | None) -> Term:
        settings: dict[str, Any] = self.model_dump(exclude={"name", "buffer"})
        return RankReg(**settings, positive=critical)


class ALMMethod(_Method):
    """The augmented Lagrangian; see `rankreg.ALM`. It uses no buffer unless told to.

    Args:
        name: "alm".
        mu: the penalty's first factor. Default 1e-5.
        delta: what positives must be ahead by. Default 0.25.
        rho: the factor by which mu grows, at least 1. Default 2.
        buffer: the positive buffer; default none.

    >>> ALMMethod(mu=1e-3).rho
    2.0
    """

    name: Literal["alm"] = "alm"
    mu: PositiveFloat = 1e-5
    delta: NonNegativeFloat = 0.25
    rho: float = Field(default=2.0, ge=1, allow_inf_nan=False)
    buffer: BufferSettings = BufferSettings(capacity=0)

    def term(self, samples: int, critical: int | None) -> Term:
        return ALM(samples, mu=self.mu, delta=self.delta, rho=self.rho, positive=critical)

    def end_epoch(self, term: Any, validation_auc: float) -> None:
        term.end_epoch(validation_auc)


def _named(value: Any) -> Any:
    """A name alone stands for that choice with its default settings."""
    return {"name": value} if isinstance(value, str) else value


class TrainConfig(_Settings):
    """One run: everything but the data, the folder and a network of your own.

    A name alone stands for a choice with its default settings: `method = "rankreg"`.

    Args:
        seed: every random choice comes from it. Default 0.
        epochs: how often to pass over the training samples. Default 100.
        batch_size: the most samples of a step, over all processes, without the buffer. Default 64.
        learning_rate: of the first step. Default 0.01.
        schedule: "constant", or "cosine" down to 0.
        optimizer: `SGDSettings`, `AdamWSettings` or their names. Default "sgd".
        loss: `LossSettings` or a name. Default: "bce", or "ce" for several classes.
        method: `NoMethod`, `BufferMethod`, `RankRegMethod`, `ALMMethod` or a name. Default "none".
        model: `ResNetShape`, `BackboneShape` or `MLPShape`. Default: a ResNet-10 for images, an MLP for rows.
        sampling: "shuffled", or "balanced": every class equally often, with as many samples an epoch.
        augmentation: a key of `rankreg.augment.AUGMENTATIONS`. Default "none".
        selection: which epoch to keep: the highest validation "auc", the lowest validation "fpr" at `tpr`,
            the lowest "error" of the other classes there, or the "last" one. Of epochs that tie, the one
            with the lower validation loss is kept, then the later one.
        tpr: the true positive rate at which false alarms count. Default 0.95.
        patience: stop after so many epochs without a better one. Default: never.
        precision: "float32", "bfloat16", or "auto": bfloat16 where the hardware is fast in it.
        compile: train with `torch.compile`, which is faster on some processors and needs a C++ compiler. Scores
            differ by rounding. Default False.
        device: "cpu", "cuda", or "auto": a GPU if there is one.
        critical: the critical class of a data set with several classes. Default: as the data set says.

    >>> TrainConfig(method="rankreg", epochs=5).method.weight
    0.1
    """

    seed: NonNegativeInt = 0
    epochs: PositiveInt = 100
    batch_size: PositiveInt = 64
    learning_rate: PositiveFloat = 0.01
    schedule: Literal["constant", "cosine"] = "constant"
    optimizer: Annotated[SGDSettings | AdamWSettings, Field(discriminator="name"), BeforeValidator(_named)] = (
        SGDSettings()
    )
    loss: Annotated[LossSettings, BeforeValidator(_named)] | None = None
    method: Annotated[
        NoMethod | BufferMethod | RankRegMethod | ALMMethod, Field(discriminator="name"), BeforeValidator(_named)
    ] = NoMethod()
    model: Annotated[ModelShape, BeforeValidator(_named)] | None = None
    sampling: Literal["shuffled", "balanced"] = "shuffled"
    augmentation: str = "none"
    selection: Literal["auc", "fpr", "error", "last"] = "auc"
    tpr: float = Field(default=0.95, gt=0, le=1)
    patience: PositiveInt | None = None
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False
    device: Literal["auto", "cpu", "cuda"] = "auto"
    critical: NonNegativeInt | None = None

    @model_validator(mode="before")
    @classmethod
    def _speaks_of_optimizer(cls, values: Any) -> Any:
        if isinstance(values, dict) and "optimiser" in values:
            warnings.warn("write 'optimizer': the spelling 'optimiser' will go", FutureWarning, stacklevel=2)
            return renamed(values)
        return values

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
        """Read a TOML file with these keys.

        Args:
            path: of the file.
        """
        try:
            return cls.model_validate(read_toml(Path(path)))
        except OSError as error:
            raise type(error)(f"cannot read the settings in {path}: {error.strerror}") from error
        except ValidationError as error:
            raise ValueError(f"{path}: {faults(error)}") from error


NEWER: dict[str, Any] = {"compile": False}  # keys that older versions did not write, and what they did


def as_of_today(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete config of an older version, with the keys of today."""
    return NEWER | renamed(config)


def renamed(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config as an older version wrote it, with the keys of today."""
    return {"optimizer" if key == "optimiser" else key: value for key, value in config.items()}


def faults(error: ValidationError) -> str:
    """What is wrong with which key, on one line; the first few of many."""
    found = error.errors()
    lines = [f"{'.'.join(map(str, fault['loc'])) or 'config'}: {_sentence(fault)}" for fault in found[:SHOWN]]
    return "; ".join(line[:LONGEST] for line in lines) + (
        f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    )


def _sentence(fault: ErrorDetails) -> str:
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
