"""A page of a summary is the page of the scores themselves, whatever their number."""

import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankreg import score_selection, score_streams
from rankreg.labels import LabelRule
from rankreg.operating import ScoreSummary, certify
from rankreg.report import Model, Settings, SummarizedModel, model_files
from rankreg.report.model_files import ModelFile
from rankreg.report.page import render
from rankreg.score_files import ScoreColumns
from rankreg.score_selection import Selection, even_step, hardest_rows
from tests.conftest import Run

COLUMNS = ScoreColumns("s", "y", LabelRule("ill", ("ILL", "well")), id="id")
WORDS = ("--positive", "ill", "--negative", "ILL", "--negative", "well")
SETTINGS = Settings(tprs=(0.9, 0.95), prevalence=0.01, per_day=500)


def table(rows: int = 3000, seed: int = 0, dtype: Any = np.float64) -> pd.DataFrame:
    """Ids, words as labels, scores with ties, and a column to show."""
    generator = np.random.default_rng(seed)
    ill = generator.random(rows) < 0.1
    scores = (generator.standard_normal(rows) + 2 * ill).astype(dtype)
    scores[::3] = scores[::3].round(1)
    words = np.where(ill, "ill", generator.choice(["well", "ILL"], rows, p=[0.95, 0.05]))
    notes = generator.choice(["a", "", "b c"], rows)
    return pd.DataFrame({"id": [f"n{row:05d}" for row in range(rows)], "y": words, "s": scores, "note": notes})


def save(rows: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        rows.to_parquet(path, row_group_size=700)
    else:
        rows.to_csv(path, index=False)
    return path


def page(model: Any, chosen: Settings = SETTINGS) -> str:
    """The page without the minute at which it was written."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", render([model], chosen))


@pytest.fixture(params=["one pass", "two passes"])
def _pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces and few rows at even distances; with two passes no negatives are kept."""
    monkeypatch.setattr(score_streams, "ROWS", 500)
    monkeypatch.setattr(score_selection, "EVEN", 300)
    monkeypatch.setattr(model_files, "CHUNK", 400)
    if request.param == "two passes":
        monkeypatch.setattr(score_streams, "HELD", 100)


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize(
    ("ending", "crowded"), [("csv", False), ("csv.gz", True), ("parquet", False), ("parquet", True)]
)
def test_the_page_of_a_file_is_the_same_to_the_last_letter(tmp_path: Path, ending: str, crowded: bool) -> None:
    rows = table(dtype=np.float32 if ending == "parquet" else np.float64)
    if crowded:
        rows["s"] = 1 / (1 + np.exp(6 - 4 * rows.s))
    path, test = save(rows, tmp_path / f"a.{ending}"), save(table(seed=1), tmp_path / "test.csv")
    file = ModelFile(path, COLUMNS, "a", test=test)
    found, expected = file.read(SETTINGS.tprs, SETTINGS.confidence), file._in_memory()
    assert isinstance(found, SummarizedModel)
    assert page(found) == page(expected)
    assert found.summary.alarms(found.summary.scores[5]) == expected.sample.alarms(found.summary.scores[5])


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("positives", [1, 40])
def test_few_positives_without_ids_give_the_same_page(tmp_path: Path, positives: int) -> None:
    rows = table()
    rows = pd.concat([rows[rows.y == "ill"][:positives], rows[rows.y != "ill"]]).sample(frac=1, random_state=1)
    path = save(rows, tmp_path / "a.csv")
    file = ModelFile(path, ScoreColumns("s", "y", COLUMNS.labels), "a", show=["note"])
    found = page(file.read((0.95,), 0.95), Settings())
    assert found == page(file._in_memory(), Settings())
    assert f"row {int(np.flatnonzero(rows.y == 'ill')[0]) + 1:,}<" in found or positives > 12


@pytest.mark.usefixtures("_pieces")
def test_a_folder_is_the_sum_of_its_files_and_names_the_file_of_a_row(tmp_path: Path) -> None:
    parts = [table(rows, seed=seed) for seed, rows in enumerate((900, 1300, 1))]
    folder = tmp_path / "scores"
    folder.mkdir()
    for number, part in enumerate(parts):
        save(part, folder / f"p{number}.csv")
    whole = pd.concat(parts, ignore_index=True)
    columns = ScoreColumns("s", "y", COLUMNS.labels)
    found = page(ModelFile(folder, columns, "a").read(SETTINGS.tprs, 0.95))
    expected = page(Model("a", (whole.y == "ill").to_numpy().astype(np.int64), whole.s.to_numpy()))
    for section in (
        r"<script type.*?</script>",
        r"<svg class=\"roc\".*?</svg>",
        r"<svg class=\"hist.*?</svg>",
        r"<pre id.*?</pre>",
    ):
        assert re.findall(section, found, re.DOTALL) == re.findall(section, expected, re.DOTALL) != []
    hardest = int(np.argmax(np.where(whole.y == "ill", -np.inf, whole.s)))
    name = f"p0.csv, row {hardest + 1:,}" if hardest < 900 else f"p1.csv, row {hardest - 899:,}"
    assert f">{name}</th>" in found
    pattern = ModelFile(folder / "p?.csv", columns, "a").read(SETTINGS.tprs, 0.95)
    assert page(pattern).split("<footer>")[0] == found.split("<footer>")[0]


def test_models_too_large_for_memory_are_shown_but_not_compared(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table().assign(t=lambda rows: rows.s + 0.5 * (rows.y == "ill"))
    save(rows, tmp_path / "a.csv")
    command = ["report", "a.csv", "--label", "y", *WORDS, "--out", "page.html"]
    compared = ("--score", "s", "--score", "t")
    assert run(*command, *compared)[0] == 0
    small = Path("page.html").read_text(encoding="utf-8")
    monkeypatch.setattr(model_files, "MOST_BYTES", 1000)
    assert run(*command, *compared)[0] == 0
    large = Path("page.html").read_text(encoding="utf-8")
    assert ("data-unpaired" in small, "data-unpaired" in large) == (False, True)
    assert ('<table class="comparisons' in small, '<table class="comparisons' in large) == (True, False)
    data = r'<script type="application/json".*?</script>'
    assert re.findall(data, small, re.DOTALL) == re.findall(data, large, re.DOTALL) != []
    save(rows[1:], tmp_path / "b.csv")
    status, _, error = run(*command[:2], "b.csv", *command[2:], "--score", "s")
    assert (status, "not scored on the same samples" in error) == (2, True)


def test_a_summary_alone_gives_all_numbers_and_says_what_is_missing() -> None:
    rows = table()
    labels, scores = (rows.y == "ill").to_numpy().astype(np.int64), rows.s.to_numpy()
    found = page(SummarizedModel("a", ScoreSummary.of(labels, scores)))
    expected = page(Model("a", labels, scores))
    data = r'<script type="application/json".*?</script>'
    assert re.findall(data, found, re.DOTALL) == re.findall(data, expected, re.DOTALL) != []
    assert all(said in found and said not in expected for said in ("data-undrawn", "data-unshown"))
    assert repr(certify(labels, scores, tpr=0.95, confidence=0.95).threshold) in page(
        SummarizedModel("a", ScoreSummary.of(labels, scores)), Settings()
    )


def test_a_file_of_one_class_or_with_equal_scores_is_refused_by_name(run: Run, tmp_path: Path) -> None:
    for scores, message in (((0, 1), "undefined without positives"), ((2, 2), "equal 2.0")):
        label = 1 if scores[0] == scores[1] else 0
        (tmp_path / "a.csv").write_text(f"y,s\n0,{scores[0]}\n{label},{scores[1]}\n")
        status, _, error = run("report", "a.csv", "--label", "y", "--score", "s", "--out", "page.html")
        assert (status, message in error, Path("page.html").exists()) == (2, True, False)


def test_infinite_and_tied_scores_give_the_same_page() -> None:
    generator = np.random.default_rng(0)
    labels = (generator.random(900) < 0.2).astype(np.int64)
    scores = np.round(generator.standard_normal(900) + labels, 1)
    scores[[3, 5, 8]], scores[[4, 6]] = np.inf, -np.inf
    model = Model("a", labels, scores, source={"sha256": "none"})
    bins = model.bins(certify(labels, scores, tpr=0.9).threshold)
    known: dict[str, Any] = {"score_bins": bins, "hardest_samples": model.hardest(12), "source": model.source}
    found = SummarizedModel("a", ScoreSummary.of(labels, scores, levels=bins.levels), **known)
    chosen = Settings(tprs=(0.9,))
    assert page(found, chosen) == page(model, chosen)


@given(
    st.lists(st.tuples(st.sampled_from(["ill", "Ill", "a", "b"]), st.integers(-5, 5)), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_a_selection_in_pieces_is_that_of_all_rows(rows: list[tuple[str, int]], cuts: list[int], most: int) -> None:
    labels, scores = np.array([row[0] for row in rows], dtype=object), np.array([float(row[1]) for row in rows])
    found = Selection(most)
    for piece in np.split(np.arange(len(rows)), sorted(cuts)):
        part = found.next()
        for half in np.array_split(piece, 2):
            values, codes = np.unique(labels[half].astype(str), return_inverse=True)
            own: dict[Any, Any] = {name: np.flatnonzero(labels[half] == name) for name in ("ill", "Ill")}
            others = np.flatnonzero(~np.isin(labels[half].astype(str), ["ill", "Ill"]))
            part.add(values.astype(object), codes, scores[half], own | {None: others})
        found.join(part)
    for positive in ({"ill"}, {"ill", "Ill"}):
        is_positive = np.isin(labels.astype(str), sorted(positive))
        for one, other in zip(found.hardest(positive), hardest_rows(is_positive, scores, most), strict=True):
            assert (one.places.tolist(), one.scores.tolist()) == (other.places.tolist(), other.scores.tolist())
        assert found.negatives(positive).tolist() == scores[~is_positive].tolist()
    assert found.span == (scores.min(), scores.max())


@pytest.mark.parametrize(("rows", "step"), [(1, 1), (8, 1), (9, 2), (16, 2), (17, 4), (64, 8), (65, 16)])
def test_rows_at_even_distances_are_every_power_of_two(monkeypatch: Any, rows: int, step: int) -> None:
    monkeypatch.setattr(score_selection, "EVEN", 8)
    assert even_step(rows) == step
    found = Selection(1)
    for piece in np.array_split(np.arange(rows), 5):
        part = found.next()
        part.add(
            np.array(["a"], dtype=object), np.zeros(len(piece), int), piece * 1.0, {None: np.arange(len(piece))}
        )
        found.join(part)
    assert found.even.places.tolist() == list(range(0, rows, step))


def test_memory_does_not_grow_with_the_negatives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_streams, "ROWS", 10_000)
    monkeypatch.setattr(score_streams, "HELD", 1000)
    monkeypatch.setattr(score_selection, "EVEN", 10_000)
    peaks = []
    for rows in (200_000, 800_000):
        scores = np.random.default_rng(0).standard_normal(rows)
        labels = (np.arange(rows) < 200).astype(np.int8)
        pd.DataFrame({"y": labels, "s": scores + 2 * labels}).to_parquet(
            tmp_path / "a.parquet", row_group_size=10_000
        )
        tracemalloc.start()
        ModelFile(tmp_path / "a.parquet", ScoreColumns("s", "y"), "a").read((0.95,), 0.95)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
