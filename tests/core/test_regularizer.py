"""The rank penalty: the paper's toy example, its formula, and how it behaves inside a training step."""

import shutil
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from rankreg import RankReg, positive_score, rank, rank_penalty
from rankreg.regularizer import PENALTIES
from tests.conftest import brute_force_gradient, brute_force_rank

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
FORMULAS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "rank": (lambda r: r, lambda r: 1 + 0 * r),
    "squared": (lambda r: r**2, lambda r: 2 * r),
    "cubed": (lambda r: r**3, lambda r: 3 * r**2),
    "exponential": (lambda r: r.exp(), lambda r: r.exp()),
}
as_published = partial(RankReg, among="all", weight=1.0)
samples = st.lists(
    st.tuples(st.sampled_from([-1.5, -0.5, 0.0, 0.25, 1.0, 2.0]), st.integers(0, 1)), min_size=2, max_size=14
).filter(lambda pairs: len({label for _, label in pairs}) == 2)


def scores_and_gradient(
    reg: Callable[[Tensor, Tensor], Tensor], scores: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    scores = scores.clone().requires_grad_()
    value = reg(scores, labels)
    (gradient,) = torch.autograd.grad(value, scores)
    return value.detach(), gradient


def ordering(labels: str) -> tuple[Tensor, Tensor]:
    """Scores 0, −1, −2, … for labels such as "-+--+", best first."""
    return -torch.arange(float(len(labels))), torch.tensor([int(sign == "+") for sign in labels])


@pytest.mark.parametrize(("order", "sum_of_squares", "sum_of_ranks"), [("+--+--", 17, 5), ("-++---", 13, 5)])
def test_the_toy_example_of_figure_1(order: str, sum_of_squares: int, sum_of_ranks: int) -> None:
    scores, labels = ordering(order)
    n, positives = len(order), 2
    assert rank_penalty(scores, labels, among="all") * n**2 * positives == pytest.approx(sum_of_squares)
    assert rank_penalty(scores, labels, penalty="rank", among="all") * n * positives == pytest.approx(sum_of_ranks)


def test_hard_positives_go_up_negatives_above_them_go_down_and_the_rest_stays() -> None:
    scores, labels = ordering("-+--+-")
    _, gradient = scores_and_gradient(as_published(reach=2.6), scores, labels)
    # The last positive passes two negatives and meets no other positive; the first passes the top negative.
    assert gradient.sign().tolist() == [1, -1, 1, 1, -1, 0]


def test_a_positive_that_is_overtaken_is_pushed_down() -> None:
    """Rank is a zero-sum game: at a wide reach the hard positive passes the easy one, whose rank then worsens."""
    scores, labels = ordering("+---+")
    _, narrow = scores_and_gradient(as_published(reach=3.5), scores, labels)
    _, wide = scores_and_gradient(as_published(reach=10.0), scores, labels)
    assert narrow[0] == 0
    assert wide[0] > 0


@given(samples, st.sampled_from(sorted(PENALTIES)), st.floats(0.1, 30.0))
def test_value_and_gradient_are_the_formula_at_gamma(
    pairs: list[tuple[float, int]], penalty: str, gamma: float
) -> None:
    scores = torch.tensor([score for score, _ in pairs], dtype=torch.float64)
    labels = torch.tensor([label for _, label in pairs])
    value_of, slope_of = FORMULAS[penalty]
    n, positive = len(labels), labels == 1
    ranks = brute_force_rank(scores) / n
    incoming = slope_of(ranks) * positive / positive.sum()
    value, gradient = scores_and_gradient(as_published(penalty, gamma=gamma), scores, labels)  # type: ignore[arg-type]
    torch.testing.assert_close(value, value_of(ranks)[positive].mean())
    torch.testing.assert_close(gradient, brute_force_gradient(scores, incoming, gamma, scale=n))


@given(samples, st.floats(0.1, 3.0))
def test_the_published_term_is_eq_4_on_probabilities_with_the_gradient_of_rank(
    pairs: list[tuple[float, int]], gamma: float
) -> None:
    """`rank` has the gradient of section 3.4; the term has the same one, by the same function."""
    labels = torch.tensor([label for _, label in pairs])
    both = [torch.tensor([score for score, _ in pairs], dtype=torch.float64, requires_grad=True) for _ in range(2)]
    value = RankReg.published(gamma=gamma)(both[0], labels)
    expected = (rank(both[1].sigmoid(), gamma=gamma, normalize=True)[labels == 1] ** 2).mean()
    torch.testing.assert_close(value, expected)
    value.backward()
    expected.backward()
    torch.testing.assert_close(both[0].grad, both[1].grad)


def ranks_among_the_other_class(scores: Tensor, positive: Tensor) -> Tensor:
    """Read aloud: one plus how many of the other class are higher."""
    higher = scores[None, :] > scores[:, None]
    return 1 + (higher & (positive[None, :] != positive[:, None])).sum(-1).to(scores.dtype)


@given(samples, st.sampled_from(sorted(PENALTIES)), st.floats(0.1, 30.0))
def test_value_and_gradient_among_negatives_are_the_formula_with_such_ranks(
    pairs: list[tuple[float, int]], penalty: str, gamma: float
) -> None:
    scores = torch.tensor([score for score, _ in pairs], dtype=torch.float64)
    labels = torch.tensor([label for _, label in pairs])
    value_of, slope_of = FORMULAS[penalty]
    positive = labels == 1
    most = 1 + (~positive).sum()
    ranks = ranks_among_the_other_class(scores, positive) / most
    incoming = slope_of(ranks) * positive / positive.sum()
    moved = ranks_among_the_other_class(scores + gamma * incoming, positive) / most
    reg = RankReg(penalty, gamma=gamma, weight=1.0)  # type: ignore[arg-type]
    value, gradient = scores_and_gradient(reg, scores, labels)
    torch.testing.assert_close(value, value_of(ranks)[positive].mean())
    torch.testing.assert_close(gradient, (moved - ranks) / gamma)


@given(samples, st.floats(0.1, 10.0))
def test_among_negatives_no_positive_is_pushed_down_and_no_negative_up(
    pairs: list[tuple[float, int]], reach: float
) -> None:
    scores = torch.tensor([score for score, _ in pairs], dtype=torch.float64)
    labels = torch.tensor([label for _, label in pairs])
    _, gradient = scores_and_gradient(RankReg(reach=reach), scores, labels)
    assert (gradient[labels == 1] <= 0).all()
    assert (gradient[labels == 0] >= 0).all()


def test_among_negatives_a_perfect_order_is_left_alone() -> None:
    scores, labels = ordering("+++--")
    _, gradient = scores_and_gradient(RankReg(reach=10.0), scores, labels)
    assert gradient.abs().sum() == 0


@given(st.integers(0, 10_000), st.floats(0.1, 5.0))
def test_reach_is_the_largest_shift(seed: int, reach: float) -> None:
    scores = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    labels = torch.tensor([1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0])
    ranks = brute_force_rank(scores) / len(labels)
    incoming = 2 * ranks * labels / labels.sum()
    gamma = float(reach / incoming.max())
    value, gradient = scores_and_gradient(as_published(reach=reach), scores, labels)
    same, at_gamma = scores_and_gradient(as_published(gamma=gamma), scores, labels)
    torch.testing.assert_close(value, same)
    torch.testing.assert_close(gradient, at_gamma)


def test_reach_asks_the_same_question_at_every_batch_size() -> None:
    """Three copies of a batch: at one reach the same samples are moved the same way, at one gamma they are not."""
    torch.manual_seed(0)
    scores, labels = torch.randn(40, dtype=torch.float64), (torch.rand(40) < 0.2).long()
    jitter = 1e-9 * torch.arange(120, dtype=torch.float64)  # no exact ties among the copies
    copies, copied_labels = scores.repeat(3) + jitter, labels.repeat(3)

    def moved(width: dict[str, float]) -> tuple[list[float], list[float]]:
        _, alone = scores_and_gradient(as_published(**width), scores, labels)  # type: ignore[arg-type]
        _, many = scores_and_gradient(as_published(**width), copies, copied_labels)  # type: ignore[arg-type]
        return alone.sign().tolist(), many.reshape(3, 40).sum(0).sign().tolist()

    alone, many = moved({"reach": 0.5})
    assert alone == many
    alone, many = moved({"gamma": 3.0})
    assert alone != many


def test_probability_space_ranks_the_sigmoid() -> None:
    torch.manual_seed(1)
    scores, labels = torch.randn(30, dtype=torch.float64), (torch.rand(30) < 0.3).long()
    probabilities = scores.sigmoid()
    _, gradient = scores_and_gradient(as_published(gamma=1.0, space="probability"), scores, labels)
    _, in_probability = scores_and_gradient(as_published(gamma=1.0), probabilities, labels)
    torch.testing.assert_close(gradient, in_probability * probabilities * (1 - probabilities))


def test_a_margin_keeps_a_gradient_when_all_positives_are_on_top() -> None:
    scores, labels = ordering("++---")
    _, without = scores_and_gradient(as_published(reach=0.5), scores, labels)
    _, with_margin = scores_and_gradient(as_published(reach=0.5, margin=1.2), scores, labels)
    assert without.abs().sum() == 0
    assert with_margin[1] < 0 < with_margin[2]


@given(samples, st.floats(0.01, 100.0))
def test_weight_and_loss_scale_act_linearly(pairs: list[tuple[float, int]], factor: float) -> None:
    scores = torch.tensor([score for score, _ in pairs], dtype=torch.float64)
    labels = torch.tensor([label for _, label in pairs])
    _, once = scores_and_gradient(as_published(reach=1.0), scores, labels)
    _, weighted = scores_and_gradient(as_published(reach=1.0, weight=factor), scores, labels)
    scaled = scores.clone().requires_grad_()
    (factor * as_published(reach=1.0)(scaled, labels)).backward()  # what a gradient scaler does
    torch.testing.assert_close(weighted, factor * once)
    torch.testing.assert_close(scaled.grad, factor * once)


def test_gradient_accumulation_averages_the_steps() -> None:
    torch.manual_seed(2)
    model = torch.nn.Linear(3, 1).double()
    batches = [(torch.randn(8, 3).double(), torch.tensor([1, 0] * 4)) for _ in range(4)]
    reg = RankReg()
    alone = []
    for inputs, labels in batches:
        alone.append(torch.autograd.grad(reg(model(inputs).squeeze(1), labels), model.weight)[0])
    for inputs, labels in batches:
        (reg(model(inputs).squeeze(1), labels) / 4).backward()
    torch.testing.assert_close(model.weight.grad, torch.stack(alone).mean(0))


@pytest.mark.parametrize("labels", [[0, 0, 0], [1, 1, 1], []])
@pytest.mark.parametrize("width", [{"reach": 1.0}, {"gamma": 1.0}])
def test_one_class_alone_gives_a_zero_that_back_propagates(labels: list[int], width: dict[str, float]) -> None:
    scores = torch.randn(len(labels), requires_grad=True)
    value = RankReg(**width)(scores, torch.tensor(labels, dtype=torch.long))  # type: ignore[arg-type]
    value.backward()
    assert value == 0
    assert scores.grad is not None
    assert torch.equal(scores.grad, torch.zeros_like(scores))


def test_ranking_many_classes_goes_by_the_probability_of_the_critical_one() -> None:
    torch.manual_seed(3)
    logits, labels = torch.randn(20, 5, dtype=torch.float64), torch.arange(20) % 5
    probability = logits.softmax(1)[:, 2]
    torch.testing.assert_close(positive_score(logits, 2).sigmoid(), probability)
    for space in ("score", "probability"):
        value = as_published(positive=2, space=space)(logits, labels)
        ranks = brute_force_rank(probability) / 20
        torch.testing.assert_close(value, (ranks**2)[labels == 2].mean())


def test_half_precision_scores_are_ranked_in_float32() -> None:
    scores = torch.randn(16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = torch.nn.functional.linear(scores[:, None], torch.ones(1, 1)).squeeze(1)
        value = RankReg()(half, (torch.arange(16) < 4).long())
    assert half.dtype == torch.bfloat16
    assert value.dtype == torch.float32
    value.backward()


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("settings", [{"reach": 0.7}, {"gamma": 5.0}, {"among": "all"}])
def test_the_compiled_regulariser_equals_the_eager_one(settings: dict[str, object]) -> None:
    torch.manual_seed(4)
    reg = RankReg(margin=0.1, **settings)  # type: ignore[arg-type]
    compiled = torch.compile(reg, fullgraph=True)
    scores, labels = torch.randn(64), (torch.rand(64) < 0.3).long()
    value, gradient = scores_and_gradient(reg, scores, labels)
    torch.testing.assert_close(scores_and_gradient(compiled, scores, labels), (value, gradient))


def test_positives_closer_than_the_reach_are_drawn_together_even_on_top() -> None:
    scores = torch.tensor([0.1, 0.0, -1.0], dtype=torch.float64)  # ranks 1, 2, 3
    _, gradient = scores_and_gradient(as_published(reach=1.0), scores, torch.tensor([1, 1, 0]))
    push = torch.tensor([1 / 3, 2 / 3, 0.0], dtype=torch.float64)  # 2 r / |P|: the lower positive leaps over
    torch.testing.assert_close(gradient, brute_force_gradient(scores, push, gamma=1.5, scale=3.0))
    assert gradient[0] > 0  # descent lowers the best positive (docs/decisions/0053)
    assert gradient[1] < 0
    assert gradient[2] == 0


@given(st.integers(0, 10_000), st.floats(0.001, 10.0))
def test_by_default_it_pulls_no_sample_harder_than_bce_pulls_an_undecided_one(seed: int, deviation: float) -> None:
    """In a batch that is half buffer; as published it does, in a young network (docs/decisions/0053)."""
    labels = (torch.arange(64) < 32).long()
    scores = deviation * torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    _, bce = scores_and_gradient(
        binary_cross_entropy_with_logits, torch.zeros(64, dtype=torch.float64), labels.double()
    )
    _, gentle = scores_and_gradient(RankReg(), scores, labels)
    assert gentle.abs().max() <= bce.abs().max()
    _, strong = scores_and_gradient(as_published(), 1e-3 * scores / deviation, labels)
    assert strong.abs().max() > 2 * bce.abs().max()
