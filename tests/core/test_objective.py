"""The objective adds named parts once, over the samples it is told to."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from rankreg import ALM, Objective, RankReg, make_loss
from rankreg.losses import cross_entropy as cross_entropy_per_sample

SCORES = torch.tensor([0.3, -1.2, 2.0, -0.4, 0.9, -2.0])
LABELS = torch.tensor([0, 1, 0, 0, 1, 1])


def test_the_total_is_the_sum_of_the_named_parts() -> None:
    term = RankReg(weight=0.7)
    terms = Objective(make_loss("bce"), term)(SCORES, LABELS)
    assert terms.parts.keys() == {"base", "rankreg"}
    torch.testing.assert_close(terms.parts["base"], binary_cross_entropy_with_logits(SCORES, LABELS.float()))
    torch.testing.assert_close(terms.parts["rankreg"], 0.7 * RankReg(weight=1.0)(SCORES, LABELS))
    torch.testing.assert_close(terms.total, terms.parts["base"] + terms.parts["rankreg"])


def test_without_a_term_the_total_is_the_base() -> None:
    terms = Objective(make_loss("a-fl"))(SCORES, LABELS)
    assert terms.parts.keys() == {"base"}
    assert terms.total == terms.parts["base"]


def test_alm_is_a_term_whose_state_is_saved_with_the_objective() -> None:
    objective = Objective(make_loss("bce"), ALM(6, mu=0.1))
    assert objective(SCORES, LABELS, torch.arange(6)).parts.keys() == {"base", "alm"}
    assert objective.state_dict()["term.multipliers"].sum() > 0


@pytest.mark.parametrize(("base_over", "samples"), [("union", 6), ("batch", 4)])
def test_the_base_loss_is_over_union_or_batch_and_the_term_always_over_the_union(
    base_over: str, samples: int
) -> None:
    objective = Objective(make_loss("bce"), RankReg(), base_over=base_over)  # type: ignore[arg-type]
    scores = SCORES.clone().requires_grad_()
    terms = objective(scores, LABELS, buffered=2)
    expected = binary_cross_entropy_with_logits(SCORES[:samples], LABELS[:samples].float())
    torch.testing.assert_close(terms.parts["base"], expected)
    torch.testing.assert_close(terms.parts["rankreg"], RankReg()(SCORES, LABELS))
    (base_gradient,) = torch.autograd.grad(terms.parts["base"], scores)
    assert (base_gradient != 0).sum() == samples


def test_a_batch_that_is_all_buffer_has_a_base_of_zero() -> None:
    terms = Objective(make_loss("bce"), base_over="batch")(SCORES, LABELS, buffered=6)
    assert terms.total == 0


def test_many_classes_use_the_same_objective() -> None:
    logits, labels = torch.randn(8, 3), torch.arange(8) % 3
    terms = Objective(cross_entropy_per_sample, RankReg(positive=2))(logits, labels)
    torch.testing.assert_close(terms.parts["base"], cross_entropy(logits, labels))
    torch.testing.assert_close(terms.parts["rankreg"], RankReg(positive=2)(logits, labels))


def test_everything_several_processes_share_goes_through_gather() -> None:
    """Two halves, gathered, give what one process gives for the whole."""
    halves = {"scores": SCORES.split(3), "labels": LABELS.split(3), "ids": torch.arange(6).split(3)}
    mask = torch.tensor([True, True, False])  # each half's last sample is buffered
    whole = {id(first): torch.cat([first, second]) for first, second in halves.values()}

    def gather(values: torch.Tensor) -> torch.Tensor:
        return torch.cat([mask, mask]) if values.dtype == torch.bool else whole[id(values)]

    gathered = Objective(make_loss("bce"), ALM(6, mu=0.1), base_over="batch", gather=gather)
    terms = gathered(halves["scores"][0], halves["labels"][0], halves["ids"][0], buffered=1)
    in_batch = torch.tensor([0, 1, 3, 4])
    expected = binary_cross_entropy_with_logits(SCORES[in_batch], LABELS[in_batch].float())
    torch.testing.assert_close(terms.parts["base"], expected)
    torch.testing.assert_close(terms.parts["alm"], ALM(6, mu=0.1)(SCORES, LABELS, torch.arange(6)))


def test_misuse_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="did you mean 'batch'"):
        Objective(make_loss("bce"), base_over="batches")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one loss per sample"):
        Objective(torch.nn.BCEWithLogitsLoss())(SCORES, LABELS.float())
    with pytest.raises(ValueError, match="buffered must lie in 0 … 6"):
        Objective(make_loss("bce"))(SCORES, LABELS, buffered=7)
