"""What the page says about one model at one setting of the sliders; `page.js` holds the same arithmetic."""

from dataclasses import dataclass

from rankreg.operating import Record
from rankreg.report.stops import Stops
from rankreg.report.tables import Counts, Ranks

Values = dict[str, float | int | str | bool | None]


@dataclass(frozen=True)
class Setting(Record):
    """Where the sliders stand, and how many samples come in a day, if known."""

    tpr: int
    confidence: int
    prevalence: int
    per_day: float | None = None


def values_at(ranks: Ranks, counts: Counts, negatives: int, stops: Stops, setting: Setting) -> Values:
    """Every number by its name; those `OperatingPoint` has too are named and computed as there."""
    tpr, confidence = stops.tprs[setting.tpr], stops.confidences[setting.confidence]
    prevalence = stops.prevalences[setting.prevalence]
    cell = stops.cell(setting.tpr, setting.confidence)
    place, usual = ranks.places[cell], ranks.usual[setting.tpr]
    recall, fpr = counts.caught[place] / ranks.positives, counts.false[place] / negatives
    row_recall = counts.rows[place] / counts.positives
    bound = counts.high[cell]
    alarms = 1000 * (prevalence * row_recall + (1 - prevalence) * fpr)
    alarms_at_most = 1000 * (prevalence + (1 - prevalence) * bound)
    usual_recall, usual_fpr = counts.rows[usual] / counts.positives, counts.false[usual] / negatives
    usual_alarms = 1000 * (prevalence * usual_recall + (1 - prevalence) * usual_fpr)
    cleared = prevalence * (1 - row_recall) + (1 - prevalence) * (1 - fpr)
    day = setting.per_day or 0.0
    return {
        "tpr": tpr,
        "confidence": confidence,
        "prevalence": prevalence,
        "per_day": day,
        "both": max(0.0, 2 * confidence - 1),
        "certified": bool(ranks.certified[cell]),
        "threshold": counts.thresholds[place],
        "rank": ranks.ranks[place],
        "recall": recall,
        "missed": ranks.positives - counts.caught[place],
        "false": counts.false[place],
        "fpr": fpr,
        "fpr_at_least": counts.low[cell],
        "fpr_at_most": bound,
        "alarms_per_1000": alarms,
        "alarms_per_1000_at_most": alarms_at_most,
        "alarms_per_day": alarms / 1000 * day,
        "alarms_per_day_at_most": alarms_at_most / 1000 * day,
        "misses_per_100000": 100_000 * prevalence * (1 - row_recall),
        "misses_per_100000_at_most": 100_000 * prevalence * (1 - tpr),
        "misses_per_year": 365 * day * prevalence * (1 - row_recall),
        "misses_per_year_at_most": 365 * day * prevalence * (1 - tpr),
        "ppv": 1000 * prevalence * row_recall / alarms,
        "ppv_at_least": prevalence * tpr / (prevalence * tpr + (1 - prevalence) * bound),
        "npv": (1 - prevalence) * (1 - fpr) / cleared if cleared else None,
        "npv_at_least": (1 - prevalence) * (1 - bound) / ((1 - prevalence) * (1 - bound) + prevalence * (1 - tpr)),
        "extra_alarms_per_1000": alarms - usual_alarms,
        "shortfall_risk": ranks.risk[setting.tpr],
        "at_most_if_tied": "at most " if counts.tied[usual] else "",
        "everything": counts.false[place] == negatives,
        "usual_everything": counts.false[usual] == negatives,
        "refused": counts.refused,
        "same": counts.thresholds[place] == counts.thresholds[usual],
        "needed": ranks.needed[cell],
        "highest_tpr": ranks.highest[setting.confidence],
    }
