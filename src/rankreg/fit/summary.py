"""What a fit prints: the verdict and its price, then the details, then what to do next."""

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from rankreg.bundle import Threshold
from rankreg.bundle.evaluation import Lines, evaluation_lines, per_thousand, promise_lines
from rankreg.datasets.splits import Samples
from rankreg.fit.pipeline import Fitted
from rankreg.fit.sources import MOST, Source, load_source
from rankreg.notation import percent
from rankreg.operating.guarantees import certified_rank
from rankreg.operating.units import Trials, UnitSizes
from rankreg.report.text import finding_lines


def summary_lines(fitted: Fitted, source: Source) -> Lines:
    """Headings and sentences, verdict first; source: the data, as they were cut for the fit."""
    card, threshold = fitted.bundle.card, fitted.threshold
    decoded = ""
    if card.preprocessing["kind"] == "image":
        decoded = " decoded/ the images as the network sees them (may be removed),"
    parts = ", ".join(f"{name} {part['samples']:,} ({part['positives']:,})" for name, part in card.parts.items())
    return [
        *finding_lines(fitted.test.findings),
        *promise_lines(threshold),
        ("Price", f"expect {per_thousand(fitted.test.fpr)} false alarms per 1,000 negatives"),
        *_price(threshold),
        ("Threshold", f"alarm when score ≥ {threshold.value:.6g}"),
        *_advice(fitted, source),
        ("Data", f"{card.name}; samples ({card.classes[1]!r} among them): {parts}"),
        *_unused(card.preprocessing.get("unused", ())),
        ("Training", f"epoch {fitted.best_epoch + 1} of {fitted.epochs}, {_why_kept(fitted)}"),
        ("Measured", "once, on the test part; nothing was chosen by it:"),
        *evaluation_lines(fitted.test),
        ("Files", f"{fitted.folder}: bundle/ is the model, run/ the training,{decoded} summary.json these numbers"),
        ("Look at it", f"open {fitted.report} in a browser" if fitted.report.endswith(".html") else fitted.report),
    ]


def next_steps(fitted: Fitted) -> list[str]:
    """Commands to type; capitals stand for the user's own files."""
    home, threshold = str(fitted.folder), fitted.threshold
    steps = [
        f"rankreg predict {shlex.quote(home)} NEW_DATA --out scores.csv",
        f"rankreg evaluate {shlex.quote(home)} LABELLED_DATA",
    ]
    tpr = threshold.tpr if threshold.certified else _reachable(threshold)
    if tpr and not any(finding.refuses for finding in fitted.test.findings):
        options = ["--label", "label", "--score", "score", "--tpr", repr(tpr)]
        if threshold.units is not None:
            options += ["--unit", "unit", "--per", threshold.per]
        options += [] if threshold.confidence == 0.95 else ["--confidence", repr(threshold.confidence)]
        steps.append(shlex.join(["rankreg", "certify", f"{home}/calibration-scores.csv", *options]))
    return steps


def _why_kept(fitted: Fitted) -> str:
    last = fitted.bundle.card.training["selection"] == "last"
    return "the last one, as asked" if last else "the best on the validation part"


def _unused(columns: Sequence[str]) -> Lines:
    """The columns that were left out unasked."""
    if not columns:
        return []
    why = "empty, or text in which no value occurs twice"
    what = "if a column names the rows, pass it as --id; otherwise --drop silences this"
    return [("Not learned from", f"{', '.join(map(repr, columns))}: {why}; {what}")]


def _price(threshold: Threshold) -> Lines:
    """What the guarantee costs compared with the usual threshold, on the calibration part."""
    if threshold.certificate is None:
        return []
    extra, usual = threshold.certificate["extra_alarms_per_1000"], threshold.certificate["uncertified"]
    if all(usual[share] == threshold.certificate[share] for share in ("recall", "fpr")):
        return [("Guarantee", "free: the usual threshold raises the same alarms")]
    at_most = "at most " if usual.get("tied") else ""  # cards written before ties were noted lack it
    chance = f"{at_most}{100 * usual['shortfall_risk']:.0f} %"
    risk = f", which catches less than {percent(threshold.tpr)} with a chance of {chance}"
    more = f"{extra:.0f} more alarms per 1,000 than at the usual threshold {usual['threshold']:.6g}"
    return [("Guarantee", f"costs {more}{risk if usual['fpr'] < 1 else ''}")]


def _advice(fitted: Fitted, source: Source) -> Lines:
    threshold = fitted.threshold
    needed = threshold.units_needed or threshold.positives_needed
    reachable = _reachable(threshold)
    if threshold.certified or needed is None or not reachable:
        return []
    what, key = (
        ("positives", "positives") if threshold.units is None else ("units with positives", "positive_units")
    )
    held = sum(part.get(key, part["positives"]) for part in fitted.bundle.card.parts.values())
    here = threshold.units or threshold.calibration_positives
    in_all = math.ceil(needed * held / max(here, 1))
    how = "trains anew: another --out" if fitted.bundle.card.training["selection"] == "fpr" else "no new training"
    ways = [f"run it again with --tpr {reachable:g}, the highest that these {what} can certify ({how})"]
    share = sufficient_share(replace(source, seed=fitted.bundle.card.training["seed"]), fitted, needed / held)
    if share is not None:
        ways.append(f"with --calibration {share:g}, which leaves less to train on (trains anew: another --out)")
    ways.append(f"collect about {in_all:,} {what} in all ({held:,} are here)")
    return [("To certify", ", or ".join(ways))]


def sufficient_share(source: Source, fitted: Fitted, likely: float) -> float | None:
    """The smallest calibration share that certifies the target, found by cutting the data anew; None: none does.

    likely: the share that would do without copies and groups. They stay together, so a share of the samples need
    not bring that share of the positives.
    """
    for share in _shares_from(source.calibration + 0.01, likely):  # the share in use did not do
        try:
            part = load_source(replace(source, calibration=share), fitted.folder / "decoded")["calibration"]
        except ValueError:  # groups so large that the parts cannot have these shares
            continue
        if _certifies(part, fitted.threshold):
            return share
    return None


def _shares_from(least: float, likely: float) -> Iterator[float]:
    """Shares to try, in whole per cent, in growing steps from both up to the largest."""
    first, second = (math.ceil(100 * share - 1e-9) for share in (least, likely))
    steps = {start + step for start in (first, second) for step in (0, 1, 2, 4, 8, 16, 32)}
    yield from (share / 100 for share in sorted(steps) if first <= share <= round(100 * MOST))


def _certifies(part: Samples, threshold: Threshold) -> bool:
    """Whether the positives of the part, or the units they belong to, are enough for the target."""
    positive = part.labels == 1
    trials: Trials = int(np.count_nonzero(positive))
    if part.units is not None:
        sizes = np.unique(part.units[positive], return_counts=True)[1]
        trials = len(sizes) if threshold.per == "unit" else UnitSizes.of(sizes)
    return certified_rank(trials, threshold.tpr, threshold.confidence) > 0


def _reachable(threshold: Threshold) -> float:
    """The highest TPR that the calibration part can certify, rounded down to what can be typed."""
    return math.floor(1000 * (threshold.highest_tpr or 0.0)) / 1000
