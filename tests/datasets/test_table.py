"""Tables: labels, parts, preprocessing."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, rankdata

from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.datasets.table import table
from rankreg.table_files import read_table, table_chunks


def frame(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Distinct rows with numbers, gaps, categories and a target that is 1 in a tenth of them."""
    generator = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "age": generator.normal(50, 10, rows),
            "size": generator.integers(0, 1000, rows),
            "site": generator.choice(["arm", "leg", "back"], rows, p=[0.5, 0.3, 0.2]),
            "sun": generator.random(rows) < 0.5,
            "sick": (np.arange(rows) % 10 == 0).astype(int),
        }
    )
    found.loc[generator.random(rows) < 0.1, "age"] = np.nan
    found.loc[generator.random(rows) < 0.1, "site"] = None
    return found


def saved(rows: pd.DataFrame, path: Path) -> Path:
    rows.to_csv(path, index=False)
    return path


def test_mammography_keeps_its_copies_on_one_side(shared_data: Path) -> None:
    path = shared_data / "tabular" / "mammography.csv.xz"
    features = pd.read_csv(path, header=None).drop(columns=6).apply(tuple, axis=1)
    for seed in range(3):
        splits = table(path, target="6", positive="'1'", header=False, seed=seed)
        assert sum(map(len, splits.parts.values())) == 11183
        assert sum(int(part.labels.sum()) for part in splits.parts.values()) == 260
        distinct = [set(features[part.ids - 1]) for part in splits.parts.values()]
        assert sum(map(len, distinct)) == len(set.union(*distinct))
        for part, share in zip(splits.parts.values(), (0.6, 0.1, 0.15, 0.15), strict=True):
            assert abs(len(part) - share * 11183) < 12
            assert abs(part.labels.sum() - share * 260) < 3
    assert splits.classes == ("'-1'", "'1'")


def test_patients_stay_in_one_part(shared_data: Path) -> None:
    path = shared_data / "tabular" / "isic2020_train.csv.xz"
    answers = ["diagnosis", "benign_malignant"]
    options: dict[str, Any] = {
        "target": "target",
        "id_column": "image_name",
        "drop": answers,
        "group": "patient_id",
    }
    splits = table(path, keep_copies_together=False, **options)
    patient_of = pd.read_csv(path, index_col="image_name")["patient_id"]
    homes = [set(patient_of[part.ids]) for part in splits.parts.values()]
    assert sum(map(len, homes)) == 2056
    names = TablePreprocessor.from_dict(splits.preprocessing).feature_names
    assert {name.split(" ")[0] for name in names} == {"sex", "age_approx", "anatom_site_general_challenge"}
    with pytest.raises(ValueError, match=r"groups and copies stay together: .*keep_copies_together=False"):
        table(path, **options)


def test_groups_and_copies_that_overlap_stay_together(tmp_path: Path) -> None:
    rows = pd.concat([frame(300), frame(300).iloc[:60]], ignore_index=True)
    rows["patient"] = np.r_[np.arange(300) // 2, 1000 + np.arange(60) // 3]  # copies join patients in threes
    splits = table(saved(rows, tmp_path / "a.csv"), target="sick", group="patient")
    home = pd.Series({k - 1: name for name, part in splits.parts.items() for k in part.ids}).sort_index()
    assert (home.groupby(rows["patient"]).nunique() == 1).all()
    assert home[:60].tolist() == home[300:].tolist()


def test_preprocessing_sees_training_rows_only(tmp_path: Path) -> None:
    rows = frame()
    splits = table(saved(rows, tmp_path / "a.csv"), target="sick", keep_copies_together=False)
    train = splits["train"]
    changed = rows.copy()
    others = np.setdiff1d(np.arange(len(rows)), train.ids - 1)
    changed.loc[others, "age"] = changed.loc[others, "age"] * 1000
    changed.loc[others, "site"] = "moon"
    again = table(saved(changed, tmp_path / "b.csv"), target="sick", keep_copies_together=False)
    np.testing.assert_array_equal(again["train"].ids, train.ids)
    assert again.preprocessing == splits.preprocessing
    np.testing.assert_array_equal(again["train"].inputs(), train.inputs())


def test_numbers_become_normal_scores_and_gaps_the_median() -> None:
    rows = frame()[["age", "size"]]
    fitted = TablePreprocessor.fit(rows.iloc[:200])
    found = fitted.transform(rows)
    assert fitted.feature_names == ["age", "age is missing", "size"]
    for place, name in ((0, "age"), (2, "size")):
        column = rows[name].to_numpy()[:200]
        known = ~np.isnan(column)
        scores = norm.ppf((rankdata(column[known]) - 0.5) / known.sum())
        np.testing.assert_allclose(found[:200, place][known], scores - np.median(scores), atol=0.1)
        assert not found[rows[name].isna(), place].any()
        spread = (column[known] - np.median(column[known])) / norm.ppf(0.75)
        robust = spread / np.median(np.abs(spread)) * norm.ppf(0.75)  # in standard deviations of a normal
        standard = fitted.standardised(found)[:200, place][known]
        middle = np.abs(robust) < 1
        np.testing.assert_allclose(standard[middle], robust[middle], atol=0.2)
        assert np.abs(standard).max() <= 3
    np.testing.assert_array_equal(found[:, 1], rows["age"].isna())


def test_categories_are_one_hot_with_a_place_for_the_unknown() -> None:
    rows = pd.DataFrame({"site": ["arm", "arm", "leg", "leg", None, "once"]})
    fitted = TablePreprocessor.fit(rows)
    assert fitted.feature_names == ["site = arm", "site = leg", "site is other"]
    new = pd.DataFrame({"site": ["leg", "moon", None, "arm"]})
    assert fitted.transform(new).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]]


def test_many_categories_are_capped_at_the_most_frequent() -> None:
    rows = pd.DataFrame({"zip": [str(k) for k in range(100) for _ in range(k + 1)]})
    fitted = TablePreprocessor.fit(rows, most_categories=3)
    assert fitted.categorical[0].values == ("97", "98", "99")
    names = pd.DataFrame({"name": [f"patient {k}" for k in range(50)], "x": range(50)})
    assert TablePreprocessor.fit(names).feature_names == ["x", "name is other"]  # names teach nothing


@pytest.mark.parametrize("size", [1, 7, 96, 97])
def test_chunks_give_what_the_whole_gives(size: int) -> None:
    rows = frame(97)
    fitted = TablePreprocessor.fit(rows.iloc[:50])
    chunks = [fitted.transform(rows.iloc[k : k + size]) for k in range(0, len(rows), size)]
    np.testing.assert_array_equal(np.concatenate(chunks), fitted.transform(rows))


def test_a_chunk_whose_texts_look_like_numbers_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    codes = ["01", "A", "01", "A", "7", "7", "", "01", "01", "01"]
    pd.DataFrame({"code": codes, "flag": [True, False] * 5}).to_csv(path, index=False)
    whole = read_table(path).rows
    fitted = TablePreprocessor.fit(whole)
    assert fitted.categorical[0].values == ("01", "7", "A")
    chunks = [chunk.rows for chunk in table_chunks(path, text=fitted.text_columns, rows=3)]
    assert [len(chunk) for chunk in chunks] == [3, 3, 3, 1]
    np.testing.assert_array_equal(np.concatenate([fitted.transform(c) for c in chunks]), fitted.transform(whole))
    assert [k for chunk in chunks for k in chunk.index] == list(range(10))


def test_a_flag_with_gaps_in_new_data_is_still_a_number() -> None:
    fitted = TablePreprocessor.fit(pd.DataFrame({"flag": [True, False, True, True]}))
    found = fitted.transform(pd.DataFrame({"flag": [True, None, False]}))
    assert found[0, 0] == found[1, 0] > found[2, 0]  # the median stands in for the gap


def test_whole_numbers_as_categories_are_the_same_with_and_without_gaps() -> None:
    fitted = TablePreprocessor.fit(pd.DataFrame({"zip": [1, 1, 2, 2]}), categorical=["zip"])
    assert fitted.transform(pd.DataFrame({"zip": [1, None, 2.0]})).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_constant_and_empty_columns_do_no_harm() -> None:
    rows = pd.DataFrame({"same": [0.1] * 30, "empty": [np.nan] * 30, "x": range(30)})
    fitted = TablePreprocessor.fit(rows)
    assert fitted.unused == ("empty",)
    found = fitted.transform(pd.DataFrame({"same": [0.1, 0.2], "x": [0, 1], "new": ["a", "b"]}))
    assert np.abs(found[:, 0]).max() <= 0.2
    with pytest.raises(ValueError, match="no column to learn from"):
        TablePreprocessor.fit(rows[["empty"]])


def test_preprocessing_survives_json() -> None:
    rows = frame()
    fitted = TablePreprocessor.fit(rows)
    again = TablePreprocessor.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert again == fitted
    np.testing.assert_array_equal(again.transform(rows), fitted.transform(rows))


@pytest.mark.parametrize(
    "damage",
    [
        {"numeric": None},
        {"kind": "image"},
        {"numeric": [{"name": "a"}]},
        {"numeric": [{"name": "a", "median": 0, "mean": 0, "scale": 0, "may_miss": False}]},
        {"numeric": [{"name": "a", "median": "x", "mean": 0, "scale": 1, "may_miss": False}]},
        {"categorical": [{"name": "a", "values": [1]}]},
    ],
)
def test_damaged_preprocessing_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a saved table preprocessor, or damaged"):
        TablePreprocessor.from_dict({**TablePreprocessor.fit(frame()).to_dict(), **damage})


def test_new_rows_that_do_not_fit_are_clear_errors() -> None:
    fitted = TablePreprocessor.fit(frame())
    with pytest.raises(ValueError, match="no column 'age': did you mean 'Age'"):
        fitted.transform(frame().rename(columns={"age": "Age"}))
    with pytest.raises(ValueError, match=r"column 'age' is numeric, but holds 'old' in row 4"):
        fitted.transform(frame().astype({"age": object}).assign(age=lambda f: f["age"].where(f.index != 3, "old")))
    with pytest.raises(ValueError, match=r"column 'size' is numeric, but holds inf in row 3"):
        fitted.transform(frame().assign(size=[1.0, 2.0, np.inf, *[0.0] * 397]))


@pytest.mark.parametrize(
    ("change", "options", "complaint"),
    [
        ({}, {"target": "sic"}, "no column 'sic': did you mean 'sick'"),
        ({}, {"target": "sick", "drop": ["agee"]}, "did you mean 'age'"),
        ({}, {"target": "sick", "group": "patient"}, "no column 'patient'"),
        ({"sick": 0}, {"target": "sick"}, "no positive samples: all 400 belong to one class"),
        ({"sick": [1, 1, *[0] * 398]}, {"target": "sick"}, "only 2 positive samples: at least 8 are needed"),
        ({"sick": ["yes", *["no"] * 399]}, {"target": "sick"}, "say which value is the positive one"),
        ({"name": "x"}, {"target": "sick", "id_column": "name"}, "does not name rows"),
    ],
)
def test_a_table_that_cannot_be_learned_from_says_why(
    tmp_path: Path, change: dict[str, Any], options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        table(saved(frame().assign(**change), tmp_path / "a.csv"), **options)


def test_files_that_are_no_tables_are_clear_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with pytest.raises(FileNotFoundError, match="no table at"):
        read_table(path)
    for content, complaint in (
        ("", "is not a table in CSV"),
        ("a,b\n1,2\n1,2,3,4\n", r"row 2 \(line 3\) has 4 fields instead of 2"),
        ("a,b\n1,2,3\n1,2,3\n", r"row 1 \(line 2\) has 3 fields instead of 2"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=complaint):
            read_table(path)
    path.write_text("a;b\n1;2\n")
    with pytest.raises(ValueError, match="not separated by ','"):
        read_table(path, separator=",")
    path.write_bytes(b"a,b\n\xff\xfe\x00,2\n")
    with pytest.raises(ValueError, match="is not a table in CSV"):
        read_table(path)
    path.write_text("0.5,2.5,1\n0.7,1.5,0\n")
    with pytest.raises(ValueError, match=r"the first line looks like data.*a column number, 0 to 2"):
        table(path, target="class")


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = frame()
    rows.to_parquet(tmp_path / "a.parquet")
    first, second = (
        table(path, target="sick") for path in (saved(rows, tmp_path / "a.csv"), tmp_path / "a.parquet")
    )
    for name in first.parts:
        np.testing.assert_array_equal(first[name].ids, second[name].ids)
        np.testing.assert_allclose(first[name].inputs(), second[name].inputs(), rtol=1e-5, atol=1e-6)
    chunks = [chunk.rows for chunk in table_chunks(tmp_path / "a.parquet", rows=150)]
    assert [len(chunk) for chunk in chunks] == [150, 150, 100]
    assert [k for chunk in chunks for k in chunk.index] == list(range(400))


def test_without_pyarrow_parquet_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ValueError, match=r"needs pyarrow: pip install 'rankreg\[parquet\]'"):
        read_table(tmp_path / "a.parquet")


@pytest.mark.parametrize("suffix", [".csv.gz", ".csv.xz", ".tsv"])
def test_compressed_and_tab_separated_files_are_read(tmp_path: Path, suffix: str) -> None:
    rows = frame(20)
    rows.to_csv(tmp_path / f"a{suffix}", index=False, sep="\t" if suffix == ".tsv" else ",")
    plain = read_table(saved(rows, tmp_path / "a.csv")).rows
    pd.testing.assert_frame_equal(read_table(tmp_path / f"a{suffix}").rows, plain)


def test_a_table_that_is_emptied_meanwhile_gives_the_same_matrix() -> None:
    rows = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": ["x", "x", "y"], "c": [3, 1, 2], "unused": [np.nan] * 3})
    preparation = TablePreprocessor.fit(rows)
    expected = preparation.transform(rows)
    assert rows.shape == (3, 4)
    np.testing.assert_array_equal(preparation.transform(rows, release=True), expected)
    assert rows.shape == (3, 0)
