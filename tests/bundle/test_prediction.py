"""New data through a bundle: in order, as a stream, with every problem named."""

import errno
import io
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

from rankreg.bundle import Bundle, evaluate, load_bundle, predict, prediction
from rankreg.bundle.evaluation import evaluate_scores, evaluation_lines, write_scores
from rankreg.bundle.prediction import read_chunks
from rankreg.fit import Source, fit, settings
from rankreg.operating import score_spool
from rankreg.scores import Scores
from tests.own_data import CommandLine, run_command, write_images, write_table


@pytest.fixture(scope="module")
def table_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fitted table: data.csv and out/."""
    home = tmp_path_factory.mktemp("table")
    source = Source(write_table(home / "data.csv"), target="sick", id_column="name")
    learners = ["logistic", "boosting", "mlp"]
    fit(source, home / "out", tpr=0.7, learners=learners, threshold="certified", test=0.2, progress=False)
    return home


@pytest.fixture(scope="module")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fitted images: images/ and out/."""
    home = tmp_path_factory.mktemp("images")
    source = Source(write_images(home / "images"), positive="bad", size=16)
    config = settings("image", 0.8, size=16, epochs=1)
    fit(source, home / "out", tpr=0.8, config=config, backbone="none", folds=2, test=0.3, progress=False)
    return home


@pytest.fixture
def table_bundle(table_folder: Path) -> Bundle:
    """The table's bundle."""
    return load_bundle(table_folder / "out")


def test_rows_keep_their_order_and_ids_and_the_scores_of_the_fit(
    table_folder: Path, table_bundle: Bundle, tmp_path: Path
) -> None:
    rows = pd.read_csv(table_folder / "data.csv")
    found = predict(table_bundle, table_folder / "data.csv", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert list(scores.columns) == ["id", "score", "alarm", "problem"]
    assert scores.id.tolist() == rows.name.tolist()
    assert (found.samples, found.alarms, found.unreadable) == (400, scores.alarm.sum(), 0)
    assert (scores.alarm == (scores.score >= table_bundle.card.threshold.value)).all()
    before = pd.read_csv(table_folder / "out/test-scores.csv").set_index("id").score
    np.testing.assert_allclose(scores.set_index("id").score[before.index], before, rtol=0, atol=1e-5)


def test_every_calibration_positive_at_or_above_the_threshold_raises_an_alarm_again(
    table_folder: Path, table_bundle: Bundle, tmp_path: Path
) -> None:
    predict(table_bundle, table_folder / "data.csv", tmp_path / "scores.csv")
    alarm = pd.read_csv(tmp_path / "scores.csv").set_index("id").alarm
    calibration = pd.read_csv(table_folder / "out/calibration-scores.csv").set_index("id")
    certificate = table_bundle.card.threshold.certificate
    assert certificate is not None
    positives = calibration[calibration.label == 1]
    assert alarm[positives.index].mean() >= certificate["recall"]


def test_the_size_of_the_chunks_changes_no_row(
    table_folder: Path, table_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict(table_bundle, table_folder / "data.csv", tmp_path / "whole.csv")
    monkeypatch.setattr(prediction, "ROWS", 7)
    predict(table_bundle, table_folder / "data.csv", tmp_path / "pieces.csv")
    whole, pieces = pd.read_csv(tmp_path / "whole.csv"), pd.read_csv(tmp_path / "pieces.csv")
    assert whole.id.equals(pieces.id)
    assert whole.alarm.equals(pieces.alarm)
    np.testing.assert_allclose(whole.score, pieces.score, rtol=0, atol=1e-5)


def test_further_columns_are_ignored_and_unlabelled_rows_without_names_are_numbered(
    table_folder: Path, table_bundle: Bundle, tmp_path: Path
) -> None:
    rows = pd.read_csv(table_folder / "data.csv").drop(columns=["sick", "name"]).assign(extra="?")
    rows[rows.columns[::-1]].to_csv(tmp_path / "new.csv", index=False)
    predict(table_bundle, tmp_path / "new.csv", tmp_path / "new-scores.csv")
    predict(table_bundle, table_folder / "data.csv", tmp_path / "scores.csv")
    new, old = pd.read_csv(tmp_path / "new-scores.csv"), pd.read_csv(tmp_path / "scores.csv")
    assert new.id.tolist() == list(range(1, 401))
    assert new.score.equals(old.score)


def test_all_missing_columns_are_named(table_folder: Path, table_bundle: Bundle, tmp_path: Path) -> None:
    pd.read_csv(table_folder / "data.csv").drop(columns=["size", "colour"]).to_csv(tmp_path / "new.csv")
    with pytest.raises(ValueError, match="has no column 'size', 'colour'"):
        predict(table_bundle, tmp_path / "new.csv", tmp_path / "scores.csv")
    assert not list(tmp_path.glob("scores*"))


def test_memory_does_not_grow_with_the_rows(table_folder: Path, table_bundle: Bundle, tmp_path: Path) -> None:
    rows = pd.read_csv(table_folder / "data.csv")

    def peak(copies: int) -> int:
        pd.concat([rows] * copies).to_csv(tmp_path / "many.csv", index=False)
        tracemalloc.start()
        for _ in read_chunks(tmp_path / "many.csv", table_bundle.card):
            pass
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction, "ROWS", 1000)
        few, many = peak(60), peak(180)  # its first lines tell how a file is written
    assert many < 1.5 * few


def test_an_interrupted_prediction_leaves_the_older_file(
    table_folder: Path, table_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scores.csv").write_text("older")

    def failing(*arguments: Any) -> Iterator[Any]:
        raise OSError(errno.ENOSPC, "No space left on device")
        yield

    monkeypatch.setattr(prediction, "scored", failing)
    with pytest.raises(OSError, match="No space"):
        predict(table_bundle, table_folder / "data.csv", tmp_path / "scores.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]
    assert (tmp_path / "scores.csv").read_text() == "older"


def test_an_evaluation_prints_no_threshold_above_the_models(table_folder: Path, table_bundle: Bundle) -> None:
    found = evaluate(table_bundle, table_folder / "data.csv").evaluation
    said = dict(evaluation_lines(replace(found, threshold=0.3279826045036316)))["Caught"]
    assert float(said.split("≥")[1]) == 0.327982


@pytest.mark.parametrize("name", ["bundle.json", "model.safetensors", "README.md"])
def test_a_model_is_never_overwritten_by_its_scores(table_folder: Path, table_bundle: Bundle, name: str) -> None:
    part = table_folder / "out/bundle" / name
    before = part.read_bytes()
    with pytest.raises(ValueError, match="is a part of a model"):
        predict(table_bundle, table_folder / "data.csv", part)
    with pytest.raises(ValueError, match="is a part of a model"):
        evaluate(table_bundle, table_folder / "data.csv", out=part)
    assert part.read_bytes() == before


def test_the_data_are_never_overwritten_by_their_scores(
    table_folder: Path, table_bundle: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="is the data itself"):
        predict(table_bundle, table_folder / "data.csv", table_folder / "data.csv")
    with pytest.raises(ValueError, match="is a folder"):
        predict(table_bundle, table_folder / "data.csv", tmp_path)


def test_an_evaluation_is_that_of_the_predicted_scores(
    table_folder: Path, table_bundle: Bundle, tmp_path: Path
) -> None:
    rows = pd.read_csv(table_folder / "data.csv")
    predict(table_bundle, table_folder / "data.csv", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv")
    found = evaluate(table_bundle, table_folder / "data.csv").evaluation
    assert found.auc.estimate == pytest.approx(roc_auc_score(rows.sick, scores.score))
    assert found.fpr.estimate == pytest.approx(scores.alarm[rows.sick == 0].mean())
    assert found.recall.estimate == pytest.approx(scores.alarm[rows.sick == 1].mean())


def test_labels_that_the_bundle_does_not_know_are_no_negatives(
    table_folder: Path, table_bundle: Bundle, tmp_path: Path
) -> None:
    rows = pd.read_csv(table_folder / "data.csv")
    rows.assign(sick=rows.sick.map({0: "no", 1: "yes"})).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(
        ValueError, match=r"holds 'no' \(320\), 'yes' \(80\): none of them is the positive value '1'"
    ):
        evaluate(table_bundle, tmp_path / "new.csv")
    assert predict(table_bundle, tmp_path / "new.csv", tmp_path / "scores.csv").samples == 400
    rows.assign(sick=rows.sick.astype(float)).to_csv(tmp_path / "new.csv", index=False)
    assert evaluate(table_bundle, tmp_path / "new.csv").evaluation.positives == 80


def test_images_that_cannot_be_read_are_reported_and_the_others_scored(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    images = write_images(tmp_path / "new", 5, 5, seed=1)
    (images / "good/broken.jpg").write_text("no image")
    torn = io.BytesIO()
    Image.new("RGB", (64, 64)).save(torn, "png")
    (images / "bad/torn.png").write_bytes(torn.getvalue()[:70])
    (images / "notes.txt").write_text("not looked at")
    rankreg = CommandLine(monkeypatch, capsys)
    status, said, error = rankreg("predict", image_folder / "out", images, "--out", tmp_path / "scores.csv")
    assert status == 1
    assert "12 samples" in said
    assert "2 could not be scored and raise an alarm: bad/torn.png" in error
    scores = pd.read_csv(tmp_path / "scores.csv").set_index("id")
    assert scores.index.tolist() == sorted(scores.index)
    assert scores.problem.dropna().index.tolist() == ["bad/torn.png", "good/broken.jpg"]
    assert scores.score.isna().sum() == 2
    assert scores.alarm[scores.score.isna()].tolist() == [1, 1]

    found = evaluate(load_bundle(image_folder / "out"), images)
    assert (found.evaluation.positives, found.evaluation.negatives, len(found.unreadable)) == (5, 5, 2)


@pytest.mark.parametrize("held", [1 << 20, 64])
def test_an_evaluation_in_parts_is_that_of_all_scores(
    table_folder: Path, table_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(prediction, "ROWS", 37)
    monkeypatch.setattr(score_spool, "HELD", held)
    rows = (table_folder / "data.csv").read_text().splitlines()
    (tmp_path / "data.csv").write_text("\n".join([*rows, "torn"]))
    found = evaluate(table_bundle, tmp_path / "data.csv", out=tmp_path / "scores.csv")
    written = pd.read_csv(tmp_path / "scores.csv", dtype={"score": np.float32})
    threshold = table_bundle.card.threshold.value
    assert [one.name for one in found.evaluation.findings] == ["training-data"]
    assert replace(found.evaluation, findings=()) == evaluate_scores(
        written.label, written.score, threshold=threshold
    )
    assert found.evaluation.recall.estimate == (written.score >= threshold)[written.label == 1].mean()
    assert found.evaluation.auc.estimate == pytest.approx(roc_auc_score(written.label, written.score))
    assert (len(written), found.left_out, len(found.unreadable)) == (400, 1, 1)
    again = Scores(written.id.to_numpy(), written.label.to_numpy(), written.score.to_numpy())
    write_scores(tmp_path / "again.csv", again)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "scores.csv").read_bytes()


def test_an_evaluation_that_fails_writes_nothing(table_folder: Path, table_bundle: Bundle, tmp_path: Path) -> None:
    rows = pd.read_csv(table_folder / "data.csv")
    rows[rows.sick == rows.sick.max()].to_csv(tmp_path / "one.csv", index=False)
    (tmp_path / "scores.csv").write_text("kept")
    with pytest.raises(ValueError, match="undefined without negatives"):
        evaluate(table_bundle, tmp_path / "one.csv", out=tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text() == "kept"
    with pytest.raises(ValueError, match="is the data itself"):
        evaluate(table_bundle, tmp_path / "one.csv", out=tmp_path / "one.csv")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one.csv", "scores.csv"]


def test_images_are_scored_as_in_the_fit_whatever_the_chunk(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "IMAGES", 5)
    predict(load_bundle(image_folder / "out"), image_folder / "images", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv").set_index("id").score
    before = pd.read_csv(image_folder / "out/test-scores.csv").set_index("id").score
    np.testing.assert_allclose(scores[before.index], before, rtol=0, atol=1e-4)
    predict(load_bundle(image_folder / "out"), image_folder / "images/bad/003.png", tmp_path / "one.csv")
    assert pd.read_csv(tmp_path / "one.csv").score[0] == pytest.approx(scores["bad/003.png"], abs=1e-4)


@pytest.mark.parametrize(
    ("bundle", "data", "message"),
    [
        ("table", "images", "takes a table"),
        ("image", "data.csv", "takes an image"),
        ("image", "empty", "holds no images"),
        ("table", "absent.csv", "no file or folder"),
    ],
)
def test_data_of_the_wrong_kind_are_refused(
    table_folder: Path, image_folder: Path, tmp_path: Path, bundle: str, data: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"images": image_folder / "images", "data.csv": table_folder / "data.csv"}
    folder = {"table": table_folder, "image": image_folder}[bundle]
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        predict(load_bundle(folder / "out"), places.get(data, tmp_path / data), tmp_path / "scores.csv")


@pytest.mark.slow
def test_the_command_line_says_what_is_wrong_and_leaves_with_status_2(table_folder: Path, tmp_path: Path) -> None:
    lacking = tmp_path / "new.csv"
    lacking.write_text("size,weight\n1,2\n")
    done = run_command("predict", table_folder / "out", lacking, "--out", tmp_path / "scores.csv")
    assert done.returncode == 2
    assert "has no column 'colour'" in done.stderr
    assert "Traceback" not in done.stderr
    done = run_command("evaluate", tmp_path / "nowhere", lacking)
    assert done.returncode == 2
    assert "no bundle at" in done.stderr
