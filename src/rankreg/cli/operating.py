"""`rankreg certify`, `compare`, `monitor`, `recertify`: scores in, operating points out, without torch."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rankreg._terminal import Terminal, say

Tpr = Annotated[float, typer.Option(help="Share of the positives that must raise an alarm.")]
Confidence = Annotated[float, typer.Option(help="How sure the guarantee must be.")]
Prevalence = Annotated[
    float | None, typer.Option(help="Share of positives where the threshold is used, e.g. 0.006.")
]
Label = Annotated[
    str, typer.Option(help="Column of labels: 0/1 or true/false, else name the critical one by --positive.")
]
Score = Annotated[str, typer.Option(help="Column of scores, higher = more critical.")]
Positive = Annotated[
    str | None, typer.Option(help="The label of the critical class; needed unless labels are 0/1 or true/false.")
]
Negative = Annotated[
    list[str] | None,
    typer.Option(help="A label that is negative; may be repeated. Needed if there are several beside --positive."),
]
RestNegative = Annotated[
    bool, typer.Option("--rest-negative", help="Every label but that of --positive is negative.")
]
Separator = Annotated[str, typer.Option(help="What separates the columns of a CSV file: ',', ';', tab.")]
Unit = Annotated[
    str | None,
    typer.Option(help="Column of independent units, e.g. patients: rows of one unit are not independent."),
]
Per = Annotated[
    Literal["row", "unit"],
    typer.Option(help="Whose recall is promised: that of rows, or of units with at least one alarm."),
]
DeployedPer = Annotated[
    Literal["row", "unit"] | None,
    typer.Option(help="Whose recall was promised, that of rows or of units; row or that of --point."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
File = Annotated[Path, typer.Argument(help="CSV (may be compressed) or Parquet file.", show_default=False)]
Threshold = Annotated[float | None, typer.Option(help="The deployed threshold.")]
Point = Annotated[Path | None, typer.Option(help="The deployed operating point, as `certify --json` wrote it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (certify, compare, monitor, recertify):
        app.command()(command)


def certify(
    file: File,
    label: Label,
    score: Score,
    tpr: Annotated[
        list[float] | None, typer.Option(help="Target TPR, 0.98 if not given; several: certified together.")
    ] = None,
    confidence: Confidence = 0.95,
    group: Annotated[str | None, typer.Option(help="Column of groups: the recall is guaranteed in each.")] = None,
    unit: Unit = None,
    per: Per = "row",
    prevalence: Prevalence = None,
    positive: Positive = None,
    negative: Negative = None,
    rest_negative: RestNegative = False,
    cost_miss: Annotated[
        float | None, typer.Option(help="Cost of a missed positive: take the cheapest threshold.")
    ] = None,
    cost_alarm: Annotated[float | None, typer.Option(help="Cost of a false alarm; with --cost-miss.")] = None,
    separator: Separator = ",",
    as_json: Json = False,
) -> None:
    """The threshold whose recall is guaranteed, and what it costs in false alarms."""
    from rankreg import operating, score_files
    from rankreg.labels import LabelRule
    from rankreg.report import text

    targets = tpr or [0.98]
    if (cost_miss is None) != (cost_alarm is None):
        raise ValueError("--cost-miss and --cost-alarm belong together: give both")
    if sum([group is not None, len(targets) > 1, cost_miss is not None]) > 1:
        raise ValueError("--group, several --tpr and costs cannot be combined: run certify once for each")
    check_per(per, unit)
    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    rows = _read(file, score_files.ScoreColumns(score, label, rule, group=group, unit=unit, separator=separator))
    labels = rows.labelled()
    _refuse_useless(labels, rows.scores, rows.units)
    settings: dict[str, Any] = {
        "confidence": confidence,
        "prevalence": prevalence,
        "units": rows.units,
        "per": per,
    }

    def beware(point: Any) -> Any:
        return operating.findings(labels, rows.scores, threshold=point.threshold, units=rows.units)

    if rows.groups is not None:
        by_group = operating.certify_groups(
            labels, rows.scores, rows.groups, tpr=targets[0], names=rows.group_names, **settings
        )
        _show(
            by_group,
            as_json,
            text.point_lines(by_group.everyone, where=" in every group"),
            rows,
            text.group_table(by_group),
            beware(by_group.everyone),
        )
    elif len(targets) > 1:
        several = operating.certify_targets(labels, rows.scores, tprs=targets, **settings)
        _show(several, as_json, text.target_lines(several), rows, findings=beware(several.points[0]))
    else:
        costs = None if cost_miss is None or cost_alarm is None else operating.Costs(cost_miss, cost_alarm)
        point = operating.certify(labels, rows.scores, tpr=targets[0], costs=costs, **settings)
        _show(point, as_json, text.point_lines(point), rows, findings=beware(point))


def compare(
    a: File,
    b: File,
    label: Label,
    score: Score,
    score_b: Annotated[str | None, typer.Option(help="Column of scores in the second file, if another.")] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column that names the samples; without it rows are matched by position."),
    ] = None,
    tpr: Tpr = 0.98,
    confidence: Confidence = 0.95,
    unit: Unit = None,
    positive: Positive = None,
    negative: Negative = None,
    rest_negative: RestNegative = False,
    draws: Annotated[int, typer.Option(help="Bootstrap draws.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    separator: Separator = ",",
    as_json: Json = False,
) -> None:
    """Whether one model raises fewer false alarms than another on the same samples."""
    from rankreg import operating, score_files
    from rankreg.labels import LabelRule
    from rankreg.report import text

    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    first = _read(a, score_files.ScoreColumns(score, label, rule, id=id_column, unit=unit, separator=separator))
    second = _read(b, score_files.ScoreColumns(score_b or score, label, rule, id=id_column, separator=separator))
    if id_column is None and len(first.scores) != len(second.scores):
        raise ValueError(
            f"{a} has {len(first.scores):,} rows and {b} {len(second.scores):,}: they cannot be matched by"
            " position; name the column of sample ids with --id"
        )
    if id_column is None and (first.labelled() != second.labelled()).any():
        raise ValueError(
            f"{a} and {b} do not list the same samples in the same order: their labels differ;"
            " name the column of sample ids with --id"
        )
    labels, scores_a, scores_b = operating.paired(first.identified(), second.identified())
    found = operating.compare(
        labels,
        scores_a,
        scores_b,
        tpr=tpr,
        confidence=confidence,
        draws=draws,
        seed=seed,
        units=first.units,
    )
    same = a.name == b.name
    names = (score, score_b) if same and score_b else ("a", "b") if same else (a.name, b.name)
    findings = [
        replace(one, sentence=f"{name}: {one.sentence}")
        for name, scores in zip(names, (scores_a, scores_b), strict=True)
        for one in operating.findings(labels, scores, units=first.units)
    ]
    _show(found, as_json, text.comparison_lines(found, names), first, findings=findings)


def monitor(
    file: File,
    score: Score,
    threshold: Threshold = None,
    point: Point = None,
    tpr: Annotated[float | None, typer.Option(help="The recall promised; 0.98 or that of --point.")] = None,
    level: Annotated[float, typer.Option(help="Chance of ever raising a false alarm.")] = 0.05,
    unit: Unit = None,
    per: DeployedPer = None,
    label: Annotated[
        str | None, typer.Option(help="Column of labels; without it every row is a confirmed positive.")
    ] = None,
    positive: Positive = None,
    negative: Negative = None,
    rest_negative: RestNegative = False,
    time: Annotated[
        str | None, typer.Option(help="Column to sort by; without it rows are in order of confirmation.")
    ] = None,
    verified_below: Annotated[
        float, typer.Option(help="Chance of confirming a positive below the threshold, relative to one above it.")
    ] = 1.0,
    separator: Separator = ",",
    as_json: Json = False,
) -> None:
    """Whether the recall of a deployed threshold has fallen, from positives confirmed later; look at any time."""
    from rankreg import operating, score_files
    from rankreg.labels import LabelRule
    from rankreg.report import text

    deployed, promised, _, whose = _deployed(threshold, point, tpr, None, per, unit)
    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    rows = _read(file, score_files.ScoreColumns(score, label, rule, time=time, unit=unit, separator=separator))
    scores, units = rows.scores, rows.units
    if rows.labels is not None:
        confirmed = rows.labels == 1
        scores, units = scores[confirmed], None if units is None else units[confirmed]
    watch = operating.monitor(
        scores,
        threshold=deployed,
        tpr=promised,
        level=level,
        verified_below=verified_below,
        units=units,
        per=whose,
    )
    _show(watch, as_json, text.watch_lines(watch), rows)


def recertify(
    file: File,
    label: Label,
    score: Score,
    threshold: Threshold = None,
    point: Point = None,
    tpr: Annotated[float | None, typer.Option(help="The recall promised; 0.98 or that of --point.")] = None,
    confidence: Annotated[float | None, typer.Option(help="How sure; 0.95 or that of --point.")] = None,
    unit: Unit = None,
    per: DeployedPer = None,
    prevalence: Prevalence = None,
    positive: Positive = None,
    negative: Negative = None,
    rest_negative: RestNegative = False,
    separator: Separator = ",",
    as_json: Json = False,
) -> None:
    """Whether a deployed threshold still holds on new labelled scores, and the threshold they certify."""
    from rankreg import operating, score_files
    from rankreg.labels import LabelRule
    from rankreg.report import text

    deployed, promised, sure, whose = _deployed(threshold, point, tpr, confidence, per, unit)
    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    rows = _read(file, score_files.ScoreColumns(score, label, rule, unit=unit, separator=separator))
    found = operating.recertify(
        rows.labelled(),
        rows.scores,
        threshold=deployed,
        tpr=promised,
        confidence=sure,
        prevalence=prevalence,
        units=rows.units,
        per=whose,
    )
    findings = operating.findings(rows.labelled(), rows.scores, threshold=deployed, units=rows.units)
    refused = next((one.sentence for one in findings if one.refuses), None)
    if refused is not None:
        found = replace(found, point=None, uncertified_because=refused)
    _show(found, as_json, text.recertification_lines(found), rows, findings=findings)


def _refuse_useless(labels: Any, scores: Any, units: Any) -> None:
    """Scores of which no threshold should be certified are an error, not a result."""
    from rankreg import operating

    for one in operating.findings(labels, scores, units=units):
        if one.refuses:
            raise ValueError(f"not certified. {one.sentence}")


def _deployed(
    threshold: float | None,
    point: Path | None,
    tpr: float | None,
    confidence: float | None,
    per: Literal["row", "unit"] | None,
    unit: str | None,
) -> tuple[float, float, float, Literal["row", "unit"]]:
    """Threshold, TPR, confidence and whose recall is promised, from the saved point or the options."""
    from rankreg.report import text

    if (threshold is None) == (point is None):
        raise ValueError("say which threshold is deployed: give either --threshold or --point")
    whose: Literal["row", "unit"] = "row"
    promised, sure = 0.98, 0.95
    if point is not None:
        threshold, promised, sure, whose = text.saved_point(point)
    assert threshold is not None
    check_per(per or whose, unit)
    return (
        threshold,
        promised if tpr is None else tpr,
        sure if confidence is None else confidence,
        per or whose,
    )


def check_per(per: str, unit: str | None) -> None:
    """A recall of units asks for the column that names them."""
    if per == "unit" and unit is None:
        raise ValueError("the recall promised is that of units: name their column with --unit, e.g. --unit patient")


def _read(file: Path, columns: Any) -> Any:
    from rankreg import score_files

    with waiting(f"reading {file.name}"):
        return score_files.read_scores(file, columns)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A spinner on a terminal, nothing elsewhere."""
    console = Terminal(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        yield


def _show(
    record: Any,
    as_json: bool,
    lines: Iterable[tuple[str, str]],
    rows: Any,
    table: list[tuple[str, ...]] | None = None,
    findings: Iterable[Any] = (),
) -> None:
    """Print a result, first what to know before any number of it, and how the labels were read."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    from rankreg.report import text

    if as_json:
        said = {"labels": text.labels_record(rows.reading), "findings": [one.to_dict() for one in findings]}
        say(text.to_json(record.to_dict() | said))
        return
    console = Terminal(highlight=False)
    beware = text.finding_lines(findings)
    if beware:
        _print_lines(console, [*beware, ("", "")])
    if table is not None:
        widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
        if sum(widths) + len(widths) <= console.width:
            grid = Table(box=None, pad_edge=False)
            for heading, width in zip(table[0], widths, strict=True):
                grid.add_column(Text(heading), min_width=width)
            for row in table[1:]:
                grid.add_row(*map(Text, row))
            console.print(grid, "")
        else:  # a table that is cropped loses numbers: one block per row
            for row in table[1:]:
                _print_lines(console, [*zip(table[0], row, strict=True), ("", "")])
    _print_lines(console, [text.labels_line(rows.reading), *lines])


def _print_lines(console: Any, lines: Iterable[tuple[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in lines:
        grid.add_row(Text(name), Text(text))
    console.print(grid)
