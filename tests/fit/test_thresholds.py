"""The threshold of a fit: which kind it is, what it costs, and what no part of the data may do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from rankreg.bundle import load_bundle
from rankreg.fit import Fitted, Source, fit
from rankreg.operating import certify, cross_fitted_threshold
from rankreg.operating.thresholds import lowered
from tests.own_data import CommandLine, write_table


@pytest.fixture
def rankreg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process."""
    return CommandLine(monkeypatch, capsys)


def fitted(data: Path, out: Path, **options: Any) -> Fitted:
    """A quick fit."""
    source = Source(data, target="sick", id_column="name")
    found = fit(source, out, **{"learners": ["logistic"], "progress": False, **options})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("positives", "tpr", "kind"),
    [
        (140, 0.9, "cross-fitted"),  # 28 are held out; 0.9^28 > 0.05
        (145, 0.9, "certified"),  # 29; 0.9^29 ≤ 0.05
        (30, 0.9, "cross-fitted"),  # all 30 are enough
        (28, 0.9, "expected"),
    ],
)
def test_auto_certifies_exactly_where_a_fifth_of_the_positives_is_enough(
    tmp_path: Path, positives: int, tpr: float, kind: str
) -> None:
    data = write_table(tmp_path / "data.csv", 500, positives)
    found = fitted(data, tmp_path / "out", tpr=tpr)
    held = round(positives / 5)
    assert (binom.cdf(0, held, 1 - tpr) <= 0.05) == (kind == "certified")
    assert found.threshold.kind == kind
    assert found.threshold.calibration_positives == (held if kind == "certified" else positives)
    assert ("calibration" in found.bundle.card.parts) == (kind == "certified")
    assert (tmp_path / "out/calibration-scores.csv").exists() == (kind == "certified")


def test_the_thresholds_are_those_of_the_scores_that_were_written(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv", 500, 150)
    crossed = fitted(data, tmp_path / "crossed", tpr=0.9, threshold="cross-fitted")
    scores = pd.read_csv(tmp_path / "crossed/out-of-fold-scores.csv")
    assert (len(scores), set(scores.id)) == (500, set(pd.read_csv(data).name))
    positives = np.sort(scores.score[scores.label == 1])
    rank = int(np.flatnonzero(binom.cdf(np.arange(150), 150, 0.1) <= 0.05)[-1]) + 1
    assert crossed.threshold.value == pytest.approx(lowered(positives[rank - 1]), abs=1e-6)
    assert (crossed.threshold.kind, crossed.threshold.certified) == ("cross-fitted", False)

    sure = fitted(data, tmp_path / "certified", tpr=0.9)
    scores = pd.read_csv(tmp_path / "certified/calibration-scores.csv")
    point = certify(scores.label.to_numpy(), scores.score.to_numpy(), tpr=0.9)
    assert sure.threshold.value == pytest.approx(lowered(point.threshold), abs=1e-6)
    everyone = pd.concat([pd.read_csv(tmp_path / "certified/out-of-fold-scores.csv"), scores])
    other = cross_fitted_threshold(everyone.label, everyone.score, tpr=0.9)
    assert sure.other_fpr == pytest.approx((everyone.score[everyone.label == 0] >= other.value).mean(), abs=0.003)


def test_a_certificate_that_is_out_of_reach_is_an_error_and_writes_nothing(
    rankreg: CommandLine, tmp_path: Path
) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = (
        "fit",
        data,
        "--target",
        "sick",
        "--drop",
        "name",
        "--learner",
        "logistic",
        "--threshold",
        "certified",
    )
    status, _, error = rankreg(*arguments, "--tpr", "0.9", "--out", tmp_path / "out")
    assert status == 2
    assert "16" in error  # a fifth of 80
    assert "29" in error  # the least n with 0.9^n ≤ 0.05
    assert "--threshold cross-fitted" in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()
    more = ("--tpr", "0.9", "--calibration", "0.4", "--out", tmp_path / "more")
    assert rankreg(*arguments, *more)[0] == 0  # as the message advises
    assert load_bundle(tmp_path / "more").card.threshold.calibration_positives == 32


def bundle_bytes(out: Path) -> dict[str, bytes]:
    """The files of the bundle but what was measured on the test part, and the digest of all rows."""
    files = {file.name: file.read_bytes() for file in (out / "bundle").iterdir()}
    card = json.loads(files.pop("bundle.json"))
    card["metrics"].pop("test")
    card.pop("sha256")
    card.pop("fitted_on")
    files.pop("README.md")  # the same content for people
    return files | {"card": json.dumps(card).encode()}


@pytest.mark.parametrize("threshold", ["certified", "cross-fitted"])
def test_the_test_part_trains_nothing_and_chooses_nothing(tmp_path: Path, threshold: Any) -> None:
    data = write_table(tmp_path / "data.csv")
    options: dict[str, Any] = {
        "tpr": 0.7,
        "test": 0.25,
        "threshold": threshold,
        "learners": ["logistic", "logistic-normal", "boosting", "forest"],
    }
    before = fitted(data, tmp_path / "before", **options)
    tested = set(pd.read_csv(tmp_path / "before/test-scores.csv").id)
    table = pd.read_csv(data)
    is_test = table.name.isin(tested)
    assert is_test.sum() == 100
    table.loc[is_test, "size"] = np.round(40 * np.random.default_rng(0).normal(size=100), 5)
    table.loc[is_test, "colour"] = "red"
    table.to_csv(data, index=False)
    after = fitted(data, tmp_path / "after", **options)
    assert set(pd.read_csv(tmp_path / "after/test-scores.csv").id) == tested
    assert bundle_bytes(tmp_path / "after") == bundle_bytes(tmp_path / "before")
    for name in ("out-of-fold-scores.csv", *(["calibration-scores.csv"] if threshold == "certified" else [])):
        assert (tmp_path / "after" / name).read_bytes() == (tmp_path / "before" / name).read_bytes()
    assert before.test is not None
    assert after.test is not None
    assert after.test.auc.estimate < before.test.auc.estimate


def test_the_calibration_part_trains_nothing(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    before = fitted(data, tmp_path / "before", tpr=0.7, learners=["logistic", "boosting"])
    held = pd.read_csv(tmp_path / "before/calibration-scores.csv")
    table = pd.read_csv(data)
    is_held = table.name.isin(held.id)
    table.loc[is_held, "size"] = table.loc[is_held, "size"].to_numpy()[::-1]
    table.to_csv(data, index=False)
    after = fitted(data, tmp_path / "after", tpr=0.7, learners=["logistic", "boosting"])
    for name in ("bundle/model.safetensors", "out-of-fold-scores.csv"):
        assert (tmp_path / "after" / name).read_bytes() == (tmp_path / "before" / name).read_bytes()
    assert after.threshold.value != before.threshold.value
