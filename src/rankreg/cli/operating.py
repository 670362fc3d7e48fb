"""`rankreg certify`, `compare`, `monitor`, `recertify`, `report`: scores in, thresholds and false alarms out."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rankreg.cli import options as opt
from rankreg.terminal import say, show_lines, show_table, waiting


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (certify, compare, monitor, recertify, report):
        app.command()(command)


def certify(
    file: opt.Parts,
    label: opt.Label,
    score: opt.Score,
    tpr: opt.Tprs = None,
    confidence: opt.Confidence = 0.95,
    group: Annotated[
        str | None, typer.Option(help="Column of groups: guarantee the recall in each.", show_default=False)
    ] = None,
    unit: opt.Unit = None,
    per: opt.Per = "row",
    prevalence: opt.Prevalence = None,
    positive: opt.Positive = None,
    negative: opt.Negative = None,
    rest_negative: opt.RestNegative = False,
    cost_miss: Annotated[
        float | None,
        typer.Option(help="Cost of a missed positive. The cheapest threshold is chosen.", show_default=False),
    ] = None,
    cost_alarm: Annotated[
        float | None, typer.Option(help="Cost of a false alarm; needs --cost-miss.", show_default=False)
    ] = None,
    separator: opt.Separator = ",",
    as_json: opt.Json = False,
) -> None:
    """Find the threshold with a guaranteed recall, and what it costs in false alarms."""
    from rankreg import operating
    from rankreg.labels import LabelRule
    from rankreg.report import text
    from rankreg.score_files import ScoreColumns, check_units

    targets = tpr or [opt.TPR]
    if (cost_miss is None) != (cost_alarm is None):
        raise ValueError("--cost-miss and --cost-alarm belong together: give both")
    if sum([group is not None, len(targets) > 1, cost_miss is not None]) > 1:
        raise ValueError("--group, several --tpr and costs cannot be combined: run certify once for each")
    check_units(per, unit)
    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    columns = ScoreColumns(score, label, rule, group=group, unit=unit, separator=separator)
    table = _read(file, columns) if group or unit else _summarized(file, columns)
    data = table.data
    refused = [one.sentence for one in operating.findings(*data, units=table.units) if one.refuses]
    if refused:
        raise ValueError(f"not certified. {refused[0]}")
    settings: dict[str, Any] = {
        "confidence": confidence,
        "prevalence": prevalence,
        "units": table.units,
        "per": per,
    }
    grid = None
    if table.groups is not None:
        found: Any = operating.certify_groups(
            table.labelled(), table.scores, table.groups, tpr=targets[0], names=table.group_names, **settings
        )
        point, grid = found.everyone, text.group_table(found)
        lines = text.point_lines(point, where=" in every group")
    elif len(targets) > 1:
        found = operating.certify_targets(*data, tprs=targets, **settings)
        point, lines = found.points[0], text.target_lines(found)
    else:
        costs = None if cost_miss is None or cost_alarm is None else operating.Costs(cost_miss, cost_alarm)
        found = point = operating.certify(*data, tpr=targets[0], costs=costs, **settings)
        lines = text.point_lines(point)
    beware = operating.findings(*data, threshold=point.threshold, units=table.units)
    _show(found, lines, table, as_json, beware, grid)


def compare(
    a: opt.File,
    b: opt.File,
    label: opt.Label,
    score: opt.Score,
    score_b: Annotated[
        str | None, typer.Option(help="Column of scores in the second file, if it differs.", show_default=False)
    ] = None,
    id_column: opt.Id = None,
    tpr: opt.Tpr = opt.TPR,
    confidence: opt.Confidence = 0.95,
    unit: opt.Unit = None,
    positive: opt.Positive = None,
    negative: opt.Negative = None,
    rest_negative: opt.RestNegative = False,
    draws: Annotated[int, typer.Option(help="Bootstrap draws.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    separator: opt.Separator = ",",
    as_json: opt.Json = False,
) -> None:
    """Find out whether one model raises fewer false alarms than another on the same samples."""
    from rankreg import operating
    from rankreg.labels import LabelRule
    from rankreg.report import Model, text
    from rankreg.report.scored_model import paired_scores
    from rankreg.score_files import ScoreColumns

    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    columns = ScoreColumns(score, label, rule, id=id_column, unit=unit, separator=separator)
    first, second = _read(a, columns), _read(b, replace(columns, score=score_b or score, unit=None))
    same = a.name == b.name
    names = (score, score_b) if same and score_b else ("a", "b") if same else (a.name, b.name)
    models = [
        Model(name, table.labelled(), table.scores, table.ids)
        for name, table in zip(names, (first, second), strict=True)
    ]
    labels, *both = paired_scores(*models)
    found = operating.compare(
        labels, *both, tpr=tpr, confidence=confidence, draws=draws, seed=seed, units=first.units
    )
    beware = [
        replace(one, sentence=f"{name}: {one.sentence}")
        for name, scores in zip(names, both, strict=True)
        for one in operating.findings(labels, scores, units=first.units)
    ]
    _show(found, text.comparison_lines(found, names), first, as_json, beware)


def monitor(
    file: opt.File,
    score: opt.Score,
    threshold: opt.Threshold = None,
    point: opt.Point = None,
    tpr: opt.DeployedTpr = None,
    level: Annotated[float, typer.Option(help="Chance of ever raising a false alarm.")] = 0.05,
    unit: opt.Unit = None,
    per: opt.DeployedPer = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column of labels. Without it, every row is a confirmed positive.", show_default=False),
    ] = None,
    positive: opt.Positive = None,
    negative: opt.Negative = None,
    rest_negative: opt.RestNegative = False,
    time: Annotated[
        str | None,
        typer.Option(help="Column to sort by. Without it, rows are in order of confirmation.", show_default=False),
    ] = None,
    verified_below: Annotated[
        float,
        typer.Option(help="Chance that a positive below the threshold is confirmed, relative to one above it."),
    ] = 1.0,
    separator: opt.Separator = ",",
    as_json: opt.Json = False,
) -> None:
    """Watch the recall of a deployed threshold on positives confirmed later; run it as often as you like."""
    from rankreg import operating
    from rankreg.labels import LabelRule
    from rankreg.report import text
    from rankreg.score_files import ScoreColumns, deployed_point

    deployed = deployed_point(threshold, point, tpr=tpr, per=per, unit=unit)
    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    table = _read(file, ScoreColumns(score, label, rule, time=time, unit=unit, separator=separator))
    confirmed = slice(None) if table.labels is None else table.labels == 1
    found = operating.monitor(
        table.scores[confirmed],
        threshold=deployed.threshold,
        tpr=deployed.tpr,
        level=level,
        verified_below=verified_below,
        units=None if table.units is None else table.units[confirmed],
        per=deployed.per,
    )
    _show(found, text.watch_lines(found), table, as_json)


def recertify(
    file: opt.File,
    label: opt.Label,
    score: opt.Score,
    threshold: opt.Threshold = None,
    point: opt.Point = None,
    tpr: opt.DeployedTpr = None,
    confidence: opt.DeployedConfidence = None,
    unit: opt.Unit = None,
    per: opt.DeployedPer = None,
    prevalence: opt.Prevalence = None,
    positive: opt.Positive = None,
    negative: opt.Negative = None,
    rest_negative: opt.RestNegative = False,
    separator: opt.Separator = ",",
    as_json: opt.Json = False,
) -> None:
    """Check a deployed threshold on new labelled scores, and find the threshold that they certify."""
    from rankreg import operating
    from rankreg.labels import LabelRule
    from rankreg.report import text
    from rankreg.score_files import ScoreColumns, deployed_point

    deployed = deployed_point(threshold, point, tpr=tpr, confidence=confidence, per=per, unit=unit)
    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    table = _read(file, ScoreColumns(score, label, rule, unit=unit, separator=separator))
    data = table.labelled(), table.scores
    found = operating.recertify(*data, **deployed._asdict(), prevalence=prevalence, units=table.units)
    beware = operating.findings(*data, threshold=deployed.threshold, units=table.units)
    refused = next((one.sentence for one in beware if one.refuses), None)
    if refused is not None:
        found = replace(found, point=None, uncertified_because=refused)
    _show(found, text.recertification_lines(found), table, as_json, beware)


def report(
    files: opt.Files,
    label: opt.Label,
    score: Annotated[
        list[str], typer.Option(help="Column of scores; repeatable, one per model.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="HTML file to write.", show_default=False)],
    tpr: opt.Tprs = None,
    confidence: opt.Confidence = 0.95,
    unit: opt.Unit = None,
    per: opt.Per = "row",
    prevalence: opt.Prevalence = None,
    per_day: Annotated[
        float | None, typer.Option(help="Samples per day where the threshold is used.", show_default=False)
    ] = None,
    id_column: opt.Id = None,
    positive: opt.Positive = None,
    negative: opt.Negative = None,
    rest_negative: opt.RestNegative = False,
    image: Annotated[
        str | None, typer.Option(help="Column with the file name of each sample's image.", show_default=False)
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of images. Without --image, files are named by --id.", show_default=False),
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option(help="Column to show beside the hardest samples; repeatable.", show_default=False),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name of a model; repeatable, in the order of the files.", show_default=False),
    ] = None,
    separator: opt.Separator = ",",
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Operating point report",
) -> None:
    """Write one HTML page about a threshold: recall, false alarms, ROC, hardest samples, models compared."""
    from rankreg.labels import LabelRule
    from rankreg.report import Model, Settings, write
    from rankreg.report.scored_model import files_and_columns, short_names
    from rankreg.safe_files import is_stream
    from rankreg.score_files import ScoreColumns, check_units

    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    settings = Settings(
        tprs=tuple(tpr or [opt.TPR]),
        confidence=confidence,
        prevalence=prevalence,
        per_day=per_day,
        title=title,
        config={"label": label, "score": score, "positive": positive, "id": id_column, "unit": unit},
        per=per,
    )
    check_units(per, unit)
    if images is not None and image is None and id_column is None:
        raise ValueError("--images needs each sample's file name: name its column with --image, or ids with --id")
    if images is not None and not images.is_dir():
        raise ValueError(f"{images} is not a folder of images")
    to_stream = is_stream(out)  # refuses what cannot be written before anything is computed
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} is not a folder: make it first, or write the report elsewhere")
    pairs = files_and_columns(files, score)
    names = name or short_names(pairs)
    if len(names) != len(pairs):
        raise ValueError(f"{len(pairs)} models but {len(names)} names: give --name once per model")
    models = []
    for (file, column), model in zip(pairs, names, strict=True):
        columns = ScoreColumns(column, label, rule, id=id_column, unit=unit, separator=separator)
        with waiting(f"reading {file.name}"):
            models.append(Model.from_file(file, columns, model, show=show or (), image=image, images=images))
    with waiting(f"writing {out.name}"):
        write(out, models, settings)
    size = "written" if to_stream else f"{out.stat().st_size / 1000:,.0f} kB"
    say(f"{out}: {size}; open it in a browser", err=to_stream)


def _read(file: Any, columns: Any) -> Any:
    from rankreg import score_files

    with waiting(f"reading {file.name}"):
        return score_files.read_scores(file, columns)


def _summarized(path: Path, columns: Any) -> Any:
    from rankreg import score_streams

    with waiting(f"reading {path.name}"):
        return score_streams.read_summary(path, columns)


def _show(
    found: Any,
    lines: Iterable[tuple[str, str]],
    table: Any,
    as_json: bool,
    findings: Iterable[Any] = (),
    grid: list[tuple[str, ...]] | None = None,
) -> None:
    """Print what makes the numbers useless, then the numbers, then how the labels were read."""
    from rankreg.notation import json_text
    from rankreg.report import text

    if as_json:
        said = {"labels": text.labels_record(table.reading), "findings": [one.to_dict() for one in findings]}
        say(json_text(found.to_dict() | said))
        return
    beware = text.finding_lines(findings)
    show_lines([*beware, ("", "")] if beware else [])
    if grid is not None:
        show_table(grid)
    show_lines([*lines, text.labels_line(table.reading)])
