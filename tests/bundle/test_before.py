"""Bundles that were written before the package was rebuilt (commit 2e0b6bf) load and score as they did then."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankreg.bundle import load_bundle, predict
from rankreg.estimators import RankRegClassifier

BEFORE = Path(__file__).parent / "before"


@pytest.mark.parametrize(("bundle", "data"), [("table", "rows.csv"), ("images", "pictures")])
def test_a_bundle_from_before_predicts_its_recorded_scores(tmp_path: Path, bundle: str, data: str) -> None:
    predict(load_bundle(BEFORE / bundle), BEFORE / data, tmp_path / "scores.csv", device="cpu")
    found = pd.read_csv(tmp_path / "scores.csv")
    recorded = pd.read_csv(BEFORE / f"{Path(data).stem}-scores.csv")
    assert found[["id", "alarm"]].equals(recorded[["id", "alarm"]])
    assert found["problem"].isna().equals(recorded["problem"].isna())
    np.testing.assert_allclose(found["score"], recorded["score"], rtol=0, atol=1e-5)


def test_the_threshold_from_before_keeps_its_certificate() -> None:
    threshold = load_bundle(BEFORE / "table").card.threshold
    assert (threshold.certified, threshold.tpr, threshold.calibration_positives) == (True, 0.6, 9)
    assert threshold.certificate is not None
    assert threshold.certificate["threshold"] >= threshold.value


def test_a_classifier_from_before_scores_as_it_did() -> None:
    rows = np.random.default_rng(0).normal(size=(120, 2))
    rows[:, 0] += 2 * (np.arange(120) % 2)
    found = RankRegClassifier.load(BEFORE / "classifier").decision_function(rows[:5])
    np.testing.assert_allclose(found, np.loadtxt(BEFORE / "classifier-scores.csv"), rtol=0, atol=1e-5)
