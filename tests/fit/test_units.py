"""Copies and groups in one's own data: they stay together, and count once for the certificate."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rankreg.bundle import load_bundle
from rankreg.bundle.card import digest
from rankreg.bundle.evaluation import evaluate_scores
from rankreg.datasets.images import image_folder
from rankreg.fit import Source, load_source
from rankreg.operating.guarantees import certified_rank, lower_bound, upper_bound
from rankreg.operating.points import assumption
from rankreg.operating.thresholds import lowered
from rankreg.operating.units import UnitSizes
from rankreg.report.text import Card, cards
from rankreg.scores import Scores
from tests.own_data import CommandLine, write_images, write_table


@pytest.fixture
def rankreg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process."""
    return CommandLine(monkeypatch, capsys)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """80 positives and 320 negatives, each five times; the column `patient` is of two different rows."""
    table = pd.read_csv(write_table(tmp_path / "data.csv")).drop(columns="name")
    table["patient"] = np.arange(len(table)) // 2
    pd.concat([table] * 5).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def unit_sizes(units: Any, positive: Any) -> list[int]:
    """How many positives each unit has, by pandas."""
    return pd.Series(units[positive]).value_counts().tolist()


def test_copies_are_one_unit_in_every_part_unless_they_are_said_to_be_chance(copied: Path, tmp_path: Path) -> None:
    for part in load_source(Source(copied, target="sick", drop=("patient",)), tmp_path).parts.values():
        assert part.units is not None
        assert set(unit_sizes(part.units, slice(None))) == {5}
        assert len(np.unique(part.units)) == len(set(part.ids % 400))
        joined = part.take(np.arange(7))
        np.testing.assert_array_equal(joined.units, part.units[:7])
    for part in load_source(
        Source(copied, target="sick", drop=("patient",), keep_copies_together=False), tmp_path
    ).parts.values():
        assert part.units is None


def test_copies_and_groups_are_linked(copied: Path, tmp_path: Path) -> None:
    splits = load_source(Source(copied, target="sick", group="patient"), tmp_path)
    for part in splits.parts.values():
        assert part.units is not None
        np.testing.assert_array_equal(
            part.units[:, None] == part.units, (part.rows % 400 // 2)[:, None] == part.rows % 400 // 2
        )
    units = splits.join("calibration", "test").units
    assert units is not None
    assert len(units) == len(splits["calibration"]) + len(splits["test"])
    alone = load_source(Source(copied, target="sick", group="patient", keep_copies_together=False), tmp_path)
    assert set(unit_sizes(alone["train"].units, slice(None))) == {10}


def test_the_number_of_units_certifies_not_the_number_of_rows(
    rankreg: CommandLine, copied: Path, tmp_path: Path
) -> None:
    options = ("--target", "sick", "--drop", "patient", "--learner", "logistic")
    arguments = ("fit", copied, *options, "--out", tmp_path / "out")
    assert rankreg(*arguments, "--tpr", "0.95", "--confidence", "0.99")[0] == 0
    found = load_bundle(tmp_path / "out").card.threshold
    judged = pd.read_csv(tmp_path / "out/out-of-fold-scores.csv")
    positives = judged[judged.label == 1]
    assert found.calibration_positives == len(positives) == 400
    assert found.units == positives.unit.nunique() == 80
    assert (found.kind, found.per) == ("expected", "row")  # 400 rows would do, 80 units do not
    assert found.positives_needed is None
    assert found.units_needed == 90  # the least n with 0.95^n ≤ 0.01
    assert found.highest_tpr == pytest.approx(0.01 ** (1 / 80))
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["threshold"]["units"] == 80
    assert summary["parts"]["train"] == {"samples": 2000, "positives": 400, "positive_units": 80}
    assert summary["judged"]["units"] == 80

    assert rankreg(*arguments, "--tpr", "0.7")[0] == 0
    found = load_bundle(tmp_path / "out").card.threshold
    held = pd.read_csv(tmp_path / "out/calibration-scores.csv")
    positives = held[held.label == 1]
    assert found.certified
    assert found.certificate is not None
    assert (found.certificate["units"], found.certificate["per"]) == (16, "row")
    rank = certified_rank(UnitSizes.of(unit_sizes(positives.unit, slice(None))), 0.7, 0.95)
    assert found.value == pytest.approx(lowered(np.sort(positives.score)[rank - 1]), abs=1e-6)
    assert rank < certified_rank(80, 0.7, 0.95)

    assert rankreg(*arguments[:-1], tmp_path / "split", "--split-copies", "--tpr", "0.95")[0] == 0
    found = load_bundle(tmp_path / "split").card.threshold
    assert (found.certified, found.units, found.calibration_positives) == (True, None, 80)
    assert "unit" not in pd.read_csv(tmp_path / "split/calibration-scores.csv")


def test_a_recall_of_units_counts_a_unit_as_caught_with_its_highest_positive(
    rankreg: CommandLine, copied: Path, tmp_path: Path
) -> None:
    arguments = ("fit", copied, "--target", "sick", "--group", "patient", "--tpr", "0.7", "--learner", "logistic")
    status, said, _ = rankreg(*arguments, "--per", "unit", "--out", tmp_path / "out")
    assert status == 0
    found = load_bundle(tmp_path / "out").card.threshold
    scores = pd.read_csv(tmp_path / "out/calibration-scores.csv")
    highest = np.sort(scores[scores.label == 1].groupby("unit").score.max())
    assert (found.certified, found.per, found.units) == (True, "unit", len(highest))
    rank = certified_rank(len(highest), 0.7, 0.95)
    assert found.value == pytest.approx(lowered(highest[rank - 1]), abs=1e-6)
    assert assumption(found) in " ".join(said.split())
    options = ("--label", "label", "--score", "score", "--unit", "unit", "--per", "unit", "--tpr", "0.7", "--json")
    point = json.loads(rankreg("certify", tmp_path / "out/calibration-scores.csv", *options)[1])
    assert found.certificate is not None
    for field in ("units", "per", "positives", "negatives", "rank", "recall", "fpr", "fpr_at_most"):
        assert point[field] == found.certificate[field]
    assert lowered(point["threshold"]) == pytest.approx(found.value, abs=1e-6)
    assert rankreg(*arguments, "--per", "patient", "--out", tmp_path / "none")[0] == 2


def test_where_a_recall_is_promised_the_assumption_is_said(
    rankreg: CommandLine, copied: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    said = rankreg(
        "fit",
        copied,
        "--target",
        "sick",
        "--drop",
        "patient",
        "--learner",
        "logistic",
        "--tpr",
        "0.7",
        "--out",
        out,
    )[1]
    expected = assumption(load_bundle(out).card.threshold)
    assert "16 units" in expected
    answers = [
        said,
        rankreg("evaluate", out, copied)[1],
        rankreg("predict", out, copied, "--out", tmp_path / "new.csv")[1],
    ]
    for answer in answers:
        assert expected in " ".join(answer.split())


def test_a_bundle_from_before_units_is_still_read(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    rankreg(
        "fit",
        data,
        "--target",
        "sick",
        "--id",
        "name",
        "--learner",
        "logistic",
        "--tpr",
        "0.7",
        "--out",
        tmp_path / "out",
    )
    card = tmp_path / "out/bundle/bundle.json"
    content = json.loads(card.read_text())
    for key in ("units", "per", "units_needed"):
        del content["threshold"][key]
    for key in ("units", "per"):
        del content["threshold"]["certificate"][key]
    content["sha256"] = digest(content)
    card.write_text(json.dumps(content))
    found = load_bundle(tmp_path / "out").card.threshold
    assert (found.certified, found.units, found.per, found.calibration_positives) == (True, None, "row", 16)
    assert rankreg("predict", tmp_path / "out", data, "--out", tmp_path / "scores.csv")[0] == 0


def write_groups(path: Path, rows: list[tuple[str, str]], header: str = "file,group") -> Path:
    path.write_text("\n".join([header, *(f"{name},{group}" for name, group in rows)]) + "\n")
    return path


def patients(images: Path) -> list[tuple[str, str]]:
    """Three images each, of one class."""
    files = sorted(place.relative_to(images) for place in images.glob("*/*.png"))
    return [(place.as_posix(), f"{place.parent}-{int(place.stem) // 3}") for place in files]


def test_images_of_one_patient_stay_together_and_are_one_unit(tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", negatives=90, positives=60)
    group_of = dict(patients(images))
    (images / "bad/copy.png").write_bytes((images / "bad/000.png").read_bytes())
    rows = [*group_of.items(), ("bad/copy.png", "another")]
    splits = image_folder(images, positive="bad", size=16, groups=write_groups(tmp_path / "groups.csv", rows))
    group_of["bad/copy.png"] = "bad-0"  # equal bytes link the two groups
    homes: list[set[str]] = []
    for part in splits.parts.values():
        groups = np.asarray([group_of[name] for name in part.ids])
        assert part.units is not None
        np.testing.assert_array_equal(part.units[:, None] == part.units, groups[:, None] == groups)
        homes.append(set(groups))
    assert sum(map(len, homes)) == len(set.union(*homes)) == 50
    assert image_folder(write_images(tmp_path / "plain"), positive="bad", size=16)["train"].units is None


def test_groups_of_images_go_all_the_way_to_the_certificate(rankreg: CommandLine, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", negatives=90, positives=90)
    groups = write_groups(tmp_path / "groups.csv", patients(images))
    network = ("--learner", "network", "--epochs", 1)
    arguments = ("fit", images, "--positive", "bad", "--size", 16, *network, "--folds", 2, "--tpr", "0.5")
    status, _, error = rankreg(*arguments, "--groups", groups, "--out", tmp_path / "out")
    assert (status, error) == (0, "")
    found = load_bundle(tmp_path / "out").card.threshold
    scores = pd.read_csv(tmp_path / "out/calibration-scores.csv")
    group_of = pd.Series(dict(patients(images)))
    assert found.units == group_of[scores.id[scores.label == 1]].nunique()
    assert found.calibration_positives == 3 * found.units
    assert rankreg(*arguments, "--group", "patient", "--out", tmp_path / "no")[0] == 2
    assert (
        rankreg(
            "fit", write_table(tmp_path / "t.csv"), "--target", "sick", "--groups", groups, "--out", tmp_path / "no"
        )[0]
        == 2
    )


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (lambda rows: rows[1:], "bad/000.png"),
        (lambda rows: [*rows, ("bad/no.png", "x")], "bad/no.png"),
        (lambda rows: [*rows, rows[3]], "bad/003.png"),
        (lambda rows: [(rows[0][0], ""), *rows[1:]], "bad/000.png"),
    ],
    ids=["missing", "unknown", "twice", "empty"],
)
def test_a_wrong_line_of_the_groups_is_named(rankreg: CommandLine, tmp_path: Path, fault: Any, named: str) -> None:
    images = write_images(tmp_path / "images")
    groups = write_groups(tmp_path / "groups.csv", fault(patients(images)))
    status, _, error = rankreg("fit", images, "--positive", "bad", "--groups", groups, "--out", tmp_path / "out")
    assert status == 2
    assert named in error
    assert str(groups) in error.replace("\n", "")
    assert "Traceback" not in error


@pytest.mark.parametrize("content", [b"", b"name,patient\na,b\n", b"\xff\xfe\x00,\x9d\n", b'file,group\n"a'])
def test_a_file_that_holds_no_groups_is_an_error(rankreg: CommandLine, tmp_path: Path, content: bytes) -> None:
    images = write_images(tmp_path / "images")
    (tmp_path / "groups.csv").write_bytes(content)
    status, _, error = rankreg(
        "fit", images, "--positive", "bad", "--groups", tmp_path / "groups.csv", "--out", tmp_path / "out"
    )
    assert status == 2
    assert "groups.csv" in error
    missing = rankreg(
        "fit", images, "--positive", "bad", "--groups", tmp_path / "none.csv", "--out", tmp_path / "out"
    )
    assert missing[0] == 2


def test_intervals_of_the_test_part_are_over_units() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([1, 0], [40, 60])
    values, units = np.repeat(rng.normal(labels[::4], 1), 4), np.repeat(np.arange(25), 4)
    found = evaluate_scores(labels, values, threshold=0.3, units=units)
    plain = evaluate_scores(labels, values, threshold=0.3)
    positives = UnitSizes.of([4] * 10)
    caught = int((values[:40] >= 0.3).sum())
    assert found.recall.estimate == plain.recall.estimate == caught / 40
    assert found.recall.low == pytest.approx(lower_bound(caught, positives, 0.975))
    assert found.recall.high == pytest.approx(upper_bound(caught, positives, 0.975))
    assert found.recall.low < plain.recall.low
    assert found.recall_of_units is not None
    assert found.recall_of_units.estimate == caught / 40  # copies are caught together
    assert found.recall_of_units.low == pytest.approx(lower_bound(caught // 4, 10, 0.975))
    assert (found.units, plain.units, plain.recall_of_units) == (10, None, None)
    assert found.fpr_at_tpr["90"].high >= plain.fpr_at_tpr["90"].high


def test_scores_keep_their_units_on_disk(tmp_path: Path) -> None:
    units = np.array([4, 4, 7])
    Scores(np.arange(3), np.array([0, 1, 1]), np.arange(3.0), units).save(tmp_path / "a.npz")
    np.testing.assert_array_equal(Scores.load(tmp_path / "a.npz").units, units)
    Scores(np.arange(3), np.array([0, 1, 1]), np.arange(3.0)).save(tmp_path / "b.npz")
    assert Scores.load(tmp_path / "b.npz").units is None
    with pytest.raises(ValueError, match="one unit per sample"):
        Scores(np.arange(3), np.array([0, 1, 1]), np.arange(3.0), units[:2])


def test_without_copies_and_groups_every_sample_is_a_unit(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("fit", data, "--target", "sick", "--id", "name", "--learner", "logistic", "--tpr", "0.7")
    found = {}
    for per in ("row", "unit"):
        assert rankreg(*arguments, "--per", per, "--out", tmp_path / per)[0] == 0
        found[per] = load_bundle(tmp_path / per).card.threshold
    assert found["row"].value == found["unit"].value
    assert (found["row"].units, found["unit"].units) == (None, 16)
    assert pd.read_csv(tmp_path / "unit/calibration-scores.csv").unit.is_unique


@pytest.mark.parametrize("per", ["row", "unit"])
def test_the_report_of_a_fit_shows_the_bundles_certificate(
    rankreg: CommandLine, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per: str
) -> None:
    pages: list[list[Card]] = []

    def watched(*given: Any) -> list[Card]:
        pages.append(cards(*given))
        return pages[-1]

    monkeypatch.setattr("rankreg.report.page.cards", watched)
    arguments = ("fit", copied, "--target", "sick", "--group", "patient", "--learner", "logistic", "--tpr", "0.6")
    assert rankreg(*arguments, "--per", per, "--out", tmp_path / "out")[0] == 0
    ((card,),) = pages
    found = load_bundle(tmp_path / "out").card.threshold
    assert card.json is not None
    shown = json.loads(card.json)
    assert shown.pop("findings") == []
    assert shown == found.certificate
    assert assumption(found) in (tmp_path / "out/report.html").read_text()
