"""What a fit prints: the verdict and its price, then the race of learners, then the details and what to do next."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from rankreg.bundle import Threshold
from rankreg.bundle.card_text import answer_lines, promise_lines
from rankreg.bundle.evaluation import Lines, bounded, evaluation_lines, per_thousand
from rankreg.fit.crossfit import RacedLearner
from rankreg.fit.pipeline import Fitted
from rankreg.notation import percent
from rankreg.operating import Finding
from rankreg.report.text import finding_lines


def summary_lines(fitted: Fitted) -> Lines:
    """Headings and sentences, verdict first."""
    card, threshold = fitted.bundle.card, fitted.threshold
    decoded = ""
    if card.preprocessing["kind"] == "image":
        decoded = " decoded/ the images as the network sees them (may be removed),"
    return [
        *finding_lines(fitted.judged.findings),
        *finding_lines(_only_in_the_test(fitted)),
        *promise_lines(threshold, advice=True),
        *_price(fitted),
        *_other_kind(fitted),
        *answer_lines(threshold),
        ("Data", _data(fitted)),
        *_unused(card.preprocessing.get("unused", ())),
        ("Judged", f"{_judged(threshold, fitted.folds)}:"),
        *evaluation_lines(fitted.judged),
        *_tested(fitted),
        ("Files", f"{fitted.folder}: bundle/ is the model,{decoded} run/ lets a stopped fit go on, summary.json"),
        ("Look at it", f"open {fitted.report} in a browser" if fitted.report.endswith(".html") else fitted.report),
    ]


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


def _price(fitted: Fitted) -> Lines:
    """False alarms per 1,000 negatives; promises that are kept have named their price already."""
    price = fitted.judged if fitted.test is None else fitted.test
    if fitted.threshold.promised is not None and fitted.threshold.kept:
        return []
    return [("Price", f"expect {per_thousand(price.fpr)} false alarms per 1,000 negatives")]


def _data(fitted: Fitted) -> str:
    card = fitted.bundle.card
    parts = ", ".join(
        f"{part['samples']:,} {what} ({part['positives']:,} {card.classes[1]!r})"
        for name, part in card.parts.items()
        for what in [{"train": "train and judge", "calibration": "certify", "test": "test"}[name]]
    )
    return f"{card.name}: {parts}"


def _judged(threshold: Threshold, folds: int) -> str:
    held = ", calibration samples by all members" if threshold.certified else ""
    return f"every sample by members that have not seen it ({folds} folds{held})"


def _only_in_the_test(fitted: Fitted) -> list[Finding]:
    """What the test part shows to be useless, and the judged samples did not."""
    known = {one.name for one in fitted.judged.findings}
    tested = () if fitted.test is None else fitted.test.findings
    return [replace(one, sentence=f"Test part: {one.sentence}") for one in tested if one.name not in known]


def _tested(fitted: Fitted) -> Lines:
    if fitted.test is None:
        return []
    return [("Tested", "once, on the test part; nothing was chosen by it:"), *evaluation_lines(fitted.test)]


def _unused(columns: Sequence[str]) -> Lines:
    """The columns that were left out unasked."""
    if not columns:
        return []
    what = "if one names the rows, pass it as --id; otherwise --drop silences this; --describe says why"
    return [("Not learned from", f"{', '.join(map(repr, columns))}: {what}")]


def _other_kind(fitted: Fitted) -> Lines:
    """What the other kind of threshold would cost."""
    threshold, other = fitted.threshold, fitted.other_fpr
    if threshold.promised is not None:
        return []
    if threshold.certified:
        if other is None:
            return []
        return [("Otherwise", f"a cross-fitted threshold, not proven, would raise {1000 * other:.0f} per 1,000")]
    if other is None:
        return [("Otherwise", "half of these positives are too few to certify the target (--threshold certified)")]
    return [
        ("Otherwise", f"to hold positives out and certify would raise about {1000 * other:.0f} per 1,000, or more")
    ]
