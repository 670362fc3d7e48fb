"""Results as plain text: sentences for the terminal and the cards, and numbers as the page writes them.

Bounds are rounded to the safe side.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from math import ceil, floor, isfinite, log10
from pathlib import Path
from typing import Any

from rankreg.labels import Reading
from rankreg.operating import (
    Comparison,
    Difference,
    Finding,
    GroupPoints,
    OperatingPoint,
    Per,
    Recertification,
    TargetPoints,
    Watch,
    assumption,
    percent,
)
from rankreg.safe_files import read_json

Lines = list[tuple[str, str]]
EVERY_ROW = "every row is taken as a confirmed positive"


def labels_line(reading: Reading | None) -> tuple[str, str]:
    """How the labels of a file were read, and how many rows have which."""
    if reading is None:
        return "Labels", f"{EVERY_ROW}; if the file holds others too, name the column of labels with --label"
    others = ", ".join(reading.others[:5]) + (", …" if len(reading.others) > 5 else "")
    said = [
        f"{values} → {name} ({count:,})"
        for values, name, count in (
            (reading.positive, "positive", reading.positives),
            (others, "negative", reading.negatives),
        )
        if count
    ]
    return "Labels", ", ".join(said)


def labels_record(reading: Reading | None) -> dict[str, Any]:
    """The same for JSON."""
    return {"read_as": EVERY_ROW} if reading is None else asdict(reading)


def finding_lines(findings: Iterable[Finding]) -> Lines:
    """What to know before any number, one line each."""
    return [("Beware", f"{one.sentence}.") for one in findings]


HOW_TO_GIVE_IT = ": give the real one with --prevalence"


def point_lines(point: OperatingPoint, where: str = "", advice: str = HOW_TO_GIVE_IT) -> Lines:
    """An operating point, one heading and one sentence a line; where: whom the recall holds for.

    advice: what follows where the prevalence is merely that of the file.
    """
    sure, fpr_sure = percent(point.confidence), _sure(point.fpr_confidence)
    both_sure = _sure(max(0.0, point.confidence + point.fpr_confidence - 1))
    judged, what, where_judged = _judged(point)
    rest = f"{round((1 - point.recall) * judged):,} of {judged:,} {what} score lower"
    prevalence = percent(point.prevalence) if point.prevalence_given else share(point.prevalence)
    source = "" if point.prevalence_given else f"; the prevalence of this file{advice}"
    lines = [
        ("Threshold", f"alarm when score ≥ {point.threshold!r}"),
        (
            "Recall",
            f"at least {percent(point.tpr)}{where_judged}{where}, {sure} sure; here {share(point.recall)} ({rest})",
        ),
        (
            "False alarms",
            f"{share(point.fpr)} of the negatives here, at most {share(point.fpr_at_most, up=True)}"
            f" ({fpr_sure} sure)",
        ),
        (
            "Alarms",
            f"{number(point.alarms_per_1000)} per 1,000 samples,"
            f" at most {number(point.alarms_per_1000_at_most, up=True)},"
            f" at a prevalence of {prevalence}{source}",
        ),
        ("PPV", _ppv(point, both_sure)),
        ("NPV", _npv(point, both_sure)),
        ("Price", _price(point)),
        ("Assumption", assumption(point)),
    ]
    if point.cost is not None:
        lines.insert(
            1,
            (
                "Cost",
                f"{number(point.cost.per_1000)} per 1,000 samples, the least possible with this recall"
                f" ({number(point.cost.per_1000_at_certified)} at the highest certified threshold,"
                f" {point.cost.certified_threshold!r})",
            ),
        )
    return lines


def target_lines(found: TargetPoints) -> Lines:
    """Points for several TPRs, and that they hold together."""
    parts = "both" if len(found.points) == 2 else f"all {len(found.points)}"
    together = f"{parts} recalls hold together, {percent(found.confidence)} sure"
    blocks = [point_lines(point) for point in found.points]  # each ends with the same assumption
    return [("Targets", together), *(line for block in blocks for line in [("", ""), *block[:-1]]), blocks[0][-1]]


def group_table(found: GroupPoints) -> list[tuple[str, ...]]:
    """A header and one row per group, and one for the threshold that serves all."""
    rows: list[tuple[str, ...]] = [
        ("group", "positives", "threshold", "recall", "FPR", "at most", "alarms per 1,000")
    ]
    if found.everyone.units is not None:
        rows = [(*rows[0][:2], "units", *rows[0][2:])]
    for name, point in [*found.points.items(), ("every group", found.everyone)]:
        rows.append(
            (
                name,
                f"{point.positives:,}",
                *([] if point.units is None else [f"{point.units:,}"]),
                repr(point.threshold),
                share(point.recall),
                share(point.fpr),
                share(point.fpr_at_most, up=True),
                number(point.alarms_per_1000),
            )
        )
    return rows


def comparison_lines(found: Comparison, names: tuple[str, str]) -> Lines:
    """Two models compared: a verdict each on false alarms and on AUC."""
    yardstick = f"FPR at {percent(found.tpr)} TPR"
    lines = [
        (
            "Samples",
            f"{found.positives:,} positives{_of_units(found.units)} and {found.negatives:,} negatives,"
            " scored by both models",
        ),
        (yardstick, _difference(found.fpr, found.confidence, names)),
        ("", _verdict(found.fpr, found.confidence, names, yardstick, lower_wins=True)),
        ("AUC", _difference(found.auc, found.confidence, names)),
        ("", _verdict(found.auc, found.confidence, names, "AUC", lower_wins=False)),
    ]
    return lines if found.warning is None else [*lines, ("Beware", found.warning)]


def watch_lines(watch: Watch) -> Lines:
    """What the monitor found."""
    if watch.alarm_at is None:
        verdict = f"No alarm: nothing rules out a recall of {percent(watch.tpr)} yet"
    else:
        verdict = (
            f"ALARM: the recall is below {percent(watch.tpr)};"
            f" known since {'confirmed positive' if watch.units is None else 'unit'} {watch.alarm_at:,}"
            f" (false with a chance of at most {percent(watch.level)})"
        )
    needed = number(1 / watch.level)
    return [
        ("Verdict", verdict),
        (
            "Seen",
            f"{watch.positives:,} confirmed positives{_of_units(watch.units)},"
            f" {watch.misses:,} {'units ' if watch.per == 'unit' else ''}below {watch.threshold!r}:"
            f" recall {share(watch.recall)}",
        ),
        (
            "Evidence",
            f"{number(watch.e_value)} now, {number(watch.largest_e_value)} at most; {needed} raises the alarm",
        ),
        ("Assumption", assumption(watch)),
        ("Beware", watch.warning),
    ]


def recertification_lines(found: Recertification) -> Lines:
    """The deployed threshold's verdict, then the new certificate."""
    recall, sure = found.recall, percent(found.recall.confidence)
    lines = [
        ("Verdict", found.sentence),
        (
            "Deployed",
            f"alarm when score ≥ {found.deployed_threshold!r}: recall {share(recall.estimate)} on the new samples,"
            f" at least {share(recall.low, up=False)}, at most {share(recall.high, up=True)} (each {sure} sure);"
            f" FPR {share(found.fpr.estimate)}, at most {share(found.fpr.high, up=True)}",
        ),
    ]
    if found.point is None:
        return [
            *lines,
            ("New", f"not certified: {found.uncertified_because}"),
            ("Assumption", assumption(found)),
        ]
    return [*lines, ("", ""), ("New", "these samples certify:"), *point_lines(found.point)]


def share(value: float, *, up: bool | None = None) -> str:
    """A share in per cent to three digits; a bound is rounded to the safe side, and 0.99987 keeps its nines."""
    if value > 0.99 and up is not True and value < 1:
        lost = 100 * (1 - value)
        digits = max(0, 1 - floor(log10(lost)))
        return f"{floor(100 * value * 10**digits + 1e-9) / 10**digits:.{digits}f} %"
    return number(100 * value, up=up) + " %"


def number(value: float, *, up: bool | None = None) -> str:
    """Three digits, or all before the point: 0.0123, 1.23, 12.3, 1,234."""
    if value == 0 or not isfinite(value) or abs(value) >= 1e9:
        return f"{value:.3g}"
    digits = max(0, 2 - floor(log10(abs(value))))
    scaled = value * 10**digits
    if up is not None:
        scaled = ceil(scaled - 1e-9) if up else floor(scaled + 1e-9)
    return f"{scaled / 10**digits:,.{digits}f}"


def _sure(confidence: float) -> str:
    """A confidence, rounded down to a hundredth of a per cent."""
    return percent(floor(10_000 * confidence + 1e-6) / 10_000)


def _judged(point: OperatingPoint) -> tuple[int, str, str]:
    """How many rows or units the recall counts, what they are called, and whose recall is promised."""
    if point.per == "unit":
        return point.units or 0, "units", " of units, by at least one alarm each"
    return point.positives, "positives" + _of_units(point.units), ""


def _of_units(units: int | None) -> str:
    return "" if units is None else f" of {units:,} units"


def _ppv(point: OperatingPoint, sure: str) -> str:
    found = f"{share(point.ppv)} of the alarms are real"
    if point.ppv_at_least is None:
        return f"{found}, as observed"
    return f"{found}, at least {share(point.ppv_at_least, up=False)} ({sure} sure)"


def _npv(point: OperatingPoint, sure: str) -> str:
    if point.npv is None:
        return "undefined: every sample raises an alarm"
    missed = number(100_000 * (1 - point.npv))
    if point.npv_at_least is None:
        return f"{share(point.npv)} of the cleared are clear: {missed} missed per 100,000 cleared, as observed"
    bound = number(100_000 * (1 - point.npv_at_least), up=True)
    return (
        f"{share(point.npv)} of the cleared are clear: {missed} missed per 100,000 cleared, at most {bound}"
        f" ({sure} sure)"
    )


def _price(point: OperatingPoint) -> str:
    usual = point.uncertified
    if (usual.recall, usual.fpr) == (point.recall, point.fpr):
        return "no price: the usual threshold is the same one"
    chance = ("at most " if usual.tied else "") + share(usual.shortfall_risk)
    if usual.fpr >= 1:
        risk = ""
    elif usual.shortfall_risk < 1:
        risk = f", which falls short of {percent(point.tpr)} with a chance of {chance}"
    else:
        risk = ", which promises nothing"
    return (
        f"{number(point.extra_alarms_per_1000)} more alarms per 1,000 than the usual threshold"
        f" {usual.threshold!r}{risk}"
    )


def _difference(found: Difference, confidence: float, names: tuple[str, str]) -> str:
    signed = [
        f"{'−' if value < 0 else '+'}{number(100 * abs(value))}"
        for value in (found.difference, found.low, found.high)
    ]
    return (
        f"{names[0]} {share(found.a)}, {names[1]} {share(found.b)}: {signed[0]} points,"
        f" {percent(confidence)} interval {signed[1]} to {signed[2]}, {_p(found.p_value)}"
    )


def _p(value: float) -> str:
    return f"p = {value:.2g}" if value >= 1e-300 else "p < 1e-300"  # a chance is never 0; the computer's may be


def _verdict(
    found: Difference, confidence: float, names: tuple[str, str], yardstick: str, *, lower_wins: bool
) -> str:
    if found.low == found.high == 0:
        return f"By {yardstick}, {names[0]} and {names[1]} are equal: they put the samples in the same order"
    if not found.significant(confidence):
        return f"By {yardstick}, no difference shown: {names[0]} may be better or worse by as much as the interval"
    first_wins = (found.difference < 0) == lower_wins
    better, worse = names if first_wins else names[::-1]
    return f"By {yardstick}, {better} is better than {worse}"


UNDEFINED = "undefined"


def _or_undefined(write: Callable[[float], str]) -> Callable[[Any], str]:
    return lambda value: UNDEFINED if value is None else write(value)


FORMATS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "count": lambda value: f"{value:,}",
    "percent": percent,
    "rounded": lambda value: f"{100 * value:.3g} %",
    "share": _or_undefined(share),
    "share_up": lambda value: share(value, up=True),
    "share_down": lambda value: share(value, up=False),
    "number": number,
    "number_up": lambda value: number(value, up=True),
}


def unbroken(text: str) -> str:
    """No line ends between a number and its %."""
    return text.replace(" %", "\u00a0%")


def _unbroken(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: unbroken(write(value))


# For sentences; numbers that the sliders change are kept whole by the style sheet.
FILTERS: dict[str, Callable[[Any], str]] = {
    "unbroken": unbroken,
    **{name: _unbroken(write) for name, write in FORMATS.items()},
}


PROMISES: dict[str, Per] = {"row": "row", "unit": "unit"}


def saved_point(path: Path) -> tuple[float, float, float, Per]:
    """Threshold, TPR, confidence and whose recall an operating point promises that `certify --json` wrote."""
    advice = ": it is not an operating point; write one with `rankreg certify … --json`"
    content = read_json(path, advice)
    if isinstance(content, dict) and "points" in content:
        raise ValueError(f"{path} holds several operating points: pass --threshold and --tpr of the one in use")
    try:
        per = PROMISES[content.get("per", "row")]  # points once had no such field
        return float(content["threshold"]), float(content["tpr"]), float(content["confidence"]), per
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} lacks a threshold, a TPR or a confidence{advice}") from error


def to_json(record: dict[str, Any]) -> str:
    """JSON that every parser reads and every terminal shows: an infinite number becomes the text "inf" or "-inf",
    and a letter beyond ASCII its number."""
    return json.dumps(_finite(record), indent=2, allow_nan=False).replace("\x7f", "\\u007f")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value
