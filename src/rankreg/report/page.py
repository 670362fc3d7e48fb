"""The page: everything it says is computed here, then set into the template."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from rankreg import __version__
from rankreg.operating import Per, Record, assumption, compare
from rankreg.operating.guarantees import check_confidence, check_prevalence, check_target
from rankreg.report import charts, examples
from rankreg.report.cards import cards
from rankreg.report.charts import distribution
from rankreg.report.scored_model import Model, check_models, paired_scores
from rankreg.report.sliders import Setting, Stops, counts_for, ranks_for, values_at
from rankreg.report.text import FILTERS, FORMATS, comparison_lines
from rankreg.safe_files import write_whole

SCRIPTS = ("formats.js", "page.js")
LARGEST = 6_000_000  # bytes: what a mail takes and a browser opens at once


@dataclass(frozen=True)
class Settings(Record):
    """What was fixed before the scores were seen, and where the threshold will be used.

    tprs: several are certified together. prevalence: without it, that of the samples. per_day: samples a day.
    examples: how many hardest samples of either class to show. config: shown at the foot. per: whose recall is
    promised, that of rows or of units, as for `certify`.
    """

    tprs: tuple[float, ...] = (0.98,)
    confidence: float = 0.95
    prevalence: float | None = None
    per_day: float | None = None
    title: str = "Operating point report"
    examples: int = 12
    config: Mapping[str, Any] = field(default_factory=dict)
    per: Per = "row"

    def __post_init__(self) -> None:
        if not self.tprs:
            raise ValueError("no TPR was given: pass at least one, e.g. tprs=(0.98,)")
        for tpr in self.tprs:
            check_target(tpr)
        check_confidence(self.confidence)
        if self.prevalence is not None:
            check_prevalence(self.prevalence)
        if self.per_day is not None and not 0 < self.per_day < 1e12:
            raise ValueError(f"per_day must be a positive number of samples, got {self.per_day}")


def write(path: str | os.PathLike[str], models: Sequence[Model], settings: Settings | None = None) -> Path:
    """Write the report: one HTML file, there whole or not at all."""
    target = Path(path)
    write_whole(target, render(models, settings).encode())
    return target


def render(models: Sequence[Model], settings: Settings | None = None) -> str:
    """The report as text; the first model is the one the others are compared with."""
    chosen = settings or Settings()
    check_models(models)
    first, others = models[0], models[1:]
    pairs = [paired_scores(first, other) for other in others]
    n, m = len(first.positives), len(first.negatives)
    prevalence = n / (n + m) if chosen.prevalence is None else chosen.prevalence
    stops = Stops.around(chosen.tprs, chosen.confidence, prevalence, coarse=first.units is not None)
    ranks = ranks_for(first.sample.judged(chosen.per).trials, stops)
    counts = [counts_for(model, ranks, stops, chosen.per) for model in models]
    strictest = max(stops.fixed_tprs)
    setting = Setting(strictest, stops.fixed_confidence, stops.fixed_prevalence, chosen.per_day)
    values = [values_at(ranks, count, m, stops, setting) for count in counts]
    verdicts = [
        (
            other.name,
            comparison_lines(compare(*pair, tpr=tpr, confidence=chosen.confidence, units=first.units), names),
        )
        for other, pair in zip(others, pairs, strict=True)
        for tpr in chosen.tprs
        for names in [(first.name, other.name)]
        if min(n, m) > 1  # the spread of a single sample is unknown
    ]
    page = _environment().get_template("page.html")
    text = page.render(
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
        verdicts=verdicts,
        cards=cards(models, chosen.tprs, chosen.confidence, chosen.prevalence, chosen.per),
        roc=_roc(models, chosen, stops, values),
        distributions=[
            charts.histogram(distribution(model, float(str(value["threshold"]))))
            for model, value in zip(models, values, strict=True)
        ],
        bases=(charts.POSITIVE_BASE, charts.NEGATIVE_BASE, charts.BAR),
        areas=[charts.area(model, chosen.confidence) for model in models],
        listed_tprs=charts.listed_tprs(chosen.tprs),
        listed=[charts.listed(model, chosen.tprs, chosen.confidence) for model in models],
        hardest=[examples.hardest(model, chosen.examples) for model in models],
        data=_json(
            {
                "stops": stops.to_dict(),
                "setting": setting.to_dict(),
                "negatives": m,
                "ranks": ranks.to_dict(),
                "models": [count.to_dict() for count in counts],
            }
        ),
        config=json.dumps(_plain(chosen), indent=2, ensure_ascii=False, default=str),
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    size = len(text.encode())
    if size > LARGEST:
        raise ValueError(f"the report has {size:,} bytes, more than {LARGEST:,}: show fewer examples or models")
    return text


def _roc(
    models: Sequence[Model], settings: Settings, stops: Stops, values: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Both frames with a curve and a band for each model."""
    frames = charts.roc_frames(min(settings.tprs), max(value["fpr_at_most"] for value in values))
    found = [(charts.curve(model), charts.band(model, charts.GRID, settings.confidence)) for model in models]
    return {
        "frames": frames,
        "curves": [[charts.roc_path(line, frame) for line, _ in found] for frame in frames],
        "bands": [[charts.band_path(area, frame) for _, area in found] for frame in frames],
    }


def _plain(settings: Settings) -> dict[str, Any]:
    return {name: value for name, value in settings.to_dict().items() if name != "config"} | dict(settings.config)


def _json(content: dict[str, Any]) -> Markup:
    """JSON that no text in it can break out of."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _environment() -> Environment:
    script = "".join(_file(name) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(FILTERS)
    environment.globals.update(
        formats=FORMATS, css=Markup(_file("page.css")), script=Markup(script), script_digest=digest
    )
    return environment


def _file(name: str) -> str:
    return resources.files("rankreg.report").joinpath("templates", name).read_text(encoding="utf-8")
