"""A model on the page: its scores, or their summary, the bins of its histogram, and single samples."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import Floats
from rankreg.operating import Finding, ScoreSummary, findings
from rankreg.operating.comparison import paired
from rankreg.operating.score_summary import Evidence, evidence
from rankreg.operating.units import Sample
from rankreg.score_selection import Hardest, Overview, Rows, even_step, hardest_rows
from rankreg.scores import Scores

if TYPE_CHECKING:
    from PIL import Image

MOST_MODELS = 6  # as many colours as can be told apart
BINS = 60
TAIL = 0.005  # of either class, which the outermost bins gather

Reals = NDArray[np.float64]
Scale = Literal["linear", "log", "logit"]
Details = Callable[[Sequence[int]], Mapping[str, Sequence[object]]]
Images = Callable[[int], "Image.Image | None"]


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """Equally wide bins; the outermost ones also hold what lies beyond them.

    edges: on the scale. levels: the scores at which the second and later bins begin; a score is in the last bin
    whose level it reaches.
    """

    scale: Scale
    edges: Reals
    levels: Reals

    @classmethod
    def around(cls, seen: Overview, threshold: float) -> "ScoreBins":
        """Bins for these scores. The threshold is an edge, so no bin holds both alarms and other samples.

        Probabilities that crowd at 0 or 1 get a scale of log-odds.
        """
        scale: Scale = "logit" if _crowded(seen) else "linear"
        classes = [on_scale(scale, scores) for scores in (seen.positives, seen.negatives)]
        ends = [
            np.quantile(scores[np.isfinite(scores)], [TAIL, 1 - TAIL])
            for scores in classes
            if np.isfinite(scores).any()
        ]
        low, high = (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else (0.0, 1.0)
        if not low < high:
            low, high = low - 0.5, high + 0.5
        margin = 0.02 * (high - low)
        start = float(on_scale(scale, np.array([threshold]))[0])
        edges, place = _edges(float(low - margin), float(high + margin), start)
        levels = edges if scale == "linear" else 1 / (1 + np.exp(-edges))
        if place is not None:
            levels = np.where(np.arange(len(edges)) == place, threshold, levels)
        return cls(scale, edges, levels[1:-1])

    def counts(self, reached: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        """How many samples are in each bin, if so many of the total reach each level."""
        return -np.diff(np.concatenate([[total], reached, [0]]))


def on_scale(scale: Scale, scores: Floats) -> Reals:
    """Scores as they are, their logarithms (base 10) or their log-odds."""
    values = scores.astype(np.float64)
    if scale == "linear":
        return values
    with np.errstate(divide="ignore"):
        return np.log10(values) if scale == "log" else np.log(values) - np.log1p(-values)


def _edges(low: float, high: float, threshold: float) -> tuple[Reals, int | None]:
    """Equally wide bins, moved by one at most so that the threshold is an edge to the last bit; and which edge."""
    width = (high - low) / BINS
    if not low < threshold < high:
        return np.linspace(low, high, BINS + 1), None
    start = low - (width - (threshold - low) % width)
    edges: Reals = start + width * np.arange(BINS + 1.0)
    place = int(np.argmin(np.abs(edges - threshold)))
    edges[place] = threshold
    return edges, place


def _crowded(seen: Overview) -> bool:
    """Probabilities of which most lie within 5 % of an end."""
    if seen.span[0] < 0 or seen.span[1] > 1:
        return False
    inner = np.count_nonzero((seen.negatives >= 0.05) & (seen.negatives <= 0.95))
    return bool(inner < 0.5 * len(seen.negatives))


class ScoredModel(ABC):
    """What the page asks of a model. Every number comes from `evidence`: a summary, or samples that have units."""

    name: str
    details: Details | None
    image: Images | None
    source: Mapping[str, str]
    units: NDArray[Any] | None
    threshold: float | None
    others: Mapping[str, Scores | ScoreSummary]

    if TYPE_CHECKING:  # an attribute or a property

        @property
        def summary(self) -> ScoreSummary:
            """The positives' scores, and how many negatives lie between them."""

    @property
    @abstractmethod
    def data(self) -> tuple[Any, ...]:
        """What the functions of `rankreg.operating` take, beside `units`."""

    @abstractmethod
    def bins(self, threshold: float) -> ScoreBins | None:
        """The bins of the histogram, or None if too little is known of the negatives."""

    @abstractmethod
    def false_alarms(self, levels: Floats) -> NDArray[np.int64]:
        """How many negatives reach each level of the bins."""

    @abstractmethod
    def hardest(self, most: int) -> Hardest | None:
        """The hardest samples of either class, at most so many; None if single samples are not known."""

    @abstractmethod
    def sample_name(self, place: int) -> str:
        """A sample's id, or its row counted from 1."""

    @abstractmethod
    def provenance(self) -> dict[str, str]:
        """Where the scores come from, with a checksum."""

    @cached_property
    def evidence(self) -> Evidence:
        """Checked once; messages name the model."""
        try:
            return evidence(self.data[0], self.data[1] if len(self.data) > 1 else None, self.units)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What makes these scores useless, if anything does."""
        return findings(*self.data, units=self.units)

    @property
    def refused(self) -> str | None:
        """Why no threshold of these scores should be certified; None if nothing speaks against it."""
        return next((one.sentence for one in self.findings if one.refuses), None)

    @property
    def positives(self) -> Floats:
        """The positives' scores, ascending."""
        return self.summary.positives


@dataclass(frozen=True, eq=False)
class Model(ScoredModel):
    """A model's labels and scores, and how to show single samples.

    Args:
        name: what the page calls the model.
        labels: 1 for the critical class, 0 otherwise, shape (N,).
        scores: raw scores, higher = more critical, shape (N,).
        ids: names of the samples, by which models are matched. Without them, models are matched by position.
        details: from places in the arrays to columns of values, shown beside the hardest samples.
        image: from a place in the arrays to a picture, or None where there is none.
        source: what the foot of the page says about the data, e.g. {"file": …, "sha256": …}.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.
        threshold: the threshold in use, chosen by these scores, e.g. that of a fitted model. The page shows it
            as it is. By default the report chooses.
        others: more scores of this model by name, e.g. {"test": scores}, or their summary. The page says how the
            threshold does on them, beside the samples that chose it.

    >>> model = Model("new", np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.3, 0.9]))
    >>> model.positives.tolist()
    [0.3, 0.9]
    """

    name: str
    labels: NDArray[np.int64]
    scores: Floats
    ids: NDArray[Any] | None = None
    details: Details | None = None
    image: Images | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    units: NDArray[Any] | None = None
    threshold: float | None = None
    others: Mapping[str, Scores | ScoreSummary] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, scores: Scores, **more: Any) -> "Model":
        """From `Scores` with their units; more: details, image, source, threshold, others."""
        return cls(name, scores.labels, scores.values, scores.ids, units=scores.units, **more)

    @cached_property
    def sample(self) -> Sample:
        """Labels, scores and units, checked."""
        try:
            return Sample.of(self.labels, self.scores, self.units)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error

    @cached_property
    def summary(self) -> ScoreSummary:
        """The positives' scores, and how many negatives lie between them and at the threshold in use."""
        levels = [] if self.threshold is None else [self.threshold]
        return ScoreSummary.of(self.sample.positive, self.sample.scores, levels=levels)

    @property
    def data(self) -> tuple[Any, ...]:
        """The summary; labels and scores where units are counted."""
        return (self.summary,) if self.units is None else (self.labels, self.scores)

    def bins(self, threshold: float) -> ScoreBins:
        """The bins of the histogram.

        Args:
            threshold: it is the edge of a bin.
        """
        scores, step = self.sample.scores, even_step(len(self.labels))
        some = scores[::step][~self.sample.positive[::step]]
        return ScoreBins.around(Overview(self.positives, some, self.summary.span), threshold)

    def false_alarms(self, levels: Floats) -> NDArray[np.int64]:
        """How many negatives reach each level.

        Args:
            levels: any thresholds.
        """
        return self.sample.false_alarms(levels)

    def hardest(self, most: int) -> Hardest:
        """The positives with the lowest scores and the negatives with the highest.

        Args:
            most: of either class.
        """
        return hardest_rows(self.sample.positive, self.sample.scores, most)

    def sample_name(self, place: int) -> str:
        """A sample's id, or its row counted from 1.

        Args:
            place: of the sample in the arrays.
        """
        return f"row {place + 1:,}" if self.ids is None else str(self.ids[place])

    def provenance(self) -> dict[str, str]:
        """The source, and where it has none a checksum of labels and scores."""
        if "sha256" in self.source:
            return dict(self.source)
        content = hashlib.sha256(np.asarray(self.labels, dtype="<i8").tobytes())
        content.update(np.asarray(self.scores, dtype="<f8").tobytes())
        return {**self.source, "sha256 of labels and scores": content.hexdigest()}


@dataclass(frozen=True, eq=False)
class SummarizedModel(ScoredModel):
    """A model whose scores are too many to hold: their summary, and a few samples.

    The page has the same numbers as that of a `Model`. It cannot compare such models sample by sample.

    Args:
        name: what the page calls the model.
        summary: of all its scores, e.g. merged from the parts of a cluster.
        score_bins: bins of the histogram, whose levels the summary knows. Without them none is drawn.
        hardest_samples: the samples to look at. Without them none are shown.
        naming: from the place of a sample to its name; default: its row, counted from 1.
        details: from places to columns of values, shown beside the hardest samples.
        image: from a place to a picture, or None where there is none.
        source: what the foot of the page says about the data, e.g. {"file": …, "sha256": …}.
        threshold: the threshold in use, as for `Model`; the summary must know it as a level.
        others: more scores of this model by name, or their summaries, as for `Model`.

    >>> summary = ScoreSummary.of([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9])
    >>> SummarizedModel("new", summary).positives.tolist()
    [0.3, 0.9]
    """

    name: str
    summary: ScoreSummary
    score_bins: ScoreBins | None = None
    hardest_samples: Hardest | None = None
    naming: Callable[[int], str] | None = None
    details: Details | None = None
    image: Images | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    threshold: float | None = None
    others: Mapping[str, Scores | ScoreSummary] = field(default_factory=dict)

    units = None

    @property
    def data(self) -> tuple[ScoreSummary]:
        """The summary."""
        return (self.summary,)

    def bins(self, threshold: float) -> ScoreBins | None:
        """The bins that were given.

        Args:
            threshold: one of their edges, if they were made for it.
        """
        return self.score_bins

    def false_alarms(self, levels: Floats) -> NDArray[np.int64]:
        """How many negatives reach each level.

        Args:
            levels: those of the summary.
        """
        return self.summary.false_alarms(levels)

    def hardest(self, most: int) -> Hardest | None:
        """The samples that were given.

        Args:
            most: of either class.
        """
        if self.hardest_samples is None:
            return None
        return Hardest(*(Rows(rows.places[:most], rows.scores[:most]) for rows in self.hardest_samples))

    def sample_name(self, place: int) -> str:
        """What the sample is called.

        Args:
            place: of the sample.
        """
        return f"row {place + 1:,}" if self.naming is None else self.naming(place)

    def provenance(self) -> dict[str, str]:
        """The source, and where it has no checksum one of the summary."""
        if "sha256" in self.source:
            return dict(self.source)
        content = hashlib.sha256(json.dumps(self.summary.to_dict()).encode()).hexdigest()
        return {**self.source, "sha256 of the summary": content}


def check_models(models: Sequence[ScoredModel]) -> None:
    """Between one and six models with distinct names, each with usable scores."""
    if not 1 <= len(models) <= MOST_MODELS:
        raise ValueError(f"a report shows 1 to {MOST_MODELS} models, got {len(models)}")
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ValueError(f"two models have the same name: {', '.join(names)}; give each its own")
    if len({model.units is None for model in models}) > 1:
        raise ValueError("some models have units and some have none: give them for all, or for none")
    for model in models:
        _ = model.evidence


def unpaired(first: ScoredModel, other: ScoredModel) -> str | None:
    """Why two models cannot be compared sample by sample; None if they can. Raises if their samples differ."""
    if isinstance(first, Model) and isinstance(other, Model):
        return None
    names, sizes = f"{first.name} and {other.name}", [one.summary.class_sizes() for one in (first, other)]
    if sizes[0] != sizes[1]:
        (n, m), (k, j) = sizes
        raise ValueError(
            f"{names} were not scored on the same samples: they have {n:,} and {k:,} positives, {m:,} and {j:,}"
            " negatives"
        )
    return f"{names} were not compared sample by sample, because their scores were not held in memory"


def paired_scores(first: Model, other: Model) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Labels and both models' scores in the order of the first; raises unless the samples are the same."""
    names = f"{first.name} and {other.name}"
    if first.ids is not None and other.ids is not None:
        try:
            return paired(
                Scores(first.ids, first.labels, first.scores), Scores(other.ids, other.labels, other.scores)
            )
        except ValueError as error:
            raise ValueError(f"{names}: {error}") from error
    rows = [len(model.labels) for model in (first, other)]
    if rows[0] != rows[1]:
        raise ValueError(
            f"{names} have {rows[0]:,} and {rows[1]:,} samples and cannot be matched by position: give sample ids"
            " (--id)"
        )
    if not np.array_equal(first.labels, other.labels):
        raise ValueError(
            f"{names} do not list the same samples in the same order: their labels differ; give sample ids (--id)"
        )
    return first.labels, first.scores, other.scores
