"""The operating-point card: what was fixed beforehand, and what the scores certify, as text and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankreg.metrics import empirical_thresholds
from rankreg.operating import (
    NotEnoughPositives,
    OperatingPoint,
    Per,
    certified_rank,
    certify_targets,
    findings,
    percent,
)
from rankreg.operating.points import point_at
from rankreg.report.scored_model import Model
from rankreg.report.text import finding_lines, number, point_lines, share, to_json


@dataclass(frozen=True)
class Card:
    """One model at one target; json is None where nothing is certified. useful: certified, and not by alarms on
    everything."""

    model: str
    tpr: float
    certified: bool
    useful: bool
    verdict: str
    text: str
    json: str | None


def cards(
    models: Sequence[Model],
    tprs: Sequence[float],
    confidence: float,
    prevalence: float | None,
    per: Per = "row",
) -> list[Card]:
    """A card for each model and target; targets that the positives cannot certify say so."""
    found = []
    for model in models:
        trials = model.sample.judged(per).trials
        within = [tpr for tpr in dict.fromkeys(tprs) if certified_rank(trials, tpr, confidence)]
        points = {}
        if within and model.refused is None:
            together = certify_targets(
                model.labels,
                model.scores,
                tprs=within,
                confidence=confidence,
                prevalence=prevalence,
                units=model.units,
                per=per,
            )
            points = {point.tpr: _in_use(model, point, prevalence) for point in together.points}
        found += [
            _certified(model, points[tpr]) if tpr in points else _uncertified(model, tpr, confidence, per)
            for tpr in dict.fromkeys(tprs)
        ]
    return found


def _in_use(model: Model, point: OperatingPoint, prevalence: float | None) -> OperatingPoint:
    """The point at the model's own threshold, if it has one."""
    if model.threshold is None:
        return point
    return point_at(
        model.sample,
        point.rank,
        tpr=point.tpr,
        confidence=point.confidence,
        fpr_confidence=point.fpr_confidence,
        prevalence=prevalence,
        per=point.per,
        threshold=model.threshold,
    )


def _certified(model: Model, point: OperatingPoint) -> Card:
    found = findings(model.labels, model.scores, threshold=point.threshold, units=model.units)
    useless = next((one.sentence for one in found if one.name == "alarms-on-everything"), None)
    said = [*finding_lines(found), *point_lines(point, advice="")]
    lines = "\n".join(f"{heading}: {sentence}" for heading, sentence in said)
    given = f"a prevalence of {percent(point.prevalence)}"
    where = given if point.prevalence_given else f"the {share(point.prevalence)} of positives in this file"
    whose = "units with positives" if point.per == "unit" else "positives"
    verdict = useless or (
        f"Alarm when score ≥ {point.threshold!r}: at least {percent(point.tpr)} of the {whose} raise an alarm,"
        f" {percent(point.confidence)} sure, for {number(point.alarms_per_1000)} alarms per 1,000 samples"
        f" (at most {number(point.alarms_per_1000_at_most, up=True)}) at {where}"
    )
    text = f"{model.name}, certified on {point.positives:,} positives and {point.negatives:,} negatives\n{lines}\n"
    content = to_json(point.to_dict() | {"findings": [one.to_dict() for one in found]})
    return Card(model.name, point.tpr, True, useless is None, verdict, text, content)


def _uncertified(model: Model, tpr: float, confidence: float, per: Per) -> Card:
    judged = model.sample.judged(per)
    because = model.refused or str(NotEnoughPositives(judged.trials, tpr, confidence))
    usual = float(empirical_thresholds(judged.scores, np.array([tpr]))[0])
    in_use = usual if model.threshold is None else model.threshold
    text = f"{model.name}: UNCERTIFIED\n{because}\nThreshold, which guarantees nothing: {in_use!r}\n"
    return Card(model.name, tpr, False, False, because, text, None)
