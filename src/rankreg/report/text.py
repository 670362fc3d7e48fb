"""Results as plain text, for the terminal and for the cards of the page: verdict and price first.

A line is a heading and a sentence. Bounds are rounded to the safe side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import floor
from typing import Any, Literal

import numpy as np

from rankreg.labels import Reading
from rankreg.metrics import empirical_thresholds
from rankreg.notation import Lines, json_text, number, p_text, percent, rounded_threshold, share, short_name
from rankreg.operating import (
    Comparison,
    Difference,
    Finding,
    GroupPoints,
    NotEnoughPositives,
    OperatingPoint,
    Recertification,
    TargetPoints,
    certify_targets,
    findings,
)
from rankreg.operating.guarantees import certified_rank
from rankreg.operating.points import assumption, point_at
from rankreg.operating.units import Per
from rankreg.report.scored_model import ScoredModel

Basis = Literal["held-out", "out-of-fold"]
WORDS: dict[Basis, str] = {"held-out": "certified", "out-of-fold": "cross-fitted"}
EVERY_ROW = "every row counts as a confirmed positive"
GIVE_PREVALENCE = ". Give the real one with --prevalence"


@dataclass(frozen=True)
class Card:
    """One model at one target.

    certified: a threshold keeps the recall with the confidence: proven for held-out samples, in simulations for
    out-of-fold ones. because: why none does. json: None if none does. word: what the threshold is called.
    """

    model: str
    tpr: float
    certified: bool
    because: str
    text: str
    json: str | None
    word: str = "certified"


def cards(
    models: Sequence[ScoredModel],
    tprs: Sequence[float],
    confidence: float,
    prevalence: float | None,
    per: Per = "row",
    basis: Basis = "held-out",
) -> list[Card]:
    """A card for each model and target; several targets are certified together."""
    found = []
    targets = list(dict.fromkeys(tprs))
    for model in models:
        trials = model.evidence.judged(per).trials
        within = [tpr for tpr in targets if certified_rank(trials, tpr, confidence) and model.refused is None]
        settings: dict[str, Any] = {"prevalence": prevalence, "per": per}
        points = {}
        if within:
            together = certify_targets(
                *model.data, tprs=within, confidence=confidence, units=model.units, **settings
            )
            points = {point.tpr: _in_use(model, point, settings) for point in together.points}
        for tpr in targets:
            because = model.refused or str(NotEnoughPositives(trials, tpr, confidence)) if tpr not in points else ""
            found.append(
                _uncertified(model, tpr, per, because, basis) if because else _certified(model, points[tpr], basis)
            )
    return found


def _in_use(model: ScoredModel, point: OperatingPoint, settings: dict[str, Any]) -> OperatingPoint:
    """The point at the model's own threshold, if it has one."""
    if model.threshold is None:
        return point
    target: dict[str, Any] = {
        "tpr": point.tpr,
        "confidence": point.confidence,
        "fpr_confidence": point.fpr_confidence,
    }
    return point_at(model.evidence, point.rank, threshold=model.threshold, **target, **settings)


def _certified(model: ScoredModel, point: OperatingPoint, basis: Basis = "held-out") -> Card:
    found = findings(*model.data, threshold=point.threshold, units=model.units)
    word = WORDS[basis]
    said = [*finding_lines(found), (word.capitalize(), promise(point)), *point_lines(point, advice="")[1:]]
    text = f"{model.name}, {word} on {point.positives:,} positives and {point.negatives:,} negatives\n"
    text += "".join(f"{heading}: {sentence}\n" for heading, sentence in said)
    content = json_text(point.to_dict() | {"findings": [one.to_dict() for one in found]})
    return Card(model.name, point.tpr, True, "", text, content, word)


def _uncertified(model: ScoredModel, tpr: float, per: Per, because: str, basis: Basis = "held-out") -> Card:
    usual = float(empirical_thresholds(model.evidence.judged(per).scores, np.array([tpr]))[0])
    in_use = usual if model.threshold is None else model.threshold
    word = WORDS[basis]
    if basis == "out-of-fold" and model.refused is None:
        because += f". The threshold {rounded_threshold(in_use)} keeps the recall on average only"
    text = f"{model.name}: not {word}\n{because}\nThreshold without a guarantee: {rounded_threshold(in_use)}\n"
    return Card(model.name, tpr, False, because, text, None, word)


def labels_line(reading: Reading | None) -> tuple[str, str]:
    """How the labels of a file were read, and how many rows have which."""
    if reading is None:
        return "Labels", f"{EVERY_ROW}. If the file has negatives too, name the column of labels with --label"
    others = ", ".join(map(short_name, reading.others[:5])) + (", …" if len(reading.others) > 5 else "")
    classes = (
        (short_name(reading.positive), "positive", reading.positives),
        (others, "negative", reading.negatives),
    )
    return "Labels", ", ".join(f"{values} → {name} ({count:,})" for values, name, count in classes if count)


def labels_record(reading: Reading | None) -> dict[str, Any]:
    """The same for JSON."""
    return {"read_as": EVERY_ROW} if reading is None else asdict(reading)


def finding_lines(found: Iterable[Finding]) -> Lines:
    """What makes the numbers useless, if anything does."""
    return [("Beware", f"{one.sentence}.") for one in found]


def promise(point: OperatingPoint, where: str = "") -> str:
    """What is guaranteed, e.g. "at least 95 % of new positives raise an alarm, with 95 % confidence"."""
    whose = "new positives" if point.per == "row" else "new units with positives"
    at_least_once = "" if point.per == "row" else " on at least one row"
    sure = percent(point.confidence)
    return f"at least {percent(point.tpr)} of {whose}{where} raise an alarm{at_least_once}, with {sure} confidence"


def false_alarms(point: OperatingPoint) -> str:
    """The price: false alarms per 1,000 samples at the point's prevalence."""
    expected, most = (1000 * (1 - point.prevalence) * fpr for fpr in (point.fpr, point.fpr_at_most))
    return f"{number(expected)} false alarms per 1,000 samples (at most {number(most, up=True)})"


def at_prevalence(point: OperatingPoint) -> str:
    """The prevalence behind the price, and where it comes from."""
    if point.prevalence_given:
        return f"at a prevalence of {percent(point.prevalence)}"
    return f"at a prevalence of {share(point.prevalence)}, as in this file"


def point_lines(point: OperatingPoint, where: str = "", advice: str = GIVE_PREVALENCE) -> Lines:
    """An operating point. where: for whom the recall holds. advice: follows the prevalence of the file."""
    counted, what = (point.units or 0, "units") if point.per == "unit" else (point.positives, "positives")
    lower = f"{round((1 - point.recall) * counted):,} of {counted:,} {what} score lower"
    of_units = "" if point.per == "unit" else _of_units(point.units)
    both = _confidence(max(0.0, point.confidence + point.fpr_confidence - 1))
    lines = [
        ("Certified", promise(point, where)),
        (
            "Price",
            f"expect {false_alarms(point)} {at_prevalence(point)}{'' if point.prevalence_given else advice}",
        ),
        ("Threshold", f"alarm when score ≥ {rounded_threshold(point.threshold)}"),
        ("Recall here", f"{share(point.recall)} ({lower}{of_units})"),
        (
            "FPR here",
            f"{share(point.fpr)} of the negatives, at most {share(point.fpr_at_most, up=True)}"
            f" {_confidence(point.fpr_confidence)}",
        ),
        (
            "All alarms",
            f"{number(point.alarms_per_1000)} per 1,000 samples,"
            f" at most {number(point.alarms_per_1000_at_most, up=True)}",
        ),
        ("PPV", _ppv(point, both)),
        ("NPV", _npv(point, both)),
        ("Guarantee", _cost_of_guarantee(point)),
        ("Assumption", assumption(point)),
    ]
    if point.cost is not None:
        cost = (
            f"{number(point.cost.per_1000)} per 1,000 samples, the least possible with this recall. The highest"
            f" certified threshold, {rounded_threshold(point.cost.certified_threshold)}, costs"
            f" {number(point.cost.per_1000_at_certified)}"
        )
        lines.insert(3, ("Cost", cost))
    return lines


def target_lines(found: TargetPoints) -> Lines:
    """Points for several TPRs, whose guarantees hold together."""
    parts = "both" if len(found.points) == 2 else f"all {len(found.points)}"
    blocks = [point_lines(point) for point in found.points]  # each ends with the same assumption
    return [
        ("Targets", f"{parts} guarantees hold together, with {percent(found.confidence)} confidence"),
        *(line for block in blocks for line in [("", ""), *block[:-1]]),
        blocks[0][-1],
    ]


def group_table(found: GroupPoints) -> list[tuple[str, ...]]:
    """A header, a row for each group, and a row for the threshold that serves all groups."""
    units = [] if found.everyone.units is None else ["units"]
    rows: list[tuple[str, ...]] = [
        ("group", "positives", *units, "threshold", "recall", "FPR", "at most", "alarms per 1,000")
    ]
    for name, point in [*found.points.items(), ("every group", found.everyone)]:
        counts = [point.positives] if point.units is None else [point.positives, point.units]
        shares = share(point.recall), share(point.fpr), share(point.fpr_at_most, up=True)
        alarms = number(point.alarms_per_1000)
        rows.append(
            (name, *(f"{count:,}" for count in counts), rounded_threshold(point.threshold), *shares, alarms)
        )
    return rows


def comparison_lines(found: Comparison, names: tuple[str, str]) -> Lines:
    """Two models: which has fewer false alarms, which has the higher AUC, and by how much."""
    fpr = f"FPR at {percent(found.tpr)} TPR"
    lines = [
        ("False alarms", _verdict(found.fpr, found.confidence, names, fpr, lower_wins=True, same=found.same)),
        (fpr, _difference(found.fpr, found.confidence, names)),
        ("Ranking", _verdict(found.auc, found.confidence, names, "AUC", lower_wins=False, same=found.same)),
        ("AUC", _difference(found.auc, found.confidence, names)),
        (
            "Samples",
            f"{found.positives:,} positives{_of_units(found.units)} and {found.negatives:,} negatives,"
            " scored by both models",
        ),
    ]
    return lines if found.warning is None else [*lines, ("Beware", found.warning)]


def recertification_lines(found: Recertification) -> Lines:
    """The deployed threshold's verdict, then the new certificate."""
    recall, fpr = found.recall, found.fpr
    each = f"each with {percent(recall.confidence)} confidence"
    lines = [
        ("Verdict", found.sentence),
        (
            "Deployed",
            f"alarm when score ≥ {rounded_threshold(found.deployed_threshold)}: recall {share(recall.estimate)}"
            f" on the new samples, at least {share(recall.low, up=False)}, at most {share(recall.high, up=True)};"
            f" FPR {share(fpr.estimate)}, at most {share(fpr.high, up=True)}; {each}",
        ),
    ]
    if found.point is None:
        new = f"not certified: {found.uncertified_because}"
        return [*lines, ("New", new), ("Assumption", assumption(found))]
    return [*lines, ("", ""), ("New", "these samples certify:"), *point_lines(found.point)]


def _confidence(value: float) -> str:
    """Rounded down to a hundredth of a per cent."""
    return f"({percent(floor(10_000 * value + 1e-6) / 10_000)} confidence)"


def _of_units(units: int | None) -> str:
    return "" if units is None else f" of {units:,} units"


def _ppv(point: OperatingPoint, confidence: str) -> str:
    bound = "" if point.ppv_at_least is None else f", at least {share(point.ppv_at_least, up=False)} {confidence}"
    return f"{share(point.ppv)} of the alarms are true{bound}"


def _npv(point: OperatingPoint, confidence: str) -> str:
    if point.npv is None:
        return "undefined: every sample raises an alarm"
    bound = ""
    if point.npv_at_least is not None:
        bound = f", at most {number(100_000 * (1 - point.npv_at_least), up=True)} {confidence}"
    missed = number(100_000 * (1 - point.npv))
    return f"{share(point.npv)} of samples without an alarm are negative; {missed} in 100,000 are missed{bound}"


def _cost_of_guarantee(point: OperatingPoint) -> str:
    usual = point.uncertified
    if (usual.recall, usual.fpr) == (point.recall, point.fpr):
        return "free: the usual threshold raises the same alarms"
    said = (
        f"{number(point.extra_alarms_per_1000)} more alarms per 1,000 samples than the usual threshold"
        f" {rounded_threshold(usual.threshold)}"
    )
    if usual.fpr >= 1:
        return said
    if usual.shortfall_risk >= 1:
        return f"{said}, which guarantees nothing"
    chance = ("at most " if usual.tied else "") + share(usual.shortfall_risk)
    return f"{said}, whose recall is below {percent(point.tpr)} with a chance of {chance}"


def _difference(found: Difference, confidence: float, names: tuple[str, str]) -> str:
    low, high = _points(found.low), _points(found.high)
    return (
        f"{names[0]} {share(found.a)}, {names[1]} {share(found.b)}; {_minus(found, names)},"
        f" {percent(confidence)} interval {low} to {high}, {p_text(found.p_value)}"
    )


def _minus(found: Difference, names: tuple[str, str]) -> str:
    return f"{names[0]} − {names[1]}: {_points(found.difference)} points"


def _points(value: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{'−' if value < 0 else '+' if value > 0 else ''}{number(100 * abs(value))}"


def _verdict(
    found: Difference,
    confidence: float,
    names: tuple[str, str],
    by: str,
    *,
    lower_wins: bool,
    same: Literal["scores", "order"] | None,
) -> str:
    if same is not None:
        why = "have the same scores" if same == "scores" else "rank the samples in the same order"
        return f"By {by}, {names[0]} and {names[1]} are equal: they {why}"
    if not found.significant(confidence):
        return f"By {by}, no difference is shown between {names[0]} and {names[1]} ({_minus(found, names)})"
    first_wins = (found.difference < 0) == lower_wins
    better, worse = names if first_wins else names[::-1]
    return f"By {by}, {better} is better than {worse} ({_minus(found, names)})"
