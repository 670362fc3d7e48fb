"""Ranks and their black-box gradient, against Eq. 2 and section 3.4 read aloud."""

import shutil
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rankreg import rank, ranking, regularizer
from rankreg.boosting import objectives
from tests.conftest import brute_force_gradient, brute_force_rank

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
few_values = st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=12)  # many ties


@given(few_values)
def test_a_rank_is_one_plus_the_number_of_higher_scores(values: list[float]) -> None:
    scores = torch.tensor(values)
    assert torch.equal(rank(scores, gamma=1.0), brute_force_rank(scores))


@given(few_values, st.randoms())
def test_ties_share_the_better_rank_whatever_their_order(values: list[float], random: object) -> None:
    scores = torch.tensor(values)
    shuffled = torch.randperm(len(values))
    assert torch.equal(rank(scores, gamma=1.0)[shuffled], rank(scores[shuffled], gamma=1.0))


@given(few_values, st.floats(0.05, 20.0), st.booleans())
def test_the_gradient_is_the_black_box_formula(values: list[float], gamma: float, normalize: bool) -> None:
    scores = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    incoming = torch.linspace(-1, 1, len(values), dtype=torch.float64)
    rank(scores, gamma=gamma, normalize=normalize).backward(incoming)
    scale = len(values) if normalize else 1.0
    expected = brute_force_gradient(scores.detach(), incoming, gamma, scale)
    torch.testing.assert_close(scores.grad, expected)


def test_normalising_at_gamma_over_n_is_dividing_the_plain_rank_by_n() -> None:
    scores = torch.randn(9, dtype=torch.float64, requires_grad=True)
    (inside,) = torch.autograd.grad((rank(scores, gamma=2.0 / 9, normalize=True) ** 2).sum(), scores)
    (outside,) = torch.autograd.grad(((rank(scores, gamma=2.0) / 9) ** 2).sum(), scores)
    torch.testing.assert_close(inside, outside)


def test_leading_axes_are_batches() -> None:
    scores = torch.randn(2, 3, 7, requires_grad=True)
    incoming = torch.randn(2, 3, 7)
    ranks = rank(scores, gamma=1.5)
    ranks.backward(incoming)
    assert scores.grad is not None
    for i in range(2):
        for j in range(3):
            assert torch.equal(ranks[i, j], brute_force_rank(scores[i, j]))
            alone = brute_force_gradient(scores[i, j].detach(), incoming[i, j], 1.5)
            torch.testing.assert_close(scores.grad[i, j], alone)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_float32_ranks_and_half_gradients(dtype: torch.dtype) -> None:
    scores = torch.arange(600).to(dtype).requires_grad_()  # 257 and more do not fit bfloat16: ties, not errors
    ranks = rank(scores, gamma=1.0)
    ranks.sum().backward()
    assert ranks.dtype == torch.float32
    assert torch.equal(ranks, brute_force_rank(scores.detach().float()))
    assert scores.grad is not None
    assert scores.grad.dtype == dtype


def test_float64_is_ranked_in_float64() -> None:
    close = torch.tensor([1.0, 1.0 + 1e-12], dtype=torch.float64)
    assert rank(close, gamma=1.0).tolist() == [2, 1]
    assert rank(close, gamma=1.0).dtype == torch.float64


def test_autocast_does_not_lower_the_precision_of_ranks() -> None:
    scores = torch.linspace(0, 1, 1000)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ranks = rank(scores, gamma=1.0)
    assert torch.equal(ranks, torch.arange(1000, 0, -1.0))


def test_nothing_to_rank_gives_nothing() -> None:
    assert rank(torch.empty(3, 0), gamma=1.0, normalize=True).shape == (3, 0)


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_the_compiled_rank_equals_the_eager_one() -> None:
    def loss(scores: Tensor) -> Tensor:
        return (rank(scores, gamma=0.7, normalize=True) ** 2).sum()

    scores = torch.randn(4, 50, requires_grad=True)
    (eager,) = torch.autograd.grad(loss(scores), scores)
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(compiled(scores), loss(scores))
    (gradient,) = torch.autograd.grad(compiled(scores), scores)
    torch.testing.assert_close(gradient, eager)


def test_a_million_scores_need_memory_in_proportion() -> None:
    ranks = rank(torch.arange(1_000_000.0), gamma=1.0)  # a pairwise table would be 4 TB
    assert ranks[0] == 1_000_000
    assert ranks[-1] == 1


@pytest.mark.parametrize(
    ("scores", "gamma", "message"),
    [
        (torch.zeros(3), 0.0, "gamma must be a finite number above 0"),
        (torch.zeros(3), -1.0, "gamma"),
        (torch.zeros(3), float("nan"), "gamma"),
        (torch.tensor([0.0, float("nan")]), 1.0, "NaN"),
        (torch.zeros(3, dtype=torch.long), 1.0, "floating point"),
        (torch.tensor(1.0), 1.0, "at least one axis"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(scores: Tensor, gamma: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rank(scores, gamma=gamma)


def test_values_on_another_device_are_not_looked_at() -> None:
    rank(torch.empty(5, device="meta"), gamma=1.0)  # the meta device has no values: reading one would raise


def test_rank_the_term_and_boosting_share_one_black_box_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    users = (ranking, regularizer, objectives)
    assert {module.black_box_gradient for module in users} == {ranking.black_box_gradient}
    calls = []

    def counted(*given: Any) -> Tensor:
        calls.append(given)
        return black_box_gradient(*given)

    black_box_gradient = ranking.black_box_gradient
    for module in users:
        monkeypatch.setattr(module, "black_box_gradient", counted)
    scores, labels = torch.tensor([0.3, 0.1, 0.2], requires_grad=True), torch.tensor([0, 1, 0])
    rank(scores, gamma=1.0)[1].backward()
    regularizer.rank_penalty(scores, labels)
    objectives.lightgbm_objective()(labels.numpy(), scores.detach().numpy())
    assert len(calls) == 3


@given(st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_looking_up_few_moves_changes_ranks_as_sorting_anew_does(samples: list[tuple[int, int, bool]]) -> None:
    scores = torch.tensor([float(score) for score, _, _ in samples]).sort(descending=True).values
    rows = torch.tensor([moves for _, _, moves in samples]).nonzero().squeeze(1)
    moved = scores.clone()
    moved[rows] += torch.tensor([float(shift) for _, shift, _ in samples])[rows]
    above, change = ranking.change_by_lookup(-scores, rows, None)
    assert torch.equal(above.float() + 1, brute_force_rank(scores)[rows])
    expected = brute_force_rank(moved) - brute_force_rank(scores)
    assert torch.equal(change(moved[rows]).float(), expected)
