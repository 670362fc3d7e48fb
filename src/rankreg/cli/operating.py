"""`rankreg certify`, `compare`, `report`: scores in, thresholds and false alarms out."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rankreg.cli import options as opt
from rankreg.terminal import say, show_lines, show_table, waiting


def certify(
    file: opt.Parts,
    label: opt.Label,
    score: opt.Score,
    tpr: opt.Tprs = None,
    fpr: opt.Fpr = None,
    precision: opt.Precision = None,
    alarms: opt.Alarms = None,
    per_day: opt.PerDay = None,
    review: opt.ReviewOption = False,
    confidence: opt.Confidence = 0.95,
    group: opt.Group = None,
    unit: opt.Unit = None,
    per: opt.Per = "row",
    prevalence: opt.Prevalence = None,
    positive: opt.Positive = None,
    negative: opt.Negative = None,
    rest_negative: opt.RestNegative = False,
    cost_miss: Annotated[
        float | None, opt.option("Cost of a missed positive. The cheapest threshold is chosen.")
    ] = None,
    cost_alarm: Annotated[float | None, opt.option("Cost of a false alarm; needs --cost-miss.")] = None,
    separator: opt.Separator = ",",
    as_json: opt.Json = False,
) -> None:
    """Find the threshold that keeps your promises, and what it costs in false alarms.

    Promise --tpr, --fpr, --precision or --alarms, alone or together. The default is --tpr 0.95. One --confidence
    holds for all promises, and with --group for all groups together.

    If no threshold keeps the promises, the output says which of them conflict and what would help. The exit
    status is then 1. With --group it is 1 only if no group keeps them.

    Examples:
        rankreg certify scores.csv --label y --score s --tpr 0.9
        rankreg certify scores.csv --label y --score s --tpr 0.9 --fpr 0.4
        rankreg certify scores.csv --label y --score s --fpr 0.4 --group site
        rankreg certify scores.csv --label y --score s --unit patient --per unit
        rankreg certify scores.csv --label y --score s --json > point.json
    """
    from rankreg import operating
    from rankreg.labels import LabelRule
    from rankreg.report import promise_text, text
    from rankreg.score_files import ScoreColumns, check_units

    if (cost_miss is None) != (cost_alarm is None):
        raise ValueError("--cost-miss and --cost-alarm belong together: give both")
    asked = opt.PromiseOptions(
        tpr or (), fpr, precision, alarms, per_day, review, group, unit, per, confidence, prevalence
    )
    if per_day is not None and alarms is None and not review:
        raise ValueError("--per-day says how many rows come per day for --alarms or --review: give one of them")
    if cost_miss is not None and (asked.beside_recall or group is not None or len(asked.targets) > 1):
        raise ValueError("costs go with one --tpr, and with no other promise and no --group: run certify without")
    check_units(per, unit)
    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    columns = ScoreColumns(score, label, rule, group=group, unit=unit, separator=separator)
    table = read_file(file, columns) if group or unit else _summarized(file, columns)
    data = table.data
    refused = [one.sentence for one in operating.findings(*data, units=table.units) if one.refuses]
    if refused:
        raise ValueError(f"not certified. {refused[0]}")
    grid = None
    if asked.beside_recall:
        among: dict[str, Any] = {"groups": table.groups, "names": table.group_names} if group else {}
        found: Any = asked.certified(*data, units=table.units, **among)
        lines, grid = promise_text.promise_lines(found, per_day), promise_text.promise_table(found)
        beware = operating.findings(*data, threshold=promise_text.one_threshold(found), units=table.units)
        show(found, lines, table, as_json, beware, grid)
        if not promise_text.is_kept(found):
            raise typer.Exit(1)
        return
    settings: dict[str, Any] = {
        "confidence": confidence,
        "prevalence": prevalence,
        "units": table.units,
        "per": per,
    }
    if table.groups is not None:
        found = operating.certify_groups(
            table.labelled(), table.scores, table.groups, tpr=asked.targets[0], names=table.group_names, **settings
        )
        point, grid = found.everyone, promise_text.group_rows(found, text.group_table(found))
        verdict, *rest = text.point_lines(point, where=promise_text.covered_groups(found))
        lines = [verdict, *promise_text.uncertified_lines(found), *rest]
    elif len(asked.targets) > 1:
        found = operating.certify_targets(*data, tprs=asked.targets, **settings)
        point, lines = found.points[0], text.target_lines(found)
    else:
        costs = None if cost_miss is None or cost_alarm is None else operating.Costs(cost_miss, cost_alarm)
        found = point = operating.certify(*data, tpr=asked.targets[0], costs=costs, **settings)
        lines = text.point_lines(point)
    beware = operating.findings(*data, threshold=point.threshold, units=table.units)
    show(found, lines, table, as_json, beware, grid)


def compare(
    a: opt.File,
    b: opt.File,
    label: opt.Label,
    score: opt.Score,
    score_b: Annotated[str | None, opt.option("Column of scores in the second file, if it differs.")] = None,
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
    """Find out whether one model raises fewer false alarms than another on the same samples.

    Examples:
        rankreg compare old.csv new.csv --label y --score s
        rankreg compare old.csv new.csv --label y --score s --tpr 0.9 --json
    """
    from rankreg import operating
    from rankreg.labels import LabelRule
    from rankreg.metrics import threshold_at_tpr
    from rankreg.report import Model, text
    from rankreg.report.scored_model import paired_scores
    from rankreg.score_files import ScoreColumns

    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    columns = ScoreColumns(score, label, rule, id=id_column, unit=unit, separator=separator)
    first, second = read_file(a, columns), read_file(b, replace(columns, score=score_b or score, unit=None))
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
        for one in operating.findings(
            labels, scores, threshold=threshold_at_tpr(labels, scores, tpr), units=first.units
        )
    ]
    show(found, text.comparison_lines(found, names), first, as_json, beware)


def report(
    files: opt.Files,
    label: opt.Label,
    score: Annotated[list[str], opt.option("Column of scores; repeatable, one per model.")],
    out: Annotated[Path, opt.option("HTML file to write.")],
    tpr: opt.Tprs = None,
    fpr: opt.Fpr = None,
    precision: opt.Precision = None,
    alarms: opt.Alarms = None,
    per_day: opt.PerDay = None,
    review: opt.ReviewOption = False,
    confidence: opt.Confidence = 0.95,
    group: opt.Group = None,
    unit: opt.Unit = None,
    per: opt.Per = "row",
    prevalence: opt.Prevalence = None,
    id_column: opt.Id = None,
    positive: opt.Positive = None,
    negative: opt.Negative = None,
    rest_negative: opt.RestNegative = False,
    image: Annotated[str | None, opt.option("Column with the file name of each sample's image.")] = None,
    images: Annotated[
        Path | None, opt.option("Folder of images. Without --image, files are named by --id.")
    ] = None,
    show: Annotated[list[str] | None, opt.option("Column to show beside the hardest samples; repeatable.")] = None,
    name: Annotated[list[str] | None, opt.option("Name of a model; repeatable, in the order of the files.")] = None,
    test: Annotated[
        list[Path] | None,
        opt.option(
            "More scores in the same columns, e.g. a test part: how the threshold does on them; one per file."
        ),
    ] = None,
    separator: opt.Separator = ",",
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Operating point report",
) -> None:
    """Write one HTML page about a threshold: recall, false alarms, ROC, hardest samples, models compared.

    With --fpr, --precision, --alarms, --review or --group the page leads with these promises, as for certify.

    Several models are compared sample by sample if each is one file of up to 1 GB (256 MB if Parquet or
    compressed). Of larger ones the page shows each model's own numbers.

    Examples:
        rankreg report scores.csv --label y --score s --out report.html
        rankreg report old.csv new.csv --label y --score s --out report.html
        rankreg report scores.csv --label y --score s --fpr 0.4 --out report.html
        rankreg report scores.csv --label y --score s --group site --out report.html
    """
    from rankreg.labels import LabelRule
    from rankreg.report import Settings, write
    from rankreg.report.model_files import ModelFile, files_and_columns, short_names
    from rankreg.safe_files import check_not_read, is_stream
    from rankreg.score_files import ScoreColumns, check_units

    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    asked = opt.PromiseOptions(
        tpr or (), fpr, precision, alarms, per_day, review, group, unit, per, confidence, prevalence
    )
    settings = Settings(
        tprs=asked.targets,
        confidence=confidence,
        prevalence=prevalence,
        per_day=per_day,
        title=title,
        config={"label": label, "score": score, "positive": positive, "id": id_column, "unit": unit}
        | ({"promised": asked.described} if asked.beside_recall or group else {}),
        per=per,
    )
    check_units(per, unit)
    if images is not None and image is None and id_column is None:
        raise ValueError("--images needs each sample's file name: name its column with --image, or ids with --id")
    if images is not None and not images.is_dir():
        raise ValueError(f"{images} is not a folder of images")
    to_stream = is_stream(out)  # refuses what cannot be written before anything is computed
    check_not_read(out, [*files, *(test or [])])
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} is not a folder: make it first, or write the report elsewhere")
    pairs = files_and_columns(files, score)
    names = name or short_names(pairs)
    if len(names) != len(pairs):
        raise ValueError(f"{len(pairs)} models but {len(names)} names: give --name once per model")
    if test and len(test) != len(files):
        raise ValueError(f"{len(files)} files but {len(test)} --test: give it once per file, in the same order")
    tests = dict(zip(files, test or (), strict=bool(test)))
    models, promised = [], []
    paired = len(pairs) > 1 or bool(test and (asked.beside_recall or group))  # promises choose other thresholds
    for (file, column), model in zip(pairs, names, strict=True):
        columns = ScoreColumns(column, label, rule, id=id_column, unit=unit, separator=separator)
        with waiting(f"reading {file.name}"):
            source = ModelFile(file, columns, model, show or (), image, images, tests.get(file))
            models.append(source.read(settings.tprs, confidence, paired=paired))
        if group is not None:
            table = read_file(file, replace(columns, group=group))
            among = {"groups": table.groups, "names": table.group_names}
            promised.append(asked.certified(*table.data, units=table.units, **among))
        elif asked.beside_recall:
            promised.append(asked.certified(*models[-1].data, units=models[-1].units))
    with waiting(f"writing {out.name}"):
        write(out, models, settings, promised)
    size = "written" if to_stream else f"{out.stat().st_size / 1000:,.0f} kB"
    say(f"{out}: {size}; open it in a browser", err=to_stream)


def read_file(file: Any, columns: Any) -> Any:
    """The scores of a file, in memory."""
    from rankreg import score_files

    with waiting(f"reading {file.name}"):
        return score_files.read_scores(file, columns)


def _summarized(path: Path, columns: Any) -> Any:
    from rankreg import score_streams

    with waiting(f"reading {path.name}"):
        return score_streams.read_summary(path, columns)


def show(
    found: Any,
    lines: Iterable[tuple[str, str]],
    table: Any,
    as_json: bool,
    findings: Iterable[Any] = (),
    grid: list[tuple[str, ...]] | None = None,
) -> None:
    """Print what makes the numbers useless, then the numbers, then how the labels were read."""
    from rankreg.report import text

    record = found.to_dict() | {"labels": text.labels_record(table.reading)}
    show_record(record, [*lines, text.labels_line(table.reading)], as_json, findings, grid)


def show_record(
    record: dict[str, Any],
    lines: Iterable[tuple[str, str]],
    as_json: bool,
    findings: Iterable[Any],
    grid: list[tuple[str, ...]] | None = None,
) -> None:
    """Print a record as JSON, or its lines, what makes the numbers useless first."""
    from rankreg.notation import json_text
    from rankreg.report import text

    if as_json:
        say(json_text(record | {"findings": [one.to_dict() for one in findings]}))
        return
    beware = text.finding_lines(findings)
    show_lines([*beware, ("", "")] if beware else [])
    if grid is not None:
        show_table(grid)
    show_lines(lines)
