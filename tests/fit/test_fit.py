"""From one's own data to a bundle: parts that never meet, an honest threshold, and faults said in words."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest

from rankreg.bundle import Threshold, export_onnx, load_bundle
from rankreg.fit import Source, fit, load_source, settings
from rankreg.metrics import fpr_at_tpr
from rankreg.models import ResNetShape
from rankreg.operating import certify, choose_threshold
from rankreg.scores import Scores
from rankreg.train.defaults import DEFAULTS
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


QUICK = ("--learner", "logistic")


@pytest.mark.parametrize(
    ("tpr", "kind"), [(0.7, "certified"), (0.95, "cross-fitted"), (0.99, "expected")]
)  # a fifth of 80 positives certifies 70 %, all of them are enough for 95 %, and too few for 99 %
def test_one_model_has_one_threshold(rankreg: CommandLine, tmp_path: Path, tpr: float, kind: str) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("--target", "sick", "--id", "name", *QUICK, "--learner", "forest", "--tpr", tpr)
    assert rankreg("fit", data, *arguments, "--out", tmp_path / "out")[0] == 0
    bundle = load_bundle(tmp_path / "out")
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    page = (tmp_path / "out/report.html").read_text()
    data_of_page = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert data_of_page is not None
    onnx_model = onnx.load(export_onnx(bundle, tmp_path / "model.onnx").out)
    metadata = {entry.key: json.loads(entry.value) for entry in onnx_model.metadata_props}
    nodes = {output: node for node in onnx_model.graph.node for output in node.output}
    compared = nodes["alarm"]
    while compared.op_type != "Less":  # the alarm: not below the threshold
        compared = nodes[compared.input[0]]
    arrays = {array.name: onnx.numpy_helper.to_array(array) for array in onnx_model.graph.initializer}
    threshold = bundle.card.threshold
    value = threshold.value
    assert threshold.kind == kind
    assert summary["threshold"] == threshold.model_dump(mode="json")
    assert summary["judged"]["threshold"] == bundle.card.metrics["judged"]["threshold"] == value
    assert (metadata["threshold"], float(arrays[compared.input[1]])) == (value, value)
    assert repr(value) in data_of_page[1]
    assert threshold.certified == (threshold.certificate is not None) == (kind == "certified")
    if threshold.certificate is not None:
        assert threshold.certificate["threshold"] == value


def test_options_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('epochs = 7\nbatch_size = 9\n[model]\nname = "mlp"\ndropout = 0.5\n')
    config = settings("table", 0.95, file=tmp_path / "own.toml", epochs=3, method="buffer", loss=None)
    assert (config.epochs, config.batch_size, config.method.name) == (3, 9, "buffer")
    assert config.model is not None
    assert config.model.model_dump(include={"hidden", "dropout"}) == {"hidden": (64, 64), "dropout": 0.5}
    assert config.learning_rate == DEFAULTS["table"]["learning_rate"]


def test_large_images_get_the_stem_that_shrinks_them_first() -> None:
    stems = [settings("image", 0.95, size=size, model="resnet18").model for size in (32, 64)]
    assert [stem.stem for stem in stems if isinstance(stem, ResNetShape)] == ["cifar", "imagenet"]


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("epoch = 7\n")
    with pytest.raises(ValueError, match="epoch"):
        settings("table", 0.95, file=tmp_path / "own.toml")
    with pytest.raises(ValueError, match="did you mean 'a-fl'"):
        settings("table", 0.95, loss="afl")


def test_a_table_becomes_a_bundle_that_the_whole_command_line_can_use(rankreg: CommandLine, tmp_path: Path) -> None:
    data, out = write_table(tmp_path / "data.csv"), tmp_path / "out"
    arguments = ("fit", data, "--target", "sick", "--id", "name", *QUICK, "--learner", "boosting", "--seed", 3)
    status, said, _ = rankreg(*arguments, "--tpr", "0.7", "--out", out)
    assert status == 0
    assert "certified: at least 70 % of new positives" in said
    assert f"rankreg predict {out} NEW_DATA --out scores.csv" in said

    calibration = pd.read_csv(out / "calibration-scores.csv")
    judged = pd.read_csv(out / "out-of-fold-scores.csv")
    card = load_bundle(out).card
    assert sum(part["samples"] for part in card.parts.values()) == 400
    assert sorted([*calibration.id, *judged.id]) == sorted(pd.read_csv(data).name)
    positives = calibration.score[calibration.label == 1]
    assert (positives >= card.threshold.value).mean() >= 0.7
    labels = ("--label", "label", "--score", "score")
    status, said, _ = rankreg("certify", out / "calibration-scores.csv", *labels, "--tpr", "0.7")
    assert status == 0

    before = {file.name: file.read_bytes() for file in (out / "bundle").iterdir()}
    assert rankreg(*arguments, "--tpr", "0.7", "--out", out)[0] == 0
    assert {file.name: file.read_bytes() for file in (out / "bundle").iterdir()} == before

    new = tmp_path / "scores.csv"
    assert rankreg("predict", out, data, "--out", new)[0] == 0
    scored = pd.read_csv(new).set_index("id")
    np.testing.assert_allclose(scored.score[calibration.id], calibration.score, rtol=1e-5, atol=1e-5)
    assert (scored.alarm == (scored.score >= card.threshold.value)).all()
    evaluated = json.loads(rankreg("evaluate", out, data, "--json")[1])
    truth = pd.read_csv(data).set_index("name").sick[scored.index]
    assert evaluated["recall"]["estimate"] == pytest.approx(scored.alarm[truth == 1].mean())
    assert evaluated["fpr"]["estimate"] == pytest.approx(scored.alarm[truth == 0].mean())

    status, said, _ = rankreg(*arguments, "--tpr", "0.99", "--out", out)
    assert status == 0
    found = load_bundle(out).card.threshold
    assert (found.kind, found.certified, found.calibration_positives) == ("expected", False, 80)
    assert found.positives_needed == 299  # the least n with 0.99^n ≤ 0.05
    assert "expected: " in said


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
    options = ("--positive", "bad", "--size", 16, "--epochs", 2, "--folds", 2, "--tpr", "0.9")
    status, said, error = rankreg("fit", images, *options, "--learner", "network", "--out", tmp_path / "out")
    assert (status, error) == (0, "")
    assert "expected: " in said
    card = load_bundle(tmp_path / "out").card
    assert (card.threshold.kind, card.threshold.calibration_positives) == ("expected", 24)
    assert card.preprocessing == {"kind": "image", "height": 16, "width": 16}
    assert card.classes == ("good", "bad")
    assert [(learner.name, learner.members) for learner in card.learners] == [("network", 2)]


def test_an_option_of_the_network_leaves_the_average_of_an_image_folder_whole(
    rankreg: CommandLine, tmp_path: Path
) -> None:
    images = write_images(tmp_path / "images")
    options = ("--positive", "bad", "--size", 16, "--epochs", 1, "--folds", 2, "--tpr", "0.9")
    status, _, error = rankreg("fit", images, *options, "--backbone", "none", "--out", tmp_path / "out")
    assert (status, error) == (0, "")
    learners = load_bundle(tmp_path / "out").card.learners
    assert [(one.name, one.settings["epochs"]) for one in learners] == [("network", 1), ("network-plain", 1)]


@pytest.mark.slow
def test_mammography_is_fitted_without_a_copy_on_both_sides(tmp_path: Path) -> None:
    path = shared_data() / "tabular/mammography.csv.xz"
    source = Source(path, target="6", positive="'1'", header=False)
    fitted = fit(source, tmp_path / "out", tpr=0.9, learners=["logistic"], test=0.2, progress=False)
    assert fitted is not None
    features = pd.read_csv(path, header=None).drop(columns=6).apply(tuple, axis=1)
    places = [tmp_path / f"out/{name}-scores.csv" for name in ("out-of-fold", "calibration", "test")]
    seen = [set(features.iloc[pd.read_csv(place).id - 1]) for place in places]
    assert sum(map(len, seen)) == len(set.union(*seen)) == features.nunique()

    assert fitted.threshold.certified
    assert fitted.test is not None
    assert min(fitted.test.auc.estimate, fitted.judged.auc.estimate) > 0.85  # far from the 0.5 of a broken pipeline


@pytest.mark.slow
def test_a_folder_of_skin_lesions_goes_all_the_way_to_predict(rankreg: CommandLine, tmp_path: Path) -> None:
    with np.load(shared_data() / "ham10000/ham10000_64x48.npz", allow_pickle=False) as file:
        jpeg, offsets, kinds, lesions = (file[key] for key in ("jpeg", "offsets", "dx", "lesion_id"))
    first = np.unique(lesions, return_index=True)[1]  # one image per lesion: none in two parts
    for k in np.random.default_rng(0).permutation(first)[:400]:
        (tmp_path / "lesions" / str(kinds[k])).mkdir(parents=True, exist_ok=True)
        (tmp_path / "lesions" / str(kinds[k]) / f"{k}.jpg").write_bytes(jpeg[offsets[k] : offsets[k + 1]].tobytes())
    images, out = tmp_path / "lesions", tmp_path / "out"
    options = (
        "--positive",
        "mel",
        "--rest-negative",
        "--size",
        32,
        "--epochs",
        2,
        "--tpr",
        "0.5",
        "--learner",
        "network",
    )
    status, said, error = rankreg("fit", images, *options, "--folds", 2, "--out", out)
    assert status == 0, error
    assert "certified: at least 50 %" in said
    assert rankreg("predict", out, images, "--out", tmp_path / "scores.csv")[0] == 0
    scores = pd.read_csv(tmp_path / "scores.csv").set_index("id")
    assert len(scores) == 400
    calibration = pd.read_csv(out / "calibration-scores.csv").set_index("id")
    assert scores.alarm[calibration.index[calibration.label == 1]].mean() >= 0.5


def test_the_summary_is_also_there_for_programs(rankreg: CommandLine, tmp_path: Path) -> None:
    data, out = write_table(tmp_path / "data.csv"), tmp_path / "out"
    options = ("--target", "sick", "--drop", "name", *QUICK, "--learner", "extra-trees", "--test", "0.25")
    assert rankreg("fit", data, *options, "--out", out)[0] == 0
    summary = json.loads((out / "summary.json").read_text())
    for name, file in (("test", "test-scores.csv"), ("judged", "out-of-fold-scores.csv")):
        scores = pd.read_csv(out / file)
        alarms = scores.score >= summary["threshold"]["value"]
        assert summary[name]["fpr"]["estimate"] == pytest.approx(alarms[scores.label == 0].mean())
        assert summary[name]["recall"]["estimate"] == pytest.approx(alarms[scores.label == 1].mean())
    judged = pd.read_csv(out / "out-of-fold-scores.csv")
    assert (
        summary["parts"]["train"]
        == {"samples": 300, "positives": 60}
        == {
            "samples": len(judged),
            "positives": judged.label.sum(),
        }
    )
    assert summary["folds"] == 5
    race = {learner["name"]: learner for learner in summary["learners"]}
    assert race.keys() == {"logistic", "extra-trees", "average"}
    expected = fpr_at_tpr(judged.label.to_numpy(), judged.score.to_numpy(), 0.95)
    assert race["average"]["fpr"]["estimate"] == pytest.approx(expected)
    assert race["logistic"]["weight"] + race["extra-trees"]["weight"] == pytest.approx(1)


def test_the_seed_of_the_file_cuts_the_parts_too_unless_an_option_says_otherwise(
    rankreg: CommandLine, tmp_path: Path
) -> None:
    data = write_table(tmp_path / "data.csv")
    (tmp_path / "own.toml").write_text("seed = 5\n")
    arguments = ("fit", data, "--target", "sick", "--id", "name", "--test", "0.2", "--folds", 2)
    own = ("--config", tmp_path / "own.toml", "--epochs", 1)
    tested = {}
    for name, options in {"file": own, "option": (*own, "--seed", 0), "5": ("--seed", 5), "0": ()}.items():
        learner = () if "--config" in options else QUICK
        assert rankreg(*arguments, *options, *learner, "--out", tmp_path / name)[0] == 0
        tested[name] = set(pd.read_csv(tmp_path / name / "test-scores.csv").id)
        assert load_bundle(tmp_path / name).card.training["seed"] == (5 if name in ("file", "5") else 0)
    assert tested["file"] == tested["5"] != tested["option"] == tested["0"]


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
        *QUICK,
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
