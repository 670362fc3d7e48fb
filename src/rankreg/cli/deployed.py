"""`rankreg monitor`, `recertify`: a threshold in use, watched and certified again."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rankreg.cli import options as opt
from rankreg.cli.operating import read_file, show, show_record


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
        opt.option(
            "Column of labels. Without it, every row counts as a confirmed positive; with --reference, only drift"
            " is watched."
        ),
    ] = None,
    positive: opt.Positive = None,
    negative: opt.Negative = None,
    rest_negative: opt.RestNegative = False,
    time: Annotated[
        str | None,
        opt.option(
            "Column to sort by: dates like 2025-01-31, times like 2025-01-31T17:05, or numbers. Without it,"
            " rows are in the order in which they came."
        ),
    ] = None,
    verified_below: Annotated[
        float,
        typer.Option(help="Chance that a positive below the threshold is confirmed, relative to one above it."),
    ] = 1.0,
    drop_to: Annotated[
        float | None,
        opt.option(
            "A lower recall. The output says how soon a drop to it would be noticed.",
            shown="three times as many misses",
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        opt.option(
            "File of earlier scores of the same model, from a time when all was well; labels are not needed."
            " Warns of drift: a change of the scores. Both files must hold all samples, not only confirmed"
            " positives."
        ),
    ] = None,
    plot: Annotated[Path | None, opt.option("Draw the evidence over time: .png or .svg file.")] = None,
    separator: opt.Separator = ",",
    as_json: opt.Json = False,
) -> None:
    """Watch the recall of a deployed threshold on positives confirmed later; run it as often as you like.

    Confirmed positives show whether the recall has fallen. Without labels, --reference shows whether the scores
    have changed. This is an early warning and says nothing about the recall. With --label, both are watched.

    The exit status is 1 if there is an alarm, so that a scheduled job can tell.

    Examples:
        rankreg monitor confirmed.csv --score s --point point.json
        rankreg monitor confirmed.csv --score s --time day --point model
        rankreg monitor all.csv --score s --time day --reference earlier.csv
    """
    from rankreg import operating
    from rankreg.labels import LabelRule
    from rankreg.operating.monitoring import fallen_recall
    from rankreg.report import text, watching
    from rankreg.score_files import ScoreColumns, deployed_point

    if plot is not None:
        watching.check_plot(plot)
    drift_only = reference is not None and label is None
    deployed = None
    if not drift_only or threshold is not None or point is not None:
        deployed = deployed_point(threshold, point, tpr=tpr, per=per, unit=unit)
    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    table = read_file(file, ScoreColumns(score, label, rule, time=time, unit=unit, separator=separator))
    before = None
    if reference is not None:
        before = read_file(reference, ScoreColumns(score, unit=unit, separator=separator))
    watch = drift = None
    beware: tuple[Any, ...] = ()
    lines: list[tuple[str, str]] = []
    record: dict[str, Any] = {"labels": None if drift_only else text.labels_record(table.reading)}
    if deployed is not None and not drift_only:
        confirmed = slice(None) if table.labels is None else table.labels == 1
        watch = operating.monitor(
            table.scores[confirmed],
            threshold=deployed.threshold,
            tpr=deployed.tpr,
            level=level,
            verified_below=verified_below,
            units=None if table.units is None else table.units[confirmed],
            per=deployed.per,
            times=None if table.times is None else table.times[confirmed],
        )
        fallen = fallen_recall(watch.tpr) if drop_to is None else drop_to
        more = operating.positives_until_alarm(watch, recall=fallen)
        if table.labels is not None and not table.labels.all():  # samples of both classes
            data = table.labels, table.scores
            beware = operating.findings(*data, threshold=deployed.threshold, units=table.units)
        record |= watch.to_dict() | {"drop_to": fallen, "positives_until_alarm": more}
        lines += [*watching.watch_lines(watch, fallen, more), text.labels_line(table.reading)]
    if before is not None:
        now = _first_of_units(table)
        drift = operating.drift(_first_of_units(before).scores, now.scores, level=level, times=now.times)
        shares = None
        if deployed is not None:
            shares = [float((one.scores >= deployed.threshold).mean()) for one in (before, table)]
        record["drift"] = drift.to_dict() | {"alarm_shares": shares}
        lines += [*([("", "")] if lines else []), *watching.drift_lines(drift, shares)]
    if plot is not None:
        watching.plot_evidence(plot, watch, drift)
        lines.append(("Plot", f"{plot}: the evidence over time"))
    show_record(record, lines, as_json, beware)
    if any(found is not None and found.alarm_at is not None for found in (watch, drift)):
        raise typer.Exit(1)


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
    """Check a deployed threshold on new labelled scores, and find the threshold that they certify.

    Examples:
        rankreg recertify newer.csv --label y --score s --point point.json
        rankreg recertify newer.csv --label y --score s --threshold 0.3 --tpr 0.9
    """
    from rankreg import operating
    from rankreg.labels import LabelRule
    from rankreg.report import text
    from rankreg.score_files import ScoreColumns, deployed_point

    deployed = deployed_point(threshold, point, tpr=tpr, confidence=confidence, per=per, unit=unit)
    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    table = read_file(file, ScoreColumns(score, label, rule, unit=unit, separator=separator))
    data = table.labelled(), table.scores
    found = operating.recertify(*data, **deployed._asdict(), prevalence=prevalence, units=table.units)
    beware = operating.findings(*data, threshold=deployed.threshold, units=table.units)
    refused = next((one.sentence for one in beware if one.refuses), None)
    if refused is not None:
        found = replace(found, point=None, uncertified_because=refused)
    show(found, text.recertification_lines(found), table, as_json, beware)


def _first_of_units(table: Any) -> Any:
    """One row of each unit: rows of one unit do not come independently."""
    if table.units is None:
        return table
    import numpy as np

    first = np.sort(np.unique(table.units, return_index=True)[1])
    return replace(table, scores=table.scores[first], times=None if table.times is None else table.times[first])
