"""ALM against the double loop of its definition, closed forms and its schedule written out."""

import csv
import itertools
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rankreg import ALM, LOSSES, positive_score
from rankreg.alm import PUBLISHED, shortfalls


def double_loop(
    scores: Tensor, labels: Tensor, multipliers: Tensor, mu: float, delta: float
) -> tuple[Tensor, Tensor]:
    """The term and each positive's q, as the definition reads."""
    violations = torch.zeros(len(scores), dtype=scores.dtype)
    positives = [i for i, y in enumerate(labels) if y == 1]
    negatives = [k for k, y in enumerate(labels) if y == 0]
    total = scores.sum() * 0
    for i in positives:
        q = scores.sum() * 0
        for k in negatives:
            q = q + torch.relu(scores[k] - scores[i] + delta)
        total = total + mu / 2 * q**2 + multipliers[i] * q
        violations[i] = q.detach()
    return total / max(1, len(positives) * len(negatives)), violations


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.25, 1.0]), st.integers(2, 20))
def test_term_gradient_and_multipliers_are_those_of_the_double_loop(seed: int, delta: float, n: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, dtype=torch.float64, generator=generator, requires_grad=True)
    labels = torch.randint(2, (n,), generator=generator)
    start = torch.rand(n, dtype=torch.float64, generator=generator)
    alm = ALM(n, mu=0.3, delta=delta)
    alm.multipliers.copy_(start)
    expected, violations = double_loop(scores, labels, start, 0.3, delta)
    (expected_gradient,) = torch.autograd.grad(expected, scores)
    term = alm(scores, labels, torch.arange(n))
    (gradient,) = torch.autograd.grad(term, scores)
    torch.testing.assert_close(term, expected)
    torch.testing.assert_close(gradient, expected_gradient)
    torch.testing.assert_close(alm.multipliers, start + 0.3 * violations)


def test_tied_scores_count_their_margin_once_each() -> None:
    scores, labels = torch.zeros(5), torch.tensor([1, 0, 0, 0, 1])
    assert shortfalls(scores, labels == 1, delta=0.5).tolist() == [1.5, 0, 0, 0, 1.5]
    assert shortfalls(scores, labels == 1, delta=0.0).tolist() == [0, 0, 0, 0, 0]


def test_one_positive_below_one_negative_has_a_closed_form() -> None:
    """q = gap + δ; the term is μ/2·q² at first, and λ = μ·q is added the next time."""
    alm = ALM(10, mu=0.1, delta=0.5)
    scores, labels, ids = torch.tensor([-1.0, 1.0]), torch.tensor([1, 0]), torch.tensor([7, 2])
    q = 2.5
    assert float(alm(scores, labels, ids)) == pytest.approx(0.1 / 2 * q**2)
    assert float(alm(scores, labels, ids)) == pytest.approx(0.1 / 2 * q**2 + 0.1 * q * q)
    assert alm.multipliers.nonzero().flatten().tolist() == [7]


def test_evaluation_mode_leaves_the_multipliers_alone() -> None:
    alm = ALM(2).eval()
    alm(torch.tensor([-1.0, 1.0]), torch.tensor([1, 0]), torch.arange(2))
    assert alm.multipliers.sum() == 0


@pytest.mark.parametrize("labels", [[0, 0], [1, 1], []])
def test_one_class_alone_gives_a_zero_that_back_propagates(labels: list[int]) -> None:
    scores = torch.zeros(len(labels), requires_grad=True)
    term = ALM(2)(scores, torch.tensor(labels, dtype=torch.long), torch.arange(len(labels)))
    term.backward()
    assert term == 0
    assert scores.grad is not None
    assert scores.grad.abs().sum() == 0


def test_large_scores_lose_no_digits() -> None:
    """q is the small difference of two running sums of a million large numbers."""
    n = 1_000_000
    scores, labels = torch.full((n,), 1e4), torch.zeros(n, dtype=torch.long)
    labels[0] = 1
    assert shortfalls(scores, labels == 1, delta=0.25)[0] == pytest.approx(0.25 * (n - 1), rel=1e-6)


@pytest.mark.parametrize(("mu", "steps"), [(1e-4, 5), (1e-3, 3)])
def test_mu_grows_after_the_third_epoch_then_on_falls_up_to_its_ceiling(mu: float, steps: int) -> None:
    alm = ALM(1, mu=mu, rho=3.0)
    grown = []
    for auc in [0.9, 0.5, 0.9, 0.86, 0.80, 0.95, *itertools.chain(*[[0.5, 0.9]] * 8)]:
        before = float(alm.mu)
        alm.end_epoch(auc)
        grown.append(not math.isclose(float(alm.mu), before))
    assert grown[:6] == [False, False, True, False, True, False]  # falls before the third epoch do not count
    assert float(alm.mu) == pytest.approx(mu * 3.0**steps)


def test_a_reloaded_alm_goes_on_as_if_never_stopped() -> None:
    one, other = ALM(20, mu=1e-2), ALM(20, mu=1e-2)
    torch.manual_seed(0)
    batches = [(torch.randn(8), torch.randint(2, (8,)), torch.randint(20, (8,))) for _ in range(8)]
    for step, batch in enumerate(batches[:4]):
        one(*batch)
        one.end_epoch(0.9 - 0.1 * step)
    other.load_state_dict(one.state_dict())
    for batch in batches[4:]:
        assert torch.equal(one(*batch), other(*batch))
        one.end_epoch(0.5)
        other.end_epoch(0.5)
    assert torch.equal(one.mu, other.mu)
    assert torch.equal(one.multipliers, other.multipliers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_model_cast_to_another_precision_takes_nothing_from_alm(dtype: torch.dtype) -> None:
    alm = ALM(2, mu=1e-9)
    torch.nn.ModuleDict({"term": alm}).to(dtype)
    alm(torch.tensor([-1.0, 1.0], dtype=dtype), torch.tensor([1, 0]), torch.arange(2))
    assert float(alm.mu) == 1e-9
    assert float(alm.multipliers[0]) == pytest.approx(2.25e-9)


def test_many_classes_are_ordered_by_the_positive_score() -> None:
    logits, labels = torch.randn(12, 4), torch.arange(12) % 4
    many, binary = ALM(12, positive=3), ALM(12)
    expected = binary(positive_score(logits, 3), (labels == 3).long(), torch.arange(12))
    torch.testing.assert_close(many(logits, labels, torch.arange(12)), expected)


def test_published_settings_are_those_of_the_protocol(protocol: Path) -> None:
    text = protocol.read_text().split("μ₀ / δ used:")[1].split("## ")[0]
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.split("\n"), delimiter="|") if len(row) > 5]
    for row in rows[2:]:
        for dataset, cell in zip(PUBLISHED, row[2:6], strict=True):
            mu, delta = map(float, cell.split("/"))
            assert PUBLISHED[dataset][row[1].lower()] == (mu, delta)
    assert {row[1].lower() for row in rows[2:]} == LOSSES.keys()


def test_bad_input_is_refused_with_what_to_do() -> None:
    scores, labels = torch.zeros(2), torch.tensor([0, 1])
    with pytest.raises(ValueError, match="pass ids"):
        ALM(2)(scores, labels)
    with pytest.raises(ValueError, match=r"ids must lie in 0 … 1"):
        ALM(2)(scores, labels, torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="integer ids"):
        ALM(2)(scores, labels, torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="give a share"):
        ALM(2).end_epoch(91.0)
    for arguments in ({"mu": 0.0}, {"delta": -1.0}, {"rho": 0.5}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            ALM(2, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="samples"):
        ALM(0)
