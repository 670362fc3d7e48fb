"""A fit in words: what to use, what it is worth, what to do next."""

import math
import shlex
from collections.abc import Sequence

from rankreg.bundle import Threshold, evaluation_lines, promise_lines
from rankreg.bundle.words import Lines
from rankreg.fit.pipeline import Fitted
from rankreg.fit.sources import MOST
from rankreg.operating import percent


def summary_lines(fitted: Fitted) -> Lines:
    """One heading and one sentence a line."""
    card, threshold = fitted.bundle.card, fitted.threshold
    parts = ", ".join(f"{name} {part['samples']:,} ({part['positives']:,})" for name, part in card.parts.items())
    lines = [
        ("Data", f"{card.name}; samples (of which {card.classes[1]!r}): {parts}"),
        *_unused(card.preprocessing.get("unused", ())),
        ("Training", f"epoch {fitted.best_epoch + 1} of {fitted.epochs}, {_why_kept(fitted)}"),
        ("Threshold", f"alarm when score ≥ {threshold.value:.6g}"),
        *promise_lines(threshold),
        *_price(threshold),
        *_advice(fitted),
        ("Measured", "once, on the test part, by which nothing was chosen:"),
        *evaluation_lines(fitted.test),
    ]
    return lines + _next(fitted)


def _why_kept(fitted: Fitted) -> str:
    last = fitted.bundle.card.training["selection"] == "last"
    return "the last one, whatever its results" if last else "the best on the validation part"


def _unused(columns: Sequence[str]) -> Lines:
    """What was not learned from though nobody said so."""
    if not columns:
        return []
    why = "empty, or text without a value that occurs twice"
    what = "if it names the rows, pass it as --id; --drop leaves it out without a word"
    return [("Not learned from", f"{', '.join(map(repr, columns))}: {why}; {what}")]


def _price(threshold: Threshold) -> Lines:
    """What the guarantee costs over the usual threshold, on the calibration part."""
    if threshold.certificate is None:
        return []
    extra, usual = threshold.certificate["extra_alarms_per_1000"], threshold.certificate["uncertified"]
    if usual["threshold"] == threshold.certificate["threshold"]:
        return [("Price", "no price: the threshold without guarantee is the same one")]
    at_most = "at most " if usual.get("tied") else ""  # cards written before ties were noted lack it
    risk = f"{at_most}{100 * usual['shortfall_risk']:.0f} %"
    return [
        (
            "Price",
            f"{extra:.0f} more alarms per 1,000 than at {usual['threshold']:.6g}, the threshold without guarantee,"
            f" which catches less than {percent(threshold.tpr)} with a chance of {risk}",
        )
    ]


def _advice(fitted: Fitted) -> Lines:
    threshold = fitted.threshold
    needed = threshold.units_needed or threshold.positives_needed
    if threshold.certified or needed is None or not threshold.highest_tpr:
        return []
    reachable = math.floor(1000 * threshold.highest_tpr) / 1000
    what, key = (
        ("positives", "positives") if threshold.units is None else ("units with positives", "positive_units")
    )
    held = sum(part.get(key, part["positives"]) for part in fitted.bundle.card.parts.values())
    in_all = math.ceil(needed * held / max(threshold.units or threshold.calibration_positives, 1))
    how = "trains anew: another --out" if fitted.bundle.card.training["selection"] == "fpr" else "no new training"
    ways = [f"run it again with --tpr {reachable:g}, the highest these {what} can certify ({how})"]
    if math.floor(MOST * held) >= needed:
        share = math.ceil(100 * needed / held - 1e-9) / 100
        ways.append(f"with --calibration {share:g}, which leaves less to train on (trains anew: another --out)")
    ways.append(f"collect about {in_all:,} {what} in all ({held:,} are here)")
    return [("To certify", ", or ".join(ways))]


def _next(fitted: Fitted) -> Lines:
    home = shlex.quote(str(fitted.folder))
    images = fitted.bundle.card.preprocessing["kind"] == "image"
    per = " --per unit" if fitted.threshold.per == "unit" else ""
    units = "" if fitted.threshold.units is None else f" --unit unit{per}"
    decoded = " decoded/ the images as the network sees them (may be removed)," if images else ""
    return [
        ("Files", f"{fitted.folder}: bundle/ is the model, run/ the training,{decoded} summary.json these numbers"),
        ("Use it", f"rankreg predict {home} NEW_DATA --out scores.csv"),
        ("Check it", f"rankreg evaluate {home} LABELLED_DATA"),
        ("Look at it", f"open {fitted.report} in a browser" if fitted.report.endswith(".html") else fitted.report),
        ("Look closer", f"rankreg certify {home}/calibration-scores.csv --label label --score score{units}"),
    ]
