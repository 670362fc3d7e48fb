"""A search on small real data: what it looks at, what it remembers, what it gives up, where it goes on."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import OperationalError

from rankreg.datasets.splits import Samples, Splits
from rankreg.fit import Source
from rankreg.train import TrainConfig
from rankreg.tune import AlmGrid, Space, rank_trials
from rankreg.tune.results import write_results
from rankreg.tune.search import Job, open_study, run_trial
from rankreg.tune.search import search as run_search
from rankreg.tune.search_data import NamedData, SourceData, load_parts
from rankreg.tune.space import METHODS
from tests.own_data import write_table

BASE = TrainConfig.model_validate(
    {"epochs": 2, "batch_size": 128, "learning_rate": 0.01, "tpr": 0.9, "model": {"name": "mlp", "hidden": (8,)}}
)
DIGITS = NamedData("digits", ratio=50)


def request(
    out: Path,
    plan: Space | None = None,
    data: NamedData | SourceData = DIGITS,
    splits: int = 1,
    storage: str | None = None,
    study: str = "rankreg",
) -> Job:
    return Job(data, plan or Space(BASE, total=6), out, splits, storage, study)


def search(job: Job, **more: Any) -> list[FrozenTrial]:
    return run_search(job.data, job.plan, job.out, splits=job.splits, storage=job.storage, study=job.study, **more)


def outline(trials: list[FrozenTrial]) -> list[tuple[Any, ...]]:
    return [(trial.state, trial.params, trial.value, trial.intermediate_values) for trial in trials]


def test_a_storage_whose_tables_another_process_makes_meanwhile_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [OperationalError("CREATE TABLE studies", None, Exception("table studies already exists"))]

    def storage(*words: Any, **options: Any) -> RDBStorage:
        if late:
            raise late.pop()
        return RDBStorage(*words, **options)

    monkeypatch.setattr(sys.modules["rankreg.tune.search"], "RDBStorage", storage)
    assert open_study(None, tmp_path, "rankreg", seed=0).study_name == "rankreg"
    assert not late


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")  # threads share the filters
def test_a_waiting_trial_is_taken_by_one_process_only(tmp_path: Path) -> None:
    study = open_study(None, tmp_path, "rankreg", seed=0)
    for number in range(20):
        study.enqueue_trial({"number": number})
    together = Barrier(4, timeout=60)

    def take_five(_: int) -> list[int]:
        own = open_study(None, tmp_path, "rankreg", seed=0)
        together.wait()
        return [own.ask().number for _ in range(5)]

    with ThreadPoolExecutor(4) as askers:
        taken = [number for numbers in askers.map(take_five, range(4)) for number in numbers]
    assert sorted(taken) == list(range(20))


def test_every_method_is_tried_by_default_first_and_the_same_seed_gives_the_same_search(tmp_path: Path) -> None:
    first, second = (search(request(tmp_path / name)) for name in ("a", "b"))
    assert outline(first) == outline(second)
    assert [trial.params["method"] for trial in first[:5]] == ["none", *METHODS]
    assert [trial.params.get("sampling") for trial in first[:2]] == ["shuffled", "balanced"]
    assert len(first) == 6
    other = search(request(tmp_path / "c", Space(BASE.model_copy(update={"seed": 1}), total=6)))
    assert outline(other)[5:] != outline(first)[5:]


@pytest.mark.slow
def test_a_search_goes_on_where_it_stopped_and_a_dead_trial_neither_counts_nor_blocks(tmp_path: Path) -> None:
    whole = search(request(tmp_path / "whole", Space(BASE, total=7)))

    parted = request(tmp_path / "parted", Space(BASE, total=5))
    search(parted)
    study = parted.open()
    dead = study.ask()  # a process that was killed leaves its trial so
    dead.suggest_float("learning_rate", 0.001, 0.1, log=True)
    again = search(replace(parted, plan=Space(BASE, total=7)))
    assert outline(again) == outline(whole)
    states = [trial.state for trial in parted.open().get_trials()]
    assert states.count(TrialState.FAIL) == 1
    assert TrialState.RUNNING not in states
    assert outline(search(replace(parted, plan=Space(BASE, total=7)))) == outline(whole)  # nothing is left


def test_a_baseline_that_was_killed_is_run_again(tmp_path: Path) -> None:
    asked = request(tmp_path, Space(BASE, methods=("none",), total=2))
    search(replace(asked, plan=Space(BASE, methods=("none",), total=0)))
    assert asked.open().ask().user_attrs["fixed"] == "none by default"
    trials = {trial.user_attrs["fixed"]: trial.number for trial in search(asked)}
    assert trials == {"none, balanced": 1, "none by default": 2}


class NeverDone(AlmGrid):
    """A grid that was looked at a moment ago, when a trial was waiting."""

    def left(self, trials: Sequence[FrozenTrial]) -> int:
        return 1


@dataclass(frozen=True)
class Poisoned(NamedData):
    """Digits whose other parts hold wrong labels and inputs that no network survives."""

    def load(self, split: int) -> Splits:
        splits = super().load(split)
        source = splits["train"].source.copy()
        test = splits["test"]
        source[test.rows] = np.nan
        parts = {name: Samples(source, part.rows, part.labels, part.ids) for name, part in splits.parts.items()}
        parts["test"] = Samples(source, test.rows, 1 - test.labels, test.ids)
        return replace(splits, parts=parts)


@pytest.mark.slow
def test_the_test_part_is_never_looked_at(tmp_path: Path) -> None:
    clean = search(request(tmp_path / "clean", splits=2))
    poisoned = search(request(tmp_path / "poisoned", splits=2, data=Poisoned("digits", ratio=50)))
    assert outline(poisoned) == outline(clean)


@pytest.mark.slow
def test_rows_of_the_calibration_and_test_parts_of_a_file_change_nothing(tmp_path: Path) -> None:
    table = write_table(tmp_path / "data.csv", rows=300, positives=60)
    own = SourceData(Source(table, target="sick", drop=("name",), seed=3), tmp_path / "cache")
    clean = search(request(tmp_path / "clean", data=own, splits=2))
    held_out = {row for part in ("calibration", "test") for row in own.load(0)[part].rows}
    assert held_out == {row for part in ("calibration", "test") for row in own.load(1)[part].rows}
    assert {*own.load(0)["validation"].rows} != {*own.load(1)["validation"].rows}

    lines = table.read_text(encoding="utf-8").splitlines()
    for row in held_out:
        name, _, colour, weight, label = lines[row + 1].split(",")
        lines[row + 1] = ",".join((name, str(1000 + row), colour, weight, label))
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert outline(search(request(tmp_path / "poisoned", data=own, splits=2))) == outline(clean)


@pytest.mark.slow
def test_what_lags_behind_is_given_up_but_never_the_baseline(tmp_path: Path) -> None:
    wide = Space(BASE.model_copy(update={"epochs": 5}))
    trials = search(request(tmp_path, replace(wide, total=16)))
    states = [trial.state for trial in trials]
    assert TrialState.PRUNED in states
    for trial in trials:
        if trial.state is TrialState.PRUNED:
            assert "fixed" not in trial.user_attrs
            assert max(trial.intermediate_values, default=0) < 10 or "diverged" in trial.user_attrs
    assert all(trial.state is TrialState.COMPLETE for trial in trials if "fixed" in trial.user_attrs)
    result = rank_trials(trials, replace(wide, total=16))
    assert result.given_up + result.diverged == states.count(TrialState.PRUNED)
    assert result.best.value == min(trial.value for trial in trials if trial.value is not None)


def test_a_trial_that_diverges_is_given_up_and_counted(tmp_path: Path) -> None:
    wild = BASE.model_copy(update={"learning_rate": 1e30, "optimizer": BASE.optimizer})
    plan = Space(wild, methods=("none",), losses=("bce",), total=2)
    trials = search(request(tmp_path, plan))
    assert len(trials) == 2
    assert all("diverged" in trial.user_attrs for trial in trials)
    with pytest.raises(ValueError, match="2 diverged: lower learning_rate"):
        rank_trials(trials, plan)


def test_the_value_is_the_mean_over_splits_at_the_epoch_that_training_would_choose(tmp_path: Path) -> None:
    asked = request(tmp_path, Space(BASE, methods=("none",), losses=("bce",), total=1), splits=3)
    (trial,) = search(asked)
    splits = trial.user_attrs["splits"]
    assert len(splits) == 3
    assert trial.value == pytest.approx(np.mean([split["fpr"] for split in splits]), abs=1 / 243)
    assert max(trial.intermediate_values) == 30


@pytest.mark.slow
def test_the_grid_of_alm_runs_in_two_steps(tmp_path: Path) -> None:
    plan = AlmGrid(BASE.model_copy(update={"epochs": 1}))
    trials = search(request(tmp_path, plan))
    assert len(trials) == plan.total == 20
    points = {tuple(t.params[f"alm.{key}"] for key in ("rho", "mu", "delta")) for t in trials if len(t.params) > 1}
    assert len(points) == 19
    first = [t for t in trials if t.params.get("alm.delta") == 0.25]
    best = min(first, key=lambda t: (t.value if t.value is not None else 2, t.number))
    second = [t for t in trials if t.params.get("alm.delta") not in (None, 0.25)]
    assert {(t.params["alm.rho"], t.params["alm.mu"]) for t in second} == {
        (best.params["alm.rho"], best.params["alm.mu"])
    }
    result = rank_trials(trials, plan)
    assert result.best.config.method.name == "alm"
    assert result.baseline is not None
    assert result.baseline.config.method.name == "none"
    assert result.best.value == pytest.approx(1 - result.best.auc)


def test_another_search_in_the_same_place_is_refused(tmp_path: Path) -> None:
    search(request(tmp_path, Space(BASE, total=1)))
    with pytest.raises(ValueError, match=r"differs in losses: choose another --out"):
        search(request(tmp_path, Space(BASE, losses=("bce",), total=1)))
    other = BASE.model_copy(update={"tpr": 0.5, "learning_rate": 0.5})
    with pytest.raises(ValueError, match=r"differs in learning_rate, tpr: choose another --out"):
        search(request(tmp_path, Space(other, total=1)))
    with pytest.raises(ValueError, match=r"differs in data"):
        search(request(tmp_path, Space(BASE, total=1), data=NamedData("digits", ratio=20)))


@pytest.mark.slow
def test_two_folders_share_a_storage(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.sqlite3'}"
    search(request(tmp_path / "a", Space(BASE, total=3), storage=url, study="ours"))
    trials = search(request(tmp_path / "b", Space(BASE, total=6), storage=url, study="ours"))
    assert len(trials) == 6
    assert optuna.get_all_study_names(storage=url) == ["ours"]
    assert not (tmp_path / "a/study.sqlite3").exists()
    alone = search(request(tmp_path / "c"))
    assert outline(alone) == outline(trials)


def test_machines_that_start_at_once_run_no_baseline_twice(tmp_path: Path) -> None:
    plan = Space(BASE, methods=("none",), total=3)
    asked = request(tmp_path, plan, storage=f"sqlite:///{tmp_path / 'shared.sqlite3'}")
    search(replace(asked, plan=replace(plan, total=0)))  # the first one asks for both baselines
    for name, params in plan.wanted([]).items():
        asked.open().enqueue_trial(params, user_attrs={"fixed": name})  # so does one that has not seen it yet
    trials = search(asked)
    assert sorted(trial.user_attrs.get("fixed", "") for trial in trials) == [
        "",
        "none by default",
        "none, balanced",
    ]
    assert [trial.state for trial in asked.open().get_trials()].count(TrialState.FAIL) == 2


def test_a_grid_draws_no_trial_of_its_own(tmp_path: Path) -> None:
    asked = request(tmp_path, AlmGrid(BASE))
    study = asked.open()
    run_trial(
        study, NeverDone(BASE), load_parts(asked.data, asked.splits), lambda doing: None
    )  # others have taken the last one meanwhile
    assert [trial.state for trial in study.get_trials()] == [TrialState.FAIL]


def test_a_storage_that_cannot_be_opened_is_said_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no storage URL"):
        search(request(tmp_path, storage="nonsense"))
    with pytest.raises(ValueError, match=r"no driver for mysql\+nothing is installed") as said:
        search(request(tmp_path, storage="mysql+nothing://me:secret@host/base"))
    assert "secret" not in str(said.value)
    with pytest.raises(ValueError, match=r"cannot open the search in sqlite:///.*no/such/folder"):
        search(request(tmp_path, storage=f"sqlite:///{tmp_path}/no/such/folder/x.sqlite3"))
    (tmp_path / "study.sqlite3").write_bytes(b"not a data base" * 100)
    with pytest.raises(ValueError, match="cannot open the search in sqlite:"):
        search(request(tmp_path))


def test_results_are_files_to_go_on_with(tmp_path: Path) -> None:
    plan = Space(BASE, total=5)
    result = rank_trials(search(request(tmp_path, plan)), plan)
    write_results(tmp_path, result, tpr=0.9)
    best = TrainConfig.from_toml(tmp_path / "best.toml")
    assert best.model_copy(update={"tpr": 0.9}) == result.best.config
    assert TrainConfig.from_toml(tmp_path / "baseline.toml").method.name == "none"
    lines = (tmp_path / "trials.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(result.ranked)
    assert lines[1].startswith(f"{result.best.number},")
    assert not list(tmp_path.glob("*.unfinished"))


@pytest.mark.slow
def test_processes_share_the_trials_among_them(tmp_path: Path) -> None:
    trials = search(request(tmp_path, Space(BASE, total=6)), workers=2)
    assert len(trials) == 6
    fixed = sorted(trial.user_attrs["fixed"] for trial in trials if "fixed" in trial.user_attrs)
    assert fixed == sorted([*(f"{method} by default" for method in METHODS), "none, balanced"])
    alone = search(request(tmp_path / "alone", Space(BASE, total=5)))
    values = {trial.user_attrs["fixed"]: trial.value for trial in trials if "fixed" in trial.user_attrs}
    assert {trial.user_attrs["fixed"]: trial.value for trial in alone} == values


@pytest.mark.slow
def test_a_fault_in_a_process_is_said_here(tmp_path: Path) -> None:
    good = request(tmp_path, Space(BASE, total=4))
    parts = load_parts(good.data, good.splits)
    bad = replace(good, data=NamedData("melanoma", data_dir=tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="Melanoma is not in"):
        search(bad, parts=parts, workers=2)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_a_search_goes_on_when_a_worker_is_killed(tmp_path: Path) -> None:
    plan = Space(BASE.model_copy(update={"epochs": 8}), total=8)
    job = request(tmp_path, plan)
    killed: list[int] = []

    def kill_one() -> None:
        deadline = time.monotonic() + 240
        while not killed and time.monotonic() < deadline:
            time.sleep(0.1)
            with suppress(Exception):  # the study is being made
                if any(trial.state is TrialState.COMPLETE for trial in job.open().get_trials(deepcopy=False)):
                    crew = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
                    at_work = [pid for pid in crew if b"LokyProcess" in Path(f"/proc/{pid}/cmdline").read_bytes()]
                    os.kill(int(at_work[0]), signal.SIGKILL)
                    killed.append(int(at_work[0]))

    with ThreadPoolExecutor(1) as killer:
        killer.submit(kill_one)
        trials = search(job, workers=2)
    assert killed
    assert len(trials) >= 8
    fixed = sorted(trial.user_attrs["fixed"] for trial in trials if "fixed" in trial.user_attrs)
    assert fixed == sorted([*(f"{method} by default" for method in METHODS), "none, balanced"])
