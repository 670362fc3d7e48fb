"""Promises on the page: a row for every model, and for every group of it, with verdict, price and thresholds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankreg.notation import json_text, percent, rounded_threshold, share
from rankreg.operating import Interval, PromisedGroups, PromisedPoint, Review, ReviewGroups, UncertifiedGroup
from rankreg.operating.spans import AT_LEAST, PromiseName
from rankreg.report.promise_text import (
    HEADINGS,
    Promised,
    all_promises,
    closest_said,
    conflict_said,
    false_alarms_per_1000,
    heading,
    is_kept,
    left_out_lines,
    load_bound,
    percent_or_count,
    promise_assumption,
    promise_lines,
    promise_table,
    samples_said,
)
from rankreg.report.scored_model import ScoredModel
from rankreg.report.sliders import price

WORST = ("good", "warn", "bad")
TONES = {"low": "good", "high": "warn"}  # any other price is red
REFUSED = "Not guaranteed", ("Do not use a threshold of these scores",)
Elsewhere = tuple[tuple[str, int, int, Interval, Interval], ...]


@dataclass(frozen=True)
class PromiseRow:
    """One model, or one group of it: what is promised or why nothing is, and what it costs.

    model: its place on the page. group: None for all samples. tone: "good", "warn" or "bad", by the worse of
    guarantee and price. said: sentences without a full stop. false_alarms, at_most, reviews, reviews_at_most:
    per 1,000 samples. worked: the share of negatives that raise an alarm or a review. missed: the share of
    positives that raise neither. false_alarms_to, reviews_to: the highest of the groups, where they differ.
    answers: what to do from which score on, rounded and exactly. others: how the threshold does on other
    samples, see `Verdict`.
    """

    model: int
    name: str
    group: str | None
    tone: str
    title: str
    said: tuple[str, ...]
    positives: int
    negatives: int
    tpr: float | None = None
    false_alarms: float | None = None
    false_alarms_to: float | None = None
    at_most: float | None = None
    worked: float | None = None
    missed: float | None = None
    reviews: float | None = None
    reviews_to: float | None = None
    reviews_at_most: float | None = None
    answers: tuple[tuple[str, str, str], ...] = ()
    others: Elsewhere = ()


@dataclass(frozen=True)
class PromiseCard:
    """What to copy: the same as text and as JSON; json is None for scores of which no threshold should be used."""

    model: str
    text: str
    json: str | None


@dataclass(frozen=True)
class PromisesShown:
    """All that the page says about promises: `rows` for the models, `groups` for their groups.

    review: there are three answers. by_group: each group has its own. kept: some promise is. refused: no model's
    scores can be used.
    """

    sentence: str
    rows: tuple[PromiseRow, ...]
    groups: tuple[PromiseRow, ...]
    cards: tuple[PromiseCard, ...]
    assumption: str
    review: bool
    by_group: bool
    kept: bool
    refused: bool = False


def shown_promises(
    models: Sequence[ScoredModel], promised: Sequence[Promised], word: str, per_day: float | None = None
) -> PromisesShown | None:
    """The rows and cards of all models; None if nothing is promised. word: what a kept promise is called."""
    if not promised:
        return None
    if len(promised) != len(models):
        raise ValueError(f"{len(models)} models but promises of {len(promised)}: give one result per model")
    if len({type(found) for found in promised}) > 1:
        raise ValueError("the models promise different kinds of things: give results of one function for all")
    first = promised[0]
    rows, groups = list[PromiseRow](), list[PromiseRow]()
    for place, (model, found) in enumerate(zip(models, promised, strict=True)):
        rows.append(_row(place, model, found, word, per_day))
        if isinstance(found, PromisedGroups | ReviewGroups):
            groups += _group_rows(place, model, found, word)
    certified = {row.group for row in groups if row.answers}
    return PromisesShown(
        sentence=_sentence(first, per_day),
        rows=tuple(rows),
        groups=tuple(sorted(groups, key=lambda row: (row.group not in certified, row.group or ""))),
        cards=tuple(_card(model, found, per_day) for model, found in zip(models, promised, strict=True)),
        assumption=promise_assumption(first),
        review=isinstance(first, Review | ReviewGroups),
        by_group=isinstance(first, PromisedGroups | ReviewGroups),
        kept=any(is_kept(found) for model, found in zip(models, promised, strict=True) if model.refused is None),
        refused=all(model.refused is not None for model in models),
    )


def _sentence(found: Promised, per_day: float | None) -> str:
    """What is promised, in one sentence."""
    if isinstance(found, PromisedPoint):
        targets = {one.name: one.target for one in found.promises}
        return all_promises(targets, found.confidence, per_day, found.per, review=found.review)
    if isinstance(found, Review):
        return all_promises({"tpr": found.tpr, "precision": found.precision}, found.confidence, review=True)
    per = found.per if isinstance(found, PromisedGroups) else "row"
    said = all_promises(found.targets, found.confidence, per=per, review=isinstance(found, ReviewGroups))
    return f"in each group: {said}"


def _row(place: int, model: ScoredModel, found: Promised, word: str, per_day: float | None) -> PromiseRow:
    if model.refused is not None:
        counts = model.summary.class_sizes()
        return PromiseRow(place, model.name, None, "bad", *REFUSED, *counts)
    if isinstance(found, PromisedPoint):
        return _point_row(place, model.name, None, found, word, per_day)
    if isinstance(found, Review):
        return _review_row(place, model.name, None, found, word)
    return _overview(place, model, found, word)


def _overview(place: int, model: ScoredModel, found: PromisedGroups | ReviewGroups, word: str) -> PromiseRow:
    """The groups of a model in one row."""
    kept, total = len(found.points), len(found.points) + len(found.uncertified)
    everyone = found.everyone if isinstance(found, PromisedGroups) else None
    title = f"{word.capitalize()} in {kept} of {total} groups"
    if not kept:
        tone, title, said = "bad", f"Not {word} in any group", ["No group keeps these promises"]
    else:
        tone = "good" if kept == total else "warn"
        names = ", ".join(found.uncertified)
        said = [f"Nothing is promised in {names}"] if names else ["Every group keeps these promises"]
    if everyone is not None:
        row = _point_row(place, model.name, None, everyone, word, None)
        worst = max((tone, row.tone), key=WORST.index)
        if len(found.points) > 1:
            said.append("One threshold keeps the promises in all of these groups; each has its own too, see below")
        return replace(row, tone=worst, title=title, said=tuple(said))
    rows = [row for row in _group_rows(place, model, found, word) if row.answers]
    counts = sum(row.positives for row in rows), sum(row.negatives for row in rows)
    if not rows:
        return PromiseRow(place, model.name, None, tone, title, tuple(said), *counts)
    dear = [row.group or "" for row in rows if row.tone == "bad"]
    if dear:
        said.append(f"The price is very high in {', '.join(dear)}")
    said.append("Every group has thresholds of its own, see below")
    tone = max([tone, *(row.tone for row in rows)], key=WORST.index)
    false = [row.false_alarms or 0.0 for row in rows]
    looks: dict[str, Any] = {}
    if isinstance(found, ReviewGroups):
        loads = [row.reviews or 0.0 for row in rows]
        bounds = [row.reviews_at_most for row in rows if row.reviews_at_most is not None]
        most = max(bounds) if len(bounds) == len(rows) else None
        looks = {"reviews": min(loads), "reviews_to": max(loads), "reviews_at_most": most}
    return PromiseRow(
        place,
        model.name,
        None,
        tone,
        title,
        tuple(said),
        *counts,
        tpr=found.targets.get("tpr"),
        false_alarms=min(false),
        false_alarms_to=max(false),
        **looks,
    )


def _group_rows(
    place: int, model: ScoredModel, found: PromisedGroups | ReviewGroups, word: str
) -> Iterable[PromiseRow]:
    if model.refused is not None:
        for name, one in (found.points | found.uncertified).items():
            yield PromiseRow(place, model.name, name, "bad", *REFUSED, one.positives, one.negatives)
        return
    for name, point in found.points.items():
        if isinstance(point, Review):
            yield _review_row(place, model.name, name, point, word)
        else:
            yield _point_row(place, model.name, name, point, word, None)
    for name, one in found.uncertified.items():
        yield _left_out(place, model.name, name, one, found, word)


def _left_out(
    place: int, model: str, group: str, one: UncertifiedGroup, found: PromisedGroups | ReviewGroups, word: str
) -> PromiseRow:
    said = tuple(left_out_lines(one, found.targets))
    return PromiseRow(place, model, group, "bad", f"Not {word}", said, one.positives, one.negatives)


def _point_row(
    place: int, model: str, group: str | None, found: PromisedPoint, word: str, per_day: float | None
) -> PromiseRow:
    counts = found.positives, found.negatives
    if found.threshold is None or found.recall is None or found.fpr is None:
        targets = {one.name: one.target for one in found.promises}
        said = []
        for conflict in found.conflicts:
            said.append(conflict_said(conflict, targets, per_day))
            said += [f"Closest: {text}" for text in closest_said(conflict, targets, per_day)]
            said.append(samples_said(conflict))
        return PromiseRow(place, model, group, "bad", f"Not {word}", _sentences(said), *counts)
    bound = next((one.bound for one in found.promises if one.name == "fpr"), None)
    most = found.fpr if bound is None else bound
    cost = price(found.recall, found.fpr, most)
    said = [] if cost != "useless" else [_useless(found.fpr)]
    here = [percent_or_count(one.name, one.observed or 0.0, per_day, measured=True) for one in found.promises]
    if group is None:
        said += [
            f"{HEADINGS[one.name]} {'at least' if one.name in AT_LEAST else 'at most'}"
            f" {percent_or_count(one.name, one.target, per_day)}; {seen} here"
            for one, seen in zip(found.promises, here, strict=True)
        ]
    else:
        names = [heading(one.name) for one in found.promises]
        said.append("here: " + ", ".join(f"{name} {seen}" for name, seen in zip(names, here, strict=True)))
    return PromiseRow(
        place,
        model,
        group,
        TONES.get(cost, "bad"),
        "Useless" if cost == "useless" else f"{word.capitalize()}, {cost} price",
        _sentences(said),
        *counts,
        tpr=found.tpr,
        false_alarms=false_alarms_per_1000(found),
        at_most=None if bound is None else 1000 * (1 - found.prevalence) * bound,
        worked=found.fpr,
        missed=1 - found.recall,
        answers=(_answer("alarm", found.threshold),),
    )


def _review_row(place: int, model: str, group: str | None, found: Review, word: str) -> PromiseRow:
    handled = (found.alarms_per_1000 + found.review_per_1000) / 1000
    worked = max(0.0, (handled - found.prevalence * found.recall) / (1 - found.prevalence))
    cost = price(found.recall, worked, worked)
    answers = [] if found.alarm_from is None else [_answer("alarm", found.alarm_from)]
    if found.alarm_from != found.review_from:
        answers.append(_answer("review", found.review_from))
    said = [] if cost != "useless" else [_useless(worked)]
    if group is None:
        said.append(f"Recall at least {percent(found.tpr)}, by alarm or review; {share(found.recall)} here")
    if found.alarm_from is None:
        targets: dict[PromiseName, float] = {"tpr": found.tpr, "precision": found.precision}
        for conflict in found.conflicts:
            said += [conflict_said(conflict, targets), samples_said(conflict)]
            said += [f"Closest: {text}" for text in closest_said(conflict, targets)]
        tone, title = "bad", f"Precision not {word}"
    else:
        real = share(found.alarm_precision or 0.0)
        said.append(
            f"Precision of the alarms at least {percent(found.precision)}; {real} here"
            if group is None
            else f"Here: recall {share(found.recall)}, precision of the alarms {real}"
        )
        tone, title = TONES.get(cost, "bad"), f"{word.capitalize()}, {cost} price"
    return PromiseRow(
        place,
        model,
        group,
        tone,
        "Useless" if cost == "useless" else title,
        _sentences(said),
        found.positives,
        found.negatives,
        tpr=found.tpr,
        false_alarms=found.alarms_per_1000 * (1 - (found.alarm_precision or 0.0)),
        worked=worked,
        missed=1 - found.recall,
        reviews=found.review_per_1000,
        reviews_at_most=load_bound(found),
        answers=tuple(answers),
    )


def _useless(fpr: float) -> str:
    return f"{share(fpr)} of the negatives raise an alarm. Use other promises or a better model"


def _answer(name: str, threshold: float) -> tuple[str, str, str]:
    return name, rounded_threshold(threshold, 4), repr(threshold)


def _sentences(said: Iterable[str]) -> tuple[str, ...]:
    return tuple(text[:1].upper() + text[1:] for text in said)


def _card(model: ScoredModel, found: Promised, per_day: float | None) -> PromiseCard:
    if model.refused is not None:
        return PromiseCard(model.name, f"{model.name}: {REFUSED[0].lower()}\n{model.refused}\n", None)
    lines = [f"{heading}: {text}\n" for heading, text in promise_lines(found, per_day)]
    table = ["  ".join(cell for cell in row if cell) + "\n" for row in promise_table(found) or ()]
    return PromiseCard(model.name, f"{model.name}\n{''.join(lines)}{''.join(table)}", json_text(found.to_dict()))
