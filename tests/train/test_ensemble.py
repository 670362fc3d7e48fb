from pathlib import Path

import numpy as np
import pytest

from rankreg.datasets.image_sets import digits
from rankreg.models import MLPShape
from rankreg.scores import Scores, mean_scores
from rankreg.train import TrainConfig, train_ensemble


def member(seed: int, *, shape: tuple[int, ...] = (6,)) -> Scores:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return Scores(np.arange(10, 16), np.array([0, 1, 0, 0, 1, 0]), values)


@pytest.mark.parametrize("shape", [(6,), (6, 4)])
def test_the_mean_is_taken_in_logit_space(shape: tuple[int, ...]) -> None:
    a, b, c = (member(seed, shape=shape) for seed in range(3))
    mean = mean_scores({"a": a, "b": b, "c": c})
    np.testing.assert_allclose(mean.values, (a.values + b.values + c.values) / 3, rtol=1e-6)
    np.testing.assert_array_equal(mean.ids, a.ids)
    assert mean.values.dtype == np.float32


def test_members_that_scored_other_samples_are_refused() -> None:
    first = member(0)
    shuffled = Scores(first.ids[::-1], first.labels, first.values)
    with pytest.raises(ValueError, match="b differs from a in the id of 6 samples, first in row 0: 15 against 10"):
        mean_scores({"a": first, "b": shuffled})
    with pytest.raises(ValueError, match="in the label of"):
        mean_scores({"a": first, "b": Scores(first.ids, 1 - first.labels, first.values)})
    with pytest.raises(ValueError, match="shape"):
        mean_scores({"a": first, "b": member(1, shape=(6, 2))})
    with pytest.raises(ValueError, match="at least one member"):
        mean_scores({})


def test_members_are_trained_on_their_own_splits_once_and_averaged(tmp_path: Path) -> None:
    config = TrainConfig(seed=3, epochs=1, batch_size=64, model=MLPShape(hidden=(4,)))
    first = train_ensemble(lambda k: digits(ratio=20, seed=k), config, tmp_path, members=2)
    members = [Scores.load(tmp_path / f"member-{k}" / "scores-test.npz") for k in range(2)]
    assert not np.array_equal(members[0].values, members[1].values)
    np.testing.assert_allclose(first["test"].values, (members[0].values + members[1].values) / 2, rtol=1e-5)
    again = train_ensemble(lambda k: digits(ratio=20, seed=k), config, tmp_path, members=2)
    np.testing.assert_array_equal(first["test"].values, again["test"].values)
    with pytest.raises(ValueError, match="members"):
        train_ensemble(lambda k: digits(seed=k), config, tmp_path, members=0)
