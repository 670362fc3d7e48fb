"""Promises, reviews and uncertified groups as plain text for the terminal: verdict and price first."""

from rankreg.notation import number, percent, share
from rankreg.operating import Conflict, GroupPoints, PromisedPoint, Review
from rankreg.operating.points import assumption
from rankreg.operating.spans import PromiseName
from rankreg.report.text import GIVE_PREVALENCE, Lines

HEADINGS: dict[PromiseName, str] = {"tpr": "Recall", "fpr": "FPR", "precision": "Precision", "alarms": "Alarms"}
AT_LEAST = ("tpr", "precision")


def promised_lines(found: PromisedPoint, per_day: float | None = None) -> Lines:
    """The threshold that keeps the promises, or which of them conflict and what would help.

    per_day: rows per day; then alarms are said per day.
    """
    words = [_promise(one.name, percent_or_count(one.name, one.target, per_day), found) for one in found.promises]
    together = ", all together" if len(words) > 2 else ", both together" if len(words) == 2 else ""
    said = f"{_listed(words)}{together}, with {percent(found.confidence)} confidence"
    if found.threshold is None or found.recall is None or found.fpr is None:
        these = "this promise" if len(words) == 1 else "these promises"
        lines = [("Not certified", f"no threshold keeps {these}: {said}")]
        for conflict in found.conflicts:
            lines += _conflict_lines(conflict, found, per_day)
        return [*lines, ("Assumption", _assumption(found))]
    missed = number(1000 * (1 - found.recall))
    false = number(1000 * (1 - found.prevalence) * found.fpr)
    whose = "units with positives" if found.per == "unit" else "positives"
    lines = [
        ("Certified", said),
        (
            "Price",
            f"expect {false} false alarms per 1,000 samples and {missed} missed of 1,000 {whose},"
            f" at a prevalence of {_prevalence(found)}",
        ),
        ("Threshold", f"alarm when score ≥ {found.threshold!r}"),
    ]
    if found.lowest != found.highest:
        lines.append(("Range", f"any threshold from {found.lowest!r} to {found.highest!r} keeps the promises"))
    for one in found.promises:
        if one.bound is None or one.observed is None:
            continue
        bound = percent_or_count(one.name, one.bound, per_day, up=one.name not in AT_LEAST)
        here = percent_or_count(one.name, one.observed, per_day, measured=True)
        side = "at least" if one.name in AT_LEAST else "at most"
        lines.append((HEADINGS[one.name], f"{side} {bound}; {here} in this file"))
    if "tpr" not in [one.name for one in found.promises]:
        lines.append(("Recall here", f"{share(found.recall)} of the positives; it is not promised"))
    return [*lines, ("Assumption", _assumption(found))]


def review_lines(found: Review, per_day: float | None = None) -> Lines:
    """Two thresholds, what each promises, and how much there is to review."""
    rows, when = (1000.0, "per 1,000 samples") if per_day is None else (per_day, "per day")
    load, most, alarms = (
        value * rows / 1000
        for value in (found.review_per_1000, found.review_per_1000_at_most, found.alarms_per_1000)
    )
    recall = f"at least {percent(found.tpr)} of new positives are alarmed or reviewed"
    sure = f"with {percent(found.confidence)} confidence"
    price = (
        "Price",
        f"expect {number(load)} reviews (at most {number(most, up=True)}) and {number(alarms)} alarms {when}",
    )
    beside = (
        ("Recall here", f"{share(found.recall)} of the positives; {share(found.alarm_recall)} by alarms alone"),
        ("Assumption", _assumption(found)),
    )
    if found.alarm_from is None:
        closest = (
            "no precision at all can be shown with these samples"
            if found.highest_precision is None
            else f"at least {share(found.highest_precision, up=False)} could have been promised"
        )
        return [
            ("Not certified", f"no threshold has a precision of at least {percent(found.precision)}, {sure}"),
            ("Closest", closest),
            ("Review", f"when score ≥ {found.review_from!r}: {recall}, {sure}"),
            price,
            *beside,
        ]
    verdict = f"{recall}, and at least {percent(found.precision)} of the alarms are real, both together, {sure}"
    if found.alarm_from == found.review_from:
        return [
            ("Certified", verdict),
            (
                "Price",
                f"expect {number(alarms)} alarms {when} and nothing to review: one threshold keeps both promises",
            ),
            ("Alarm", f"when score ≥ {found.alarm_from!r}"),
            ("Dismiss", "when the score is lower"),
            *beside,
        ]
    real = (
        "" if found.alarm_precision is None else f"; {share(found.alarm_precision)} of them are real in this file"
    )
    return [
        ("Certified", verdict),
        (price[0], f"{price[1]}, at a prevalence of {_prevalence(found)}"),
        ("Alarm", f"when score ≥ {found.alarm_from!r}{real}"),
        ("Review", f"when score ≥ {found.review_from!r} and lower than that"),
        ("Dismiss", f"when score < {found.review_from!r}"),
        *beside,
    ]


def covered_groups(found: GroupPoints) -> str:
    """For whom the common threshold holds, to follow "new positives"."""
    if not found.uncertified:
        return " in every group"
    return (
        f" in each of the groups {', '.join(found.points)}"
        if len(found.points) > 1
        else f" in {next(iter(found.points))}"
    )


def group_rows(found: GroupPoints, grid: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The table of certified groups, with a row for each group that is left uncertified."""
    if not found.uncertified:
        return grid
    *rows, everyone = grid
    empty = ("",) * (len(everyone) - 2)
    without = [(name, "not certified", *empty) for name in found.uncertified]
    return [*rows, ("all of these", *everyone[1:]), *without]


def uncertified_lines(found: GroupPoints) -> Lines:
    """Why groups are left uncertified."""
    return [("Not certified", f"{why}. No threshold above covers it") for why in found.uncertified.values()]


def percent_or_count(
    name: PromiseName, value: float, per_day: float | None, *, up: bool | None = None, measured: bool = False
) -> str:
    """A share in percent; alarms as a number per 1,000 samples or per day.

    up: round a bound up (True) or down (False). measured: a share of the sample.
    """
    if name == "alarms":
        rows, when = (1000.0, "per 1,000 samples") if per_day is None else (per_day, "per day")
        count = value * rows / 1000
        return f"{number(count, up=up) if measured or up is not None else f'{count:.6g}'} {when}"
    return percent(value) if up is None and not measured else share(value, up=up)


def _promise(name: PromiseName, target: str, found: PromisedPoint) -> str:
    """A promise in words."""
    unit = found.per == "unit"
    who = "new units with positives raise an alarm on at least one row" if unit else "new positives raise an alarm"
    return {
        "tpr": f"at least {target} of {who}",
        "fpr": f"at most {target} of new negatives raise an alarm",
        "precision": f"at least {target} of the alarms are real",
        "alarms": f"at most {target.replace(' per', ' alarms per')}",
    }[name]


def _conflict_lines(conflict: Conflict, found: PromisedPoint, per_day: float | None) -> Lines:
    targets = {one.name: one.target for one in found.promises}

    def said(name: PromiseName, value: float, up: bool | None = None) -> str:
        heading = HEADINGS[name] if name == "fpr" else HEADINGS[name].lower()
        side = "at least" if name in AT_LEAST else "at most"
        return f"{heading} {side} {percent_or_count(name, value, per_day, up=up)}"

    pair = " and ".join(said(name, targets[name]) for name in conflict.between)
    alone = len(conflict.between) == 1
    lines = [("Conflict", f"{pair}{' cannot be shown, even alone' if alone else ' cannot be kept together'}")]
    for one in conflict.closest:
        beside = "" if one.keeps is None else f"with {said(one.keeps, targets[one.keeps])}: "
        offered = said(one.name, one.target, up=one.name not in AT_LEAST)
        lines.append(("Closest", f"{beside}{offered} (alarm when score ≥ {one.threshold!r})"))
    if conflict.more_positives is None or conflict.more_negatives is None:
        needed = "no number of them will do: the shares seen in this file conflict too. It takes a better model"
    else:
        counts = (conflict.more_positives, "positives"), (conflict.more_negatives, "negatives")
        needed = _listed([f"about {count:,} more {kind}" for count, kind in counts if count])
        needed += " would settle it, if the shares stay as they are here"
    return [*lines, ("Samples", needed)]


def _prevalence(found: PromisedPoint | Review) -> str:
    if found.prevalence_given:
        return percent(found.prevalence)
    return f"{share(found.prevalence)}, as in this file{GIVE_PREVALENCE}"


def _assumption(found: PromisedPoint | Review) -> str:
    promised = {one.name for one in found.promises} if isinstance(found, PromisedPoint) else {"tpr", "precision"}
    said = assumption(found)
    if promised != {"tpr"}:
        said = said.replace("new positives come like these", "new positives and negatives come like these")
    if not found.prevalence_given and promised & {"precision", "alarms"}:
        said += " The file must hold positives and negatives as often as they occur in use."
    return said


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
