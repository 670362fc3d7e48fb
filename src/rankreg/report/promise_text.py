"""Promises, reviews and groups as plain text, for the terminal and for the page: verdict and price first."""

from collections.abc import Iterable, Mapping, Sequence

from rankreg.notation import Lines, number, percent, rounded_threshold, share, short_name
from rankreg.operating import (
    Conflict,
    GroupPoints,
    PromisedGroups,
    PromisedPoint,
    Review,
    ReviewGroups,
    UncertifiedGroup,
)
from rankreg.operating.points import assumption
from rankreg.operating.spans import AT_LEAST, PromiseName
from rankreg.operating.units import Per
from rankreg.report.text import GIVE_PREVALENCE

Promised = PromisedPoint | Review | PromisedGroups | ReviewGroups

HEADINGS: dict[PromiseName, str] = {"tpr": "Recall", "fpr": "FPR", "precision": "Precision", "alarms": "Alarms"}
MOST_GROUPS = 20  # uncertified ones that are listed


def promise_lines(found: Promised, per_day: float | None = None) -> Lines:
    """What is promised and its price, or why nothing is; of one sample or of each group.

    per_day: rows per day; then alarms and reviews are said per day. Those of groups are per 1,000 rows.
    """
    if isinstance(found, PromisedPoint):
        return promised_lines(found, per_day)
    return review_lines(found, per_day) if isinstance(found, Review) else group_lines(found)


def is_kept(found: Promised) -> bool:
    """Whether all promises are kept; of groups, whether they are in any."""
    if isinstance(found, PromisedPoint):
        return found.threshold is not None
    return found.alarm_from is not None if isinstance(found, Review) else bool(found.points)


def one_threshold(found: Promised) -> float | None:
    """The threshold at or above which a sample is not dismissed, if one serves all samples."""
    if isinstance(found, Review):
        return found.review_from
    point = found.everyone if isinstance(found, PromisedGroups) else found
    return point.threshold if isinstance(point, PromisedPoint) else None


def promised_lines(found: PromisedPoint, per_day: float | None = None) -> Lines:
    """The threshold that keeps the promises, or which of them conflict and what would help.

    per_day: rows per day; then alarms are said per day.
    """
    words = {one.name: one.target for one in found.promises}
    said = all_promises(words, found.confidence, per_day, found.per, review=found.review)
    if found.threshold is None or found.recall is None or found.fpr is None:
        these = "this promise" if len(words) == 1 else "these promises"
        none = "no two thresholds keep" if found.review else "no threshold keeps"
        lines = [("Not certified", f"{none} {these}: {said}")]
        return [*lines, *_conflict_lines(found.conflicts, words, per_day)]
    lines = [
        ("Certified", said),
        _price(found),
        ("Threshold", f"alarm when score ≥ {promised_threshold(found)}"),
    ]
    if found.lowest is not None and found.highest is not None and found.lowest < found.highest:
        low, high = rounded_threshold(found.lowest, up=True), rounded_threshold(found.highest)
        if float(low) < float(high):
            lines.append(("Range", f"any threshold from {low} to {high} keeps the promises"))
    for one in found.promises:
        if one.bound is None or one.observed is None:
            continue
        bound = percent_or_count(one.name, one.bound, per_day, up=one.name not in AT_LEAST)
        here = percent_or_count(one.name, one.observed, per_day, measured=True)
        side = "at least" if one.name in AT_LEAST else "at most"
        lines.append((HEADINGS[one.name], f"{side} {bound}; {here} in this file"))
    if "tpr" not in words:
        lines.append(("Recall here", f"{share(found.recall)} of the positives; it is not promised"))
    return [*lines, ("Assumption", promise_assumption(found))]


def promised_threshold(found: PromisedPoint) -> str:
    """The threshold in so few digits that it still lies among those that keep the promises."""
    if found.threshold is None:
        return "none"
    low = found.threshold if found.lowest is None else found.lowest
    high = found.threshold if found.highest is None else found.highest
    recall_alone = all(one.name == "tpr" for one in found.promises)
    for up in (False, True):
        few = rounded_threshold(found.threshold, up=up)
        if recall_alone or low <= float(few) <= high:
            return few
    return rounded_threshold(found.threshold, 10)


def _written(threshold: float | None) -> str:
    return "none" if threshold is None else rounded_threshold(threshold)


def review_lines(found: Review, per_day: float | None = None) -> Lines:
    """Two thresholds, what each promises, and how much there is to review."""
    rows, when = (1000.0, "per 1,000 samples") if per_day is None else (per_day, "per day")
    load, alarms = (value * rows / 1000 for value in (found.review_per_1000, found.alarms_per_1000))
    most = load_bound(found)
    bound = "an estimate" if most is None else f"at most {number(most * rows / 1000, up=True)}"
    recall = f"at least {percent(found.tpr)} of new positives are alarmed or reviewed"
    sure = f"with {percent(found.confidence)} confidence"
    price = (
        "Price",
        f"expect {number(load)} reviews ({bound}) and {number(alarms)} alarms {when}",
    )
    beside = (
        ("Recall here", f"{share(found.recall)} of the positives; {share(found.alarm_recall)} by alarms alone"),
        ("Assumption", promise_assumption(found)),
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
            *(("Samples", samples_said(one)) for one in found.conflicts),
            ("Review", f"when score ≥ {rounded_threshold(found.review_from)}: {recall}, {sure}"),
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
            ("Alarm", f"when score ≥ {rounded_threshold(found.alarm_from)}"),
            ("Dismiss", "when the score is lower"),
            *beside,
        ]
    real = (
        "" if found.alarm_precision is None else f"; {share(found.alarm_precision)} of them are real in this file"
    )
    return [
        ("Certified", verdict),
        (price[0], f"{price[1]}, at a prevalence of {_prevalence(found)}"),
        ("Alarm", f"when score ≥ {rounded_threshold(found.alarm_from)}{real}"),
        ("Review", f"when score ≥ {rounded_threshold(found.review_from)} and lower than that"),
        ("Dismiss", f"when score < {rounded_threshold(found.review_from)}"),
        *beside,
    ]


def load_bound(found: Review) -> float | None:
    """The most reviews per 1,000 samples; None if nothing below 1,000 is claimed."""
    most = found.review_per_1000_at_most
    return None if most is None or most >= 1000 else most


def group_lines(found: PromisedGroups | ReviewGroups) -> Lines:
    """What is promised in each group, whether one threshold serves all, and why groups are left uncertified."""
    per = found.per if isinstance(found, PromisedGroups) else "row"
    review = isinstance(found, ReviewGroups)
    said = all_promises(found.targets, found.confidence, per=per, review=review)
    left = [
        ("Not certified", f"group {name!r}: {left_out(one, found.targets)}")
        for name, one in list(found.uncertified.items())[:MOST_GROUPS]
    ]
    left += _more_groups(found)
    if not found.points:
        return [("Not certified", f"no group keeps these promises: {said}"), *left]
    whom = "group" if len(found.points) == 1 else "each of the groups"
    lines = [("Certified", f"in {whom} {', '.join(map(short_name, found.points))}: {said}")]
    if isinstance(found, PromisedGroups):
        lines += _common_lines(found)
    return [*lines, *left, ("Assumption", promise_assumption(found))]


def promise_assumption(found: Promised) -> str:
    """What the promises rest on."""
    if isinstance(found, PromisedPoint):
        return _assumption(found, [one.name for one in found.promises])
    if isinstance(found, Review):
        return _assumption(found, ("tpr", "precision"))
    who = "positives" if set(found.targets) == {"tpr"} else "positives and negatives"
    units = any(one.units not in (None, one.positives) for one in found.points.values())
    those = "their units" if units else "these"
    said = f"This holds if in each group new {who} come like these, and {those} are independent of each other."
    if found.prevalence is None and not {"precision", "alarms"}.isdisjoint(found.targets):
        said += " Each group must hold positives and negatives as often as they occur in use."
    return said


def _common_lines(found: PromisedGroups) -> Lines:
    """The threshold that serves every certified group, with its price."""
    everyone = found.everyone
    if everyone is None:
        return [("One for all", "no single threshold keeps the promises in all of them: use the one of each group")]
    if len(found.points) == 1:
        return [_price(everyone), ("Threshold", f"alarm when score ≥ {promised_threshold(everyone)}")]
    price = _price(everyone)
    return [
        ("One for all", f"alarm when score ≥ {promised_threshold(everyone)}: it keeps the promises in all of them"),
        (price[0], f"of this one: {price[1]}"),
    ]


def promise_table(found: Promised) -> list[tuple[str, ...]] | None:
    """A header and a row for each group; None without groups."""
    if isinstance(found, PromisedPoint | Review):
        return None
    grid: list[tuple[str, ...]]
    if isinstance(found, ReviewGroups):
        grid = [
            (
                "group",
                "positives",
                "alarm from",
                "review from",
                "recall",
                "reviews per 1,000",
                "at most",
                "alarms per 1,000",
            )
        ]
        grid += [
            (
                name,
                f"{one.positives:,}",
                _written(one.alarm_from),
                _written(one.review_from),
                share(one.recall),
                number(one.review_per_1000),
                "estimate" if (most := load_bound(one)) is None else number(most, up=True),
                number(one.alarms_per_1000),
            )
            for name, one in found.points.items()
        ]
    else:
        grid = [("group", "positives", "threshold", "recall", "FPR", "precision", "alarms per 1,000")]
        common = "all of these" if found.uncertified else "every group"
        shared = {common: found.everyone} if found.everyone is not None and len(found.points) > 1 else {}
        grid += [
            (
                name,
                f"{one.positives:,}",
                promised_threshold(one),
                share(one.recall or 0.0),
                share(one.fpr or 0.0),
                share(one.precision or 0.0),
                number(one.alarms_per_1000 or 0.0),
            )
            for name, one in (found.points | shared).items()
        ]
    empty = ("",) * (len(grid[0]) - 3)
    return [
        *grid,
        *(
            (name, f"{one.positives:,}", "not certified", *empty)
            for name, one in list(found.uncertified.items())[:MOST_GROUPS]
        ),
    ]


def left_out(one: UncertifiedGroup, targets: Mapping[PromiseName, float]) -> str:
    """Why a group is uncertified, the closest it could keep, and how many more samples it needs."""
    return ". ".join(left_out_lines(one, targets))


def left_out_lines(one: UncertifiedGroup, targets: Mapping[PromiseName, float]) -> list[str]:
    """The same in sentences without a full stop."""
    if not one.conflicts:
        return [f"It has no {'positives' if not one.positives else 'negatives'}, so nothing is known about them"]
    closest = [" or ".join(closest_said(conflict, targets)) for conflict in one.conflicts if conflict.closest]
    advice = [f"Closest: {'; '.join(closest)}"] if closest else []
    return [_sentence("; ".join(conflict_said(one, targets) for one in one.conflicts)), *advice, samples_said(one)]


def covered_groups(found: GroupPoints) -> str:
    """For whom the common threshold holds, to follow "new positives"."""
    if not found.uncertified:
        return " in every group"
    return (
        f" in each of the groups {', '.join(map(short_name, found.points))}"
        if len(found.points) > 1
        else f" in {short_name(next(iter(found.points)))}"
    )


def group_rows(found: GroupPoints, grid: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The table of certified groups, with a row for each group that is left uncertified."""
    if not found.uncertified:
        return grid
    *rows, everyone = grid
    empty = ("",) * (len(everyone) - 2)
    without = [(name, "not certified", *empty) for name in list(found.uncertified)[:MOST_GROUPS]]
    return [*rows, ("all of these", *everyone[1:]), *without]


def uncertified_lines(found: GroupPoints) -> Lines:
    """Why groups are left uncertified."""
    why = list(found.uncertified.values())[:MOST_GROUPS]
    return [*(("Not certified", f"{one}. No threshold above covers it") for one in why), *_more_groups(found)]


def _more_groups(found: GroupPoints | PromisedGroups | ReviewGroups) -> Lines:
    more = len(found.uncertified) - MOST_GROUPS
    return [("Not certified", f"nor are {more:,} more groups; --json lists them all")] if more > 0 else []


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


def all_promises(
    targets: Mapping[PromiseName, float],
    confidence: float,
    per_day: float | None = None,
    per: Per = "row",
    *,
    review: bool = False,
) -> str:
    """All promises in one sentence, with their confidence."""
    who = "new positives raise an alarm"
    if per == "unit":
        who = "new units with positives raise an alarm on at least one row"
    who = "new positives are alarmed or reviewed" if review else who
    said = {name: percent_or_count(name, target, per_day) for name, target in targets.items()}
    words = {
        "tpr": "at least {} of " + who,
        "fpr": "at most {} of new negatives raise an alarm",
        "precision": "at least {} of the alarms are real",
        "alarms": "at most {}",
    }
    listed = [words[name].format(text.replace(" per", " alarms per")) for name, text in said.items()]
    together = ", all together" if len(listed) > 2 else ", both together" if len(listed) == 2 else ""
    return f"{_listed(listed)}{together}, with {percent(confidence)} confidence"


def heading(name: PromiseName) -> str:
    """The name of a promise inside a sentence."""
    return HEADINGS[name] if name == "fpr" else HEADINGS[name].lower()


def target_said(name: PromiseName, value: float, per_day: float | None, up: bool | None = None) -> str:
    """A promise in a few words, e.g. "recall at least 95 %"."""
    side = "at least" if name in AT_LEAST else "at most"
    return f"{heading(name)} {side} {percent_or_count(name, value, per_day, up=up)}"


def conflict_said(conflict: Conflict, targets: Mapping[PromiseName, float], per_day: float | None = None) -> str:
    """Which promises cannot be kept."""
    pair = " and ".join(target_said(name, targets[name], per_day) for name in conflict.between)
    return f"{pair} {'cannot be shown, even alone' if len(conflict.between) == 1 else 'cannot be kept together'}"


def closest_said(
    conflict: Conflict, targets: Mapping[PromiseName, float], per_day: float | None = None, *, exact: bool = False
) -> list[str]:
    """What could have been promised instead. exact: with the threshold."""
    found = []
    for one in conflict.closest:
        beside = "" if one.keeps is None else f"with {target_said(one.keeps, targets[one.keeps], per_day)}: "
        offered = target_said(one.name, one.target, per_day, up=one.name not in AT_LEAST)
        found.append(f"{beside}{offered}{f' (alarm when score ≥ {_written(one.threshold)})' if exact else ''}")
    return found


def samples_said(one: Conflict | UncertifiedGroup) -> str:
    """How many more samples would settle it."""
    if one.more_positives is None or one.more_negatives is None:
        return "No number of samples will do: the shares seen here conflict too. It takes a better model"
    counts = (one.more_positives, "positives"), (one.more_negatives, "negatives")
    needed = _listed([f"about {count:,} more {kind}" for count, kind in counts if count])
    return f"{_sentence(needed)} would settle it, if the shares stay as they are here"


def _conflict_lines(
    conflicts: Sequence[Conflict], targets: Mapping[PromiseName, float], per_day: float | None
) -> Lines:
    lines = []
    for conflict in conflicts:
        lines.append(("Conflict", conflict_said(conflict, targets, per_day)))
        lines += [("Closest", said) for said in closest_said(conflict, targets, per_day, exact=True)]
        lines.append(("Samples", samples_said(conflict)))
    if any(conflict.closest for conflict in conflicts):
        lines.append(("Note", "the closest were found by looking at these samples: certify them on others"))
    return lines


def _price(found: PromisedPoint) -> tuple[str, str]:
    """False alarms and misses, from the observed shares."""
    missed, false = number(round(1000 * (1 - (found.recall or 0.0)), 9)), number(false_alarms_per_1000(found))
    whose = "units with positives" if found.per == "unit" else "positives"
    return (
        "Price",
        f"expect {false} false alarms per 1,000 samples and {missed} missed of 1,000 {whose},"
        f" at a prevalence of {_prevalence(found)}",
    )


def false_alarms_per_1000(found: PromisedPoint) -> float:
    """At the prevalence, from the observed FPR; 0 without a threshold."""
    return 1000 * (1 - found.prevalence) * (found.fpr or 0.0)


def _prevalence(found: PromisedPoint | Review) -> str:
    if found.prevalence_given:
        return percent(found.prevalence)
    return f"{share(found.prevalence)}, as in this file{GIVE_PREVALENCE}"


def _assumption(found: PromisedPoint | Review, promised: Iterable[PromiseName]) -> str:
    said, names = assumption(found), set(promised)
    if names != {"tpr"}:
        said = said.replace("new positives come like these", "new positives and negatives come like these")
        if found.units in (None, found.positives):  # no two positives share a unit
            said = said.replace(f"the {found.positives:,} positives are", "these samples are")
    if not found.prevalence_given and names & {"precision", "alarms"}:
        said += " The file must hold positives and negatives as often as they occur in use."
    return said


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
