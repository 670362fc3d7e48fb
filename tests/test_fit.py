"""From one's own data to a bundle: parts that never meet, an honest threshold, and faults said in words."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rankreg.bundle import files, load_bundle
from rankreg.fit import DEFAULTS, Source, fit, load_source, settings
from rankreg.fit.pipeline import SLACK, choose_threshold
from rankreg.operating import certify
from rankreg.scores import Scores
from tests.own_data import CommandLine, command, run_command, shared_data, write_images, write_table


@pytest.fixture
def rankreg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process."""
    return CommandLine(monkeypatch, capsys)


def scores_of(seed: int, positives: int) -> Scores:
    rng = np.random.default_rng(seed)
    labels = (np.arange(300) < positives).astype(np.int64)
    return Scores(np.arange(300), labels, (rng.normal(size=300) + labels).astype(np.float32))


def test_a_certified_threshold_is_the_desks_less_a_hair() -> None:
    calibration = scores_of(0, 100)
    point = certify(calibration.labels, calibration.values, tpr=0.9, confidence=0.95)
    found = choose_threshold(calibration, tpr=0.9, confidence=0.95)
    assert found.certified
    assert found.value == pytest.approx(point.threshold - SLACK * max(1, abs(point.threshold)))
    assert found.certificate is not None
    assert found.certificate["recall"] == point.recall


def test_too_few_positives_leave_the_threshold_uncertified_and_say_what_it_takes() -> None:
    calibration = scores_of(1, 20)
    found = choose_threshold(calibration, tpr=0.98, confidence=0.95)
    assert not found.certified
    assert found.certificate is None
    assert found.positives_needed == 149  # the least n with 0.98^n ≤ 0.05
    assert found.highest_tpr == pytest.approx(0.05 ** (1 / 20))
    caught = calibration.values[calibration.labels == 1] >= found.value
    assert caught.mean() >= 0.98


def test_options_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('epochs = 7\nbatch_size = 9\n[model]\nname = "mlp"\ndropout = 0.5\n')
    config = settings("table", 0.98, file=tmp_path / "own.toml", epochs=3, method="buffer", loss=None)
    assert (config.epochs, config.batch_size, config.method.name) == (3, 9, "buffer")
    assert config.model is not None
    assert config.model.model_dump(include={"hidden", "dropout"}) == {"hidden": (64, 64), "dropout": 0.5}
    assert config.learning_rate == DEFAULTS["table"]["learning_rate"]


def test_large_images_get_the_stem_that_shrinks_them_first() -> None:
    stems = [settings("image", 0.98, size=size, model="resnet18").model for size in (32, 64)]
    assert [stem.stem for stem in stems if stem is not None and stem.name != "mlp"] == ["cifar", "imagenet"]


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("epoch = 7\n")
    with pytest.raises(ValueError, match="epoch"):
        settings("table", 0.98, file=tmp_path / "own.toml")
    with pytest.raises(ValueError, match="did you mean 'a-fl'"):
        settings("table", 0.98, loss="afl")


def test_a_table_becomes_a_bundle_that_the_whole_command_line_can_use(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("fit", data, "--target", "sick", "--id", "name", "--tpr", "0.7", "--epochs", 4, "--seed", 3)
    status, said, _ = rankreg(*arguments, "--out", tmp_path / "out")
    assert status == 0
    assert "certified: at least 70 % of new positives" in said
    assert f"rankreg predict {tmp_path / 'out'} NEW_DATA --out scores.csv" in said

    calibration = pd.read_csv(tmp_path / "out/calibration-scores.csv")
    card = load_bundle(tmp_path / "out").card
    assert sum(part["samples"] for part in card.parts.values()) == 400
    positives = calibration.score[calibration.label == 1]
    assert (positives >= card.threshold.value).mean() >= 0.7
    status, said, _ = rankreg(
        "certify", tmp_path / "out/calibration-scores.csv", "--label", "label", "--score", "score", "--tpr", "0.7"
    )
    assert status == 0

    before = (tmp_path / "out/bundle/bundle.json").read_bytes()
    assert rankreg(*arguments, "--out", tmp_path / "out")[0] == 0
    assert (tmp_path / "out/bundle/bundle.json").read_bytes() == before

    weights = (tmp_path / "out/bundle/model.safetensors").read_bytes()
    status, said, _ = rankreg(*arguments, "--tpr", "0.99", "--out", tmp_path / "out")
    assert status == 0
    assert "UNCERTIFIED: 12 calibration positives" in said
    assert "--tpr 0.779" in said  # 0.05^(1/12) = 0.7791, rounded down
    assert (tmp_path / "out/bundle/model.safetensors").read_bytes() == weights


def test_the_four_parts_are_disjoint_and_copies_stay_together(tmp_path: Path) -> None:
    table = pd.read_csv(write_table(tmp_path / "data.csv")).drop(columns="name")
    pd.concat([table, table]).to_csv(tmp_path / "twice.csv", index=False)
    splits = load_source(Source(tmp_path / "twice.csv", target="sick"), tmp_path)
    ids = np.concatenate([part.ids for part in splits.parts.values()])
    assert sorted(ids) == list(range(800))
    for part in splits.parts.values():
        assert set(part.ids % 400) == set(part.ids[part.ids < 400])  # row k and its copy 400 + k


def test_images_become_a_bundle(rankreg: CommandLine, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images")
    status, said, error = rankreg(
        *(
            "fit",
            images,
            "--positive",
            "bad",
            "--size",
            16,
            "--epochs",
            2,
            "--tpr",
            "0.9",
            "--out",
            tmp_path / "out",
        )
    )
    assert (status, error) == (0, "")
    assert "UNCERTIFIED: 4 calibration positives are too few to guarantee 90 %" in said
    card = load_bundle(tmp_path / "out").card
    assert card.preprocessing == {"kind": "image", "height": 16, "width": 16}
    assert card.classes == ("good", "bad")


def small(path: Path, **changes: Any) -> Path:
    """The small table with other targets."""
    table = pd.read_csv(write_table(path))
    table.assign(**changes).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, ("--target", "sikc"), "did you mean 'sick'"),
        ({}, (), "say which column is the target with --target"),
        ({"sick": 0}, ("--target", "sick"), "no positive samples"),
        ({"sick": [1, 1] + [0] * 398}, ("--target", "sick"), "only 2 positive samples: at least 8 are needed"),
        ({"sick": ["yes", "no"] * 200}, ("--target", "sick"), "say which value is the positive one"),
        ({"sick": ["yes", "no"] * 200}, ("--target", "sick", "--positive", "ja"), "'ja'"),
        ({}, ("--target", "sick", "--size", "64"), "is a table, for which there is no --size"),
        ({}, ("--target", "sick", "--tpr", "98"), "write 0.98 for 98 %"),
        ({}, ("--target", "sick", "--model", "resnet10"), "resnet10"),
        ({}, ("--target", "sick", "--method", "magic"), "magic"),
        ({}, ("--target", "sick", "--calibration", "0.9"), "calibration share"),
        ({}, ("--target", "sick", "--config", "absent.toml"), "absent.toml"),
    ],
)
def test_what_the_user_can_mend_is_a_message_and_status_2(
    rankreg: CommandLine,
    tmp_path: Path,
    changes: dict[str, Any],
    options: tuple[str, ...],
    message: str,
) -> None:
    data = small(tmp_path / "data.csv", **changes)
    status, said, error = rankreg("fit", data, *options, "--epochs", 1, "--out", tmp_path / "out")
    assert (status, said) == (2, "")
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "say which folder"),
        (("--positive", "baad"), "did you mean 'bad'"),
        (("--positive", "bad", "--target", "x"), "there is no --target; name the critical class with --positive"),
    ],
)
def test_image_folders_have_messages_of_their_own(
    rankreg: CommandLine, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    images = write_images(tmp_path / "images", 10, 10)
    status, _, error = rankreg("fit", images, *options, "--out", tmp_path / "out")
    assert status == 2
    assert message in error


def test_a_corrupt_training_image_is_named(rankreg: CommandLine, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", 10, 10)
    (images / "good/torn.png").write_bytes((images / "good/000.png").read_bytes()[:60])
    status, _, error = rankreg("fit", images, "--positive", "bad", "--size", 16, "--out", tmp_path / "out")
    assert status == 2
    assert "good/torn.png" in error
    assert "repair or remove" in error


def test_a_full_disk_at_the_bundle_loses_nothing(
    rankreg: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("fit", data, "--target", "sick", "--drop", "name", "--epochs", 2, "--out", tmp_path / "out")

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "_write", full)
        status, _, error = rankreg(*arguments)
    assert status == 2
    assert "No space left on device" in error
    assert not (tmp_path / "out/bundle").exists()

    checkpoint = (tmp_path / "out/run/last.pt").stat().st_mtime_ns
    assert rankreg(*arguments)[0] == 0
    assert (tmp_path / "out/run/last.pt").stat().st_mtime_ns == checkpoint  # it was not trained again
    load_bundle(tmp_path / "out")


def test_another_run_in_the_same_folder_is_refused(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("fit", data, "--target", "sick", "--drop", "name", "--out", tmp_path / "out")
    assert rankreg(*arguments, "--epochs", 1)[0] == 0
    status, _, error = rankreg(*arguments, "--epochs", 2)
    assert status == 2
    assert "differs in epochs" in error


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_scores(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv", rows=2000, positives=200)
    arguments = ("fit", data, "--target", "sick", "--drop", "name", "--epochs", 30, "--out")
    whole = run_command(*arguments, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr

    records = tmp_path / "killed/run/metrics.jsonl"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command(*arguments, tmp_path / "killed"), env=environment, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 120
        while not records.exists() and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    assert run.returncode == -signal.SIGKILL, "it was over before it could be killed"
    assert not (tmp_path / "killed/bundle").exists()

    again = run_command(*arguments, tmp_path / "killed")
    assert again.returncode == 0, again.stderr
    for name in ("test-scores.csv", "calibration-scores.csv", "bundle/bundle.json", "bundle/model.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv", rows=2000, positives=200)
    arguments = ("fit", data, "--target", "sick", "--drop", "name", "--epochs", 200, "--out", tmp_path / "out")
    with subprocess.Popen(command(*arguments), text=True, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 120
        while not (tmp_path / "out/run/metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, error = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "the same command again goes on" in error
    assert "Traceback" not in error


@pytest.mark.slow
def test_two_processes_fit_together_and_one_speaks(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("fit", data, "--target", "sick", "--drop", "name", "--epochs", 2, "--out", tmp_path / "out")
    start = command(*arguments)
    launcher = [
        start[0],
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "29517",
        *start[1:],
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(launcher, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("alarm when score") == 1
    load_bundle(tmp_path / "out")


@pytest.mark.slow
def test_mammography_is_fitted_without_a_copy_on_both_sides(tmp_path: Path) -> None:
    path = shared_data() / "tabular/mammography.csv.xz"
    source = Source(path, target="6", positive="'1'", header=False)
    splits = load_source(source, tmp_path)
    features = pd.read_csv(path, header=None).drop(columns=6).apply(tuple, axis=1)
    seen = [set(features.iloc[part.rows]) for part in splits.parts.values()]
    assert sum(map(len, seen)) == len(set.union(*seen)) == features.nunique()

    fitted = fit(splits, settings("table", 0.9, epochs=3), tmp_path / "out", tpr=0.9)
    assert fitted is not None
    assert fitted.threshold.certified
    assert fitted.threshold.calibration_positives == 39
    assert fitted.test.auc.estimate > 0.85  # far from the 0.5 of a broken pipeline


@pytest.mark.slow
def test_a_folder_of_skin_lesions_goes_all_the_way_to_predict(rankreg: CommandLine, tmp_path: Path) -> None:
    with np.load(shared_data() / "ham10000/ham10000_64x48.npz", allow_pickle=False) as file:
        jpeg, offsets, kinds, lesions = (file[key] for key in ("jpeg", "offsets", "dx", "lesion_id"))
    first = np.unique(lesions, return_index=True)[1]  # one image per lesion: none in two parts
    for k in np.random.default_rng(0).permutation(first)[:400]:
        (tmp_path / "lesions" / str(kinds[k])).mkdir(parents=True, exist_ok=True)
        (tmp_path / "lesions" / str(kinds[k]) / f"{k}.jpg").write_bytes(jpeg[offsets[k] : offsets[k + 1]].tobytes())
    images, out = tmp_path / "lesions", tmp_path / "out"
    arguments = ("fit", images, "--positive", "mel", "--size", 32, "--epochs", 2, "--tpr", "0.5", "--out", out)
    status, said, error = rankreg(*arguments)
    assert status == 0, error
    assert "certified: at least 50 %" in said
    assert rankreg("predict", out, images, "--out", tmp_path / "scores.csv")[0] == 0
    scores = pd.read_csv(tmp_path / "scores.csv").set_index("id")
    assert len(scores) == 400
    calibration = pd.read_csv(out / "calibration-scores.csv").set_index("id")
    assert scores.alarm[calibration.index[calibration.label == 1]].mean() >= 0.5


def test_help_needs_neither_torch_nor_pandas_nor_scipy() -> None:
    code = (
        "import sys; sys.argv = ['rankreg', 'fit', '--help']\n"
        "from rankreg.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'pandas', 'scipy', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert "--target" in done.stdout


def test_the_summary_is_also_there_for_programs(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    rankreg("fit", data, "--target", "sick", "--drop", "name", "--epochs", 1, "--out", tmp_path / "out")
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    test = pd.read_csv(tmp_path / "out/test-scores.csv")
    alarms = test.score >= summary["threshold"]["value"]
    assert summary["test"]["fpr"]["estimate"] == pytest.approx(alarms[test.label == 0].mean())
    assert summary["test"]["recall"]["estimate"] == pytest.approx(alarms[test.label == 1].mean())
