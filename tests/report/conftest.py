"""Samples to report on."""

import numpy as np

from rankreg.report import Model


def made_model(
    name: str, positives: int, negatives: int, *, seed: int = 0, gap: float = 2.5, ties: int = 0
) -> Model:
    """Normal scores, shuffled; with `ties` rounded to that many steps per unit."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat([1, 0], [positives, negatives]))
    scores = np.random.default_rng([seed, 1]).standard_normal(positives + negatives) + gap * labels
    return Model(name, labels, np.round(scores * ties) / ties if ties else scores)
