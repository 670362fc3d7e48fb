"""Training without files, and with weights: what the scikit-learn estimator rests on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from rankreg import Objective, RankReg, make_loss
from rankreg.distributed import World
from rankreg.models import build_model
from rankreg.train import Run, TrainConfig, score, train
from rankreg.train.loop import Training
from rankreg.train.task import complete, task_of
from tests.train.conftest import digit_splits

SETTINGS = {
    "epochs": 3,
    "learning_rate": 0.01,
    "method": "rankreg",
    "precision": "float32",
    "model": {"name": "mlp", "hidden": (16,), "dropout": 0.2},
}
CONFIG = TrainConfig.model_validate(SETTINGS)


def weights_of(trained: Run) -> torch.Tensor:
    return torch.cat([value.flatten() for value in trained.model.state_dict().values()])


def test_a_run_in_memory_ends_with_the_network_of_the_same_run_on_disk(tmp_path: Path) -> None:
    splits = digit_splits()
    on_disk, in_memory = train(splits, CONFIG, tmp_path / "run"), train(splits, CONFIG)
    assert in_memory.best_epoch == on_disk.best_epoch
    assert in_memory.config == on_disk.config
    found = score(in_memory.model, splits["test"].inputs(), precision="float32")
    np.testing.assert_array_equal(found, on_disk.scores["test"].values)


def test_patience_ends_a_run_in_memory() -> None:
    trained = train(digit_splits(), CONFIG.model_copy(update={"epochs": 60, "patience": 2}))
    assert len(trained.history) == trained.best_epoch + 3 < 60


def test_the_objective_multiplies_each_base_loss_by_its_weight_and_leaves_the_term_alone() -> None:
    scores, labels = torch.tensor([0.3, -1.2, 2.0, -0.4]), torch.tensor([0, 1, 0, 1])
    weights = torch.tensor([0.5, 3.0, 0.0, 0.5])
    terms = Objective(make_loss("bce"), RankReg())(scores, labels, weights=weights)
    losses = binary_cross_entropy_with_logits(scores, labels.float(), reduction="none")
    assert float(terms.parts["base"]) == pytest.approx(np.average(losses.numpy(), weights=weights.numpy()))
    torch.testing.assert_close(terms.parts["rankreg"], RankReg()(scores, labels))
    with pytest.raises(ValueError, match=r"shape \(4,\), got \(4, 1\)"):
        Objective(make_loss("bce"))(scores, labels, weights=weights[:, None])


def test_equal_weights_of_any_size_change_nothing_and_others_do() -> None:
    splits = digit_splits()
    plain = weights_of(train(splits, CONFIG))
    equal = np.full(len(splits["train"]), 7.0)
    assert torch.equal(plain, weights_of(train(splits, CONFIG, weights=equal)))
    other = np.where(splits["train"].labels == 1, 5.0, 1.0)
    assert not torch.allclose(plain, weights_of(train(splits, CONFIG, weights=other)))


def test_weights_follow_their_samples_into_the_buffer() -> None:
    """In the second step the base loss over batch and buffer equals the weighted one computed by hand."""
    splits = digit_splits()
    samples = splits["train"]
    config = CONFIG.model_copy(update={"batch_size": 256})
    task = task_of(splits, config)
    config = complete(config, task, samples, own_model=False)
    assert config.model is not None
    torch.manual_seed(0)
    weights = np.random.default_rng(0).uniform(0.1, 5, len(samples))
    training = Training(splits, config, task, build_model(config.model), World(), weights=weights)
    seen: list[tuple[torch.Tensor, ...]] = []
    inner = training.objective.forward

    def watched(scores, labels, ids, *, buffered, weights):  # type: ignore[no-untyped-def]
        terms = inner(scores, labels, ids, buffered=buffered, weights=weights)
        seen.append((scores.detach(), labels, ids, torch.tensor(buffered), terms.parts["base"].detach()))
        return terms

    training.objective.forward = watched  # type: ignore[assignment, method-assign]
    training.start_epoch()
    for batch in training.batches.epoch(0):
        training.step(batch)
    scores, labels, ids, buffered, base = seen[1]
    assert int(buffered) > 0
    losses = binary_cross_entropy_with_logits(scores, labels.float(), reduction="none")
    relative = torch.from_numpy(weights / weights.mean()).float()[ids]
    torch.testing.assert_close(base, (relative * losses).sum() / len(losses))


@pytest.mark.parametrize("bad", [[1.0], [-1.0] * 3, [0.0] * 3, [np.nan] * 3])
def test_weights_that_make_no_sense_are_refused(bad: list[float]) -> None:
    splits = digit_splits()
    weights = np.resize(bad, len(splits["train"]) if len(bad) > 1 else 5)
    with pytest.raises(ValueError, match="finite numbers of at least 0, one per training sample"):
        train(splits, CONFIG, weights=weights)
