"""Score files in pieces give what they give in memory, and the same errors."""

import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankreg import operating, score_streams
from rankreg.labels import LabelRule
from rankreg.operating import ScoreSummary
from rankreg.score_files import ScoreColumns, read_scores, score_parts
from rankreg.score_streams import read_summary, summarize_dask

COLUMNS = ScoreColumns("s", "y")


def table(rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Ids, labels and scores with many digits and some ties."""
    generator = np.random.default_rng(seed)
    labels = (generator.random(rows) < 0.1).astype(np.int64)
    scores = generator.standard_normal(rows) * 10.0 ** generator.integers(-300, 300, rows) + 2 * labels
    scores[::7] = scores[::7].round(1)
    return pd.DataFrame({"id": np.arange(rows), "y": labels, "s": scores})


def same(one: ScoreSummary, other: ScoreSummary) -> bool:
    return one.to_dict() == other.to_dict()


def in_memory(path: Path, columns: ScoreColumns = COLUMNS) -> ScoreSummary:
    return ScoreSummary.of(*read_scores(path, columns).data)


def complaint(reader: Callable[..., Any], path: Path, columns: ScoreColumns) -> str:
    """What the reader says is wrong, or nothing."""
    try:
        reader(path, columns)
    except ValueError as error:
        return str(error)
    return ""


@pytest.fixture(params=["one pass", "two passes"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces, and with two passes no negatives kept."""
    monkeypatch.setattr(score_streams, "ROWS", 500)
    if request.param == "two passes":
        monkeypatch.setattr(score_streams, "HELD", 100)


@pytest.fixture
def no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if Polars left the file to pandas."""

    def refuse(*_: Any) -> Iterator[Any]:
        raise AssertionError("read by pandas")

    monkeypatch.setattr(score_streams, "_pandas_pieces", refuse)


@pytest.mark.usefixtures("passes", "no_fallback")
@pytest.mark.parametrize("last", ["s", "id"])
def test_a_csv_file_gives_the_same_numbers_as_in_memory(tmp_path: Path, last: str) -> None:
    path = tmp_path / "scores.csv"
    rows = table()
    rows[[name for name in rows if name != last] + [last]].to_csv(path, index=False)
    found = read_summary(path, COLUMNS)
    assert same(found.summary, in_memory(path))
    assert found.reading == read_scores(path, COLUMNS).reading
    assert operating.certify(*found.data) == operating.certify(*read_scores(path, COLUMNS).data)


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, str])
def test_a_parquet_file_gives_the_same_numbers_as_in_memory(tmp_path: Path, kind: type) -> None:
    path = tmp_path / "scores.parquet"
    rows = table().assign(s=lambda rows: np.clip(rows.s, -1e9, 1e9).astype(kind))
    rows.to_parquet(path, row_group_size=700)
    found = read_summary(path, COLUMNS).summary
    assert same(found, in_memory(path))
    assert found.scores.dtype == (np.float32 if kind is np.float32 else np.float64)


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_a_folder_and_a_pattern_are_the_sum_of_their_files(tmp_path: Path, suffix: str) -> None:
    parts = [table(seed=seed) for seed in range(3)]
    (tmp_path / "day=1").mkdir()
    for number, part in enumerate(parts):
        path = tmp_path / "day=1" / f"part-{number}.{suffix}"
        part.to_parquet(path) if suffix == "parquet" else part.to_csv(path, index=False)
    (tmp_path / "_SUCCESS.csv").write_text("")
    (tmp_path / "notes.md").write_text("no table")
    whole = pd.concat(parts)
    expected = ScoreSummary.of(whole.y, whole.s)
    for place in (tmp_path, tmp_path / "*" / f"part-?.{suffix}"):
        assert same(read_summary(place, COLUMNS).summary, expected)


LABELS: dict[str, tuple[list[str], LabelRule]] = {
    "0 and 1": (["0", "1"], LabelRule()),
    "1.0 beside 1": (["0", "1", "1.0"], LabelRule()),
    "truth": (["true", "FALSE"], LabelRule()),
    "words": (["ill", "well"], LabelRule("ill")),
    "words alike": (["ill", "well", "Ill"], LabelRule("ill")),
    "an alike negative": (["ill", "well", "ILL"], LabelRule("ill", ("ILL", "well"))),
    "many negatives": (["ill", "a", "b", 'c "d"', "e,f", "g\nh"], LabelRule("ill", rest_negative=True)),
    "unnamed": (["ill", "a", "b"], LabelRule("ill", ("a",))),
    "no such value": (["a", "b"], LabelRule("ill")),
    "three numbers": (["0", "1", "2"], LabelRule()),
    "numbers": (["1.5", "2", " 3"], LabelRule("2.0", rest_negative=True)),
    "one class": (["0"], LabelRule()),
}


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("name", LABELS)
def test_labels_are_read_as_in_memory(tmp_path: Path, name: str) -> None:
    values, rule = LABELS[name]
    path = tmp_path / "scores.csv"
    generator = np.random.default_rng(0)
    words = np.array(values, dtype=object)[generator.integers(0, len(values), 2000)]
    pd.DataFrame({"y": words, "s": generator.standard_normal(2000)}).to_csv(path, index=False)
    columns = ScoreColumns("s", "y", rule)
    refused = complaint(read_scores, path, columns)
    assert complaint(read_summary, path, columns) == refused
    if refused:
        return
    found, expected = read_summary(path, columns), read_scores(path, columns)
    assert found.reading == expected.reading
    labels, scores = expected.data
    if labels.any():
        assert same(found.summary, ScoreSummary.of(labels, scores))
    else:
        assert (found.summary.positive_trials, found.summary.negative_trials) == (0, 2000)


FILES = {
    "empty": "",
    "header only": "y,s\n",
    "no such column": "a,s\n1,2\n",
    "another separator": "y;s\n1;2\n",
    "same names": "y,s,y\n1,2,3\n",
    "text": "y,s\n1,0.5\n0,abc\n",
    "decimal comma": 'y,s\n1,"0,5"\n0,1\n',
    "truth as score": "y,s\n1,True\n0,False\n",
    "gap": "y,s\n1,0.5\n0,\n0,NA\n",
    "infinite": "y,s\n1,0.5\n0,inf\n",
    "unlabelled": 'y,s\n1,0.5\n,0.5\n"",1\n',
    "short line": "y,s,id\n1,0.5,a\n0,0.5\n",
    "long line": "y,s\n1,0.5,7\n0,0.5\n",
    "cut": "y,s\n1,0.5\n0",
    "open quotation mark": 'y,s\n1,0.5\n"0,0.5\n',
    "underscore": "y,s\n1,1_000\n0,0.5\n",
    "other encoding": "ä,y,s\nü,1,0.5\n",
    # read all the same
    "blank lines": "y,s\n\n1,0.5\n\n0,0.25\n\n",
    "spaces": "y,s\n1, 0.5\n 0,0.25 \n",
    "empty last column": "y,s,note\n1,0.5,\n0,0.25,x\n",
    "quoted": '"y","s"\n"1","0.5"\n"0","0.25"\n',
    "byte order mark": "\ufeffy,s\n1,0.5\n0,0.25\n",
    "windows": "y,s\r\n1,0.5\r\n0,0.25\r\n",
    "old mac": "y,s\r1,0.5\r0,0.25\r",
    "line break in a cell": 'y,note,s\n1,"a\nb",0.5\n0,c,0.25\n',
    "names like patterns": "^y$,s,y\n7,0.5,1\n8,0.25,0\n",
    "names without text": ",,y,s\n7,7,1,0.5\n8,8,0,0.25\n",
    "long numbers": "y,s\n1,0.1000000000000000055511151231257827\n0,1e-320\n0,123456789012345678901\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_the_numbers_or_the_error_that_it_gives_in_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(FILES[name].encode("cp1252" if name == "other encoding" else "utf-8"))
    refused = complaint(read_scores, path, COLUMNS)
    assert complaint(read_summary, path, COLUMNS) == refused
    if not refused:
        assert same(read_summary(path, COLUMNS).summary, in_memory(path))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=30), st.booleans())
@settings(max_examples=25, deadline=None)
def test_every_digit_of_a_score_is_read(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], e: bool
) -> None:
    path = tmp_path_factory.mktemp("digits") / "scores.csv"
    path.write_text("y,s\n0,0\n" + "".join(f"1,{value:.17e}\n" if e else f"1,{value!r}\n" for value in values))
    assert read_summary(path, COLUMNS).summary.positives.tolist() == sorted(value + 0.0 for value in values)


def test_a_fault_far_down_is_named_with_its_row_line_and_number(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(score_streams, "ROWS", 500)
    path = tmp_path / "scores.csv"
    rows = table()
    rows.loc[[1700, 2900], "s"] = np.nan
    rows.to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"no score \(NaN\) in 2 rows, first in row 1,701 \(line 1,702\)"):
        read_summary(path, COLUMNS)


def test_a_damaged_or_compressed_file_is_read_as_in_memory(tmp_path: Path) -> None:
    text = table().to_csv(index=False)
    packed = tmp_path / "scores.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert same(read_summary(packed, COLUMNS).summary, in_memory(packed))
    packed.write_bytes(gzip.compress(text.encode())[:-20])
    with pytest.raises(ValueError, match="truncated or not a gzip file"):
        read_summary(packed, COLUMNS)
    parquet = tmp_path / "scores.parquet"
    parquet.write_bytes(b"PAR1 not really")
    with pytest.raises(ValueError, match="truncated or not a Parquet file"):
        read_summary(parquet, COLUMNS)


def test_a_place_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without CSV or Parquet files"):
        score_parts(tmp_path)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        score_parts(tmp_path / "*.csv")
    with pytest.raises(FileNotFoundError):
        read_summary(tmp_path / "missing.csv", COLUMNS)
    (tmp_path / "a.csv").write_text("y,s\n")
    (tmp_path / "b.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match="CSV and Parquet"):
        score_parts(tmp_path)
    odd = tmp_path / "a[1].csv"
    odd.write_text("y,s\n1,1\n0,0\n")
    assert score_parts(odd) == [odd]


@pytest.mark.slow
def test_a_dask_cluster_of_two_processes_counts_the_same(tmp_path: Path) -> None:
    frames = pytest.importorskip("dask.dataframe")
    from distributed import Client, LocalCluster

    rows = table(5000)
    words = rows.assign(y=np.where(rows.y == 1, "ill", "well"))
    local = tmp_path / "dask"
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=local) as cluster,
        Client(cluster),
    ):
        found = summarize_dask(frames.from_pandas(rows, npartitions=5), COLUMNS)
        named = summarize_dask(frames.from_pandas(words, npartitions=2), ScoreColumns("s", "y", LabelRule("ill")))
        with pytest.raises(ValueError, match="column 's' has no score"):
            summarize_dask(frames.from_pandas(rows.assign(s=rows.s.where(rows.id != 4000)), npartitions=5), COLUMNS)
    assert same(found.summary, ScoreSummary.of(rows.y, rows.s))
    assert same(named.summary, found.summary)
    assert named.reading.positive == "ill"


def test_the_shape_of_sparks_map_in_pandas_counts_the_same() -> None:
    guide = (Path(__file__).parents[2] / "docs/guide/operating-point.md").read_text()
    code = next(code for code in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "mapInPandas" in code)
    rows = table()
    names: dict[str, Any] = {"y_true": rows.y, "y_score": rows.s}
    exec(code, names)
    assert len(names["parts"]) == 3
    assert same(names["summary"], ScoreSummary.of(rows.y, rows.s))
