"""Data sets and experiments as literal tables, and the runs that they need; no torch."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rankreg.names import look_up
from rankreg.published import ALM_SETTINGS, LOSS_SETTINGS
from rankreg_bench.arms import (
    ARMS,
    BUFFERS,
    LARGER,
    LAST,
    NO_BUFFER,
    PRESETS,
    RANKED_BUFFERS,
    RATES,
    SETTINGS,
    TUNED,
    Settings,
)

Layout = Literal["main", "arms", "noise"]
TestSet = Literal["official", "extended", "tuning"]


@dataclass(frozen=True)
class Data:
    """A data set: its loader's settings, and what the paper calls it.

    family: the entry of a preset that says how it is loaded and trained. tprs: where FPR is reported, or, with
    several classes, the mean error of the others. published: the paper's name for it. critical: the index of the
    class whose misses matter.

    Your own table is a row of the family "table", with its path (below the folder of the data sets, or
    absolute) and the options of `rankreg.datasets.table`:

        "claims": Data("Claims", "table", {"path": "claims.csv", "target": "fraud", "positive": "yes"}, FOUR)
    """

    title: str
    family: str
    settings: Settings
    tprs: tuple[float, ...]
    published: str = ""
    several_classes: bool = False
    critical: int = 1

    @property
    def measures(self) -> tuple[str, ...]:
        """What is measured, as the published tables call it."""
        if self.several_classes:
            return (*(f"error@{100 * tpr:.0f}tpr" for tpr in self.tprs), "accuracy")
        return (*(f"fpr@{100 * tpr:.0f}" for tpr in self.tprs), "auc")


@dataclass(frozen=True)
class Experiment:
    """A table or figure: data × losses × arms, on the same splits.

    arms: each with the name of its row in the paper's table, or None. published: the paper's ablation, "main" for
    its main tables, or None. splits: how many its own preset runs, and any preset that names no number, from
    `first_split` on. judged_on: the test sets that tables show; only "tuning" where settings are chosen. ceiling:
    the experiment whose base loss had all positives. preset: its own, the size if none is named. changes: by
    preset, fields that have other values there.
    """

    title: str
    data: tuple[str, ...]
    arms: Mapping[str, str | None]
    losses: tuple[str, ...] = ("bce",)
    published: str | None = None
    layout: Layout = "arms"
    splits: int = 3
    first_split: int = 0
    judged_on: tuple[TestSet, ...] = ("official", "extended")
    ceiling: str | None = None
    preset: str = "compact"
    notes: tuple[str, ...] = ()
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def at(self, preset: str) -> "Experiment":
        """The experiment as a preset trains it."""
        return replace(self, **self.changes.get(preset, {}))

    @property
    def ranking_arm(self) -> str:
        """The arm that stands for the paper's method: on Melanoma its base loss is over the batch only."""
        rows = {str(row).rsplit("+", 1)[-1]: arm for arm, row in self.arms.items()}
        return rows.get("rankreg", "rankreg")


THREE, FOUR, LT = (0.98, 0.95, 0.92), (0.98, 0.95, 0.92, 0.90), (0.8, 0.9)  # TPRs
MEL = {"critical": "mel"}
LOSSES = ("bce", "s-ml", "s-fl", "a-ml", "a-fl", "cb-bce", "w-bce", "ldam")

DATA: dict[str, Data] = {
    "cifar10-100": Data("CIFAR-10 1:100", "cifar10", {"ratio": 100}, THREE, "cifar10-1:100"),
    "cifar10-200": Data("CIFAR-10 1:200", "cifar10", {"ratio": 200}, THREE, "cifar10-1:200"),
    "cifar10-10": Data("CIFAR-10 1:10", "cifar10", {"ratio": 10}, THREE, "cifar10-1:100"),
    "cifar100-20": Data("CIFAR-100 1:20", "cifar100", {"ratio": 20}, (0.98, 0.95, 0.90), "cifar100-1:100"),
    "cifar100-100": Data("CIFAR-100 1:100", "cifar100", {"ratio": 100}, (0.98, 0.95, 0.90), "cifar100-1:100"),
    "cifar100-200": Data("CIFAR-100 1:200", "cifar100", {"ratio": 200}, (0.98, 0.95, 0.90), "cifar100-1:200"),
    "melanoma": Data("Melanoma", "melanoma", {}, FOUR, "melanoma"),
    "digits-100": Data("Digit 8 1:100", "digits", {"critical": 8, "ratio": 100}, (0.98, 0.95, 0.90)),
    "ham10000-170": Data("HAM10000 melanoma 1:170", "ham10000", {**MEL, "ratio": 170}, FOUR, "melanoma"),
    "ham10000-all": Data("HAM10000, all melanomas", "ham10000", {**MEL, "ratio": None}, FOUR, "melanoma"),
    "elpv-50": Data("Solar cells 1:50", "elpv", {"ratio": 50}, FOUR),
    "elpv-all": Data("Solar cells, all defects", "elpv", {"ratio": None}, FOUR),
    "cifar10-lt-100": Data("LT-CIFAR-10 1:100", "cifar10-lt", {"imbalance": 100}, LT, "lt-cifar10-100", True, 9),
    "cifar10-lt-200": Data("LT-CIFAR-10 1:200", "cifar10-lt", {"imbalance": 200}, LT, "lt-cifar10-200", True, 9),
    **{
        f"cifar10-100-noise-{round(100 * share)}": Data(
            f"CIFAR-10 1:100, {100 * share:.0f} % flipped",
            "cifar10",
            {"ratio": 100, "noise": share, "noise_kind": "balanced"},
            THREE,
            "cifar10-1:100",
        )
        for share in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    },
}

TWO_TERMS = (
    "RankReg (scores) ranks raw scores among all samples, with reach 1 and weight 1. RankReg (published) ranks"
    " probabilities, with γ = 1 and weight 1. RankReg (default) ranks positives among negatives, with weight 0.1"
    " (docs/decisions/0053)."
)
LATER_SPLITS = "Splits 0 to 4 train in single precision, splits 5 to 9 in bfloat16 with torch.compile."
WAYS = ("base", "buffer", "probability", "oversampling", "among-negatives-weight-0.1", "rankreg", "alm")
METHODS = dict.fromkeys(WAYS) | {"base": "base", "probability": "rankreg", "alm": "alm"}
IN_LONG_RUNS = {"converged": {"arms": METHODS, "losses": ("bce",), "notes": (TWO_TERMS, LATER_SPLITS)}}
BOTH, LONG = ("cifar10-100", "cifar100-100"), ("cifar100-100", "cifar10-100")
MAIN = {"base": "base", "alm": "alm", "buffer": None, "rankreg": "rankreg"}

EXPERIMENTS: dict[str, Experiment] = {
    **{
        f"cifar{classes}-{ratio}": Experiment(
            f"CIFAR-{classes}, 1:{ratio}",
            (f"cifar{classes}-{ratio}",),
            MAIN,
            LOSSES,
            published="main",
            layout="main",
            splits=splits,
            changes=IN_LONG_RUNS,
        )
        for classes in (10, 100)
        for ratio, splits in ((100, 5), (200, 3))
    },
    "melanoma": Experiment(
        "Melanoma",
        ("melanoma",),
        {"base": "base", "alm": "alm", "buffer": None, "batch-only": "rankreg"},
        LOSSES,
        published="main",
        layout="main",
        notes=(
            "Published W-BCE and W-BCE + ALM repeat the rows of CIFAR-10 1:100 at 98, 95 and 92 %: a misprint. The"
            " published Δ contains it.",
            "As published, RankReg has its base loss over the batch only; + buffer has it over batch and buffer."
            " Their difference is not due to the ranking term alone.",
        ),
    ),
    "controls": Experiment(
        "Controls the paper lacks: the buffer alone, oversampling, twice the steps; RankReg (default)",
        BOTH,
        dict.fromkeys(
            ("base", "batch-32", "oversampling", "buffer", "rankreg", "probability", "among-negatives-weight-0.1")
        ),
        splits=5,
        notes=(TWO_TERMS,),
    ),
    "more-positives": Experiment(  # does the ranking term help if positives cannot be memorised?
        "Many more positives to train on",
        ("cifar10-10", "cifar100-20"),
        dict.fromkeys(("base", "oversampling", "buffer", "rankreg", "among-negatives-weight-0.1")),
        notes=(TWO_TERMS,),
    ),
    "oversampled-ranking": Experiment(  # does the term help without a buffer?
        "The ranking term with oversampling in place of the buffer",
        ("cifar10-100", "cifar100-100", "cifar10-10"),
        dict.fromkeys(("base", "buffer", "oversampling", "oversampling-rankreg", "oversampling-gentle")),
        notes=(TWO_TERMS,),
    ),
    "rank-penalty": Experiment(
        "Rank penalties",
        BOTH,
        {"rank": "rank", "rankreg": "squared", "cubed": "cubed", "exponential": "exponential"},
        published="rank_penalty",
    ),
    "buffer-policy": Experiment(
        "Buffer policies",
        BOTH,
        {"rankreg": "dequeue-max", "fifo": "fifo", "dequeue-min": "dequeue-min"},
        published="buffer_policy",
    ),
    "buffer-policy-melanoma": Experiment(
        "Buffer policies, melanoma",
        ("melanoma",),
        {"batch-only": "dequeue-max", "fifo-batch-only": "fifo"},
        published="buffer_policy",
    ),
    "buffer-size": Experiment(
        "Buffer sizes",
        BOTH,
        {"size-0": "0", "size-5": "5", "size-10": "10", "size-20": "20", "rankreg": "32", "size-48": "48"},
        published="buffer_size",
    ),
    "smaller-buffers": Experiment(  # is the ranking term more than a weaker rebalancing?
        "Smaller buffers, with and without the ranking term",
        BOTH,
        dict.fromkeys(("base", *BUFFERS, "buffer", *RANKED_BUFFERS, "rankreg")),
    ),
    "label-noise": Experiment(
        "Label noise",
        ("cifar10-100", *(name for name in DATA if "noise" in name)),
        {"base": "bce", "alm": "bce+alm", "buffer": None, "rankreg": "bce+rankreg"},
        published="label_noise",
        layout="noise",
    ),
    "roc": Experiment("ROC curves", BOTH, MAIN, splits=5),  # runs of the main tables
    "multiclass": Experiment(
        "Several classes, one of them critical",
        ("cifar10-lt-100", "cifar10-lt-200"),
        {"base": "ce", "alm": "ce+alm", "buffer": None, "rankreg": "ce+rankreg"},
        losses=("ce",),
        published="multiclass",
        notes=(
            "All methods have the same number of epochs, as in the paper. Methods with a buffer take twice the"
            " steps of the base loss and see each sample of the other classes equally often.",
        ),
    ),
    "ham10000": Experiment(
        "HAM10000 melanoma, a stand-in for ISIC 2020",
        ("ham10000-170",),
        dict.fromkeys(("base", "alm", NO_BUFFER, "buffer", "rankreg", "fifo", "batch-only", "fifo-batch-only")),
        ceiling="ham10000-ceiling",
    ),
    "ham10000-ceiling": Experiment("All melanomas of HAM10000: the ceiling", ("ham10000-all",), {"base": None}),
    "elpv": Experiment(  # docs/decisions/0056
        "Defective solar cells",
        ("elpv-50",),
        dict.fromkeys(("base", "oversampling", "buffer", "probability")),
        splits=5,
        judged_on=("official",),
        ceiling="elpv-ceiling",
        preset="converged",
    ),
    "elpv-ceiling": Experiment(
        "All defects of the solar cells: the ceiling",
        ("elpv-all",),
        {"base": None},
        splits=5,
        judged_on=("official",),
        preset="converged",
    ),
    "ranking-settings": Experiment(
        "Settings of the ranking term, against the buffer alone, judged on the tuning pool",
        ("cifar10-100", "cifar100-100", "cifar10-10"),  # the last one is quiet: its splits hardly differ
        dict.fromkeys(("buffer", "rankreg", "probability", "batch-only", *SETTINGS)),
        judged_on=("tuning",),  # the best of many looks better than it is: confirm it on a test set, as an arm
        notes=(TWO_TERMS,),
    ),
    "larger-batches": Experiment(  # does the term help with more negatives a step?
        "More samples a step, in the batch or in batch and buffer",
        BOTH,
        dict.fromkeys(("buffer", "rankreg", *LARGER)),
        judged_on=("tuning",),
    ),
    "last-epoch": Experiment(  # seen on splits 0 to 4, tested on others (docs/decisions/0054)
        "The last epoch, whatever its validation results",
        ("cifar100-100", "cifar100-200"),
        dict.fromkeys(LAST),
        splits=10,
        first_split=5,
    ),
    "passing-each-other": Experiment(  # docs/decisions/0053
        "Positives that pass each other, or cannot: ranks among negatives, or one shift for all (penalty r)",
        ("cifar10-10", "cifar100-20", "cifar10-100", "cifar100-100"),
        dict.fromkeys(("buffer", "rankreg", "among-negatives", "among-negatives-weight-0.1", "rank")),
        judged_on=("tuning",),
        notes=(TWO_TERMS,),
    ),
    "methods": Experiment(  # the questions are in docs/decisions/0055
        "Every way to treat rare positives, with BCE",
        LONG,
        METHODS,
        published="main",
        splits=10,
        preset="converged",
        notes=(TWO_TERMS, LATER_SPLITS),
    ),
    "gains": Experiment(
        "The paper's largest gains, where networks have learned",
        LONG,
        {arm: METHODS[arm] for arm in ("base", "buffer", "probability")},
        ("ldam", "cb-bce"),
        published="main",
        splits=5,
        first_split=5,
        preset="converged",
        notes=("All splits train in bfloat16 with torch.compile.",),
    ),
    "learning-curves": Experiment(  # runs of "methods", judged on one test set since a figure shows one
        "Learning curves", LONG, METHODS, splits=10, preset="converged", judged_on=("extended", "official")
    ),
    "rates": Experiment(
        "Learning rate of the base loss in long training, judged on the tuning pool",
        ("cifar100-100",),
        dict.fromkeys(("base", *RATES)),
        splits=1,
        preset="converged",
        judged_on=("tuning",),
    ),
    "demo": Experiment(
        "The demo: a rare digit",
        ("digits-100",),
        dict.fromkeys(MAIN),
        splits=8,
        judged_on=("official",),
        preset="demo",
    ),
    "tuning": Experiment(
        "Learning rate and epochs of each method, judged on the tuning pool",
        ("cifar100-100", "cifar10-100", "cifar10-10"),
        dict.fromkeys(("base", "buffer", "rankreg", *TUNED)),
        judged_on=("tuning",),
    ),
}


def for_choosing(arm: str) -> bool:
    """Whether the arm is only there to choose settings by: never to be looked at on a test set."""
    homes = [experiment.judged_on for experiment in EXPERIMENTS.values() if arm in experiment.arms]
    return all(judged_on == ("tuning",) for judged_on in homes)


ALM_DEFAULT = (1e-5, 0.25)  # μ and δ where none were published


@dataclass(frozen=True)
class RunPlan:
    """One run: where it stands in the grid, and all that decides its outcome.

    loader, settings: the data set; config: the `TrainConfig`, as JSON. The hash is of these three.
    """

    preset: str
    data: str
    loss: str
    arm: str
    split: int
    loader: str = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    config: dict[str, Any] = field(repr=False)

    @property
    def hash(self) -> str:
        """Sixteen hexadecimal digits that change with the data or the config."""
        content = {"loader": self.loader, "settings": self.settings, "config": self.config}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """The record's path below the records' folder, without suffix."""
        return f"{self.preset}/{self.data}/{self.loss}-{self.arm}-{self.split}-{self.hash[:8]}"

    @property
    def cost(self) -> float:
        """How long it takes, relative to the others: samples seen per sample of the data set."""
        buffered = self.config["method"].get("buffer", {}).get("capacity", 0)
        return float(self.config["epochs"] * (1 + buffered / self.config["batch_size"]))


def loader_options(settings: Settings) -> dict[str, Any]:
    """The settings of a plan in the loaders' words: plans still say `critical`, because their hash contains it."""
    return {"positive" if key == "critical" else key: value for key, value in settings.items()}


def offers(preset: str, *data: str) -> bool:
    """Whether a preset says how to train on one of these data sets."""
    return any(DATA[one].family in PRESETS[preset].families for one in data)


def stands_in(preset: str, data: str) -> bool:
    """Whether a preset trains on something else in place of the data set."""
    return offers(preset, data) and PRESETS[preset].families[DATA[data].family].replace


def title_of(data: str, preset: str) -> str:
    """The data set's name; where a preset takes another one in its place, that one's."""
    title = DATA[data].title
    return f"{PRESETS[preset].families[DATA[data].family].loader} for {title}" if stands_in(preset, data) else title


def experiment_of(name: str) -> Experiment:
    """The experiment of that name, or an error that names the nearest."""
    return look_up(EXPERIMENTS, name, "experiment")


def plans_of(name: str, preset: str, *, splits: int | None = None, only: Sequence[str] = ()) -> list[RunPlan]:
    """All runs of an experiment, split by split, so that an unfinished experiment still compares like with like.

    Args:
        name: of the experiment.
        preset: its size. Data sets that the preset lacks are left out.
        splits: how many, default the experiment's in its own preset, elsewhere the preset's if it names a number.
        only: names of data sets, losses or arms; of each kind that is named, the others are left out.

    Returns:
        The runs in the order in which they are trained.

    Raises:
        ValueError: for an unknown name, or if the preset has none of the data sets.
    """
    size = look_up(PRESETS, preset, "preset")
    experiment = experiment_of(name).at(preset)
    if not offers(preset, *experiment.data):
        able = " or ".join(other for other in PRESETS if offers(other, *experiment.data))
        raise ValueError(f"preset {preset} does not say how to train on the data of {name}: use preset {able}")
    usual = experiment.splits if preset == experiment.preset else size.splits or experiment.splits
    count = usual if splits is None else splits
    if count < 1:
        raise ValueError(f"splits must be at least 1, got {count}")
    kinds = [experiment.data, experiment.losses, tuple(experiment.arms)]
    for word in only:
        look_up(dict.fromkeys(word for kind in kinds for word in kind), word, f"part of {name}")
    data, losses, arms = ([w for w in kind if w in only] or kind for kind in kinds)
    return [
        plan_run(preset, one, loss, arm, split)
        for split in range(experiment.first_split, experiment.first_split + count)
        for one in data
        if offers(preset, one)
        for loss in losses
        for arm in arms
    ]


def noise_of(data: str) -> float:
    """The share of training labels that are flipped."""
    return float(DATA[data].settings.get("noise", 0.0))


def unique(plans: Iterable[RunPlan]) -> list[RunPlan]:
    """Each run once: experiments share them."""
    return list({plan.name: plan for plan in plans}.values())


def plan_run(preset: str, data: str, loss: str, arm: str, split: int) -> RunPlan:
    """A single run; later choices go before earlier ones: preset, method, loss, arm."""
    source, chosen = DATA[data], ARMS[arm]
    family = PRESETS[preset].families[source.family]
    settings = dict(family.settings) if family.replace else {**source.settings, **family.settings}
    budget = family.config_of(chosen.budget or chosen.config["method"]["name"])
    config: dict[str, Any] = {
        **budget,
        "learning_rate": budget["learning_rate"] * chosen.factors[0],
        "epochs": max(1, round(budget["epochs"] * chosen.factors[1])),
        "loss": {"name": loss, "settings": LOSS_SETTINGS.get(source.published, {}).get(loss, {})},
        **chosen.config,
        **family.fixed_on(split),
        "seed": split,
    }
    if config["method"]["name"] == "alm":
        mu, delta = ALM_SETTINGS.get(source.published, {}).get(loss, ALM_DEFAULT)
        config["method"] = {"name": "alm", "mu": mu, "delta": delta, "rho": 2.0}
    return RunPlan(preset, data, loss, arm, split, family.loader, {**settings, family.split_is: split}, config)
