"""No fault of a row reads as "no alarm": in `predict`, `evaluate`, `fit`, the estimators and the ONNX file."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm, rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from rankreg.bundle import Bundle, Threshold, evaluate, export_onnx, load_bundle, predict, prediction
from rankreg.bundle.storage import save_bundle
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.datasets.table import table
from rankreg.estimators import CertifiedThresholdClassifier, RankRegClassifier
from rankreg.fit import Source, fit, settings
from rankreg.metrics import raises_alarm
from rankreg.models import MLPShape, build_model
from tests.bundle.test_export import consumed
from tests.bundle.test_storage import TABLE, contents
from tests.conftest import Run
from tests.own_data import shared_data, write_images, write_table


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fitted table: data.csv and out/. Only the column weight has gaps."""
    home = tmp_path_factory.mktemp("table")
    source = Source(write_table(home / "data.csv"), target="sick", id_column="name")
    fit(source, home / "out", tpr=0.7, learners=["logistic", "boosting", "mlp"], folds=2, progress=False)
    return home


LINES = {  # by their fault; the columns are name, size, colour, weight, sick
    "absurd": "x,1e22,red,0.1,0",
    "absurd and negative": "x,-1e22,red,0.1,0",
    "beyond float32": "x,1e300,red,0.1,0",
    "infinite": "x,inf,red,0.1,0",
    "beyond float64": "x,1e400,red,0.1,0",
    "text among numbers": "x,abc,red,0.1,0",
    "missing number": "x,,red,0.1,0",
    "missing text": "x,0.5,,0.1,0",
    "cut after a separator": "x,0.5,",
    "cut": "x,0.5",
    "cut in a number": "x,0.",
    "too long": "x,0.5,red,0.1,0,0",
    "shifted": "x,y,0.5,red,0.1,0",
}
HARMLESS = {"may be missing": "x,0.5,red,,0", "unknown colour": "x,0.5,green,0.1,0", "large": "x,50,red,0.1,0"}


def with_lines(home: Path, path: Path, lines: list[str], after: int = 5) -> Path:
    """The table with further lines after that many rows."""
    content = (home / "data.csv").read_text().splitlines()
    path.write_text("\n".join([*content[: after + 1], *lines, *content[after + 1 :]]) + "\n")
    return path


@pytest.mark.parametrize("fault", LINES)
def test_a_bad_row_is_marked_and_alarms_and_the_others_are_scored(home: Path, tmp_path: Path, fault: str) -> None:
    bundle = load_bundle(home / "out")
    data = with_lines(home, tmp_path / "new.csv", [LINES[fault]])
    found = predict(bundle, data, tmp_path / "scores.csv")
    predict(bundle, home / "data.csv", tmp_path / "good.csv")
    scores, good = pd.read_csv(tmp_path / "scores.csv"), pd.read_csv(tmp_path / "good.csv")
    bad = scores.iloc[5]
    assert (bad.id, bad.alarm) == ("x", 1)
    assert np.isnan(bad.score)
    assert bad.problem.startswith("row 6 (line 7): ")
    assert (found.samples, found.unreadable, found.alarms) == (401, 1, good.alarm.sum() + 1)
    others = scores.drop(5).reset_index(drop=True)
    assert others.problem.isna().all()
    pd.testing.assert_frame_equal(others[["id", "score", "alarm"]], good[["id", "score", "alarm"]], atol=1e-5)


def test_every_fault_in_one_file_and_in_chunks(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = with_lines(home, tmp_path / "new.csv", [*LINES.values(), *HARMLESS.values()], after=38)
    for size in (20_000, 7):
        monkeypatch.setattr(prediction, "ROWS", size)
        predict(load_bundle(home / "out"), data, tmp_path / "scores.csv")
        scores = pd.read_csv(tmp_path / "scores.csv")
        marked = np.flatnonzero(scores.problem.notna())
        assert marked.tolist() == list(range(38, 38 + len(LINES)))
        assert scores.alarm[marked].tolist() == [1] * len(LINES)
        assert np.isfinite(scores.score.drop(marked)).all()
        for row in marked:
            assert scores.problem[row].startswith(f"row {row + 1} (line {row + 2}): ")


def test_the_command_line_says_so_in_words_and_by_its_status(run: Run, home: Path) -> None:
    data = with_lines(home, Path("new.csv"), [LINES["absurd"], LINES["cut"]])
    status, out, error = run("predict", str(home / "out"), str(data), "--out", "scores.csv")
    assert status == 1
    assert "402 samples" in out
    assert "row 6 (line 7)" in error
    assert "row 7 (line 8)" in error
    status, _, error = run("predict", str(home / "out"), str(home / "data.csv"), "--out", "scores.csv")
    assert status == 0
    assert "could not be scored" not in error


def test_a_file_cut_anywhere_in_its_last_line_never_reads_as_no_alarm(home: Path, tmp_path: Path) -> None:
    """Cut inside the last field, the line is whole but for the label, which a prediction does not need."""
    whole = (home / "data.csv").read_text()
    last = whole.rstrip("\n").rsplit("\n", 1)[1]
    bundle = load_bundle(home / "out")
    for kept in range(1, len(last.rsplit(",", 1)[0]) + 1):
        (tmp_path / "cut.csv").write_text(whole[: -len(last) - 1] + last[:kept])
        found = predict(bundle, tmp_path / "cut.csv", tmp_path / "scores.csv")
        scores = pd.read_csv(tmp_path / "scores.csv")
        assert (len(scores), found.unreadable, scores.alarm.iloc[-1]) == (400, 1, 1), last[:kept]


def test_an_evaluation_leaves_bad_rows_out_and_names_them(run: Run, home: Path) -> None:
    data = with_lines(home, Path("new.csv"), list(LINES.values()))
    expected = evaluate(load_bundle(home / "out"), home / "data.csv").evaluation
    found = evaluate(load_bundle(home / "out"), data)
    assert found.evaluation == expected
    assert len(found.unreadable) == len(LINES)
    status, out, error = run("evaluate", str(home / "out"), str(data), "--json")
    assert (status, len(json.loads(out)["unreadable"])) == (1, len(LINES))
    assert "row 6 (line 7)" in error
    with_lines(home, data, ["x,0.5,red,0.1,"])
    status, _, error = run("evaluate", str(home / "out"), str(data))
    assert (status, "'sick' is empty in 1 rows, first in row 6 (line 7)" in error) == (2, True)


@pytest.mark.parametrize("fault", [fault for fault in LINES if not fault.startswith(("absurd", "missing"))])
def test_a_fit_refuses_bad_rows_by_row_and_line(run: Run, home: Path, fault: str) -> None:
    data = with_lines(home, Path("new.csv"), ["x,0.5,red,0.1,0", LINES[fault]], after=70)
    for command in (("fit",), ("tune", "--trials", "1")):
        options = ("--target", "sick", "--drop", "name", "--epochs", "1", "--out", "out")
        status, out, error = run(command[0], str(data), *options, *command[1:])
        assert (status, out) == (2, "")
        assert "row 72 (line 73)" in error
        assert "Traceback" not in error


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["1e37", "-999999", "1e22", "3e38"])
@pytest.mark.parametrize("label", [0, 1])
def test_one_absurd_cell_leaves_a_fit_that_works(home: Path, tmp_path: Path, cell: str, label: int) -> None:
    """Whatever part it falls into: scores are finite and the test part is told apart by the other columns."""
    rows = pd.read_csv(home / "data.csv").assign(second=lambda rows: rows["size"] + 0.1 * np.arange(400) % 1)
    place = int(np.flatnonzero(rows.sick == label)[7])
    for seed in (0, 1):
        damaged = rows.astype({"size": object})
        damaged.loc[place, "size"] = cell
        damaged.to_csv(tmp_path / "data.csv", index=False)
        source = Source(tmp_path / "data.csv", target="sick", id_column="name", seed=seed)
        out = tmp_path / f"out{seed}"
        learners = ["logistic", "logistic-normal", "forest"]
        fitted = fit(source, out, tpr=0.7, learners=learners, folds=2, seed=seed, progress=False)
        assert fitted is not None
        assert fitted.judged.auc.estimate > 0.8
        for part in ("calibration", "out-of-fold"):
            assert np.isfinite(pd.read_csv(out / f"{part}-scores.csv").score).all()


def normal_scores(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Φ⁻¹ of the share below, ties halved, less that of the median: by scipy."""
    scores = norm.ppf((rankdata(column) - 0.5) / len(column))
    return np.asarray(scores - np.median(scores))


def test_training_rows_are_believed_and_none_dominates() -> None:
    for size in (11, 1001):
        column = np.zeros(size)
        column[0] = 1e30
        rows = pd.DataFrame({"x": column})
        fitted = TablePreprocessor.fit(rows)
        np.testing.assert_allclose(fitted.transform(rows)[:, 0], normal_scores(column), rtol=1e-5, atol=1e-6)
        assert np.abs(fitted.standardised(fitted.transform(rows))).max() <= 3
        assert not any(fitted.problems(rows))


def test_ordinary_data_become_their_normal_scores() -> None:
    rows = pd.read_csv(shared_data() / "tabular" / "mammography.csv.xz", header=None).iloc[:, :6]
    rows.columns = rows.columns.map(str)
    fitted = TablePreprocessor.fit(rows.iloc[:6000])
    found = fitted.transform(rows)
    for place, name in enumerate(rows):
        column = rows[name].to_numpy()[:6000]
        expected = normal_scores(column)
        away = np.abs(found[:6000, place] - expected)  # linear between knots
        assert away.mean() < 0.02
        assert np.quantile(away, 0.99) < 0.1
        order = np.argsort(column, kind="stable")
        assert (np.diff(found[:6000, place][order]) >= 0).all()
    assert not any(fitted.problems(rows))


def test_a_column_that_was_constant_moves_no_score() -> None:
    fitted = TablePreprocessor.fit(pd.DataFrame({"same": [7.0] * 20, "x": range(20)}))
    new = pd.DataFrame({"same": [7.0, 1e9, -4.0], "x": [1, 1, 1]})
    assert fitted.transform(new)[:, 0].tolist() == [0, 0, 0]
    assert fitted.problems(new) == ["", "", ""]


def test_an_alarm_is_whatever_is_not_below_the_threshold() -> None:
    scores = np.array([0.4, 0.5, 0.6, np.nan, np.inf, -np.inf], dtype=np.float32)
    assert raises_alarm(scores, 0.5).tolist() == [False, True, True, True, True, True]


def hostile(folder: Path, size: float) -> Bundle:
    """A network whose weights are finite, and whose scores overflow for one kind of row."""
    shape = MLPShape(classes=2, features=3, head="score", hidden=(), dropout=0.0)
    network = build_model(shape)
    with torch.no_grad():
        for value in network.parameters():
            value.fill_(size)
    point = Threshold(value=0.5, tpr=0.9, confidence=0.95, certified=False, calibration_positives=4)
    return save_bundle(folder, network, **contents(model=shape, preprocessing=TABLE, threshold=point))


@pytest.mark.parametrize("size", [3e38, -3e38])
def test_a_score_that_overflows_alarms_here_and_in_onnx(tmp_path: Path, size: float) -> None:
    bundle = hostile(tmp_path / "bundle", size)
    ages = [51.5, 80.0, 21.5, 251.5, -148.5]
    pd.DataFrame({"age": ages, "site": "arm"}).to_csv(tmp_path / "new.csv", index=False)
    found = predict(bundle, tmp_path / "new.csv", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert found.unreadable > 0
    assert scores.alarm[scores.problem.notna()].all()
    feeds = {"numbers": np.array(ages)[:, None], "texts": np.full((5, 1), "arm", dtype=object)}
    file = export_onnx(bundle, tmp_path / "m.onnx").out
    theirs, alarms = onnxruntime.InferenceSession(file).run(["score", "alarm"], feeds)
    np.testing.assert_allclose(theirs, scores.score, rtol=1e-5)
    assert alarms.tolist() == scores.alarm.astype(bool).tolist()


def test_onnx_agrees_on_every_row_also_on_bad_ones(home: Path, tmp_path: Path) -> None:
    bundle = load_bundle(home / "out")
    sizes = [0.5, np.nan, np.inf, -np.inf, 1e22, -1e22, 1e300, 3e38, 1e4, -1e4, 1e5, 50.0]
    weights = [0.1, np.nan, np.inf, 1e300]
    colours = ["red", "blue", "green", None]
    rows = pd.DataFrame(
        [(s, c, w) for s in sizes for c in colours for w in weights], columns=["size", "colour", "weight"]
    )
    rows.to_csv(tmp_path / "new.csv", index=False)
    predict(bundle, tmp_path / "new.csv", tmp_path / "scores.csv")
    ours = pd.read_csv(tmp_path / "scores.csv")
    made = export_onnx(bundle, tmp_path / "m.onnx")
    assert made.inputs["numbers"] == ["size", "weight"]
    feeds = {
        "numbers": rows[["size", "weight"]].to_numpy(np.float64),
        "texts": rows[["colour"]].fillna(made.inputs["missing_text"]).to_numpy(dtype=object),
    }
    scores, alarms = onnxruntime.InferenceSession(made.out).run(["score", "alarm"], feeds)
    np.testing.assert_allclose(scores, ours.score, rtol=1e-4, atol=1e-4)  # NaN in the same places
    assert alarms.tolist() == ours.alarm.astype(bool).tolist()
    assert 0 < np.isnan(scores).sum() < len(rows)
    assert alarms[np.isnan(scores)].all()


def test_the_consumer_example_alarms_on_the_same_rows(home: Path, tmp_path: Path) -> None:
    cells = [LINES[fault] for fault in LINES if not fault.startswith(("cut", "too long", "shifted"))]
    data = with_lines(home, tmp_path / "new.csv", [*cells, *HARMLESS.values(), "x,0.5,NA,0.1,0"])
    bundle = load_bundle(home / "out")
    predict(bundle, data, tmp_path / "scores.csv")
    ours = pd.read_csv(tmp_path / "scores.csv")
    found = consumed(export_onnx(bundle, tmp_path / "m.onnx").out, data)
    np.testing.assert_allclose(found[:, 0], ours.score, rtol=0, atol=1e-4)
    assert found[ours.problem.notna(), 1].tolist() == [1] * (len(cells) + 1)
    with pytest.raises(subprocess.CalledProcessError):
        consumed(tmp_path / "m.onnx", with_lines(home, data, [LINES["cut"]]))


class Odd(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose score is the first feature, whatever that is."""

    def fit(self, X: Any, y: Any) -> "Odd":  # noqa: N803
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        return np.asarray(X)[:, 0]


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_a_certified_threshold_raises_on_a_score_that_is_not_finite(score: float) -> None:
    labels = np.arange(200) % 2
    rows = np.random.default_rng(0).normal(size=(200, 1)) + labels[:, None]
    model = CertifiedThresholdClassifier(FrozenEstimator(Odd().fit(rows, labels)), tpr=0.9).fit(rows, labels)
    with pytest.raises(ValueError, match=r"X\[1\]"):
        model.predict(np.array([[0.0], [score]]))
    with pytest.raises(ValueError, match=r"X\[3\]"):
        model.fit(np.where(np.arange(200)[:, None] == 3, score, rows), labels)


def test_a_network_classifier_raises_on_absurd_values_and_trains_beside_them() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3 == 0
    rows = rng.normal(size=(300, 3)) + labels[:, None]
    model = RankRegClassifier(epochs=3, random_state=0, training={"progress": False}).fit(rows, labels)
    for value in (1e6, 1e22, 1e300):
        bad = np.where(np.arange(3) == 2, value, rows[:2])
        for method in (model.predict, model.decision_function, model.predict_proba, model.criticality):
            with pytest.raises(ValueError, match=r"X\[0, 2\]"):
                method(bad)
    rows[5, 1] = 1e22
    for seed in (0, 1, 2):  # wherever the row is held out
        again = RankRegClassifier(epochs=3, random_state=seed, tpr=0.8, training={"progress": False}).fit(
            rows, labels
        )
        assert np.isfinite(again.threshold_)


def test_a_loaded_bundle_without_the_new_fields_reads_gaps_in_texts_as_before(tmp_path: Path) -> None:
    shape = MLPShape(classes=2, features=3, head="score")
    bundle = save_bundle(tmp_path / "b", build_model(shape), **contents(model=shape))
    pd.DataFrame({"age": [50.0, 40.0], "site": ["arm", None]}).to_csv(tmp_path / "new.csv", index=False)
    assert predict(bundle, tmp_path / "new.csv", tmp_path / "scores.csv").unreadable == 0
    assert bundle.card.labels.negative == ("healthy",)


def test_a_first_line_unlike_all_others_is_one_error_not_a_thousand_alarms(home: Path, tmp_path: Path) -> None:
    lines = (home / "data.csv").read_text().splitlines()
    (tmp_path / "new.csv").write_text("\n".join([lines[0], *(f"{line},1" for line in lines[1:])]))
    with pytest.raises(ValueError, match=r"row 1 \(line 2\) has 6 fields instead of 5"):
        predict(load_bundle(home / "out"), tmp_path / "new.csv", tmp_path / "scores.csv")


def test_a_few_texts_among_numbers_are_faults_and_many_are_categories(tmp_path: Path) -> None:
    rows = pd.DataFrame({"code": [str(k % 7) for k in range(400)], "sick": np.arange(400) % 4 == 0})
    rows["x"] = np.random.default_rng(0).normal(size=400)
    rows.loc[[30, 31], "code"] = "V45"
    rows.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match=r"'V45' in row 31 \(line 32\)"):
        table(tmp_path / "a.csv", target="sick")
    splits = table(tmp_path / "a.csv", target="sick", categorical=["code"])
    assert splits.preprocessing["categorical"][0]["name"] == "code"
    rows.loc[rows.index % 10 == 0, "code"] = "V45"
    rows.to_csv(tmp_path / "a.csv", index=False)
    assert table(tmp_path / "a.csv", target="sick").preprocessing["categorical"][0]["name"] == "code"


def test_ids_without_an_id_column_are_the_row_numbers_of_the_messages(home: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(home / "data.csv").drop(columns="name")
    rows.to_csv(tmp_path / "data.csv", index=False)
    splits = table(tmp_path / "data.csv", target="sick")
    ids = np.concatenate([part.ids for part in splits.parts.values()])
    assert sorted(ids.tolist()) == list(range(1, 401))


def test_images_that_cannot_be_read_alarm_too(tmp_path: Path) -> None:
    source = Source(write_images(tmp_path / "images"), positive="bad", size=16)
    config = settings("image", 0.8, size=16, epochs=1)
    fit(source, tmp_path / "out", tpr=0.8, learners=["network"], config=config, folds=2, progress=False)
    (tmp_path / "images/good/torn.png").write_text("no image")
    found = predict(load_bundle(tmp_path / "out"), tmp_path / "images", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv").set_index("id")
    assert found.unreadable == 1
    assert scores.alarm["good/torn.png"] == 1
    assert found.alarms == scores.alarm.sum()
