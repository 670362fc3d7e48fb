"""The page: everything it says is computed here, then set into the template."""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankreg import __version__
from rankreg.notation import Record, number, percent, share
from rankreg.operating import Interval, compare, findings
from rankreg.operating.guarantees import check_confidence, check_prevalence, check_target
from rankreg.operating.intervals import share_interval
from rankreg.operating.points import NEARLY_ALL, assumption
from rankreg.operating.score_summary import ScoreSummary, evidence
from rankreg.operating.units import Per
from rankreg.report import charts
from rankreg.report.promise_rows import Elsewhere, PromiseRow, shown_promises
from rankreg.report.promise_text import Promised
from rankreg.report.scored_model import Model, ScoredModel, check_models, paired_scores, unpaired
from rankreg.report.sliders import (
    PRICES,
    Setting,
    Stops,
    Values,
    counts_for,
    ranks_for,
    ticks,
    values_at,
)
from rankreg.report.text import WORDS, Basis, Card, cards, comparison_lines
from rankreg.safe_files import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

SCRIPTS = ("formats.js", "page.js")
LARGEST = 6_000_000  # bytes: what a mail takes and a browser opens at once

# How numbers are written; `formats.js` writes them alike, name by name.
FORMATS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "count": lambda value: f"{value:,}",
    "percent": percent,
    "rounded": lambda value: f"{100 * value:.3g} %",
    "share": lambda value: "undefined" if value is None else share(value),
    "share_up": lambda value: share(value, up=True),
    "share_down": lambda value: share(value, up=False),
    "number": number,
    "number_up": lambda value: number(value, up=True),
}


@dataclass(frozen=True)
class Settings(Record):
    """What was fixed before anyone saw the scores, and where the threshold will be used.

    Args:
        tprs: the target TPRs, default 0.95 alone. Several are certified together.
        confidence: of the guarantees, default 0.95.
        prevalence: share of positives where the threshold is used. Default: that of the samples.
        per_day: samples per day where the threshold is used, default unknown.
        title: heading of the page.
        examples: how many of the hardest samples of each class to show, default 12.
        config: shown at the foot of the page, default nothing.
        per: "row" for the recall of rows, "unit" for the recall of units, as for `certify`.
        basis: "held-out" for samples that no part of the model has seen: their thresholds are certified.
            "out-of-fold" for scores by the members of an ensemble that have not seen the sample: their
            thresholds are called cross-fitted.
        learners: of a fit: name, FPR at the target, weight in the average and seconds of every learner.

    >>> Settings(tprs=(0.95, 0.98), prevalence=0.006).confidence
    0.95
    """

    tprs: tuple[float, ...] = (0.95,)
    confidence: float = 0.95
    prevalence: float | None = None
    per_day: float | None = None
    title: str = "Operating point report"
    examples: int = 12
    config: Mapping[str, Any] = field(default_factory=dict)
    per: Per = "row"
    basis: Basis = "held-out"
    learners: tuple[tuple[str, Interval, float, float], ...] = ()

    def __post_init__(self) -> None:
        if not self.tprs:
            raise ValueError("no TPR was given: pass at least one, e.g. tprs=(0.95,)")
        for tpr in self.tprs:
            check_target(tpr)
        check_confidence(self.confidence)
        if self.prevalence is not None:
            check_prevalence(self.prevalence)
        if self.per_day is not None and not 0 < self.per_day < 1e12:
            raise ValueError(f"per_day must be a positive number of samples, got {self.per_day}")


def write(
    path: str | os.PathLike[str],
    models: Sequence[ScoredModel],
    settings: Settings | None = None,
    promised: Sequence[Promised] = (),
) -> Path:
    """Write the report as one HTML file that needs no network. The file is written whole or not at all.

    Args:
        path: the file to write; its folder must exist.
        models: one to six models, scored on the same samples. The others are compared with the first.
        settings: targets, confidence and prevalence, default `Settings()`.
        promised: what is promised instead of a recall alone, one result per model: of `certify_promises` or
            `certify_review`, also by group. Then these are the verdict of the page.

    Returns:
        The path.

    Raises:
        ValueError: the models or settings make no sense, or the page would exceed 6 MB.

    >>> import numpy as np
    >>> model = Model("new", np.array([1, 0] * 60), np.arange(120.0) % 7)
    >>> write("report.html", [model]).name
    'report.html'
    """
    target = Path(path)
    write_whole(target, render(models, settings, promised).encode())
    return target


def render(
    models: Sequence[ScoredModel], settings: Settings | None = None, promised: Sequence[Promised] = ()
) -> str:
    """The report as HTML text."""
    chosen = settings or Settings()
    check_models(models)
    promises = shown_promises(models, promised, WORDS[chosen.basis], chosen.per_day)
    if promises is not None:
        rows = tuple(_with_others(models[row.model], row, chosen) for row in promises.rows)
        promises = replace(promises, rows=rows)
    first, others = models[0], models[1:]
    apart = [why for other in others if (why := unpaired(first, other)) is not None]
    pairs = [
        (other, paired_scores(first, other))
        for other in others
        if isinstance(first, Model) and isinstance(other, Model)
    ]
    n, m = first.summary.class_sizes()
    prevalence = n / (n + m) if chosen.prevalence is None else chosen.prevalence
    stops = Stops.around(chosen.tprs, chosen.confidence, prevalence, coarse=first.units is not None)
    ranks = ranks_for(first.evidence.judged(chosen.per).trials, stops)
    counts = [counts_for(model, ranks, stops, chosen.per) for model in models]
    setting = Setting(max(stops.fixed_tprs), stops.fixed_confidence, stops.fixed_prevalence, chosen.per_day)
    values = [values_at(ranks, count, m, stops, setting) for count in counts]
    targets = list(dict.fromkeys(stops.fixed_tprs))
    at_targets = [
        values_at(ranks, count, m, stops, replace(setting, tpr=stop)) for count in counts for stop in targets
    ]
    found = cards(models, chosen.tprs, chosen.confidence, chosen.prevalence, chosen.per, chosen.basis)
    owners = [model for model in models for _ in targets]
    verdicts = [_verdict(*one, chosen) for one in zip(owners, found, at_targets, strict=True)]
    comparisons = [
        row
        for other, pair in pairs
        if min(n, m) > 1  # the spread of a single sample is unknown
        for row in _compared(first, other, pair, chosen)
    ]
    listed = charts.listed_tprs(chosen.tprs)
    areas = [charts.area(model, chosen.confidence) for model in models]
    data = {
        "prices": PRICES,
        "nearly_all": NEARLY_ALL,
        "promised": promises is not None,
        "stops": stops.to_dict(),
        "setting": setting.to_dict(),
        "negatives": m,
        "ranks": ranks.to_dict(),
        "models": [count.to_dict() for count in counts],
    }
    text = (
        _environment()
        .get_template("page.html")
        .render(
            settings=chosen,
            models=models,
            stops=stops,
            setting=setting,
            values=values,
            positives=n,
            negatives=m,
            ranked=ranks.positives,
            units=ranks.units,
            assumption=assumption(ranks),
            prevalence=prevalence,
            comparisons=comparisons,
            unpaired=apart,
            verdicts=verdicts if promises is None else [],
            promises=promises,
            ticks=ticks,
            prices=PRICES,
            cards=found,
            roc=charts.roc_charts(
                models,
                tprs=chosen.tprs,
                confidence=chosen.confidence,
                farthest_fpr=max(float(str(value["fpr_at_most"])) for value in at_targets),
                best_auc=max(area.estimate for area in areas),
            ),
            histograms=[
                None if bins is None else charts.histogram(model, bins)
                for model, value in zip(models, values, strict=True)
                for bins in [model.bins(float(str(value["threshold"])))]
            ],
            bases=(charts.POSITIVE_BASE, charts.NEGATIVE_BASE, charts.BAR),
            areas=areas,
            listed_tprs=listed,
            listed=[charts.fpr_intervals(model, listed, chosen.confidence) for model in models],
            hardest=[charts.hardest(model, chosen.examples) for model in models],
            data=_json(data),
            config=json.dumps(_plain(chosen), ensure_ascii=False, default=str),
            version=__version__,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )
    )
    size = len(text.encode())
    if size > LARGEST:
        raise ValueError(f"the report has {size:,} bytes, more than {LARGEST:,}: show fewer examples or models")
    return text


@dataclass(frozen=True)
class Verdict:
    """A row of the first table: one model at one target that was fixed beforehand.

    tone: "good", "warn" or "bad", by the worse of guarantee and price. beware: what makes the threshold useless.
    others: name, positives, missed ones, share missed and false alarms per 1,000 samples of each other part.
    """

    model: ScoredModel
    card: Card
    at: Values
    tone: str
    title: str
    beware: str | None
    others: Elsewhere


def _verdict(model: ScoredModel, card: Card, at: Values, settings: Settings) -> Verdict:
    threshold, price = float(str(at["threshold"])), str(at["price"])
    tone = {"low": "good", "high": "warn"}.get(price, "bad") if card.certified else "bad"
    title = f"{card.word.capitalize()}, {price} price" if card.certified else "Not guaranteed"
    if any(one.useless for one in model.findings):
        tone = "bad"
    beware = None
    if price == "useless" and model.refused is None:
        named = findings(*model.data, threshold=threshold, units=model.units)
        said = [one.sentence for one in named if one not in model.findings]  # those about the threshold
        alarming = f"{share(float(str(at['fpr'])))} of the negatives raise an alarm"
        title, beware = "Useless", (said or [f"{alarming}. Use a lower TPR or a better model"])[0]
    others = _elsewhere(model, threshold, float(str(at["prevalence"])), settings)
    return Verdict(model, card, at, tone, title, beware, others)


def _with_others(model: ScoredModel, row: PromiseRow, settings: Settings) -> PromiseRow:
    """The row with how its lowest threshold does on other samples of the model."""
    if not row.answers or not model.others:
        return row
    n, m = model.summary.class_sizes()
    prevalence = n / (n + m) if settings.prevalence is None else settings.prevalence
    return replace(row, others=_elsewhere(model, float(row.answers[-1][2]), prevalence, settings))


def _elsewhere(model: ScoredModel, threshold: float, prevalence: float, settings: Settings) -> Elsewhere:
    """How the threshold does on the other parts of the model."""
    keep = 1000 * (1 - prevalence)
    others = []
    for name, scores in model.others.items():
        try:
            sample = (
                evidence(scores)
                if isinstance(scores, ScoreSummary)
                else evidence(scores.labels, scores.values, scores.units)
            )
        except ValueError as error:
            raise ValueError(f"{model.name}, {name}: {error}") from error
        judged = sample.judged(settings.per)
        missed = int(np.count_nonzero(judged.scores < threshold))
        false = share_interval(sample.alarms(threshold)[1], sample.negative_trials, confidence=settings.confidence)
        others.append(
            (
                name,
                len(judged.scores),
                missed,
                share_interval(missed, judged.trials, confidence=settings.confidence),
                Interval(keep * false.estimate, keep * false.low, keep * false.high, settings.confidence),
            )
        )
    return tuple(others)


def _compared(
    first: ScoredModel, other: ScoredModel, pair: tuple[Any, ...], settings: Settings
) -> list[tuple[str, ...]]:
    """Rows of other model, verdict, difference and warning: by the FPR at every target, then by the AUC."""
    rows, area = [], ("", "")
    for tpr in dict.fromkeys(settings.tprs):
        found = compare(*pair, tpr=tpr, confidence=settings.confidence, units=first.units)
        said = dict(comparison_lines(found, (first.name, other.name)))
        rows.append((other.name, said["False alarms"], said[f"FPR at {percent(tpr)} TPR"], said.get("Beware", "")))
        area = said["Ranking"], said["AUC"]
    return [*rows, (other.name, *area, "")]


def _plain(settings: Settings) -> dict[str, Any]:
    left_out = ("config", "learners")
    return {name: value for name, value in settings.to_dict().items() if name not in left_out} | dict(
        settings.config
    )


def _json(content: dict[str, Any]) -> "Markup":
    """JSON that no text in it can break out of."""
    from markupsafe import Markup

    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    script = "".join(_file(name) for name in SCRIPTS)
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # In sentences no line ends between a number and its %; the style sheet keeps the sliders' numbers whole.
    environment.filters.update({name: _unbroken(write) for name, write in FORMATS.items()}, unbroken=_unbroken(str))
    environment.globals.update(
        formats=FORMATS,
        css=Markup(_file("page.css")),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return environment


def _unbroken(written: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: written(value).replace(" %", "\u00a0%")


def _file(name: str) -> str:
    return resources.files("rankreg.report").joinpath("templates", name).read_text(encoding="utf-8")
