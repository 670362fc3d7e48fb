"""Old names, and files that an older version wrote: read, with a warning where a user should change something."""

import json
from pathlib import Path

import numpy as np
import optuna
import pytest
import torch

from rankreg.datasets.splits import Splits
from rankreg.scores import Scores
from rankreg.train import Interrupted, TrainConfig, score, train
from rankreg.train.config import renamed
from rankreg.train.inference import score_samples
from rankreg.train.loop import Training
from rankreg.train.run import train_in_memory
from rankreg.tune import Space
from rankreg.tune.search import claim_study

CONFIG = TrainConfig.model_validate({"epochs": 4, "optimizer": "adamw", "learning_rate": 0.01})


def test_optimiser_in_a_users_file_is_read_with_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('optimiser = "adamw"\n')
    with pytest.warns(FutureWarning, match="write 'optimizer'"):
        assert TrainConfig.from_toml(file).optimizer.name == "adamw"
    with pytest.raises(ValueError, match="optimiser2"):
        TrainConfig.model_validate({"optimiser2": "sgd"})


def test_optimiser_in_a_record_is_read_silently() -> None:
    old = {("optimiser" if key == "optimizer" else key): value for key, value in CONFIG.model_dump().items()}
    assert TrainConfig.model_validate(renamed(old)) == CONFIG


def as_older_versions_wrote_it(folder: Path) -> None:
    """Rename in the folder of a run what has another name today, and drop what is new."""
    held = json.loads((folder / "config.json").read_text())
    held["optimiser"] = held.pop("optimizer")
    del held["compile"]
    (folder / "config.json").write_text(json.dumps(held))
    state = torch.load(folder / "last.pt", weights_only=True)
    state["optimiser"] = state.pop("optimizer")
    torch.save(state, folder / "last.pt")


def test_a_run_that_an_older_version_began_goes_on_exactly(
    rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(rows, CONFIG, tmp_path / "whole")
    with monkeypatch.context() as patched:
        end_epoch = Training.end_epoch

        def stop(training: Training) -> object:
            if training.epoch == 2:
                raise Interrupted
            return end_epoch(training)

        patched.setattr(Training, "end_epoch", stop)
        with pytest.raises(Interrupted):
            train(rows, CONFIG, tmp_path / "cut")
    as_older_versions_wrote_it(tmp_path / "cut")
    again = train(rows, CONFIG, tmp_path / "cut")
    np.testing.assert_array_equal(again.scores["test"].values, whole.scores["test"].values)
    as_older_versions_wrote_it(tmp_path / "whole")
    assert train(rows, CONFIG, tmp_path / "whole").best_epoch == whole.best_epoch  # finished: it is read


def test_a_search_that_an_older_version_began_is_recognised() -> None:
    study, settings = optuna.create_study(), Space(CONFIG).settings()
    config = dict(settings["config"])
    config["optimiser"] = config.pop("optimizer")
    study.set_user_attr("rankreg", json.loads(json.dumps(settings | {"config": config})))
    claim_study(study, settings)


def test_old_functions_warn_and_give_the_same(rows: Splits) -> None:
    run = train(rows, CONFIG)
    with pytest.warns(FutureWarning, match=r"train\(splits, config\)"):
        old = train_in_memory(rows, CONFIG)
    assert old.best_epoch == run.best_epoch
    with pytest.warns(FutureWarning, match="score_samples"):
        labelled = score(run.model, rows["test"])  # type: ignore[arg-type]
    assert isinstance(labelled, Scores)
    np.testing.assert_array_equal(labelled.values, run.scores["test"].values)


def test_only_the_parts_asked_for_are_scored_and_others_can_follow(rows: Splits, tmp_path: Path) -> None:
    first = train(rows, CONFIG, tmp_path, score_parts=())
    assert first.scores == {}
    assert not list(tmp_path.glob("scores-*.npz"))
    again = train(rows, CONFIG, tmp_path)
    assert sorted(again.scores) == ["test", "validation"]
    values = score_samples(again.model, rows["test"]).values
    np.testing.assert_array_equal(again.scores["test"].values, values)
    np.testing.assert_array_equal(Scores.load(tmp_path / "scores-test.npz").values, values)
    np.testing.assert_array_equal(score(again.model, rows["test"].inputs()), values)


def test_weights_need_a_run_without_a_folder(rows: Splits, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="weights"):
        train(rows, CONFIG, tmp_path, weights=np.ones(len(rows["train"])))
