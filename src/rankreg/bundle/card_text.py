"""What the threshold of a bundle promises, in words: verdict first, and never more than is proven or simulated."""

from rankreg.bundle.card import Threshold
from rankreg.notation import percent, rounded_threshold, share
from rankreg.operating import PromisedPoint, Review
from rankreg.operating.points import assumption
from rankreg.report import promise_text
from rankreg.report.text import GIVE_PREVALENCE

Lines = list[tuple[str, str]]


def promise_lines(threshold: Threshold, *, advice: bool = False) -> Lines:
    """What the threshold promises and on which assumption, or that it promises nothing.

    advice: say also why promises are not kept and what would help.
    """
    if threshold.promised is not None:
        return _kept_lines(threshold, advice) if threshold.kept else _conflict_lines(threshold, advice)
    return _recall_lines(threshold)


def answer_lines(threshold: Threshold) -> Lines:
    """Where to alarm, and with three answers where to review and to dismiss."""
    lower = rounded_threshold(threshold.value)
    if threshold.alarm_from is None:
        return [("Threshold", f"alarm when score ≥ {lower}")]
    upper = rounded_threshold(threshold.alarm_from)
    if threshold.alarm_from == threshold.value:
        return [("Threshold", f"alarm when score ≥ {upper}, else dismiss: there is nothing to review")]
    return [("Thresholds", f"alarm when score ≥ {upper}, review when score ≥ {lower}, else dismiss")]


def _kept_lines(threshold: Threshold, advice: bool) -> Lines:
    """All promises in one sentence, their price, and the assumption."""
    said = threshold.promised
    assert said is not None
    lines = promise_text.review_lines(said) if isinstance(said, Review) else promise_text.promised_lines(said)
    (_, promised), (_, price), assumed = lines[0], lines[1], lines[-1]
    if threshold.certified:
        verdict = f"certified: {promised} ({_calibration(threshold)})"
    else:
        verdict = (
            f"cross-fitted: {promised} in simulations; proven is only a recall of"
            f" {percent(max(0.0, 2 * threshold.tpr - 1))} on average ({_calibration(threshold)})"
        )
    if not threshold.certified:
        price = price.replace(" (at most 1,000)", "")  # nothing is claimed
    price = price if advice else price.removesuffix(GIVE_PREVALENCE)
    return [("Promised", verdict), ("Price", _of_these_data(price)), (assumed[0], _of_these_data(assumed[1]))]


def _conflict_lines(threshold: Threshold, advice: bool) -> Lines:
    """That the promises are not kept and what would help, then the recall that is."""
    said = threshold.promised
    assert isinstance(said, PromisedPoint)
    (_, verdict), *why, _ = promise_text.promised_lines(said)
    return [
        ("Not kept", verdict),
        *((heading, _of_these_data(sentence)) for heading, sentence in (why if advice else ())),
        ("Instead", "the model is saved with the threshold of the recall alone:"),
        *_recall_lines(threshold),
    ]


def _of_these_data(sentence: str) -> str:
    """A sentence about a file of scores, said of the data of a fit."""
    for file, data in (("as in this file", "as in these data"), ("in this file", "here"), ("The file", "The data")):
        sentence = sentence.replace(file, data)
    return sentence


def _recall_lines(threshold: Threshold) -> Lines:
    """What recall the threshold promises and on which assumption, or that it promises none."""
    if threshold.kind == "empirical":
        return [("Recall", f"UNCERTIFIED: {_shortage(threshold)}")]
    caught = (
        "of new positives raise an alarm"
        if threshold.per == "row"
        else "of new units with positives raise an alarm on at least one of them"
    )
    sure, target = percent(threshold.confidence), percent(threshold.tpr)
    if threshold.kind == "certified":
        verdict = f"certified: at least {target} {caught}, with {sure} confidence ({_calibration(threshold)})"
    elif threshold.kind == "cross-fitted":
        verdict = (
            f"cross-fitted: at least {target} {caught}, with {sure} confidence in simulations; proven is"
            f" {percent(max(0.0, 2 * threshold.tpr - 1))} on average ({_calibration(threshold)})"
        )
    else:
        on_average = share(threshold.expected_recall or 0.0, up=False)
        verdict = (
            f"expected: {on_average} {caught} on average, without a confidence:"
            f" {_calibration(threshold)} are too few, {_needed(threshold)} allow {sure}"
        )
    return [("Recall", verdict), ("Assumption", assumption(threshold))]


def _needed(threshold: Threshold) -> str:
    needed = threshold.units_needed or threshold.positives_needed
    return f"{needed:,}{' units like these' if threshold.units_needed else ''}" if needed else "more"


def _shortage(threshold: Threshold) -> str:
    needed = threshold.units_needed or threshold.positives_needed
    if needed is None:  # the usual threshold of a classifier, or one that was cross-validated
        return "no recall is guaranteed"
    like = " units like these" if threshold.units_needed else ""
    return (
        f"{_calibration(threshold)} are too few to guarantee {percent(threshold.tpr)} with"
        f" {percent(threshold.confidence)} confidence, which takes {needed:,}{like}; the threshold is where"
        f" {percent(threshold.tpr)} of these were caught"
    )


def _calibration(threshold: Threshold) -> str:
    kind = "out-of-fold" if threshold.kind in ("cross-fitted", "expected") else "calibration"
    positives = f"{threshold.calibration_positives:,} {kind} positives"
    if threshold.units in (None, threshold.calibration_positives):
        return positives
    return f"{positives} in {threshold.units:,} independent units"
