"""Finished runs, run again from their records alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from rankreg.train import TrainConfig
from rankreg_bench.grids import plan_run
from rankreg_bench.queue import Place, run_all
from rankreg_bench.records import RecordFolder
from rankreg_bench.runs import as_meant, flat, machine, missing_data, verify
from tests.conftest import Run
from tests.datasets.conftest import cifar, shared_data  # noqa: F401 - fixtures

PLANS = [
    plan_run("smoke", "cifar10-100", "bce", "rankreg", 1),
    plan_run("smoke", "cifar10-lt-100", "ce", "alm", 0),
]
LONGEST = 150  # seconds of a run that a test may repeat; `rankreg bench verify` repeats any
COMMITTED = Path(__file__).parents[2] / "records"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two records."""
    folder = tmp_path_factory.mktemp("made")
    run_all(PLANS, Place(folder / "records", folder / "runs"), workers=1)
    return folder / "records"


@pytest.fixture
def records(made: Path, tmp_path: Path) -> Path:
    """The same records, to be tampered with."""
    return Path(shutil.copytree(made, tmp_path / "records"))


@pytest.mark.parametrize("name", [plan.name for plan in PLANS])
def test_a_run_of_its_record_gives_the_very_same_scores(records: Path, name: str, run: Run) -> None:
    status, said, _ = run("bench", "verify", name, "--tolerance", "0")
    assert status == 0
    assert f"{name}: the same, largest difference of a score 0 (" in said
    assert "test 0" in said


def test_records_are_drawn_at_random(records: Path, run: Run) -> None:
    status, said, _ = run("bench", "verify", "--random", "7")
    assert status == 0
    assert said.count("the same") == len(PLANS)


def test_records_of_such_a_machine_are_drawn_first(records: Path, run: Run) -> None:
    for plan in PLANS:
        path = records / f"{plan.name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"machine": "VAX"}))
        said = run("bench", "verify", "--random", "7")[1]
        assert said.count("the same") == (1 if plan is PLANS[0] else len(PLANS))  # all of them, where none is


def test_other_scores_are_found_out(records: Path, run: Run) -> None:
    path = records / f"{PLANS[0].name}.npz"
    with np.load(path) as file:
        values = dict(file)
    values["test"][3] += 0.5
    np.savez_compressed(path, allow_pickle=False, **values)
    status, said, _ = run("bench", "verify", str(path.with_name(path.name.removesuffix(".npz") + ".json")))
    assert status == 1
    assert "DIFFERENT, largest difference of a score 0.5 (" in said
    assert "validation 0" in said
    assert run("bench", "verify", PLANS[0].name, "--tolerance", "0.6")[0] == 0


def test_other_versions_are_named(records: Path, run: Run) -> None:
    path = records / f"{PLANS[0].name}.json"
    record = json.loads(path.read_text())
    record["versions"]["torch"], record["commit"], record["machine"] = "1.0", "f" * 40, "VAX"
    path.write_text(json.dumps(record))
    status, said, _ = run("bench", "verify", PLANS[0].name)
    assert status == 0
    assert "commit ffffffffff, now" in said
    assert "torch 1.0, now" in said
    assert "machine VAX, now" in said
    assert "numpy" not in said


def test_a_record_that_was_edited_is_refused(records: Path, run: Run) -> None:
    path = records / f"{PLANS[0].name}.json"
    record = json.loads(path.read_text())
    record["config"]["learning_rate"] = 0.5
    path.write_text(json.dumps(record))
    status, _, said = run("bench", "verify", PLANS[0].name)
    assert status == 2
    assert "does not fit its own config" in said
    path.write_text("[]")
    assert run("bench", "verify", PLANS[0].name)[0] == 2
    path.write_text(json.dumps({"format": 1}))
    assert "the record lacks preset" in run("bench", "verify", PLANS[0].name)[2]


def test_a_config_that_comes_to_something_else_now_is_named(records: Path, run: Run) -> None:
    path = records / f"{PLANS[0].name}.json"
    record = json.loads(path.read_text())
    record["complete_config"]["method"]["margin"] = 0.7
    path.write_text(json.dumps(record))
    assert "method.margin 0.7, now 0.0" in run("bench", "verify", PLANS[0].name)[1]


def test_every_committed_config_still_comes_to_what_was_run() -> None:
    """A record's hash covers what its config says, not what a default was at the time."""
    newer = {"method.among": "all"}  # keys that did not exist yet, with what was done then
    for path in RecordFolder(COMMITTED).files():
        record = RecordFolder.read_file(path)
        config = TrainConfig.model_validate(as_meant(record["config"]))
        then, now = flat(record["complete_config"]), flat(config.model_dump())
        for key in now.keys() & (then.keys() | newer.keys()):
            if not key.startswith(("loss", "model")):  # the data fill these in
                assert now[key] == then.get(key, newer.get(key)), f"{path}: {key}"


def test_a_record_that_is_not_there_is_an_error(records: Path, run: Run) -> None:
    status, _, said = run("bench", "verify", "nothing")
    assert status == 2
    assert "no record nothing" in said


def test_no_records_is_an_error(run: Run) -> None:
    status, _, said = run("bench", "verify")
    assert status == 2
    assert "holds no records" in said


@pytest.mark.slow
def test_the_cheapest_run_that_was_recorded_on_such_a_machine_gives_the_same_scores(cifar: Path) -> None:  # noqa: F811
    records = {path: RecordFolder.read_file(path) for path in RecordFolder(COMMITTED).files()}
    seconds = {
        path: record["seconds"]["training"]
        for path, record in records.items()
        if record["machine"] == machine()
        and not missing_data([record["loader"]], cifar)
        and not record["config"].get("compile")  # takes minutes, and needs a C++ compiler
    }
    seconds = {path: time for path, time in seconds.items() if time <= LONGEST}
    if not seconds:
        pytest.skip(f"no committed record of a short run was made on {machine()} from data that are here")
    assert verify(min(seconds, key=lambda path: seconds[path]), cifar).difference <= 1e-3
