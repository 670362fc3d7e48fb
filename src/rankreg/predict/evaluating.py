"""A bundle on labelled data."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankreg.bundle import Bundle, Evaluation, evaluate_scores
from rankreg.datasets._progress import progress_bar
from rankreg.predict.reading import read_chunks
from rankreg.predict.scoring import scored
from rankreg.scores import Scores


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The evaluation at the bundle's threshold, the scores it rests on, and the samples that could not be read."""

    evaluation: Evaluation
    scores: Scores
    unreadable: tuple[str, ...]


def evaluate(bundle: Bundle, data: Path | str, *, confidence: float = 0.95, device: str = "auto") -> Evaluated:
    """Score labelled data and measure: recall, FPR, alarms and precision at the bundle's threshold, AUC, FPR at
    TPRs. Unreadable images are left out and named."""
    ids: list[str] = []
    labels, values, unreadable = [], [], []
    with progress_bar() as progress:
        task = progress.add_task("scoring", total=None)
        for chunk, found in scored(bundle.model, read_chunks(data, bundle.card, labelled=True), device):
            assert chunk.labels is not None  # they were asked for
            good = [not problem for problem in chunk.problems]
            ids += [name for name, is_good in zip(chunk.ids, good, strict=True) if is_good]
            unreadable += [f"{name} ({why})" for name, why in zip(chunk.ids, chunk.problems, strict=True) if why]
            labels.append(chunk.labels[good])
            values.append(found[good])
            progress.advance(task, len(found))
    if not ids:
        raise ValueError(f"{data} holds no sample that can be read")
    scores = Scores(np.asarray(ids), np.concatenate(labels), np.concatenate(values))
    evaluation = evaluate_scores(
        scores.labels, scores.values, threshold=bundle.card.threshold.value, confidence=confidence
    )
    return Evaluated(evaluation, scores, tuple(unreadable))
