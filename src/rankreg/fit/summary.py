"""What a fit prints: the verdict and its price, then the race of learners, then the details and what to do next."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from rankreg.bundle.card_text import answer_lines, promise_lines
from rankreg.bundle.evaluation import Lines, bounded, evaluation_lines, per_thousand
from rankreg.fit.crossfit import RacedLearner
from rankreg.fit.pipeline import Fitted
from rankreg.notation import percent
from rankreg.report.text import finding_lines


def summary_lines(fitted: Fitted) -> Lines:
    """Headings and sentences, verdict first."""
    card, threshold, test = fitted.bundle.card, fitted.threshold, fitted.test
    lines = finding_lines(fitted.judged.findings)
    if test is not None:  # what the test part alone shows to be useless
        known = {one.name for one in fitted.judged.findings}
        fresh = [one for one in test.findings if one.name not in known]
        lines += finding_lines([replace(one, sentence=f"Test part: {one.sentence}") for one in fresh])
    lines += promise_lines(threshold, advice=True)
    if threshold.promised is None or not threshold.kept:  # promises that are kept have named their price already
        fpr = (fitted.judged if test is None else test).fpr
        lines.append(("Price", f"expect {per_thousand(fpr)} false alarms per 1,000 negatives"))
    if threshold.promised is None and (otherwise := _otherwise(threshold.certified, fitted.other_fpr)):
        lines.append(("Otherwise", otherwise))
    lines += answer_lines(threshold)
    purposes = {"train": "train and judge", "calibration": "certify", "test": "test"}
    parts = [
        f"{part['samples']:,} {purposes[name]} ({part['positives']:,} {card.classes[1]!r})"
        for name, part in card.parts.items()
    ]
    lines.append(("Data", f"{card.name}: {', '.join(parts)}"))
    if unused := card.preprocessing.get("unused", ()):
        what = "if one names the rows, pass it as --id; otherwise --drop silences this; --describe says why"
        lines.append(("Not learned from", f"{', '.join(map(repr, unused))}: {what}"))
    held = ", calibration samples by all members" if threshold.certified else ""
    lines.append(("Judged", f"every sample by members that have not seen it ({fitted.folds} folds{held}):"))
    lines += evaluation_lines(fitted.judged)
    if test is not None:
        lines.append(("Tested", "once, on the test part; nothing was chosen by it:"))
        lines += evaluation_lines(test)
    images = " decoded/ the images as the network sees them (may be removed),"
    decoded = images if card.preprocessing["kind"] == "image" else ""
    files = f"{fitted.folder}: bundle/ is the model,{decoded} run/ lets a stopped fit go on, summary.json"
    look = f"open {fitted.report} in a browser" if fitted.report.endswith(".html") else fitted.report
    before = [("Replaced", f"the model that {fitted.folder} held before")] if fitted.replaced else []
    return [*lines, ("Files", files), *before, ("Look at it", look)]


def _otherwise(certified: bool, other: float | None) -> str:
    """What the other kind of threshold would cost."""
    if other is None:
        few = "half of these positives are too few to certify the target (--threshold certified)"
        return "" if certified else few
    if certified:
        return f"a cross-fitted threshold, not proven, would raise {1000 * other:.0f} per 1,000"
    return f"to hold positives out and certify would raise about {1000 * other:.0f} per 1,000, or more"


def race_table(race: Sequence[RacedLearner], tpr: float) -> list[tuple[str, ...]]:
    """A header, then every learner and the average."""
    header = ("learner", f"FPR at {percent(tpr)} TPR", "weight", "seconds")
    rows = [(one.name, bounded(one.fpr), f"{one.weight:.2f}", f"{one.seconds:.1f}") for one in race]
    return [header, *rows]


def next_steps(fitted: Fitted) -> list[str]:
    """Commands to type; capitals stand for the user's own files."""
    home = shlex.quote(str(fitted.folder))
    return [
        f"rankreg predict {home} NEW_DATA --out scores.csv",
        f"rankreg evaluate {home} LABELLED_DATA",
        f"rankreg monitor CONFIRMED.csv --score score --point {shlex.quote(str(fitted.folder / 'summary.json'))}",
    ]
