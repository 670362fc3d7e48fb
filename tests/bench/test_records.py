"""Records: whole, small, true to their plan, and enough to recompute every number from."""

import json
import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score, roc_curve

from rankreg.metrics import fpr_at_tpr
from rankreg.scores import Scores, joined
from rankreg_bench import runs
from rankreg_bench.estimates import measured
from rankreg_bench.grids import DATA, plan_run
from rankreg_bench.queue import Place, run_all
from rankreg_bench.records import Outcome, RecordFolder, compact, plan_of
from rankreg_bench.runs import perform

ROOT = Path(__file__).parents[2]
BINARY = plan_run("smoke", "cifar10-100", "bce", "rankreg", 0)
SEVERAL = plan_run("smoke", "cifar10-lt-100", "ce", "rankreg", 0)
PARTS = {"tuning": ("validation", "tuning"), "extended": ("test", "extended")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a record of either kind."""
    folder = tmp_path_factory.mktemp("made")
    run_all([BINARY, SEVERAL], Place(folder / "records", folder / "runs"), workers=1)
    return folder / "records"


@pytest.fixture(scope="module", params=["made", "committed"])
def folder(request: pytest.FixtureRequest, made: Path) -> Path:
    """Records made here, and those of the repository."""
    if request.param == "made":
        return made
    if not list(RecordFolder(ROOT / "records").files()):
        pytest.skip("no records here")
    return ROOT / "records"


def test_records_stay_under_sixty_megabytes(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 60_000_000


def test_every_record_is_where_its_own_plan_says(folder: Path) -> None:
    for path in RecordFolder(folder).files():
        record = RecordFolder.read_file(path)
        plan = plan_of(record)
        assert plan.hash == record["hash"]
        assert folder / f"{plan.name}.json" == path
        assert plan.data in DATA


def test_every_recorded_measure_can_be_recomputed_from_the_scores() -> None:
    records = RecordFolder(ROOT / "records")
    for path in records.files():
        record = RecordFolder.read_file(path)
        plan = plan_of(record)
        for name, expected in record.get("measures", {}).items():  # records of older versions have them
            scores = joined([records.by_part(plan)[part] for part in PARTS.get(name, (name,))])
            found = measured(DATA[plan.data], scores)
            if scores.values.ndim == 1:
                assert found == expected
            else:  # logits are kept as float16: a sample or two may change sides
                assert found == pytest.approx(expected, abs=0.5)


def test_measures_are_those_of_scikit_learn(made: Path) -> None:
    records = RecordFolder(made)
    scores = records.by_part(BINARY)["test"]
    found = measured(DATA[BINARY.data], scores)
    rates, hits, _ = roc_curve(scores.labels, scores.values, drop_intermediate=False)
    for tpr in (0.98, 0.95, 0.92):
        needed = math.ceil(tpr * scores.labels.sum() - 1e-9) / scores.labels.sum()
        expected = 100 * rates[np.flatnonzero(hits >= needed - 1e-12)[0]]
        assert found[f"fpr@{100 * tpr:.0f}"] == pytest.approx(expected, abs=1e-3)
    assert found["auc"] == pytest.approx(100 * roc_auc_score(scores.labels, scores.values), abs=1e-3)

    scores = records.by_part(SEVERAL)["test"]
    found = measured(DATA[SEVERAL.data], scores)
    assert found["accuracy"] == pytest.approx(100 * accuracy_score(scores.labels, scores.values.argmax(1)), abs=0.5)


def test_a_record_has_the_terms_of_the_loss_epoch_by_epoch(made: Path) -> None:
    record = RecordFolder(made).read(BINARY)
    losses, epochs = record["training_losses"], record["complete_config"]["epochs"]
    assert set(losses) == {"base", "rankreg"}
    assert all(len(values) == epochs and all(value > 0 for value in values) for values in losses.values())


def test_curves_end_where_the_recorded_scores_of_both_epochs_are(tmp_path: Path) -> None:
    small = plan_run("smoke", "cifar10-100", "bce", "buffer", 0)
    plan = replace(small, preset="converged", config={**small.config, "epochs": 4, "selection": "auc"})
    outcome = perform(plan, tmp_path / "run", None)
    RecordFolder(tmp_path).write(plan, outcome)
    curves, parts = outcome.record["curves"], RecordFolder(tmp_path).by_part(plan)
    assert {len(values) for measures in curves.values() for values in measures.values()} == {4}
    for name, epoch in (("test", outcome.record["best_epoch"]), ("last-test", 3)):
        area = roc_auc_score(parts[name].labels, parts[name].values.astype(np.float64))
        assert curves["official"]["auc"][epoch] == pytest.approx(100 * area, abs=0.05)
        assert curves["official"]["fpr@95"][epoch] == pytest.approx(
            100 * fpr_at_tpr(parts[name].labels, parts[name].values, 0.95), abs=0.3
        )
    assert parts["last-test"].values.dtype == np.float16


def test_runs_on_the_same_samples_share_one_file_of_them(tmp_path: Path) -> None:
    records, rng = RecordFolder(tmp_path), np.random.default_rng(0)
    for split in range(3):
        scores = Scores(np.arange(50), np.arange(50) % 2, rng.normal(size=50))
        plan = plan_run("smoke", "cifar10-100", "bce", "base", split)
        records.write(plan, Outcome({"hash": plan.hash}, {"test": scores}))
        np.testing.assert_array_equal(records.by_part(plan)["test"].values, compact(scores.values))
        np.testing.assert_array_equal(records.by_part(plan)["test"].ids, scores.ids)
    assert len(list((tmp_path / "samples").iterdir())) == 1
    assert not list(tmp_path.rglob("*.unfinished"))


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for content, words in {
        "{": "is not a record or is damaged",
        "\udcff": "is not a record or is damaged",
        "[" * 100_000: "is not a record or is damaged",
        "[1]": "holds no JSON object",
        json.dumps({"format": 99}): "has format 99",
    }.items():
        path.write_bytes(content.encode(errors="surrogateescape"))
        with pytest.raises(ValueError, match=words):
            RecordFolder.read_file(path)


def test_a_damaged_file_is_named_with_what_to_do_and_running_again_mends_it(tmp_path: Path) -> None:
    records, plan = RecordFolder(tmp_path), plan_run("smoke", "cifar10-100", "bce", "base", 0)
    scores = Scores(np.arange(500), np.arange(500) % 2, np.random.default_rng(0).normal(size=500))
    outcome = Outcome({"hash": plan.hash}, {"test": scores})
    records.write(plan, outcome)
    record = tmp_path / f"{plan.name}.json"
    values, (samples,) = record.with_suffix(".npz"), (tmp_path / "samples").iterdir()
    for path, removed in ((values, [record]), (samples, [samples, record])):
        whole = path.read_bytes()
        cut = len(whole) // 2
        inflated = whole.replace(whole[80:90], b"\xff" * 10)  # no longer what zlib wrote
        for content in (b"", b"no archive", whole[:cut], whole[cut:], inflated, None):
            path.unlink() if content is None else path.write_bytes(content)
            with pytest.raises(ValueError, match=r"is missing or damaged \(.*delete .*run again") as found:
                records.by_part(plan)
            assert all(str(one) in str(found.value) for one in removed)
            for one in removed:
                one.unlink(missing_ok=True)
            records.write(plan, outcome)
            np.testing.assert_array_equal(records.by_part(plan)["test"].values, compact(scores.values))
    record.write_text(json.dumps({"format": 1}))
    with pytest.raises(ValueError, match="names no samples; delete it"):
        records.by_part(plan)


def test_a_record_names_the_commit_that_its_process_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = iter("ab")
    monkeypatch.setattr(runs, "_git", lambda *words: next(commits) if "HEAD" in words else None)
    runs.provenance.cache_clear()
    plans = [plan_run("smoke", "cifar10-100", "bce", "base", split) for split in range(2)]
    found = [runs.perform(plan, tmp_path / str(plan.split), None).record["commit"] for plan in plans]
    runs.provenance.cache_clear()
    assert found == ["a", "a"]


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_rankregs_own_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    for place, own in {
        "src/rankreg_bench": True,
        ".venv/lib/python3.11/site-packages/rankreg_bench": False,  # committed by somebody
        "vendored/src/rankreg_bench": False,
    }.items():
        (tmp_path / place).mkdir(parents=True)
        shutil.copy(runs.__file__, tmp_path / place / "runs.py")
        git(tmp_path, "add", "--all", "--force")
        git(tmp_path, "commit", "-qm", place)
        monkeypatch.setattr(runs, "__file__", str(tmp_path / place / "runs.py"))
        assert runs.provenance.__wrapped__()["commit"] == (git(tmp_path, "rev-parse", "HEAD") if own else None)
        monkeypatch.undo()


def test_changes_that_were_not_committed_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "src/rankreg_bench/runs.py"
    file.parent.mkdir(parents=True)
    shutil.copy(runs.__file__, file)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "-qm", "first")
    monkeypatch.setattr(runs, "__file__", str(file))
    (tmp_path / "notes").write_text("no source")
    assert runs.provenance.__wrapped__()["changed_since"] is False
    file.write_text("# another\n")
    assert runs.provenance.__wrapped__()["changed_since"] is True
