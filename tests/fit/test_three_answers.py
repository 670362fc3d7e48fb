"""Promises beside the recall, from the fit to the prediction, the evaluation, the monitor and the ONNX file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy.stats import beta

from rankreg.bundle import Threshold, evaluate, export_onnx, load_bundle, predict
from rankreg.fit import Fitted, Source, fit
from rankreg.operating import PromisedPoint, Promises, Review, certify_promises, certify_review
from tests.bundle.test_export import CONSUMER, consumed
from tests.own_data import CommandLine, write_table

REVIEW = Promises(precision=0.6, review=True)
CODES = {"dismiss": 0, "review": 1, "alarm": 2}


@pytest.fixture
def rankreg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process."""
    return CommandLine(monkeypatch, capsys)


def fitted(data: Path, out: Path, **options: Any) -> Fitted:
    """A quick fit."""
    made = {"learners": ["logistic"], "progress": False, "tpr": 0.9, **options}
    found = fit(Source(data, target="sick", id_column="name"), out, **made)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data.csv, new.csv, and a review of both kinds: crossed/ and held/."""
    home = tmp_path_factory.mktemp("answers")
    data = write_table(home / "data.csv", 2000, 250)
    write_table(home / "new.csv", 1500, 180, seed=1)
    fitted(data, home / "crossed", promises=REVIEW, threshold="cross-fitted")
    fitted(data, home / "held", promises=REVIEW, calibration=0.5, test=0.2)
    return home


@pytest.mark.parametrize(("name", "file"), [("crossed", "out-of-fold"), ("held", "calibration")])
def test_both_thresholds_come_from_the_samples_that_judge_the_recall(home: Path, name: str, file: str) -> None:
    threshold = load_bundle(home / name).card.threshold
    scores = pd.read_csv(home / name / f"{file}-scores.csv")
    found = certify_review(scores.label.to_numpy(), scores.score.to_numpy(), tpr=0.9, precision=0.6)
    assert (threshold.kind, threshold.certified) == (
        ("certified", True) if name == "held" else ("cross-fitted", False)
    )
    assert threshold.value == pytest.approx(found.review_from, rel=2e-5, abs=2e-5)
    assert threshold.alarm_from == pytest.approx(found.alarm_from, rel=2e-5, abs=2e-5)
    assert isinstance(threshold.promised, Review)
    assert threshold.promised.review_per_1000 == pytest.approx(found.review_per_1000, abs=2)
    assert Threshold.model_validate(json.loads(threshold.model_dump_json())) == threshold


def test_predict_writes_the_answer_and_a_row_without_a_score_alarms(home: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(home / "new.csv", dtype=str)
    rows.loc[3, "size"] = "huge"
    rows.to_csv(tmp_path / "new.csv", index=False)
    bundle = load_bundle(home / "crossed")
    found = predict(bundle, tmp_path / "new.csv", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert list(scores.columns) == ["id", "score", "alarm", "problem", "answer"]
    lower, upper = bundle.card.threshold.levels
    expected = np.select([scores.score < lower, scores.score < upper], ["dismiss", "review"], "alarm")
    assert scores.answer.tolist() == expected.tolist()
    assert (scores.answer[3], scores.alarm[3]) == ("alarm", 1)
    assert (scores.alarm == (scores.answer != "dismiss")).all()
    assert set(scores.answer) == set(CODES)
    counts = scores.answer.value_counts()
    assert (found.samples, found.unreadable, found.reviews) == (1500, 1, counts["review"])
    assert found.alarms == counts["review"] + counts["alarm"]


def clopper_pearson(count: int, total: int, sure: float) -> tuple[float, float]:
    risk = (1 - sure) / 2
    return float(beta.ppf(risk, count, total - count + 1)), float(beta.ppf(1 - risk, count + 1, total - count))


def test_evaluate_measures_every_promise_with_exact_intervals(home: Path, tmp_path: Path) -> None:
    bundle = load_bundle(home / "held")
    found = evaluate(bundle, home / "new.csv").evaluation
    predict(bundle, home / "new.csv", tmp_path / "scores.csv")
    answer = pd.read_csv(tmp_path / "scores.csv").answer
    positive = pd.read_csv(home / "new.csv").sick == 1
    counted = {
        "tpr": (int((positive & (answer != "dismiss")).sum()), int(positive.sum())),
        "precision": (int((positive & (answer == "alarm")).sum()), int((answer == "alarm").sum())),
        "reviews": (int((answer == "review").sum()), 1500),
    }
    said = bundle.card.threshold.promised
    assert isinstance(said, Review)
    targets = {"tpr": 0.9, "precision": 0.6, "reviews": said.review_per_1000_at_most}
    assert {one.name: one.target for one in found.promises} == targets
    for one in found.promises:
        count, total = counted[one.name]
        scale = 1000 if one.name == "reviews" else 1
        assert one.measured is not None
        assert one.measured.estimate == pytest.approx(scale * count / total)
        bounds = clopper_pearson(count, total, 0.95)
        assert (one.measured.low, one.measured.high) == pytest.approx((scale * bounds[0], scale * bounds[1]))
        kept = one.measured.high <= one.target if one.name == "reviews" else one.measured.low >= one.target
        assert (one.verdict == "shown") == kept
    assert found.answers is not None
    assert found.answers.alarmed.estimate == np.mean(answer == "alarm")
    assert found.answers.reviewed.estimate == np.mean(answer == "review")
    assert found.answers.alarm_recall.estimate == np.mean(answer[positive] == "alarm")


def test_a_promise_at_a_stated_prevalence_is_measured_there_and_a_broken_one_is_called_broken(home: Path) -> None:
    from rankreg.bundle.evaluation import evaluate_scores
    from rankreg.operating import promised_threshold

    scores = pd.read_csv(home / "crossed/out-of-fold-scores.csv")
    data = scores.label.to_numpy(), scores.score.to_numpy()
    asked = Promises(precision=0.3, alarms=300, prevalence=0.1)
    threshold = Threshold.of(promised_threshold(*data, promises=asked, tpr=0.7, held_out=True))
    alarm = data[1] >= threshold.value
    tpr, fpr = (alarm[data[0] == kind].mean() for kind in (1, 0))
    found = {one.name: one for one in evaluate_scores(*data, threshold=threshold).promises}
    measured = {name: one.measured.estimate for name, one in found.items() if one.measured is not None}
    assert measured["alarms"] == pytest.approx(1000 * (0.1 * tpr + 0.9 * fpr))
    assert measured["precision"] == pytest.approx(0.1 * tpr / (0.1 * tpr + 0.9 * fpr))
    assert {one.verdict for one in found.values()} == {"shown"}
    turned = evaluate_scores(1 - data[0], data[1], threshold=threshold).promises
    assert {one.name: one.verdict for one in turned} == {"tpr": "broken", "precision": "broken", "alarms": "broken"}


def test_only_the_test_part_says_whether_a_promise_is_kept(home: Path) -> None:
    summary = json.loads((home / "held/summary.json").read_text())
    assert summary["judged"]["promises"] == []
    assert [one["name"] for one in summary["test"]["promises"]] == ["tpr", "precision", "reviews"]
    assert summary["threshold"]["alarm_from"] >= summary["threshold"]["value"]


def test_the_onnx_file_gives_the_answers_of_predict_row_by_row(home: Path, tmp_path: Path) -> None:
    bundle = load_bundle(home / "crossed")
    export_onnx(bundle, tmp_path / "model.onnx")
    rows = pd.read_csv(home / "new.csv")
    rows.loc[5, "size"] = np.inf
    rows.to_csv(tmp_path / "new.csv", index=False)
    predict(bundle, tmp_path / "new.csv", tmp_path / "scores.csv")
    ours = pd.read_csv(tmp_path / "scores.csv")
    found = consumed(tmp_path / "model.onnx", tmp_path / "new.csv")
    assert found[:, 2].tolist() == ours.answer.map(CODES).tolist()
    assert found[:, 1].tolist() == ours.alarm.tolist()
    assert (np.isnan(found[5, 0]), found[5, 2]) == (True, 2)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert [(one.name, one.type) for one in session.get_outputs()][2] == ("answer", "tensor(int64)")
    known = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    assert [known["threshold"], known["alarm_from"]] == bundle.card.threshold.levels
    assert known["answers"] == ["dismiss", "review", "alarm"]
    assert known["promised"]["precision"] == 0.6
    assert CONSUMER.exists()


def test_a_review_is_watched_at_its_lower_threshold(home: Path, rankreg: CommandLine, tmp_path: Path) -> None:
    bundle = load_bundle(home / "held")
    evaluate(bundle, home / "new.csv", out=tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv")
    columns = ("--label", "label", "--score", "score")
    _, out, _ = rankreg("certify", tmp_path / "scores.csv", *columns, "--review", "--precision", "0.5", "--json")
    (tmp_path / "review.json").write_text(out)
    points = [home / "held", home / "held/bundle", home / "held/summary.json", tmp_path / "review.json"]
    for point in points:
        for command in ("monitor", "recertify"):
            status, out, error = rankreg(command, tmp_path / "scores.csv", *columns, "--point", point, "--json")
            assert (status, error) == (0, "")
            expected = json.loads((tmp_path / "review.json").read_text())["review_from"]
            expected = expected if point.name == "review.json" else bundle.card.threshold.value
            said = json.loads(out)
            assert said["threshold" if command == "monitor" else "deployed_threshold"] == expected
    assert len(scores) == 1500


def test_promises_of_one_threshold_are_those_of_certify(home: Path, rankreg: CommandLine, tmp_path: Path) -> None:
    asked = ("--tpr", "0.7", "--fpr", "0.4", "--alarms", "2000", "--per-day", "5000", "--prevalence", "0.1")
    arguments = ("fit", home / "data.csv", "--target", "sick", "--id", "name", "--learner", "logistic")
    status, out, _ = rankreg(*arguments, *asked, "--threshold", "cross-fitted", "--out", tmp_path / "model")
    threshold = load_bundle(tmp_path / "model").card.threshold
    scores = pd.read_csv(tmp_path / "model/out-of-fold-scores.csv")
    data = scores.label.to_numpy(), scores.score.to_numpy()
    found = certify_promises(*data, tpr=0.7, fpr=0.4, alarms=400, prevalence=0.1)
    assert status == 0
    assert isinstance(threshold.promised, PromisedPoint)
    assert threshold.value == pytest.approx(found.threshold, rel=2e-5, abs=2e-5)
    assert [(one.name, one.target) for one in threshold.promised.promises] == [
        (one.name, one.target) for one in found.promises
    ]
    verdict = next(line for line in out.splitlines() if line.startswith("Promised"))
    assert "cross-fitted" in verdict
    assert "certified" not in verdict


def test_promises_that_conflict_are_said_first_and_the_model_is_saved(
    home: Path, rankreg: CommandLine, tmp_path: Path
) -> None:
    arguments = ("fit", home / "data.csv", "--target", "sick", "--id", "name", "--learner", "logistic")
    asked = ("--tpr", "0.95", "--fpr", "0.02")
    status, out, _ = rankreg(*arguments, *asked, "--threshold", "cross-fitted", "--out", tmp_path / "model")
    assert status == 1
    result = out[out.index("\n\n") + 2 :]  # after the columns
    assert result.startswith("Not kept")
    alone = fitted(home / "data.csv", tmp_path / "alone", tpr=0.95, threshold="cross-fitted").threshold
    threshold = load_bundle(tmp_path / "model").card.threshold
    assert (threshold.value, threshold.kind, threshold.kept) == (alone.value, "cross-fitted", False)
    assert isinstance(threshold.promised, PromisedPoint)
    assert threshold.promised.conflicts[0].between == ("tpr", "fpr")
    assert rankreg("predict", tmp_path / "model", home / "new.csv", "--out", tmp_path / "scores.csv")[0] == 0
    assert list(pd.read_csv(tmp_path / "scores.csv").columns) == ["id", "score", "alarm", "problem"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--review",), "--review takes --precision"),
        (("--review", "--precision", "0.5", "--fpr", "0.1"), "--review takes --precision"),
        (("--precision", "1.5"), "precision"),
        (("--per-day", "100"), "--per-day"),
        (("--prevalence", "0.1"), "--prevalence is for"),
        (("--alarms", "200", "--per-day", "100"), "--alarms must lie between"),
        (("--precision", "0.5", "--per", "unit"), "a precision is a share of rows"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_written(
    home: Path, rankreg: CommandLine, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    arguments = ("fit", home / "data.csv", "--target", "sick", "--id", "name", "--out", tmp_path / "model")
    status, _, error = rankreg(*arguments, *options)
    assert status == 2
    assert message in error
    assert not (tmp_path / "model").exists()


def test_copies_need_a_prevalence_for_a_precision(home: Path, rankreg: CommandLine, tmp_path: Path) -> None:
    rows = pd.read_csv(home / "data.csv")
    pd.concat([rows, rows.head(300).assign(name=lambda some: some.name + "-b")]).to_csv(tmp_path / "data.csv")
    arguments = ("fit", tmp_path / "data.csv", "--target", "sick", "--id", "name", "--drop", "Unnamed: 0")
    asked = ("--tpr", "0.8", "--review", "--precision", "0.4", "--learner", "logistic", "--out", tmp_path / "model")
    status, _, error = rankreg(*arguments, *asked)
    assert status == 2
    assert "--prevalence" in error
    status, _, error = rankreg(*arguments, *asked, "--prevalence", "0.125", "--threshold", "cross-fitted")
    threshold = load_bundle(tmp_path / "model").card.threshold
    assert (status, error) == (0, "")
    assert isinstance(threshold.promised, Review)
    assert threshold.units is not None


def test_a_certificate_beside_promises_needs_more_positives(home: Path, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv", 500, 145)  # 29 of them are held out: enough for 90 % alone
    assert fitted(data, tmp_path / "alone").threshold.kind == "certified"
    assert fitted(data, tmp_path / "beside", promises=Promises(fpr=0.9)).threshold.kind == "cross-fitted"
    with pytest.raises(ValueError, match="beside the other promises"):
        fitted(data, tmp_path / "refused", promises=Promises(fpr=0.9), threshold="certified")


@pytest.mark.parametrize(
    "change",
    [
        {"alarm_from": 0.0},
        {"alarm_from": None},
        {"promised": None},
        {"value": -9.0},
        {"promised": {"review_from": 1.0}},
    ],
)
def test_a_card_whose_thresholds_do_not_fit_together_is_refused(home: Path, change: dict[str, Any]) -> None:
    said = load_bundle(home / "held").card.threshold.model_dump(mode="json")
    with pytest.raises(ValueError, match=r"validation error"):
        Threshold.model_validate(said | change)
