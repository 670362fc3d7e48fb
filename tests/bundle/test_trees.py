"""Trees as checked data: the very predictions of LightGBM, and no damaged file that reaches it."""

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rankreg.bundle import trees as trees_module
from rankreg.bundle.trees import HASHES, Tree, Trees, TreeTables, score_trees
from tests.bundle.ensembles import TREES, booster


def rows_and_labels(rows: int = 500, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(rows, 6)).astype(np.float32)
    found[:, 1] = np.round(found[:, 1])
    found[:, 2] = found[:, 2] > 0
    return found, (found[:, 0] + found[:, 1] + rng.normal(size=rows) > 1).astype(np.int64)


@pytest.mark.parametrize("name", TREES)
def test_trees_that_were_read_and_written_predict_what_the_booster_did_bit_by_bit(name: str) -> None:
    rows, labels = rows_and_labels()
    model = booster(name, rows, labels, seed=0, rounds=30)
    parsed = Trees.parse(model.model_to_string())
    ours = lightgbm.Booster(model_str=parsed.text())
    new = rows_and_labels(seed=1)[0]
    assert np.array_equal(np.asarray(ours.predict(new, raw_score=True)), model.predict(new, raw_score=True))
    assert parsed.averaged == (name != "boosting")
    again = Trees.parse(parsed.text())
    assert again.text() == parsed.text()
    assert np.array_equal(again.score(new), parsed.score(new))


@pytest.mark.parametrize("leaves", [2, 15, 31, 60, 200])
@pytest.mark.parametrize("name", TREES)
def test_tables_find_the_leaves_that_lightgbm_finds(name: str, leaves: int) -> None:
    rows, labels = rows_and_labels(1000)
    settings = {"objective": "binary", "num_threads": 1, "verbosity": -1, "num_leaves": leaves}
    models = [
        lightgbm.train(
            TREES[name] | settings | {"seed": seed, "min_data_in_leaf": 2}, lightgbm.Dataset(rows, labels), 5 + seed
        )
        for seed in range(2)
    ]
    members = [Trees.parse(model.model_to_string()) for model in models]
    tables = TreeTables.of(members)
    assert (tables is None) == (leaves > max(HASHES))  # larger trees are walked through
    new = np.concatenate([rows, rows_and_labels(seed=1)[0]])
    expected = [
        np.asarray(model.predict(new, raw_score=True)) / (len(own.trees) if own.averaged else 1)
        for own, model in zip(members, models, strict=True)
    ]
    np.testing.assert_allclose(score_trees(members, tables, new), np.stack(expected, axis=1), rtol=1e-12)


def test_a_score_does_not_depend_on_the_rows_around_it_or_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = rows_and_labels()
    member = Trees.parse(booster("forest", rows, labels, seed=0).model_to_string())
    many = np.tile(rows, (9, 1))
    tables = TreeTables.of([member, member])
    assert tables is not None
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    found = tables.score(many)
    assert np.array_equal(found, np.tile(tables.score(rows), (9, 1)))
    assert np.array_equal(found[:, 0], np.concatenate([member.score(rows[k : k + 1]) for k in range(500)] * 9))
    assert tables.score(rows[:0]).shape == (0, 2)


@st.composite
def random_trees(draw: st.DrawFn) -> Trees:
    """Trees of any form, whose thresholds are float32 numbers, or lie between two."""
    made = []
    features = draw(st.integers(1, 4))
    for _ in range(draw(st.integers(1, 3))):
        splits = draw(st.integers(0, 12))
        left, right = [-1] * splits, [-1] * splits
        free: list[tuple[list[int], int]] = []  # children that are leaves so far
        for split in range(splits):
            if split:
                side, parent = free.pop(draw(st.integers(0, len(free) - 1)))
                side[parent] = split
            free += [(left, split), (right, split)]
        for leaf, (side, parent) in enumerate(free):
            side[parent] = -1 - leaf
        thresholds = draw(st.lists(st.sampled_from(THRESHOLDS), min_size=splits, max_size=splits))
        chosen = draw(st.lists(st.integers(0, features - 1), min_size=splits, max_size=splits))
        whole = [np.array(values, np.int64) for values in (chosen, left, right)]
        values = np.arange(1, splits + 2, dtype=np.float64)
        made.append(Tree(whole[0], np.array(thresholds, np.float64), whole[1], whole[2], values))
    return Trees(features, draw(st.booleans()), tuple(made))


HERE = np.float32(0.1)
NUMBERS = [0.0, -1.0, 2.0, float(HERE), float(np.nextafter(HERE, np.float32(1))), 1e30, -3e38]
THRESHOLDS = [*NUMBERS, 0.1, 0.1 + 1e-9, -0.0, 1e300, -1e300, 1e-300]


@given(random_trees(), st.data())
def test_tables_find_the_leaf_that_walking_by_hand_finds(trees: Trees, data: st.DataObject) -> None:
    values = st.lists(st.sampled_from(NUMBERS), min_size=trees.features, max_size=trees.features)
    rows = np.array(data.draw(st.lists(values, min_size=1, max_size=4)), np.float32)
    expected = []
    for row in rows.astype(np.float64):
        total = 0.0
        for tree in trees.trees:
            place = 0 if len(tree.features) else -1
            while place >= 0:
                is_left = row[tree.features[place]] <= tree.thresholds[place]
                place = int((tree.left if is_left else tree.right)[place])
            total += tree.leaves[-1 - place]
        expected.append(total / (len(trees.trees) if trees.averaged else 1))
    assert trees.score(rows).tolist() == pytest.approx(expected)
    assert Trees.parse(trees.text()).score(rows).tolist() == trees.score(rows).tolist()


def test_a_very_deep_tree_ends_in_no_crash() -> None:
    """A chain of splits, as no training makes it; LightGBM must not run out of stack."""
    splits = 90_000
    places = np.arange(splits)
    right = np.append(places[1:], -splits - 1)
    values = np.arange(splits + 1, dtype=np.float64)
    chain = Tree(np.zeros(splits, np.int64), values[:-1], -1 - places, right, values)
    trees = Trees.parse(Trees(1, False, (chain,)).text())
    assert trees.score(np.array([[-5.0], [0.5], [77.5], [1e9]], np.float32)).tolist() == [0, 1, 78, splits]


@pytest.fixture(scope="module")
def text() -> str:
    rows, labels = rows_and_labels()
    return Trees.parse(booster("boosting", rows, labels, seed=0, rounds=2).model_to_string()).text()


def changed(line: str, to: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    """Changes the values of the first line of that name."""

    def change(text: str) -> str:
        before, _, after = text.partition(f"\n{line}=")
        values, _, rest = after.partition("\n")
        return f"{before}\n{line}={' '.join(to(values.split()))}\n{rest}"

    return change


def first(value: str) -> Callable[[list[str]], list[str]]:
    return lambda values: [value, *values[1:]]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "end of the trees is missing"),
        (lambda text: "", "not a model"),
        (lambda text: "tree\n", "not a model"),
        (lambda text: text.split("Tree=0")[0] + "\nend of trees\n", "1 to 100,000 trees"),
        (lambda text: text.replace("max_feature_idx=5", "max_feature_idx=-1"), "takes 0 features"),
        (lambda text: text.replace("max_feature_idx=5", f"max_feature_idx={10**12}"), "features"),
        (lambda text: text.replace("max_feature_idx=5", "max_feature_idx=1"), "beyond the 2 there are"),
        (lambda text: text.replace("num_cat=0", "num_cat=1"), "categorical"),
        (lambda text: text.replace("is_linear=0", "is_linear=1"), "linear leaves"),
        (changed("num_leaves", first("0")), "has 0 leaves"),
        (changed("num_leaves", first("9999999999")), "9,999,999,999 leaves"),
        (changed("num_leaves", first("99999")), "has 14 values"),
        (changed("num_leaves", first("x")), "invalid literal"),
        (changed("left_child", first("0")), "do not form a tree"),  # a split that is its own parent
        (changed("left_child", first("2")), "do not form a tree"),  # a split with two parents
        (changed("left_child", first("-99")), "do not form a tree"),
        (changed("right_child", first("99")), "do not form a tree"),
        (changed("right_child", first("-99999999999999999999999")), "too large"),
        (changed("split_feature", first("6")), "beyond the 6 there are"),
        (changed("split_feature", first("-1")), "beyond the 6 there are"),
        (changed("split_feature", first("1.5")), "invalid literal"),
        (changed("threshold", first("nan")), "not finite"),
        (changed("threshold", first("1e999")), "not finite"),
        (changed("leaf_value", first("nan")), "not finite"),
        (changed("leaf_value", first("inf")), "not finite"),
        (changed("leaf_value", first("__import__('os')")), "could not convert"),
        (changed("leaf_value", lambda values: values[:-1]), "14 values of leaf_value"),
        (changed("leaf_value", lambda values: ["0"] * 3_000_000), "3000000 values of leaf_value"),
        (changed("decision_type", first("1")), "missing values"),  # categorical
        (changed("decision_type", first("10")), "missing values"),
    ],
)
def test_trees_that_were_tampered_with_never_reach_lightgbm(
    text: str, damage: Callable[[str], str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached(*ignored: Any, **more: Any) -> None:
        raise AssertionError("LightGBM got a text of a stranger")

    monkeypatch.setattr(lightgbm, "Booster", reached)
    with pytest.raises(ValueError, match=message):
        Trees.parse(damage(text))


def test_what_lightgbm_gets_is_written_from_numbers_only(text: str) -> None:
    """Settings, names and comments of a file are left behind."""
    strange = text.replace("objective=custom", "objective=strange\nsurprise=1").replace("x0", "$(reboot)")
    strange = strange.replace("Tree=1", "Tree=1\nsurprise=2") + "parameters:\n[data: /etc/passwd]\n"
    assert Trees.parse(strange).text() == text
    assert trees_module.NO_MISSING == (0, 2)
