"""The bench's ways to train, as a literal table: a line here is all a new one takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankreg.bench.presets import PRESETS

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """A way to train: what it changes in a run's config.

    control: the arm that is the same without the ranking term, where it is not the one with the same buffer.
    budget: the method whose learning rate and epochs it takes, where it is not its own; factors: of these two.
    """

    title: str
    config: Settings
    control: str | None = None
    budget: str | None = None
    factors: tuple[float, float] = (1.0, 1.0)

    @property
    def ranks(self) -> bool:
        """Whether it has the ranking term."""
        return bool(self.config["method"]["name"] == "rankreg")


def _buffer(**changes: Any) -> dict[str, Any]:
    return {"capacity": 32, "policy": "dequeue-max", "base_over": "union", "unique": False, **changes}


def _rankreg(*, buffer: Settings | None = None, **changes: Any) -> dict[str, Any]:
    """The published ranking term in full, so that a record's hash covers what a default was at the time."""
    settings = {"penalty": "squared", "space": "score", "margin": 0.0, "weight": 1.0, **changes}
    if "gamma" not in settings:
        settings.setdefault("reach", 1.0)
    return {"batch_size": 32, "method": {"name": "rankreg", **settings, "buffer": _buffer(**(buffer or {}))}}


def _buffer_only(**changes: Any) -> dict[str, Any]:
    return {"batch_size": 32, "method": {"name": "buffer", "buffer": _buffer(**changes)}}


def _oversampled(title: str, **term: Any) -> Arm:
    """The ranking term over balanced batches, in place of a buffer; the budget is that of oversampling alone."""
    config = {**_rankreg(buffer={"capacity": 0}, **term), "batch_size": 64, "sampling": "balanced"}
    return Arm(title, config, control="oversampling", budget="none")


NO_BUFFER = "no-buffer"  # the arm that is "batch-only" without the ranking term: as many steps at the same rate

ARMS: dict[str, Arm] = {
    "base": Arm("base loss", {"batch_size": 64, "method": {"name": "none"}}),
    "alm": Arm("+ ALM", {"batch_size": 64, "method": {"name": "alm"}}),  # μ and δ follow from data and loss
    "buffer": Arm("+ buffer", _buffer_only()),
    "rankreg": Arm("+ RankReg", _rankreg()),
    "oversampling": Arm("oversampled", {"batch_size": 64, "method": {"name": "none"}, "sampling": "balanced"}),
    "batch-32": Arm("batch 32", {"batch_size": 32, "method": {"name": "none"}}),
    NO_BUFFER: Arm("batch 32, RankReg's steps", _buffer_only(capacity=0)),
    "probability": Arm("+ RankReg on probabilities, γ = 1", _rankreg(space="probability", gamma=1.0)),
    "rank": Arm("penalty r", _rankreg(penalty="rank")),
    "cubed": Arm("penalty r³", _rankreg(penalty="cubed")),
    "exponential": Arm("penalty exp r", _rankreg(penalty="exponential")),
    "fifo": Arm("FIFO", _rankreg(buffer={"policy": "fifo"})),
    "dequeue-min": Arm("dequeue-min", _rankreg(buffer={"policy": "dequeue-min"})),
    "batch-only": Arm("+ RankReg, base loss over the batch", _rankreg(buffer={"base_over": "batch"}), NO_BUFFER),
    "fifo-batch-only": Arm(
        "+ RankReg, FIFO, base loss over the batch",
        _rankreg(buffer={"policy": "fifo", "base_over": "batch"}),
        NO_BUFFER,
    ),
    "oversampling-rankreg": _oversampled("oversampled + RankReg"),
    "oversampling-gentle": _oversampled("oversampled + gentle RankReg", among="negatives", weight=0.1),
    **{f"size-{n}": Arm(f"+ RankReg, buffer of {n}", _rankreg(buffer={"capacity": n})) for n in (0, 5, 10, 20, 48)},
    **{f"buffer-{n}": Arm(f"+ buffer of {n}", _buffer_only(capacity=n)) for n in (5, 10, 20)},
    **{f"reach-{reach:g}": Arm(f"reach {reach:g}", _rankreg(reach=reach)) for reach in (0.3, 3.0, 10.0)},
    **{f"weight-{weight:g}": Arm(f"weight {weight:g}", _rankreg(weight=weight)) for weight in (0.3, 3.0, 10.0)},
    **{f"margin-{margin:g}": Arm(f"margin {margin:g}", _rankreg(margin=margin)) for margin in (1.0, 3.0, 10.0)},
    "among-negatives": Arm("+ RankReg among negatives", _rankreg(among="negatives")),
    "among-negatives-reach-10": Arm("among negatives, reach 10", _rankreg(among="negatives", reach=10.0)),
    "among-negatives-margin-3": Arm("among negatives, margin 3", _rankreg(among="negatives", margin=3.0)),
    "among-negatives-weight-0.1": Arm("+ gentle RankReg", _rankreg(among="negatives", weight=0.1)),
}


LAST = {  # without validation positives to choose the epoch by
    f"{name}-last": Arm(f"{ARMS[name].title}, last epoch", {**ARMS[name].config, "selection": "last"})
    for name in ("base", "buffer", "rankreg")
}


def _budget(arm: str) -> tuple[float, int]:
    """Learning rate and epochs of an arm on CIFAR."""
    config = PRESETS["compact"].families["cifar10"].config_of(ARMS[arm].config["method"]["name"])
    return config["learning_rate"], config["epochs"]


def _larger(arm: Arm, batch: int, buffer: int) -> Arm:
    """The same with more samples a step, the rate growing with them, and as many samples seen in all."""
    method = {**arm.config["method"], "buffer": _buffer(capacity=buffer)}
    factors = ((batch + buffer) / 64, 2 * batch / (batch + buffer))  # of 32 + 32 samples
    return Arm(f"{arm.title}, {batch} + {buffer}", {"method": method, "batch_size": batch}, factors=factors)


SETTINGS = tuple(name for name in ARMS if name.split("-")[0] in ("reach", "weight", "margin", "among"))
BUFFERS, RANKED_BUFFERS = ([f"{name}-{n}" for n in (5, 10, 20)] for name in ("buffer", "size"))
LARGER = {
    f"{name}-{batch}+{buffer}": _larger(ARMS[name], batch, buffer)
    for batch, buffer in ((96, 32), (128, 128))
    for name in ("buffer", "rankreg")
}
TUNED = {  # every budget that was tried, but for the one that was chosen: that is the arm itself
    f"{name}-rate-{rate:g}-epochs-{epochs}": Arm(
        f"{ARMS[name].title}, {epochs} epochs at {rate:g}",
        {**ARMS[name].config, "learning_rate": rate, "epochs": epochs},
    )
    for name in ("base", "buffer", "rankreg")
    for epochs in (8, 16)
    for rate in (0.003, 0.01, 0.03, 0.1)
    if (rate, epochs) != _budget(name)
}
TUNING = tuple(TUNED)
RATES = {  # of the base loss, to choose that of the converged preset by
    f"base-rate-{rate:g}": Arm(f"base loss at {rate:g}", {**ARMS["base"].config, "learning_rate": rate})
    for rate in (0.003, 0.01)
}
ARMS |= LAST | LARGER | TUNED | RATES
