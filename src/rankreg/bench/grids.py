"""What is run: data sets and experiments, as literal tables. A line here, or in `arms.py`, adds another one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rankreg.bench.arms import BUFFERS, LARGER, LAST, NO_BUFFER, RANKED_BUFFERS, RATES, SETTINGS, TUNING

Layout = Literal["main", "arms", "noise"]
TestSet = Literal["official", "extended", "tuning"]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Data:
    """A data set of the bench: which loader with which settings, and what the paper calls it.

    family: the entry of a preset that says how it is trained. tprs: where the paper reports FPR, or, for several
    classes, the mean error of the others. published: the paper's name for it, if it has one. critical: the class
    whose misses matter, as the labels count it.

    A table of one's own is a row of the family "table", with its path (below the folder of the data sets, or
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


@dataclass(frozen=True)
class Experiment:
    """A table or figure: data × losses × arms, on the same splits.

    arms: each with the name of its row in the paper's table, or None where the paper has no such row. splits: how
    many the compact preset runs, from `first_split` on. judged_on: the test sets that tables show; where settings
    are chosen, neither the official nor the extended one. ceiling: the experiment whose base loss had all
    positives, to say how much of the way there each arm goes. preset: the size that is meant when none is named.
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
    notes: tuple[str, ...] = field(default=())


FOUR = (0.98, 0.95, 0.92, 0.90)
NOISE = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
LOSSES = ("bce", "s-ml", "s-fl", "a-ml", "a-fl", "cb-bce", "w-bce", "ldam")

DATA: dict[str, Data] = {
    "cifar10-100": Data("CIFAR-10 1:100", "cifar10", {"ratio": 100}, (0.98, 0.95, 0.92), "cifar10-1:100"),
    "cifar10-200": Data("CIFAR-10 1:200", "cifar10", {"ratio": 200}, (0.98, 0.95, 0.92), "cifar10-1:200"),
    "cifar10-10": Data("CIFAR-10 1:10", "cifar10", {"ratio": 10}, (0.98, 0.95, 0.92), "cifar10-1:100"),
    "cifar100-20": Data("CIFAR-100 1:20", "cifar100", {"ratio": 20}, (0.98, 0.95, 0.90), "cifar100-1:100"),
    "cifar100-100": Data("CIFAR-100 1:100", "cifar100", {"ratio": 100}, (0.98, 0.95, 0.90), "cifar100-1:100"),
    "cifar100-200": Data("CIFAR-100 1:200", "cifar100", {"ratio": 200}, (0.98, 0.95, 0.90), "cifar100-1:200"),
    "melanoma": Data("Melanoma", "melanoma", {}, FOUR, "melanoma"),
    "ham10000-170": Data(
        "HAM10000 melanoma 1:170", "ham10000", {"critical": "mel", "ratio": 170}, FOUR, "melanoma"
    ),
    "ham10000-all": Data(
        "HAM10000, all melanomas", "ham10000", {"critical": "mel", "ratio": None}, FOUR, "melanoma"
    ),
    "cifar10-lt-100": Data(
        "LT-CIFAR-10 1:100", "cifar10-lt", {"imbalance": 100}, (0.8, 0.9), "lt-cifar10-100", True, 9
    ),
    "cifar10-lt-200": Data(
        "LT-CIFAR-10 1:200", "cifar10-lt", {"imbalance": 200}, (0.8, 0.9), "lt-cifar10-200", True, 9
    ),
    **{
        f"cifar10-100-noise-{round(100 * share)}": Data(
            f"CIFAR-10 1:100, {100 * share:.0f} % flipped",
            "cifar10",
            {"ratio": 100, "noise": share, "noise_kind": "balanced"},
            (0.98, 0.95, 0.92),
            "cifar10-1:100",
        )
        for share in NOISE
        if share
    },
}

GENTLE = (
    "+ RankReg: as published, ranks among all, weight 1. Gentle: ranks among negatives, weight 0.1, the library's"
    " default (docs/decisions/0053)."
)
METHODS: dict[str, str | None] = dict.fromkeys(
    ("base", "buffer", "probability", "oversampling", "among-negatives-weight-0.1", "rankreg", "alm")
)
MAIN = {"base": "base", "alm": "alm", "buffer": None, "rankreg": "rankreg"}

EXPERIMENTS: dict[str, Experiment] = {
    "cifar10-100": Experiment(
        "CIFAR-10, 1:100", ("cifar10-100",), MAIN, LOSSES, published="cifar10_imb100", layout="main", splits=5
    ),
    "cifar10-200": Experiment(
        "CIFAR-10, 1:200", ("cifar10-200",), MAIN, LOSSES, published="cifar10_imb200", layout="main"
    ),
    "cifar100-100": Experiment(
        "CIFAR-100, 1:100", ("cifar100-100",), MAIN, LOSSES, published="cifar100_imb100", layout="main", splits=5
    ),
    "cifar100-200": Experiment(
        "CIFAR-100, 1:200", ("cifar100-200",), MAIN, LOSSES, published="cifar100_imb200", layout="main"
    ),
    "melanoma": Experiment(
        "Melanoma",
        ("melanoma",),
        {"base": "base", "alm": "alm", "buffer": None, "batch-only": "rankreg"},
        LOSSES,
        published="melanoma",
        layout="main",
        notes=(
            "Published W-BCE and W-BCE + ALM repeat the rows of CIFAR-10 1:100 at 98, 95 and 92 %: a misprint,"
            " which the published Δ inherits.",
            "As published, RankReg's base loss is over the batch alone, that of + buffer over both: their"
            " difference is not the ranking term's alone.",
        ),
    ),
    "controls": Experiment(
        "Controls the paper lacks: the buffer alone, oversampling, twice the steps; gentle RankReg",
        ("cifar10-100", "cifar100-100"),
        {
            "base": None,
            "batch-32": None,
            "oversampling": None,
            "buffer": None,
            "rankreg": None,
            "probability": None,
            "among-negatives-weight-0.1": None,
        },
        splits=5,
        notes=(GENTLE,),
    ),
    "more-positives": Experiment(  # more than can be learned by heart: has the ranking term something to do then?
        "Many more positives to train on",
        ("cifar10-10", "cifar100-20"),
        dict.fromkeys(("base", "oversampling", "buffer", "rankreg", "among-negatives-weight-0.1")),
        notes=(GENTLE,),
    ),
    "oversampled-ranking": Experiment(  # what rebalances without a buffer: does the term add to that?
        "The ranking term with oversampling in place of the buffer",
        ("cifar10-100", "cifar100-100", "cifar10-10"),
        dict.fromkeys(("base", "buffer", "oversampling", "oversampling-rankreg", "oversampling-gentle")),
        notes=(GENTLE,),
    ),
    "rank-penalty": Experiment(
        "Rank penalties",
        ("cifar10-100", "cifar100-100"),
        {"rank": "rank", "rankreg": "squared", "cubed": "cubed", "exponential": "exponential"},
        published="rank_penalty",
    ),
    "buffer-policy": Experiment(
        "Buffer policies",
        ("cifar10-100", "cifar100-100"),
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
        ("cifar10-100", "cifar100-100"),
        {"size-0": "0", "size-5": "5", "size-10": "10", "size-20": "20", "rankreg": "32", "size-48": "48"},
        published="buffer_size",
    ),
    "smaller-buffers": Experiment(  # is the ranking term more than a weaker rebalancing?
        "Smaller buffers, with and without the ranking term",
        ("cifar10-100", "cifar100-100"),
        dict.fromkeys(("base", *BUFFERS, "buffer", *RANKED_BUFFERS, "rankreg")),
    ),
    "label-noise": Experiment(
        "Label noise",
        ("cifar10-100", *(name for name in DATA if "noise" in name)),
        {"base": "bce", "alm": "bce+alm", "buffer": None, "rankreg": "bce+rankreg"},
        published="label_noise",
        layout="noise",
    ),
    "roc": Experiment("ROC curves", ("cifar10-100", "cifar100-100"), MAIN, splits=5),  # runs of the main tables
    "multiclass": Experiment(
        "Several classes, one of them critical",
        ("cifar10-lt-100", "cifar10-lt-200"),
        {"base": "ce", "alm": "ce+alm", "buffer": None, "rankreg": "ce+rankreg"},
        losses=("ce",),
        published="multiclass",
        notes=(
            "As many epochs for all, as in the paper: methods with a buffer take twice the steps of the base loss"
            " and see every sample of the other classes as often.",
        ),
    ),
    "ham10000": Experiment(
        "HAM10000 melanoma, a stand-in for ISIC 2020",
        ("ham10000-170",),
        {
            "base": None,
            "alm": None,
            NO_BUFFER: None,
            "buffer": None,
            "rankreg": None,
            "fifo": None,
            "batch-only": None,
            "fifo-batch-only": None,
        },
        ceiling="ham10000-ceiling",
    ),
    "ham10000-ceiling": Experiment("All melanomas of HAM10000: the ceiling", ("ham10000-all",), {"base": None}),
    "ranking-settings": Experiment(
        "Settings of the ranking term, against the buffer alone, judged on the tuning pool",
        ("cifar10-100", "cifar100-100", "cifar10-10"),  # the last one is quiet: its splits hardly differ
        dict.fromkeys(("buffer", "rankreg", "probability", "batch-only", *SETTINGS)),
        judged_on=("tuning",),  # the best of many looks better than it is: confirm it on a test set, as an arm
        notes=(GENTLE,),
    ),
    "larger-batches": Experiment(  # 32 negatives a step resolve the tail poorly: do more give the term work?
        "More samples a step, in the batch or in batch and buffer",
        ("cifar10-100", "cifar100-100"),
        dict.fromkeys(("buffer", "rankreg", *LARGER)),
        judged_on=("tuning",),
    ),
    "last-epoch": Experiment(  # seen on validation images of splits 0 to 4: asked again of others (0054)
        "The last epoch, whatever its validation results",
        ("cifar100-100", "cifar100-200"),
        dict.fromkeys(LAST),
        splits=10,
        first_split=5,
    ),
    "passing-each-other": Experiment(  # what is left of the harm when positives cannot, docs/decisions/0053
        "Positives that pass each other, or cannot: ranks among negatives, or one shift for all (penalty r)",
        ("cifar10-10", "cifar100-20", "cifar10-100", "cifar100-100"),
        dict.fromkeys(("buffer", "rankreg", "among-negatives", "among-negatives-weight-0.1", "rank")),
        judged_on=("tuning",),
        notes=(GENTLE,),
    ),
    "methods": Experiment(  # the questions are in docs/decisions/0055
        "Every way to treat rare positives, with BCE",
        ("cifar100-100", "cifar10-100"),
        METHODS,
        splits=10,
        preset="converged",
        notes=(GENTLE,),
    ),
    "learning-curves": Experiment(  # runs of "methods", judged on one test set since a figure shows one
        "Learning curves",
        ("cifar100-100", "cifar10-100"),
        METHODS,
        splits=10,
        preset="converged",
        judged_on=("extended", "official"),
    ),
    "rates": Experiment(
        "Learning rate of the base loss in long training, judged on the tuning pool",
        ("cifar100-100",),
        dict.fromkeys(("base", *RATES)),
        splits=1,
        preset="converged",
        judged_on=("tuning",),
    ),
    "tuning": Experiment(
        "Learning rate and epochs of each method, judged on the tuning pool",
        ("cifar100-100", "cifar10-100", "cifar10-10"),
        dict.fromkeys(("base", "buffer", "rankreg", *TUNING)),
        judged_on=("tuning",),
    ),
}


def for_choosing(arm: str) -> bool:
    """Whether the arm is only there to choose settings by: never to be looked at on a test set."""
    homes = [experiment.judged_on for experiment in EXPERIMENTS.values() if arm in experiment.arms]
    return all(judged_on == ("tuning",) for judged_on in homes)
