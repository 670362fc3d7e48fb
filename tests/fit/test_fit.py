"""From one's own data to a bundle: parts that never meet, an honest threshold, and faults said in words."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest

from rankreg.bundle import Threshold, export_onnx, load_bundle
from rankreg.fit import Source, fit, load_source, settings
from rankreg.operating import certify, choose_threshold
from rankreg.scores import Scores
from rankreg.train.config import DEFAULTS
from tests.own_data import CommandLine, shared_data, write_images, write_table


@pytest.fixture
def rankreg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process."""
    return CommandLine(monkeypatch, capsys)


def scores_of(seed: int, positives: int) -> Scores:
    rng = np.random.default_rng(seed)
    labels = (np.arange(300) < positives).astype(np.int64)
    return Scores(np.arange(300), labels, (rng.normal(size=300) + labels).astype(np.float32))


def chosen(calibration: Scores, tpr: float) -> Threshold:
    """The threshold as a bundle has it."""
    return Threshold.of(choose_threshold(calibration.labels, calibration.values, tpr=tpr, confidence=0.95))


def test_a_certified_threshold_is_the_certified_score_less_a_hair() -> None:
    calibration = scores_of(0, 100)
    point = certify(calibration.labels, calibration.values, tpr=0.9, confidence=0.95)
    found = chosen(calibration, 0.9)
    assert found.certified
    assert found.value == pytest.approx(point.threshold - 1e-5 * max(1, abs(point.threshold)), abs=1e-7)
    assert found.value <= point.threshold - 1e-5
    assert found.value == float(np.float32(found.value))
    assert found.certificate is not None
    assert (found.certificate["recall"], found.certificate["rank"]) == (point.recall, point.rank)
    assert found.certificate["threshold"] == found.value


def test_too_few_positives_leave_the_threshold_uncertified_and_say_what_it_takes() -> None:
    calibration = scores_of(1, 20)
    found = chosen(calibration, 0.98)
    assert not found.certified
    assert found.certificate is None
    assert found.positives_needed == 149  # the least n with 0.98^n ≤ 0.05
    assert found.highest_tpr == pytest.approx(0.05 ** (1 / 20))
    caught = calibration.values[calibration.labels == 1] >= found.value
    assert caught.mean() >= 0.98


@pytest.mark.parametrize("tpr", [0.7, 0.95])  # certified, and not
def test_one_model_has_one_threshold(rankreg: CommandLine, tmp_path: Path, tpr: float) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("--target", "sick", "--id", "name", "--epochs", 2, "--tpr", tpr, "--out", tmp_path / "out")
    assert rankreg("fit", data, *arguments)[0] == 0
    bundle = load_bundle(tmp_path / "out")
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    page = (tmp_path / "out/report.html").read_text()
    data_of_page = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert data_of_page is not None
    onnx_model = onnx.load(export_onnx(bundle, tmp_path / "model.onnx").out)
    metadata = {entry.key: json.loads(entry.value) for entry in onnx_model.metadata_props}
    (compared,) = (node for node in onnx_model.graph.node if node.op_type == "Less")
    arrays = {array.name: onnx.numpy_helper.to_array(array) for array in onnx_model.graph.initializer}
    value = bundle.card.threshold.value
    assert bundle.card.threshold.certified == (tpr == 0.7)
    assert summary["threshold"] == bundle.card.threshold.model_dump(mode="json")
    assert summary["test"]["threshold"] == bundle.card.metrics["threshold"] == value
    assert (metadata["threshold"], float(arrays[compared.input[1]])) == (value, value)
    assert repr(value) in data_of_page[1]
    if bundle.card.threshold.certificate is not None:
        assert bundle.card.threshold.certificate["threshold"] == value


def test_options_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('epochs = 7\nbatch_size = 9\n[model]\nname = "mlp"\ndropout = 0.5\n')
    config = settings("table", 0.95, file=tmp_path / "own.toml", epochs=3, method="buffer", loss=None)
    assert (config.epochs, config.batch_size, config.method.name) == (3, 9, "buffer")
    assert config.model is not None
    assert config.model.model_dump(include={"hidden", "dropout"}) == {"hidden": (64, 64), "dropout": 0.5}
    assert config.learning_rate == DEFAULTS["table"]["learning_rate"]


def test_large_images_get_the_stem_that_shrinks_them_first() -> None:
    stems = [settings("image", 0.95, size=size, model="resnet18").model for size in (32, 64)]
    assert [stem.stem for stem in stems if stem is not None and stem.name != "mlp"] == ["cifar", "imagenet"]


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("epoch = 7\n")
    with pytest.raises(ValueError, match="epoch"):
        settings("table", 0.95, file=tmp_path / "own.toml")
    with pytest.raises(ValueError, match="did you mean 'a-fl'"):
        settings("table", 0.95, loss="afl")


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
    assert sorted(ids) == list(range(1, 801))
    for part in splits.parts.values():
        assert set(part.rows % 400) == set(part.rows[part.rows < 400])  # row k and its copy 400 + k


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
    options = ("--positive", "mel", "--rest-negative", "--size", 32, "--epochs", 2, "--tpr", "0.5")
    status, said, error = rankreg("fit", images, *options, "--out", out)
    assert status == 0, error
    assert "certified: at least 50 %" in said
    assert rankreg("predict", out, images, "--out", tmp_path / "scores.csv")[0] == 0
    scores = pd.read_csv(tmp_path / "scores.csv").set_index("id")
    assert len(scores) == 400
    calibration = pd.read_csv(out / "calibration-scores.csv").set_index("id")
    assert scores.alarm[calibration.index[calibration.label == 1]].mean() >= 0.5


def test_the_summary_is_also_there_for_programs(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    rankreg("fit", data, "--target", "sick", "--drop", "name", "--epochs", 1, "--out", tmp_path / "out")
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    test = pd.read_csv(tmp_path / "out/test-scores.csv")
    alarms = test.score >= summary["threshold"]["value"]
    assert summary["test"]["fpr"]["estimate"] == pytest.approx(alarms[test.label == 0].mean())
    assert summary["test"]["recall"]["estimate"] == pytest.approx(alarms[test.label == 1].mean())


def test_the_seed_of_the_file_cuts_the_parts_too_unless_an_option_says_otherwise(
    rankreg: CommandLine, tmp_path: Path
) -> None:
    data = write_table(tmp_path / "data.csv")
    (tmp_path / "own.toml").write_text("seed = 5\n")
    arguments = ("fit", data, "--target", "sick", "--id", "name", "--epochs", 1, "--config", tmp_path / "own.toml")
    for name, seed, options in (("file", 5, ()), ("option", 0, ("--seed", 0))):
        assert rankreg(*arguments, *options, "--out", tmp_path / name)[0] == 0
        expected = load_source(Source(data, target="sick", id_column="name", seed=seed), tmp_path)["test"].ids
        assert set(pd.read_csv(tmp_path / name / "test-scores.csv").id) == set(expected)
        assert load_bundle(tmp_path / name).card.training["seed"] == seed


def test_the_calibration_share_that_the_summary_names_is_enough(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("fit", data, "--target", "sick", "--id", "name", "--epochs", 1, "--tpr", "0.9", "--out")
    said = rankreg(*arguments, tmp_path / "few")[1]
    assert "UNCERTIFIED" in said
    assert "(no new training)" in said
    share = re.search(r"--calibration ([0-9.]+)", said)
    assert share is not None
    assert share[1] == "0.37"  # 29 of 80 positives, rounded up
    assert "certified: at least 90 %" in rankreg(*arguments, tmp_path / "more", "--calibration", share[1])[1]


@pytest.fixture
def fitted_by(rankreg: CommandLine, tmp_path: Path) -> Callable[[str], str]:
    """What a fit says that chooses its epoch in that way."""
    data, own = write_table(tmp_path / "data.csv"), tmp_path / "own.toml"

    def said(selection: str) -> str:
        own.write_text(f'selection = "{selection}"\n')
        places = ("--config", own, "--out", tmp_path / "out")
        return rankreg("fit", data, "--target", "sick", "--id", "name", "--epochs", 2, *places)[1]

    return said


def test_the_last_epoch_is_not_called_the_best(fitted_by: Callable[[str], str]) -> None:
    said = fitted_by("last")
    assert "epoch 2 of 2, the last one" in said
    assert "no new training" in said  # for another TPR


def test_advice_that_would_not_help_is_not_given(fitted_by: Callable[[str], str]) -> None:
    said = fitted_by("fpr")
    assert "UNCERTIFIED" in said
    assert "--calibration" not in said  # it takes 59 positives, and 65 % of 80 are 52
    assert "no new training" not in said  # the epoch was chosen for this TPR


def test_names_of_rows_are_no_feature_and_hide_no_copies(rankreg: CommandLine, tmp_path: Path) -> None:
    table = pd.read_csv(write_table(tmp_path / "data.csv"))
    twice = pd.concat([table, table.assign(name=table.name + "-again")])
    twice.to_csv(tmp_path / "data.csv", index=False)
    status, said, _ = rankreg(
        "fit",
        tmp_path / "data.csv",
        "--target",
        "sick",
        "--positive",
        "1.0",
        "--epochs",
        1,
        "--out",
        tmp_path / "out",
    )
    assert status == 0
    assert re.search(r"Not learned from +'name': .*--id.*--drop", said)
    card = load_bundle(tmp_path / "out").card
    assert card.preprocessing["unused"] == ["name"]
    assert [column["name"] for column in card.preprocessing["categorical"]] == ["colour"]
    parts = load_source(Source(tmp_path / "data.csv", target="sick"), tmp_path).parts
    for part in parts.values():
        assert set(part.rows % 400) == set(part.rows[part.rows < 400])
