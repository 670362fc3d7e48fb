"""What the page shows: one or more models, scored on the same samples."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rankreg.metrics import Floats
from rankreg.operating import Finding, findings, paired
from rankreg.operating.units import Sample
from rankreg.scores import Scores

MOST_MODELS = 6  # as many colours as can be told apart

Details = Callable[[Sequence[int]], Mapping[str, Sequence[object]]]
Images = Callable[[int], Image.Image | None]


@dataclass(frozen=True, eq=False)
class Model:
    """A model's labels and scores, and how to show single samples.

    ids: names of the samples, by which models are matched; without them, by position. details: from places in the
    arrays to columns of values, shown beside the hardest samples. image: from a place to a picture, or None.
    source: what the foot of the page says about the data, e.g. {"file": …, "sha256": …}. units: one value per
    sample; rows with the same value need not be independent of each other. threshold: the one that was chosen by
    these scores and is in use, e.g. that of a fitted model; without it the report chooses.
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

    @classmethod
    def of(cls, name: str, scores: Scores, **more: Any) -> "Model":
        """From `Scores` with their units; more: details, image, source, threshold."""
        return cls(name, scores.labels, scores.values, scores.ids, units=scores.units, **more)

    @cached_property
    def sample(self) -> Sample:
        """Checked once; messages name the model."""
        try:
            return Sample.of(self.labels, self.scores, self.units)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What to know before any number about these scores."""
        return findings(self.labels, self.scores, units=self.units)

    @property
    def refused(self) -> str | None:
        """Why no threshold of these scores should be certified; None if nothing speaks against it."""
        return next((one.sentence for one in self.findings if one.refuses), None)

    @cached_property
    def positives(self) -> Floats:
        """The positives' scores, ascending."""
        return np.sort(self.sample.positives)

    @cached_property
    def negatives(self) -> Floats:
        """The negatives' scores, ascending."""
        return np.sort(self.sample.negatives)

    def sample_name(self, place: int) -> str:
        """A sample's id, or its row counted from 1."""
        return f"row {place + 1:,}" if self.ids is None else str(self.ids[place])

    def provenance(self) -> dict[str, str]:
        """The source, and where it has none a checksum of labels and scores."""
        if "sha256" in self.source:
            return dict(self.source)
        content = hashlib.sha256(np.asarray(self.labels, dtype="<i8").tobytes())
        content.update(np.asarray(self.scores, dtype="<f8").tobytes())
        return {**self.source, "sha256 of labels and scores": content.hexdigest()}


def check_models(models: Sequence[Model]) -> None:
    """Between one and six models with distinct names, each with usable scores."""
    if not 1 <= len(models) <= MOST_MODELS:
        raise ValueError(f"a report shows 1 to {MOST_MODELS} models, got {len(models)}")
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ValueError(f"two models have the same name: {', '.join(names)}; give each its own")
    if len({model.units is None for model in models}) > 1:
        raise ValueError("some models have units and some have none: give them for all, or for none")
    for model in models:
        _ = model.sample


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
    if len(first.labels) != len(other.labels):
        raise ValueError(
            f"{names} have {len(first.labels):,} and {len(other.labels):,} samples: a report compares models on the"
            " same samples; give ids, or write one report each"
        )
    if not np.array_equal(first.labels, other.labels):
        raise ValueError(f"{names} do not list the same samples in the same order: their labels differ; give ids")
    return first.labels, first.scores, other.scores
