"""Ways to train (arms) and sizes of an experiment (presets), as literal tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Settings = Mapping[str, Any]

LATER = 5  # splits from this one on may train faster (docs/decisions/0055)


@dataclass(frozen=True)
class Family:
    """How the data sets of a family are loaded and trained.

    settings: added to the data set's settings, or with `replace` used instead of them. methods: by the name of a
    method, what it changes in the config. fixed: settings that no arm changes. later: the same, from split
    `LATER` on. split_is: the loader's argument that takes the number of the split; all splits of a data set must
    share the test part.
    """

    loader: str
    config: Settings
    settings: Settings = field(default_factory=dict)
    replace: bool = False
    methods: Mapping[str, Settings] = field(default_factory=dict)
    fixed: Settings = field(default_factory=dict)
    later: Settings = field(default_factory=dict)
    split_is: Literal["seed", "member"] = "seed"

    def config_of(self, method: str) -> Settings:
        return {**self.config, **self.methods.get(method, {})}

    def fixed_on(self, split: int) -> Settings:
        """The settings of a split that no arm changes."""
        return {**self.fixed, **(self.later if split >= LATER else {})}


@dataclass(frozen=True)
class Preset:
    """A size: how many splits of experiments that are made for another size (None: as they say), and how to train.

    curves: records also hold the measures of every epoch and the scores of the last one.
    """

    title: str
    splits: int | None
    families: Mapping[str, Family]
    curves: bool = False


SGD = {"name": "sgd", "momentum": 0.9, "weight_decay": 2e-4}
ON_CPU = {"precision": "float32", "device": "cpu"}
FASTER = {"precision": "bfloat16", "compile": True}
SKIN = {"stem": "imagenet", "pixels": "imagenet"}
# By the AUC of the critical class, the first epochs would be chosen (docs/decisions/0050).
MANY_CLASSES: Settings = {"selection": "error", "tpr": 0.9}
PAPER = {
    "epochs": 100,
    "learning_rate": 0.01,
    "schedule": "constant",
    "optimiser": SGD,
    "model": {"name": "resnet10", "width": 1.0},
    "augmentation": "cifar",
    "precision": "auto",
}
SMALL = {"name": "resnet10", "width": 0.25}
SMALL_RUN: Settings = {"optimiser": SGD, "model": SMALL, "augmentation": "cifar", **ON_CPU}
Budget = tuple[float, int]  # learning rate and epochs
# Of the preset compact, without and with a buffer, chosen on tuning data (docs/decisions/0050)
SHORT: tuple[Budget, Budget] = ((0.03, 16), (0.01, 8))


def _quarter_width(
    loader: str,
    schedule: str,
    plain: Budget,
    buffered: Budget,
    settings: Settings | None = None,
    **changes: Any,
) -> Family:
    """What two cores can train.

    plain, buffered: the budgets without and with a buffer. With one, an epoch has twice the steps, each of 32
    samples and 32 from the buffer: half the epochs are as many steps and samples.
    """
    first, more = ({"learning_rate": rate, "epochs": epochs} for rate, epochs in (plain, buffered))
    config = {**SMALL_RUN, "schedule": schedule, **first, **changes}
    return Family(loader, config, settings or {}, methods={"buffer": more, "rankreg": more})


SMOKE = {
    "epochs": 1,
    "schedule": "cosine",
    "learning_rate": 0.05,
    "optimiser": SGD,
    "model": {"name": "mlp", "hidden": [16]},
    **ON_CPU,
}
TABLE = {  # a table of one's own: the defaults of `rankreg fit`
    "epochs": 40,
    "learning_rate": 2e-3,
    "schedule": "cosine",
    "optimiser": {"name": "adamw"},
    "model": {"name": "mlp", "hidden": [64, 64], "dropout": 0.1},
    **ON_CPU,
}
OWN_TABLE = Family("table", TABLE, split_is="member")  # another member leaves the test part as it is
DEMO = {"epochs": 10, "learning_rate": 0.02, "model": {"name": "mlp", "hidden": [64, 64]}, **ON_CPU}
DIGITS = Family("digits", SMOKE, {"critical": 8, "ratio": 50}, replace=True)

MELANOMA: dict[str, Any] = {"loader": "melanoma", "split_is": "member"}  # otherwise as HAM10000
PAPER_SKIN = Family(
    "ham10000",
    {**PAPER, "model": {"name": "resnet18", "width": 1.0, **SKIN}, "augmentation": "dermoscopy"},
    {"size": 256},
)
SMALL_SKIN = _quarter_width(
    "ham10000",
    "cosine",
    (0.03, 8),
    (0.01, 4),
    {"size": [48, 64]},
    model={**SMALL, "pixels": "imagenet"},
    augmentation="dermoscopy",
    precision="bfloat16",
)

PRESETS: dict[str, Preset] = {
    "paper": Preset(
        "full width, 100 epochs, 10 splits",
        10,
        {
            "table": OWN_TABLE,
            "cifar10": Family("cifar10", PAPER),
            "cifar100": Family("cifar100", {**PAPER, "learning_rate": 0.001}),
            "cifar10-lt": Family("cifar10-lt", {**PAPER, **MANY_CLASSES}),
            "ham10000": PAPER_SKIN,
            "melanoma": replace(PAPER_SKIN, **MELANOMA),
        },
    ),
    "compact": Preset(
        "quarter width, 4 to 16 epochs, 3 to 10 splits: what two cores can do",
        None,
        {
            "table": OWN_TABLE,
            "cifar10": _quarter_width("cifar10", "cosine", *SHORT),
            "cifar100": _quarter_width("cifar100", "cosine", *SHORT),
            "cifar10-lt": _quarter_width(
                "cifar10-lt", "cosine", (0.03, 12), (0.01, 12), precision="bfloat16", **MANY_CLASSES
            ),
            "ham10000": SMALL_SKIN,
            "melanoma": replace(SMALL_SKIN, **MELANOMA),
        },
    ),
    "converged": Preset(  # every arm sees as many samples (docs/decisions/0055, 0056)
        "quarter width, 100 epochs (CIFAR-10: 150) of 64 samples or half of 32 + 32, constant rate, 5 or 10 splits",
        10,
        {
            "table": OWN_TABLE,
            "cifar10": replace(_quarter_width("cifar10", "constant", (0.01, 150), (0.01, 75)), later=FASTER),
            "cifar100": replace(_quarter_width("cifar100", "constant", (0.001, 100), (0.001, 50)), later=FASTER),
            "elpv": _quarter_width(
                "elpv", "constant", (0.01, 100), (0.01, 50), {"size": 96}, model={**SMALL, **SKIN}
            ),
        },
        curves=True,
    ),
    "demo": Preset(
        "a small network on scikit-learn's digits, 10 epochs, 8 splits: a minute",
        8,
        {"digits": Family("digits", DEMO, fixed={"batch_size": 32})},
    ),
    "smoke": Preset(
        "scikit-learn's digits in place of every data set, one epoch, 2 splits: seconds, for tests",
        2,
        {
            "table": Family("table", {**TABLE, "epochs": 1}, split_is="member"),
            **dict.fromkeys(("cifar10", "cifar100", "melanoma", "ham10000", "elpv"), DIGITS),
            "cifar10-lt": Family("digits-lt", {**SMOKE, **MANY_CLASSES}, {"imbalance": 20}, replace=True),
        },
    ),
}


@dataclass(frozen=True)
class Arm:
    """A way to train: what it changes in the config of a run.

    control: the same without the ranking term; by default the arm with the same buffer. budget: the method whose
    learning rate and epochs are used; by default its own. factors: multiply learning rate and epochs.
    """

    title: str
    config: Settings
    control: str | None = None
    budget: str | None = None
    factors: tuple[float, float] = (1.0, 1.0)

    @property
    def ranks(self) -> bool:
        return bool(self.config["method"]["name"] == "rankreg")


def _buffer(**changes: Any) -> dict[str, Any]:
    return {"capacity": 32, "policy": "dequeue-max", "base_over": "union", "unique": False, **changes}


def _rankreg(*, buffer: Settings | None = None, **changes: Any) -> dict[str, Any]:
    """The ranking term on scores in full, so that a record's hash covers what a default was at the time."""
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


NO_BUFFER = "no-buffer"  # the arm "batch-only" without the ranking term

ARMS: dict[str, Arm] = {
    "base": Arm("base loss", {"batch_size": 64, "method": {"name": "none"}}),
    "alm": Arm("+ ALM", {"batch_size": 64, "method": {"name": "alm"}}),  # μ and δ follow from data and loss
    "buffer": Arm("+ buffer", _buffer_only()),
    "rankreg": Arm("+ RankReg (scores)", _rankreg()),
    "oversampling": Arm("oversampled", {"batch_size": 64, "method": {"name": "none"}, "sampling": "balanced"}),
    "batch-32": Arm("batch 32", {"batch_size": 32, "method": {"name": "none"}}),
    NO_BUFFER: Arm("batch 32, as many steps as RankReg", _buffer_only(capacity=0)),
    "probability": Arm("+ RankReg (published)", _rankreg(space="probability", gamma=1.0)),
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
    "oversampling-rankreg": _oversampled("oversampled + RankReg (scores)"),
    "oversampling-gentle": _oversampled("oversampled + RankReg (default)", among="negatives", weight=0.1),
    **{f"size-{n}": Arm(f"+ RankReg, buffer of {n}", _rankreg(buffer={"capacity": n})) for n in (0, 5, 10, 20, 48)},
    **{f"buffer-{n}": Arm(f"+ buffer of {n}", _buffer_only(capacity=n)) for n in (5, 10, 20)},
    **{f"reach-{reach:g}": Arm(f"reach {reach:g}", _rankreg(reach=reach)) for reach in (0.3, 3.0, 10.0)},
    **{f"weight-{weight:g}": Arm(f"weight {weight:g}", _rankreg(weight=weight)) for weight in (0.3, 3.0, 10.0)},
    **{f"margin-{margin:g}": Arm(f"margin {margin:g}", _rankreg(margin=margin)) for margin in (1.0, 3.0, 10.0)},
    "among-negatives": Arm("+ RankReg among negatives", _rankreg(among="negatives")),
    "among-negatives-reach-10": Arm("among negatives, reach 10", _rankreg(among="negatives", reach=10.0)),
    "among-negatives-margin-3": Arm("among negatives, margin 3", _rankreg(among="negatives", margin=3.0)),
    "among-negatives-weight-0.1": Arm("+ RankReg (default)", _rankreg(among="negatives", weight=0.1)),
}


LAST = {  # without validation positives to choose the epoch by
    f"{name}-last": Arm(f"{ARMS[name].title}, last epoch", {**ARMS[name].config, "selection": "last"})
    for name in ("base", "buffer", "rankreg")
}


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
TUNED = {  # every other budget that was tried
    f"{name}-rate-{rate:g}-epochs-{epochs}": Arm(
        f"{ARMS[name].title}, {epochs} epochs at {rate:g}",
        {**ARMS[name].config, "learning_rate": rate, "epochs": epochs},
    )
    for name in ("base", "buffer", "rankreg")
    for epochs in (8, 16)
    for rate in (0.003, 0.01, 0.03, 0.1)
    if (rate, epochs) != SHORT[name != "base"]
}
RATES = {  # to choose the learning rate of the preset converged
    f"base-rate-{rate:g}": Arm(f"base loss at {rate:g}", {**ARMS["base"].config, "learning_rate": rate})
    for rate in (0.003, 0.01)
}
ARMS |= LAST | LARGER | TUNED | RATES
