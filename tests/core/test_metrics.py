"""Metrics against scikit-learn, brute force, and the paper's toy example."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, roc_curve

from rankreg.metrics import auc, error_at_tpr, fpr_at_tpr, roc, threshold_at_tpr

samples = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-4, 4) | st.floats(-1e6, 1e6)), min_size=2, max_size=60
).filter(lambda pairs: len({label for label, _ in pairs}) == 2)
targets = st.sampled_from([0.01, 0.07, 0.1, 0.5, 0.8, 0.9, 0.92, 0.95, 0.98, 1.0]) | st.floats(0.001, 1.0)


def arrays(pairs: list[tuple[int, float]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.array([label for label, _ in pairs]), np.array([score for _, score in pairs], dtype=float)


@given(samples)
def test_roc_is_scikit_learns(pairs: list[tuple[int, float]]) -> None:
    labels, scores = arrays(pairs)
    curve = roc(labels, scores)
    for ours, theirs in zip(curve, roc_curve(labels, scores, drop_intermediate=False), strict=True):
        np.testing.assert_allclose(ours, theirs)


@given(samples)
def test_auc_is_scikit_learns(pairs: list[tuple[int, float]]) -> None:
    labels, scores = arrays(pairs)
    assert auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@given(samples, targets)
def test_fpr_at_tpr_is_the_first_point_of_scikit_learns_curve_that_reaches_it(
    pairs: list[tuple[int, float]], tpr: float
) -> None:
    labels, scores = arrays(pairs)
    fprs, tprs, thresholds = roc_curve(labels, scores, drop_intermediate=False)
    first = int(np.argmax(tprs >= tpr - 1e-9))
    assert fpr_at_tpr(labels, scores, tpr) == pytest.approx(fprs[first])
    assert threshold_at_tpr(labels, scores, tpr) == thresholds[first]


@given(samples, st.lists(targets, min_size=1, max_size=6))
def test_several_targets_at_once_are_the_single_ones(pairs: list[tuple[int, float]], tprs: list[float]) -> None:
    labels, scores = arrays(pairs)
    together = fpr_at_tpr(labels, scores, tprs)
    assert together.tolist() == [fpr_at_tpr(labels, scores, tpr) for tpr in tprs]


def test_the_toy_example_has_one_false_alarm_in_four() -> None:
    """The paper's text says 33 %; its figure has four negatives, of which one stands above the last positive."""
    scores = np.array([6, 5, 4, 3, 2, 1])
    assert fpr_at_tpr([1, 0, 0, 1, 0, 0], scores, 1.0) == 0.5
    assert fpr_at_tpr([0, 1, 1, 0, 0, 0], scores, 1.0) == 0.25


def test_the_number_of_positives_needed_is_not_moved_by_rounding() -> None:
    """0.07 · 100 is 7.000000000000001 in floating point; the seventh positive is enough."""
    labels, scores = np.repeat([1, 0], 100), np.concatenate([np.arange(100, 0, -1), np.full(100, 93.5)])
    assert fpr_at_tpr(labels, scores, 0.07) == 0.0


def test_tied_negatives_count_as_alarms() -> None:
    assert fpr_at_tpr([1, 0, 0], [0.5, 0.5, 0.4], 0.9) == 0.5


def test_scores_are_never_squashed() -> None:
    """A sigmoid in float32 would turn all of these into one."""
    assert auc([0, 0, 1, 1], np.array([50.0, 60.0, 70.0, 80.0], dtype=np.float32)) == 1.0


def test_ten_million_scores_in_one_go() -> None:
    generator = np.random.default_rng(0)
    scores = generator.standard_normal(10_000_000, dtype=np.float32)
    labels = np.zeros(10_000_000, dtype=np.int8)
    labels[:1000] = 1
    rates = fpr_at_tpr(labels, scores, [0.9, 0.95, 0.98])
    assert np.all(np.diff(rates) > 0)
    assert rates[0] == pytest.approx(0.9, abs=0.03)
    assert auc(labels, scores) == pytest.approx(0.5, abs=0.03)


@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.8, 0.9, 1.0]))
def test_error_at_tpr_is_its_definition(seed: int, tpr: float) -> None:
    generator = np.random.default_rng(seed)
    labels, logits, critical = np.arange(40) % 4, generator.normal(size=(40, 4)).round(1), seed % 4
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    own = np.sort(probabilities[labels == critical, critical])[::-1]
    threshold = own[int(np.ceil(tpr * len(own) - 1e-9)) - 1] - 1e-12
    distances = np.abs(probabilities[labels != critical, critical] - threshold)
    assume(distances.min() > 1e-9)  # rounding decides which side a tie of two classes is on
    errors: dict[int, list[bool]] = {label: [] for label in range(4) if label != critical}
    for row, label in enumerate(labels):
        if label != critical:
            others = [k for k in range(4) if k != critical]
            called = (
                critical if probabilities[row, critical] >= threshold else max(others, key=lambda k: logits[row, k])
            )
            errors[int(label)].append(called != label)
    expected = np.mean([np.mean(wrong) for wrong in errors.values()])
    assert error_at_tpr(labels, logits, tpr, positive=critical) == pytest.approx(expected)
    assert error_at_tpr(labels, logits, [tpr, 1.0], positive=critical)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "scores", "tpr", "message"),
    [
        ([0, 1], [0.1, 0.2], 0.0, r"tpr must lie in \(0, 1\]"),
        ([0, 1], [0.1, 0.2], 1.01, "write 0.95 for 95 %"),
        ([0, 1], [0.1, 0.2], float("nan"), "tpr"),
        ([0, 1], [0.1, 0.2], [], "tpr"),
        ([0, 0], [0.1, 0.2], 0.9, "without positives"),
        ([1, 1], [0.1, 0.2], 0.9, "without negatives"),
        ([], [], 0.9, "without positives"),
        ([1, 2], [0.1, 0.2], 0.9, "map the labels"),
        (["yes", "no"], [0.1, 0.2], 0.9, "map the labels"),
        ([0, 1], [0.1, float("nan")], 0.9, "NaN"),
        ([0, 1], ["a", "b"], 0.9, "numbers"),
        ([0, 1, 1], [0.1, 0.2], 0.9, "one shape"),
        ([[0, 1]], [[0.1, 0.2]], 0.9, "one shape"),
    ],
)
def test_undefined_or_bad_input_raises(labels: Any, scores: Any, tpr: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fpr_at_tpr(labels, scores, tpr)


def test_bad_multi_class_input_raises() -> None:
    logits = np.zeros((2, 3))
    with pytest.raises(ValueError, match="class indices 0 … 2"):
        error_at_tpr([0, 3], logits, 0.9, positive=0)
    with pytest.raises(ValueError, match="critical class 2"):
        error_at_tpr([0, 1], logits, 0.9, positive=2)
    with pytest.raises(ValueError, match="positive must be"):
        error_at_tpr([0, 1], logits, 0.9, positive=3)
    with pytest.raises(ValueError, match="K ≥ 2"):
        error_at_tpr([0, 1], np.zeros((2, 1)), 0.9, positive=0)


def test_importing_metrics_does_not_import_torch() -> None:
    program = "import sys, rankreg, rankreg.metrics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
