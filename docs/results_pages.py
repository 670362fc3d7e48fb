"""The pages on results: templates in docs/pages, filled with numbers from the records."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rankreg.notation import plain, signed
from rankreg.operating import Interval
from rankreg.operating.comparison import still_significant
from rankreg.operating.intervals import mean_of
from rankreg_bench.arms import ARMS, LATER
from rankreg_bench.differences import Paired, pair
from rankreg_bench.estimates import published_values
from rankreg_bench.grids import DATA, experiment_of
from rankreg_bench.pages import Number, limits
from rankreg_bench.records import RecordFolder, Selection
from rankreg_bench.tables import MEAN, pages_of

DOCS = Path(__file__).parent
RECORDS = DOCS.parent / "records"
PAGES = ("results.md", "more-results.md")
DEFAULT = "among-negatives-weight-0.1"
BCE_ONLY = ("cifar10-200", "cifar100-200")  # other losses were not run
LONG_CONTRASTS = (  # the questions of docs/decisions/0055, in its order
    ("buffer", "base"),
    ("probability", "buffer"),
    ("rankreg", "buffer"),
    (DEFAULT, "buffer"),
    ("oversampling", "buffer"),
    ("alm", "base"),
)

Place = tuple[str, str, str, str, str]  # data, test, arm, measure, kind


@dataclass(frozen=True)
class ShortRow:
    """A row of the table of short runs: an experiment on one data set; `last`: arms of the last epoch."""

    title: str
    runs: str
    experiment: str
    data: str = ""
    test: str = "extended"
    last: str = ""
    default_in: str = ""


SHORT_ROWS = (
    ShortRow("CIFAR-10 1:100 (44)", "8, 5", "cifar10-100", default_in="controls"),
    ShortRow("CIFAR-100 1:100 (20)", "8, 5", "cifar100-100", default_in="controls"),
    ShortRow("CIFAR-10 1:100, labels flipped, mean of 5 to 50 %", "BCE, 3", "label-noise", MEAN),
    ShortRow("CIFAR-10 1:200 (22)", "BCE, 3", "cifar10-200"),
    ShortRow("CIFAR-100 1:200 (10)", "BCE, 3", "cifar100-200"),
    ShortRow("CIFAR-100 1:100 (20), last epoch", "BCE, 10", "last-epoch", "cifar100-100", last="-last"),
    ShortRow("CIFAR-100 1:200 (10), last epoch", "BCE, 10", "last-epoch", "cifar100-200", last="-last"),
    ShortRow("CIFAR-10 1:10 (441)", "BCE, 3", "more-positives", "cifar10-10", default_in="more-positives"),
    ShortRow("CIFAR-100 1:20 (101)", "BCE, 3", "more-positives", "cifar100-20", default_in="more-positives"),
    ShortRow("skin lesions 1:170", "BCE, 3", "ham10000", "ham10000-170", test="official"),
)


@cache
def numbers_of(experiment: str) -> Mapping[Place, Number]:
    """All numbers of an experiment's table; of several base losses only BCE, and the mean over them."""
    only = ("bce",) if experiment in BCE_ONLY else ()
    selection = Selection(experiment, experiment_of(experiment).preset, RECORDS, only=only)
    found = [number for page in pages_of(selection) for number in page.numbers]
    return {(n.data, n.test, n.arm, n.measure, n.kind): n for n in found if n.loss in ("all", "bce", "ce")}


def number_at(
    experiment: str, arm: str, measure: str = "auc", data: str = "", test: str = "extended", kind: str = "single"
) -> Number | None:
    """One number of a table; None if its runs have no record."""
    return numbers_of(experiment).get((data or experiment, test, arm, measure, kind))


def level(
    experiment: str, arm: str, measure: str = "auc", data: str = "", test: str = "extended", kind: str = "single"
) -> str:
    """A level with one decimal."""
    return plain(known(experiment, arm, measure, data, test, kind).value)


def known(experiment: str, arm: str, measure: str, data: str, test: str, kind: str) -> Number:
    """A number that a sentence needs: without its runs the sentence cannot stand."""
    number = number_at(experiment, arm, measure, data, test, kind)
    if number is None:
        raise LookupError(f"no record gives the {measure} of {arm} in {experiment} {data} ({test}, {kind})")
    return number


def with_limits(number: Number) -> str:
    """A difference with its interval, `+9.1 (6.1 to 12.2)`."""
    if number.low is None or number.high is None:
        return estimated(Interval(number.value, -inf, inf))
    return estimated(Interval(number.value, number.low, number.high))


def estimated(found: Interval) -> str:
    """A difference with its interval, which one split does not give."""
    return f"{signed(found.estimate)} {limits(found) if found.bounded else '(one split)'}"


def gap(
    experiment: str, first: str, second: str, measure: str = "auc", data: str = "", test: str = "extended"
) -> str:
    """The paired difference of two arms, first − second."""
    return with_limits(known(experiment, f"{first} minus {second}", measure, data, test, "difference"))


def gain(experiment: str, measure: str, test: str = "extended") -> str:
    """What the ensembles of RankReg gain over the better of base and ALM."""
    found = known(experiment, "rankreg over better of base and ALM", measure, "", test, "ensemble gain")
    assert found.low is not None
    assert found.high is not None
    return f"{plain(found.value)} [{plain(found.low)} to {plain(found.high)}]"


def published_gain(experiment: str, measure: str) -> str:
    """The paper's gain over the better of base and ALM."""
    found = known(experiment, "rankreg over better of base and ALM", measure, "", "official", "ensemble gain")
    assert found.published is not None
    return plain(found.published)


def _about_the_term(text: str) -> str:
    """Bold where the interval excludes zero."""
    inside = text[text.find("(") + 1 : -1].replace("−", "-").split(" to ")
    told_apart = len(inside) == 2 and float(inside[0]) * float(inside[1]) > 0
    return f"**{text}**" if told_apart else text


def short_table() -> str:
    """The table of short runs: what the buffer adds to the base loss, and what the term adds to the buffer."""
    lines = [
        "| data (training positives) | base losses, splits | buffer − base, AUC | RankReg − buffer, AUC"
        " | RankReg − buffer, FPR@95 | default term − buffer, AUC |",
        "|---|---|---|---|---|---|",
    ]
    for row in SHORT_ROWS:
        place = {"data": row.data, "test": row.test}
        ranked, buffered, base = f"rankreg{row.last}", f"buffer{row.last}", f"base{row.last}"
        own = {"data": row.data or row.experiment, "test": row.test}
        default = gap(row.default_in, DEFAULT, "buffer", **own) if row.default_in else ""
        cells = [
            gap(row.experiment, buffered, base, **place),
            _about_the_term(gap(row.experiment, ranked, buffered, **place)),
            _about_the_term(gap(row.experiment, ranked, buffered, "fpr@95", **place)),
            _about_the_term(default) if default else "",
        ]
        lines.append(f"| {row.title} | {row.runs} | {' | '.join(cells)} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class LongColumn:
    """A column of the table of long runs: one data set, on the test set that decides."""

    title: str
    experiment: str
    data: str
    test: str


LONG_COLUMNS = (
    LongColumn("CIFAR-10 1:100 (44)", "methods", "cifar10-100", "extended"),
    LongColumn("CIFAR-100 1:100 (20)", "methods", "cifar100-100", "extended"),
    LongColumn("solar cells 1:50 (21)", "elpv", "elpv-50", "official"),
)


@cache
def long_pair(column: LongColumn, first: str, second: str) -> Paired | None:
    """Two arms of the long runs, paired over the splits that both have."""
    (grid,) = Selection(column.experiment, "converged", RECORDS).grids(column.test)
    return pair(grid, column.data, ("bce",), first, second)


def long_table() -> str:
    """The table of long runs: the AUC of every arm, then the questions of docs/decisions/0055 and 0056.

    The head of a column gives the largest number of splits; an entry with fewer says so itself.
    """
    arms, significant = experiment_of("methods").arms, _significant()
    columns = []
    for column in LONG_COLUMNS:
        levels = [number_at(column.experiment, arm, "auc", column.data, column.test) for arm in arms]
        pairs = [long_pair(column, first, second) for first, second in LONG_CONTRASTS]
        entries = [(plain(one.value), one.splits) if one else None for one in levels]
        for found, both in zip(pairs, LONG_CONTRASTS, strict=True):
            mark = "**" if (column, *both) in significant else ""
            entries.append(
                (f"{mark}{estimated(found.estimate('auc'))}{mark}", len(found.splits)) if found else None
            )
        most = max(one[1] for one in entries if one)
        cells = [
            "–" if one is None else one[0] if one[1] == most else f"{one[0]}, {one[1]} of {most}" for one in entries
        ]
        columns.append([f"{column.title}, {most} splits", *cells])
    labels = ["", *(ARMS[arm].title for arm in arms), *(question(*both) for both in LONG_CONTRASTS)]
    lines = [f"| {' | '.join(row)} |" for row in zip(labels, *columns, strict=True)]
    return "\n".join([lines[0], "|---|" + "---|" * len(columns), *lines[1:]])


def long_verdict() -> str:
    """How many of the differences in the table of long runs are significant."""
    count = len(_significant())
    if not count:
        return "No difference is significant."
    return "One difference is significant." if count == 1 else f"{count} differences are significant."


def _significant() -> set[tuple[LongColumn, str, str]]:
    """The answers that pass Holm's correction for all questions of their experiment, also those still open."""
    passed = set()
    for experiment in dict.fromkeys(column.experiment for column in LONG_COLUMNS):
        arms = experiment_of(experiment).arms
        chances = {
            (column, first, second): _chance(column, first, second)
            for column in LONG_COLUMNS
            for first, second in LONG_CONTRASTS
            if column.experiment == experiment and {first, second} <= set(arms)
        }
        passed |= set(sorted(chances, key=chances.__getitem__)[: still_significant(list(chances.values()))])
    return passed


def _chance(column: LongColumn, first: str, second: str) -> float:
    """The p-value of a difference in AUC; 1 as long as it has none."""
    found = long_pair(column, first, second)
    chance = found.p_value("auc") if found and len(found.splits) > 1 else None
    return 1.0 if chance is None else chance


def long_answers() -> str:
    """The questions of docs/decisions/0055: differences in AUC, p-values, what could have been found."""
    columns = [column for column in LONG_COLUMNS if column.experiment == "methods"]
    titles = " | ".join(f"{column.title.split()[0]} | p | detectable" for column in columns)
    lines = [f"| question | {titles} |", "|---|" + "---|" * (3 * len(columns))]
    for number, (first, second) in enumerate(LONG_CONTRASTS, 1):
        cells = []
        for column in columns:
            cells += _answer_cells(long_pair(column, first, second))
        lines.append(f"| {number}. {question(first, second)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def long_gains() -> str:
    """The questions of docs/decisions/0055 about LDAM and CB-BCE, and what passes Holm's correction."""
    (grid,) = Selection("gains", "converged", RECORDS).grids("extended")
    experiment = experiment_of("gains")
    titles = " | ".join(f"{DATA[data].title.split()[0]} | p | detectable" for data in experiment.data)
    lines = [f"| question | {titles} |", "|---|" + "---|" * (3 * len(experiment.data))]
    chances = []
    for loss in experiment.losses:
        for first, second in (("probability", "base"), ("probability", "buffer")):
            cells = []
            for data in experiment.data:
                found = pair(grid, data, (loss,), first, second)
                cells += _answer_cells(found)
                chance = found.p_value("auc") if found else None
                chances.append(1.0 if chance is None else chance)
            lines.append(f"| {loss.upper()}: {question(first, second)} | {' | '.join(cells)} |")
    passed = f"After Holm's correction {still_significant(chances)} of {len(chances)} count."
    return "\n".join([*lines, "", passed])


def _answer_cells(found: Paired | None) -> list[str]:
    """A difference in AUC, its p-value, what could have been found."""
    chance, smallest = (found.p_value("auc"), found.detectable("auc")) if found else (None, None)
    return [
        f"{estimated(found.estimate('auc'))}, {found.scope}" if found else "not run",
        "–" if chance is None else f"{chance:.4f}",
        "–" if smallest is None else plain(smallest),
    ]


def long_halves() -> str:
    """The same differences in the splits that train in single precision, and in those that train faster."""
    halves = {f"0 to {LATER - 1}": range(LATER), f"{LATER} to 9": range(LATER, 10)}
    columns = [(c, half) for c in LONG_COLUMNS if c.experiment == "methods" for half in halves]
    titles = " | ".join(f"{column.title.split()[0]}, splits {half}" for column, half in columns)
    lines = [f"| question | {titles} |", "|---|" + "---|" * len(columns)]
    for number, (first, second) in enumerate(LONG_CONTRASTS, 1):
        cells = []
        for column, half in columns:
            found = long_pair(column, first, second)
            by_split = dict(zip(found.splits, found.values["auc"], strict=True)) if found else {}
            own = [by_split[split] for split in halves[half] if split in by_split]
            cells.append(f"{estimated(mean_of(own))}, {len(own)}" if own else "not run")
        lines.append(f"| {number}. {question(first, second)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def question(first: str, second: str) -> str:
    """Two arms by their titles, first − second."""
    return f"{ARMS[first].title} − {ARMS[second].title}".replace("+ ", "")


def long_gap(data: str, first: str, second: str, measure: str = "auc") -> str:
    """The difference of two arms of the long runs on a data set, first − second, with its interval."""
    found = long_pair(_column(data), first, second)
    assert found is not None
    return estimated(found.estimate(measure))


def last_gap(data: str, first: str, second: str) -> str:
    """The same for the AUC of the last epoch."""
    test = _column(data).test
    ends = [{r["split"]: r["curves"][test]["auc"][-1] for r in long_records(data, arm)} for arm in (first, second)]
    return estimated(
        mean_of([ends[0][split] - ends[1][split] for split in sorted(ends[0].keys() & ends[1].keys())])
    )


def _column(data: str) -> LongColumn:
    (column,) = (one for one in LONG_COLUMNS if one.data == data)
    return column


def long_records(data: str, arm: str = "") -> list[dict[str, Any]]:
    """The records of the long runs on a data set, of one arm or of all."""
    plans = Selection(_column(data).experiment, "converged", RECORDS).plans
    folder = RecordFolder(RECORDS)
    return [folder.read(p) for p in plans if p.data == data and arm in ("", p.arm) and folder.has(p)]


def long_aucs(data: str, arm: str = "") -> list[list[float]]:
    """The AUC of every epoch on the test set that decides, for each of these runs."""
    return [record["curves"][_column(data).test]["auc"] for record in long_records(data, arm)]


def missed(data: str, arm: str) -> str:
    """The AUC of a run's best epoch less that of the epoch which validation chose, mean of an arm's runs."""
    kept = [record["best_epoch"] for record in long_records(data, arm)]
    gaps = [max(curve) - curve[epoch] for curve, epoch in zip(long_aucs(data, arm), kept, strict=True)]
    return plain(sum(gaps) / len(gaps))


def beside(data: str, arm: str, measure: str) -> str:
    """The ensemble of an arm's long BCE runs on the official test set, and the paper's in brackets."""
    found = known("methods", arm, measure, data, "official", "ensemble")
    published = published_values(experiment_of("methods"), data, "bce", arm)
    return f"{plain(found.value)} ({plain(published[measure])})"


def page(name: str) -> str:
    """A page of `PAGES`, as it should stand in docs."""
    environment = Environment(
        loader=FileSystemLoader(DOCS / "pages"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.globals.update(
        level=level,
        gap=gap,
        gain=gain,
        published_gain=published_gain,
        short_table=short_table,
        long_table=long_table,
        long_verdict=long_verdict,
        missed=missed,
        beside=beside,
        long_gap=long_gap,
        last_gap=last_gap,
    )
    return environment.get_template(f"{name}.jinja").render(default=DEFAULT)
