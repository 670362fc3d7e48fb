"""The methods a run may use: which term is added to the base loss, and what the buffer does."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, model_validator

from rankreg.alm import ALM
from rankreg.buffer import PolicyName
from rankreg.objective import Term
from rankreg.regularizer import DEFAULT_REACH, DEFAULT_WEIGHT, AmongName, PenaltyName, RankReg, SpaceName


class BufferSettings(BaseModel):
    """The positive buffer: its capacity over all processes, who leaves, and whether the base loss sees it.

    base_over: "union" of batch and buffer, or the "batch" alone. unique: hold no training sample twice.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    capacity: NonNegativeInt = 32
    policy: PolicyName = "dequeue-max"
    base_over: Literal["union", "batch"] = "union"
    unique: bool = False


class _Method(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def term(self, samples: int, critical: int | None) -> Term | None:
        """What is added to the base loss, for that many training samples; critical: a class index or None."""
        return None


class NoMethod(_Method):
    """The base loss over the batch."""

    name: Literal["none"] = "none"

    @property
    def buffer(self) -> BufferSettings:
        """No buffer."""
        return BufferSettings(capacity=0)


class BufferMethod(_Method):
    """The base loss over batch and buffer, nothing ranked: the control that RankReg is to be measured against."""

    name: Literal["buffer"] = "buffer"
    buffer: BufferSettings = BufferSettings()


class RankRegMethod(_Method):
    """The ranking regulariser over batch and buffer; settings as in `rankreg.RankReg`.

    Without reach and gamma the default reach is written down, so that a saved config says what was run.
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
    """The augmented Lagrangian; settings as in `rankreg.ALM`. It uses no buffer unless told to."""

    name: Literal["alm"] = "alm"
    mu: PositiveFloat = 1e-5
    delta: NonNegativeFloat = 0.25
    rho: float = Field(default=2.0, ge=1, allow_inf_nan=False)
    buffer: BufferSettings = BufferSettings(capacity=0)

    def term(self, samples: int, critical: int | None) -> Term:
        return ALM(samples, mu=self.mu, delta=self.delta, rho=self.rho, positive=critical)
