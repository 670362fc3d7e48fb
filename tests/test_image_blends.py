"""The study of docs/decisions/0066 does what the page says."""

from typing import Any

import numpy as np
import pytest
from benchmarks import image_blends
from benchmarks.image_blends import NETWORKS, WAYS, candidate, config_of, network_of
from benchmarks.image_defaults import DATA

from rankreg.train import train
from rankreg.train.inference import score_samples
from tests.test_generalising import digit_images


@pytest.mark.parametrize("name", ["plain", "oversampling"])
def test_a_network_without_blends_is_trained_as_the_library_trains_it(name: str) -> None:
    splits, way = digit_images(), NETWORKS[name]
    config = config_of(splits, 3, way).model_copy(
        update={"epochs": 2, "learning_rate": 1e-3}
    )  # rounding grows fast at high rates
    network = network_of(splits, config, way.blend)
    ours, theirs = score_samples(network, splits["test"], precision="float32"), train(splits, config).scores["test"]
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-4)
    assert np.std(theirs.values) > 0.01


def record(split: int, **areas: float) -> dict[str, Any]:
    """A record in which every way has an AUC of 70, unless it is named."""
    measures = {way: {"auc": areas.get(way, 70.0), "fpr@95": 50.0} for way in WAYS}
    return {"split": split, "measures": measures}


def test_the_candidate_is_the_simplest_way_near_the_best() -> None:
    def found(**areas: float) -> str:
        return candidate([{**record(0, **areas), "data": data} for data in DATA])

    assert found() == "plain"
    assert found(mixed=71.0) == "mixed"
    assert found(mixed=71.0, pasted=70.6) == "pasted"
    assert found(**{"plain and mixed": 80.0, "oversampling": 79.4}) == "plain and mixed"
    assert found(**{"plain and mixed": 80.0, "oversampling": 79.6}) == "oversampling"


def test_the_confirmation_is_on_fresh_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(image_blends, "recorded", lambda place: [])
    monkeypatch.setattr(image_blends, "train_all", lambda trained, wanted, place, workers: asked.extend(wanted))
    image_blends.run(1)
    assert {split for _, split in asked} == {*range(5), *range(10, 20)}
    assert len(asked) == 15 * len(DATA)
