"""FPR at a TPR inside torchmetrics: the same number as ours and scikit-learn's, over batches and processes."""

import math
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_curve
from torch import Tensor
from torch.multiprocessing.spawn import spawn
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAUROC

from rankreg.integrations import FPRAtTPR
from rankreg.metrics import fpr_at_tpr, positive_score


def sample(count: int = 300, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores far outside of 0 … 1, with ties; one positive for five negatives."""
    numbers = torch.Generator().manual_seed(seed)
    labels = (torch.rand(count, generator=numbers) < 1 / 6).long()
    scores = (8 * torch.randn(count, generator=numbers) + 12 * labels + 30).round()
    return scores, labels


@given(
    labels=st.lists(st.integers(0, 1), min_size=2, max_size=40).filter(lambda y: 0 < sum(y) < len(y)),
    tpr=st.sampled_from([0.07, 0.5, 0.8, 0.9, 0.95, 0.98, 1.0]),
    batch=st.integers(1, 7),
    seed=st.integers(0, 10_000),
)
def test_over_any_batches_it_is_our_metric(labels: list[int], tpr: float, batch: int, seed: int) -> None:
    scores = torch.randint(-40, 40, (len(labels),), generator=torch.Generator().manual_seed(seed)).float()
    metric = FPRAtTPR(tpr)
    for rows in torch.arange(len(labels)).split(batch):
        metric.update(scores[rows], torch.tensor(labels)[rows])
    assert metric.compute().item() == pytest.approx(fpr_at_tpr(labels, scores.numpy(), tpr), abs=1e-7)


@pytest.mark.parametrize("tpr", [0.9, 0.95, 0.98])
def test_it_is_the_first_point_of_scikit_learns_curve_that_reaches_the_tpr(tpr: float) -> None:
    scores, labels = sample()
    fprs, tprs, _ = roc_curve(labels, scores, drop_intermediate=False)
    metric = FPRAtTPR(tpr)
    metric.update(scores, labels)
    assert metric.compute().item() == pytest.approx(fprs[np.argmax(tprs >= tpr)], abs=1e-7)


def test_scores_are_not_squashed() -> None:
    """Sigmoids of 40 and 50 are both 1 in float32: a metric that squashes sees a tie, and an FPR of 1."""
    metric = FPRAtTPR(1.0)
    metric.update(torch.tensor([40.0, 50.0]), torch.tensor([0, 1]))
    assert metric.compute() == 0


def test_half_precision_becomes_float32_and_set_dtype_keeps_float64() -> None:
    metric = FPRAtTPR(1.0)
    metric.update(torch.tensor([1.0, 2.0], dtype=torch.bfloat16), torch.tensor([0, 1]))
    assert metric.scores[0].dtype == torch.float32
    fine = FPRAtTPR(1.0).set_dtype(torch.float64)
    fine.update(torch.tensor([1.0, 1.0 + 1e-12], dtype=torch.float64), torch.tensor([0, 1]))
    assert fine.compute() == 0


def test_logits_are_ranked_by_the_odds_of_the_critical_class() -> None:
    logits = torch.randn(200, 4)
    labels = torch.randint(0, 4, (200,))
    metric = FPRAtTPR(0.9, positive=2)
    metric.update(logits, labels)
    expected = fpr_at_tpr((labels == 2).numpy(), positive_score(logits, 2).numpy(), 0.9)
    assert metric.compute().item() == pytest.approx(expected, abs=1e-7)


def test_in_a_collection_it_stands_beside_torchmetrics_own() -> None:
    scores, labels = sample()
    metrics = MetricCollection({"fpr95": FPRAtTPR(0.95), "fpr80": FPRAtTPR(0.8), "auc": BinaryAUROC()})
    probabilities = torch.sigmoid((scores - 30) / 20)
    for rows in torch.arange(len(labels)).split(60):
        metrics.update(probabilities[rows], labels[rows])
    found = metrics.compute()
    assert found["fpr95"].item() == pytest.approx(fpr_at_tpr(labels.numpy(), probabilities.numpy(), 0.95), abs=1e-7)
    assert found["fpr80"].item() == pytest.approx(fpr_at_tpr(labels.numpy(), probabilities.numpy(), 0.8), abs=1e-7)


def test_undefined_is_an_error_unless_nan_is_asked_for() -> None:
    scores, nothing = torch.randn(5), torch.zeros(5, dtype=torch.long)
    metric = FPRAtTPR(0.9)
    metric.update(scores, nothing)
    with pytest.raises(ValueError, match="5 samples that are not of both classes"):
        metric.compute()
    tolerant = FPRAtTPR(0.9, undefined="nan")
    assert math.isnan(tolerant(scores, nothing))  # of the batch
    tolerant.update(torch.tensor([9.0]), torch.tensor([1]))
    assert tolerant.compute() == 0
    tolerant.reset()
    tolerant.update(scores, nothing + 1)
    assert math.isnan(tolerant.compute())


@pytest.mark.parametrize(
    ("settings", "scores", "labels", "message"),
    [
        ({"tpr": 95}, [1.0], [1], "write 0.95 for 95 %"),
        ({"undefined": "zero"}, [1.0], [1], "choose one of 'raise', 'nan'"),
        ({}, [[1.0], [2.0]], [0, 1], r"squeeze\(1\)"),
        ({}, [1.0, math.nan], [0, 1], "contain NaN"),
        ({}, [1.0, 2.0], [0, 2], "labels must be 0 or 1"),
    ],
)
def test_bad_input_is_named(
    settings: dict[str, object], scores: list[float], labels: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FPRAtTPR(**settings).update(torch.tensor(scores), torch.tensor(labels))  # type: ignore[arg-type]


def work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    scores, labels = sample(count=101)
    ragged, one_sided = FPRAtTPR(0.9), FPRAtTPR(0.9)
    own = slice(0, 30) if rank == 0 else slice(30, None)
    for rows in torch.arange(101)[own].split(20):
        ragged.update(scores[rows], labels[rows])
    if rank == 1:
        one_sided.update(scores, labels)
    else:
        one_sided._update_count = 1  # torchmetrics warns of a compute before any update
    torch.save([ragged.compute(), one_sided.compute(), len(ragged.scores)], folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_have_the_value_of_all_samples_together(tmp_path: Path) -> None:
    spawn(work, (tmp_path,), nprocs=2)
    scores, labels = sample(count=101)
    expected = fpr_at_tpr(labels.numpy(), scores.numpy(), 0.9)
    for rank, batches in ((0, 2), (1, 4)):
        ragged, one_sided, left = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert ragged.item() == one_sided.item() == pytest.approx(expected, abs=1e-7)
        assert left == batches  # after syncing, each goes on with its own


def test_without_torchmetrics_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "rankreg.integrations.torchmetrics")
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(ImportError, match=r"^FPRAtTPR needs torchmetrics: pip install 'rankreg\[lightning\]'$"):
        import_module("rankreg.integrations.torchmetrics")
