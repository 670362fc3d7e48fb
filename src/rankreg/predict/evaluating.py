"""A bundle on labelled data."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rankreg._terminal import progress_bar
from rankreg.bundle import Bundle, Evaluation, evaluate_scores
from rankreg.predict.reading import read_chunks
from rankreg.predict.scoring import scored
from rankreg.scores import Scores


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The evaluation at the bundle's threshold, the scores it rests on, and the samples that have none."""

    evaluation: Evaluation
    scores: Scores
    unreadable: tuple[str, ...]


def evaluate(
    bundle: Bundle,
    data: Path | str,
    *,
    confidence: float = 0.95,
    device: str = "auto",
    negative: Collection[str] = (),
    rest_negative: bool = False,
) -> Evaluated:
    """Score labelled data and measure: recall, FPR, alarms and precision at the bundle's threshold, AUC, FPR at
    TPRs.

    Samples that cannot be read or scored are left out and named; `predict` raises an alarm for each. Labels are
    read as in the fit; negative, rest_negative: further values that are negative here.
    """
    known = bundle.card.labels
    rule = replace(known, negative=(*known.negative, *negative), rest_negative=known.rest_negative or rest_negative)
    ids: list[str] = []
    labels, values, unreadable = [], [], []
    with progress_bar() as progress:
        task = progress.add_task("scoring", total=None)
        for chunk, found in scored(bundle.model, read_chunks(data, bundle.card, labels=rule), device):
            assert chunk.labels is not None  # they were asked for
            good = [not problem for problem in chunk.problems]
            ids += [name for name, is_good in zip(chunk.ids, good, strict=True) if is_good]
            unreadable += [f"{name} ({why})" for name, why in zip(chunk.ids, chunk.problems, strict=True) if why]
            labels.append(chunk.labels[good])
            values.append(found[good])
            progress.advance(task, len(found))
    if not ids:
        first = f": {unreadable[0]}" if unreadable else ""
        raise ValueError(f"{data} holds no sample that can be scored{first}")
    scores = Scores(np.asarray(ids), np.concatenate(labels), np.concatenate(values))
    evaluation = evaluate_scores(
        scores.labels, scores.values, threshold=bundle.card.threshold.value, confidence=confidence
    )
    return Evaluated(evaluation, scores, tuple(unreadable))
