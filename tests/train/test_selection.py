# ruff: noqa: N806 - scikit-learn's name for the data is X
"""Which epoch is kept: the best on the validation part; of those that tie, the one with the lower loss."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from torch import nn

from rankreg.datasets.splits import Splits
from rankreg.distributed import World
from rankreg.estimators import RankRegClassifier
from rankreg.train import TrainConfig, train
from rankreg.train.loop import Training
from rankreg.train.task import complete, task_of

SCALES = (0.2, 1.0, 5.0, 1.0, 0.5)  # of one direction: all rank alike


def scaled_epochs(rows: Splits, selection: str, scales: tuple[float, ...] = SCALES) -> tuple[Training, list[float]]:
    """A run whose epochs are one linear model at several scales, and scikit-learn's log loss of each epoch."""
    config = TrainConfig.model_validate({"epochs": len(scales), "selection": selection, "precision": "float32"})
    task = task_of(rows, config)
    network = nn.Sequential(nn.Linear(64, 1), nn.Flatten(0))
    training = Training(rows, complete(config, task, rows["train"], own_model=True), task, network, World())
    found = LogisticRegression().fit(rows["train"].inputs(), rows["train"].labels)
    losses = []
    for scale in scales:
        weights = {"0.weight": torch.tensor(scale * found.coef_), "0.bias": torch.tensor(scale * found.intercept_)}
        network.load_state_dict(weights)
        training.end_epoch()
        part = rows["validation"]
        odds = scale * found.decision_function(part.inputs()).astype(np.float64)
        losses.append(float(log_loss(part.labels, 1 / (1 + np.exp(-odds)))))
    return training, losses


@pytest.mark.parametrize("selection", ["auc", "fpr"])
def test_of_epochs_that_rank_alike_the_one_of_least_loss_is_kept_then_the_later_one(
    rows: Splits, selection: str
) -> None:
    training, losses = scaled_epochs(rows, selection)
    found = [record["validation"] for record in training.history]
    assert len({record["auc"] for record in found}) == 1
    np.testing.assert_allclose([record["loss"] for record in found], losses, rtol=1e-4)
    assert int(np.argmin(losses)) in (1, 3)  # the same scale twice
    assert training.best is not None
    assert training.best["epoch"] == 3
    assert [record["better"] for record in training.history] == [True, True, False, True, False]


def test_the_last_epoch_is_kept_even_if_its_loss_is_higher(rows: Splits) -> None:
    training, losses = scaled_epochs(rows, "last")
    assert training.best is not None
    assert training.best["epoch"] == 4
    assert losses[4] > min(losses)


def test_a_better_rank_goes_before_a_lower_loss(rows: Splits) -> None:
    training, losses = scaled_epochs(rows, "auc", (-1.0, 1.0, 40.0, -0.01))
    assert training.best is not None
    assert training.best["epoch"] == 1
    assert losses[3] < losses[2]


def test_several_classes_have_their_cross_entropy_for_a_loss(classes: Splits, tmp_path: Path) -> None:
    run = train(classes, TrainConfig(epochs=2, precision="float32", selection="error"), tmp_path)
    kept = run.scores["validation"]
    odds = np.exp(kept.values.astype(np.float64))
    expected = log_loss(kept.labels, odds / odds.sum(axis=1, keepdims=True), labels=range(10))
    assert run.history[run.best_epoch]["validation"]["loss"] == pytest.approx(expected, rel=1e-4)


def test_a_checkpoint_from_before_losses_were_compared_goes_on(
    rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainConfig(epochs=4)
    end_epoch = Training.end_epoch

    def stop(training: Training) -> dict[str, Any]:
        if training.epoch == 2:
            raise RuntimeError("power cut")
        return end_epoch(training)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "end_epoch", stop)
        with pytest.raises(RuntimeError, match="power cut"):
            train(rows, config, tmp_path / "old")
    state = torch.load(tmp_path / "old/last.pt", weights_only=True)
    state["best"]["merit"] = state["best"]["merit"][:1]
    for record in state["history"]:
        del record["validation"]["loss"]
    torch.save(state, tmp_path / "old/last.pt")
    run = train(rows, config, tmp_path / "old")
    assert len(run.history) == 4
    areas = [record["validation"]["auc"] for record in run.history]
    assert areas[run.best_epoch] == max(areas)


def test_the_readmes_classifier_ends_with_a_trained_epoch() -> None:
    """Its validation AUC is 1 or almost 1 from the first epoch on."""
    X, digits = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, digits == 8, stratify=digits, random_state=0)
    model = RankRegClassifier(tpr=0.85, epochs=10, random_state=0).fit(X_train, y_train)
    assert model.history_[0]["validation"]["auc"] > 0.99
    assert model.best_epoch_ > 0
    assert roc_auc_score(y_test, model.decision_function(X_test)) > 0.98
