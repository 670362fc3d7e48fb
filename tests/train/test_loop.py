"""The loop against a loop written out by hand, and on small real data."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from rankreg.datasets.splits import Splits
from rankreg.distributed import World
from rankreg.models import Pixels
from rankreg.scores import Scores
from rankreg.train import TrainConfig, train
from rankreg.train.inference import score_samples
from rankreg.train.loop import Training
from rankreg.train.task import complete, task_of


def config_of(**settings: Any) -> TrainConfig:
    return TrainConfig.model_validate({"epochs": 3, "learning_rate": 0.05, **settings})


def linear() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 1), nn.Flatten(0))


def last_weights(folder: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = torch.load(folder / "last.pt", weights_only=True)["model"]
    return weights


def test_without_a_method_it_is_the_plain_loop(rows: Splits, tmp_path: Path) -> None:
    train(rows, config_of(seed=5, precision="float32"), tmp_path, model=linear())

    model, data = linear(), rows["train"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=2e-4)
    for epoch in range(3):
        order = np.random.default_rng([5, epoch]).permutation(len(data))
        for positions in np.array_split(order, -(-len(data) // 64)):
            inputs, labels = torch.from_numpy(data.inputs(positions)), torch.from_numpy(data.labels[positions])
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(model(inputs), labels.float()).backward()
            optimizer.step()
    for name, value in last_weights(tmp_path).items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-4, atol=1e-6)


def test_the_cosine_schedule_falls_from_the_rate_to_nearly_zero(rows: Splits, tmp_path: Path) -> None:
    run = train(rows, config_of(schedule="cosine", epochs=4), tmp_path)
    ends = [record["rate"] for record in run.history]  # after each epoch
    expected = 0.05 * (1 + np.cos(np.pi * np.array([0.25, 0.5, 0.75, 1]))) / 2
    np.testing.assert_allclose(ends, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "rate", "sampling"),
    [("ldam", 0.003, "balanced"), ("a-fl", 0.02, "balanced"), ("w-bce", 0.02, "shuffled")],
)
def test_other_losses_learn_it_too(rows: Splits, tmp_path: Path, loss: str, rate: float, sampling: str) -> None:
    run = train(rows, config_of(loss=loss, learning_rate=rate, epochs=12, sampling=sampling), tmp_path)
    test = run.scores["test"]
    assert roc_auc_score(test.labels, test.values) > 0.9
    assert loss != "ldam" or np.abs(test.values).max() <= 2


@pytest.mark.parametrize("method", ["none", "buffer", "rankreg", "alm"])
def test_every_method_learns_a_rare_digit(rows: Splits, tmp_path: Path, method: str) -> None:
    run = train(rows, config_of(method=method, epochs=12), tmp_path)
    test = run.scores["test"]
    assert roc_auc_score(test.labels, test.values) > 0.9
    assert set(run.history[0]["train"]) == {"base", *({method} & {"rankreg", "alm"})}


def test_the_folder_holds_everything_and_the_best_epoch_is_the_validation_s(rows: Splits, tmp_path: Path) -> None:
    run = train(rows, config_of(epochs=6), tmp_path)
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert records == run.history
    aucs = [record["validation"]["auc"] for record in records]
    assert aucs[run.best_epoch] == max(aucs)
    for part in ("validation", "test"):
        saved = Scores.load(tmp_path / f"scores-{part}.npz")
        np.testing.assert_array_equal(saved.values, run.scores[part].values)
        np.testing.assert_array_equal(saved.ids, rows[part].ids)
    found = run.scores["validation"]
    assert roc_auc_score(found.labels, found.values) == pytest.approx(max(aucs), abs=1e-12)
    assert TrainConfig.model_validate_json((tmp_path / "config.json").read_text()) == run.config
    np.testing.assert_array_equal(score_samples(run.model, rows["test"]).values, run.scores["test"].values)
    assert not list(tmp_path.glob("*.unfinished"))


def test_selection_by_fpr_breaks_ties_by_auc(rows: Splits, tmp_path: Path) -> None:
    run = train(rows, config_of(epochs=8, selection="fpr", tpr=0.9), tmp_path)
    merits = [(-record["validation"]["fpr"], record["validation"]["auc"]) for record in run.history]
    assert merits[run.best_epoch] == max(merits)


def test_selection_by_error_keeps_the_epoch_in_which_the_other_classes_are_told_best(
    classes: Splits, tmp_path: Path
) -> None:
    run = train(classes, config_of(epochs=8, selection="error", tpr=0.8), tmp_path)
    errors = [record["validation"]["error"] for record in run.history]
    assert errors[run.best_epoch] == min(errors) < errors[0]
    kept = run.scores["validation"]
    others = np.exp(np.delete(kept.values, 8, axis=1)).sum(axis=1)
    odds, is_critical = np.exp(kept.values[:, 8]) / others, kept.labels == 8
    threshold = np.sort(odds[is_critical])[::-1][int(np.ceil(0.8 * is_critical.sum())) - 1]
    guess = np.where(odds >= threshold, 8, np.delete(np.arange(10), 8)[np.delete(kept.values, 8, axis=1).argmax(1)])
    wrong = [np.mean(guess[kept.labels == label] != label) for label in range(10) if label != 8]
    assert np.mean(wrong) == pytest.approx(errors[run.best_epoch], abs=1e-9)


def test_the_last_epoch_is_kept_whatever_its_results(rows: Splits, tmp_path: Path) -> None:
    run = train(rows, config_of(epochs=6, learning_rate=0.5, selection="last"), tmp_path)
    aucs = [record["validation"]["auc"] for record in run.history]
    assert run.best_epoch == 5
    assert aucs[5] < max(aucs)  # by AUC another one would have been
    found = run.scores["validation"]
    assert roc_auc_score(found.labels, found.values) == pytest.approx(aucs[5], abs=1e-12)
    with pytest.raises(ValueError, match="selection 'last' takes no patience"):
        config_of(selection="last", patience=2)


def test_patience_ends_a_run_that_no_longer_improves(rows: Splits, tmp_path: Path) -> None:
    run = train(rows, config_of(epochs=200, patience=2), tmp_path)
    assert len(run.history) == run.best_epoch + 3 < 200


def test_buffered_positives_are_raw_and_augmented_afresh(images: Splits) -> None:
    config = config_of(
        method="rankreg", batch_size=32, augmentation="cifar", model={"name": "resnet10", "width": 0.05}
    )
    task = task_of(images, config)
    seen: list[Tensor] = []
    network = nn.Sequential(Pixels(), nn.Flatten(), nn.Linear(192, 1), nn.Flatten(0))
    training = Training(images, complete(config, task, images["train"], own_model=False), task, network, World())
    network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].clone()))
    for epoch in range(3):
        for batch in training.batches.epoch(epoch):
            training.step(batch)
    raw, ids = training.buffer.inputs
    source = images["train"].inputs(ids.numpy())
    np.testing.assert_array_equal(raw.permute(0, 2, 3, 1).numpy(), source)
    assert (images["train"].labels[ids.numpy()] == 1).all()
    held = len(seen[-1]) - 32
    assert held > 10
    assert not torch.equal(seen[-1][-held:], seen[-2][-held:])


def test_a_unique_buffer_holds_no_sample_twice(rows: Splits) -> None:
    for unique in (False, True):
        config = config_of(method={"name": "buffer", "buffer": {"capacity": 32, "unique": unique}})
        task = task_of(rows, config)
        training = Training(rows, complete(config, task, rows["train"], own_model=True), task, linear(), World())
        for epoch in range(6):
            for batch in training.batches.epoch(epoch):
                training.step(batch)
        ids = training.buffer.inputs[1]
        positives = int((rows["train"].labels == 1).sum())
        assert (len(ids), len(ids.unique())) == (positives, positives) if unique else len(ids) == 32


def test_the_multipliers_of_the_positives_grow(rows: Splits, tmp_path: Path) -> None:
    train(rows, config_of(method={"name": "alm", "mu": 1e-4}, epochs=4), tmp_path)
    state = torch.load(tmp_path / "last.pt", weights_only=True)["objective"]
    positive = torch.from_numpy(rows["train"].labels == 1)
    assert len(state["term.multipliers"]) == len(positive)
    assert (state["term.multipliers"][positive] > 0).all()
    assert (state["term.multipliers"][~positive] == 0).all()
    assert int(state["term.epoch"]) == 4
    assert float(state["term.mu"]) == pytest.approx(2e-4)  # doubled after the third epoch


@pytest.mark.parametrize("method", ["none", "rankreg", "alm"])
def test_many_classes_with_one_critical(classes: Splits, tmp_path: Path, method: str) -> None:
    run = train(classes, config_of(method=method, epochs=10), tmp_path)
    test = run.scores["test"]
    assert test.values.shape == (len(test), 10)
    assert np.mean(test.values.argmax(axis=1) == test.labels) > 0.8
    exponentials = np.exp(test.values - test.values.max(axis=1, keepdims=True))
    probability = exponentials[:, 8] / exponentials.sum(axis=1)
    assert roc_auc_score(test.labels == 8, probability) > 0.95
    assert set(run.history[0]["validation"]) == {"auc", "fpr", "accuracy", "error", "loss"}


def test_the_critical_class_can_be_chosen(classes: Splits, tmp_path: Path) -> None:
    run = train(classes, config_of(critical=3, method="rankreg"), tmp_path)
    found = run.scores["validation"]
    z = found.values.astype(np.float64)
    margin = z[:, 3] - np.log(np.exp(np.delete(z, 3, axis=1)).sum(axis=1))
    best = run.history[run.best_epoch]["validation"]["auc"]
    assert roc_auc_score(found.labels == 3, margin) == pytest.approx(best, abs=1e-4)


def test_images_are_learned_in_both_precisions(images: Splits, tmp_path: Path) -> None:
    settings = {"model": {"name": "resnet10", "width": 0.125}, "sampling": "balanced", "epochs": 4}
    for precision in ("float32", "bfloat16"):
        run = train(images, config_of(precision=precision, **settings), tmp_path / precision)
        test = run.scores["test"]
        assert test.values.dtype == np.float32
        assert len(np.unique(test.values)) > 0.9 * len(np.unique(images["test"].inputs(), axis=0))
        assert roc_auc_score(test.labels, test.values) > 0.7


def test_the_global_generator_is_left_alone(rows: Splits, tmp_path: Path) -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    train(rows, config_of(epochs=1), tmp_path)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(64, 1), r"returned shape \(2, 1\).*squeeze"),
        (nn.Linear(63, 1), "cannot take the data"),
    ],
)
def test_a_network_of_the_wrong_shape_is_refused_before_training(
    rows: Splits, tmp_path: Path, model: nn.Module, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        train(rows, config_of(), tmp_path, model=model)
    with pytest.raises(ValueError, match="not both"):
        train(rows, config_of(model="mlp"), tmp_path, model=linear())


def test_a_network_without_pixels_is_told_what_images_are(images: Splits, tmp_path: Path) -> None:
    bare = nn.Sequential(nn.Conv2d(3, 1, 8), nn.Flatten(0))
    with pytest.raises(ValueError, match=r"uint8 images.*put Pixels\(\) before it"):
        train(images, config_of(), tmp_path / "a", model=bare)
    train(images, config_of(epochs=1), tmp_path / "b", model=nn.Sequential(Pixels("imagenet"), bare))
