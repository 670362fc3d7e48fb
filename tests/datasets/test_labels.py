"""One label rule for tables, folders, score files and estimators: what was not named is refused."""

import json
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from rankreg.bundle import evaluate, load_bundle
from rankreg.estimators import CertifiedThresholdClassifier, RankRegClassifier
from rankreg.fit import Source
from rankreg.labels import LabelRule, read_labels
from rankreg.tune.search_data import SourceData
from tests.conftest import Run
from tests.own_data import write_table


def read(values: list[Any], *named: Any, **options: Any) -> list[int]:
    labels, reading = read_labels(pd.Series(values, name="y"), LabelRule(*named, **options), "column 'y'")
    assert (reading.positives, reading.negatives) == (int(labels.sum()), int((labels == 0).sum()))
    return [int(label) for label in labels]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([0, 1, 0], ()),
        ([0.0, 1.0, 0.0], ()),
        ([False, True, False], ()),
        (["0", "1", "0"], ()),
        ([-1, 1, -1], ("1",)),
        ([-1, 1, -1], ("1.0",)),
        ([1.0, 2.0, 1.0], ("2",)),
        ([False, True, False], ("true",)),
        (["no", "yes", "no"], ("yes",)),
        (["no", "yes", "maybe"], ("yes", ("no", "maybe"))),
        (["no", "yes", "maybe"], ("yes", (), True)),
        (["Yes", "yes", "Yes"], ("yes", ("Yes",))),  # said in so many words
        ([2**60, 2**60 + 1, 2**60], (str(2**60 + 1),)),
    ],
)
def test_labels_are_mapped_as_told(values: list[Any], named: tuple[Any, ...]) -> None:
    assert read(values, *named) == [0, 1, 0]


@pytest.mark.parametrize("rest_negative", [False, True])
@pytest.mark.parametrize(
    ("odd", "positive"), [("Yes", "yes"), (" yes", "yes"), ("yes ", "yes"), ("1.0", "1"), ("01", "1"), ("ß", "SS")]
)
def test_another_spelling_of_the_positive_value_is_never_negative(
    odd: str, positive: str, rest_negative: bool
) -> None:
    for values in ([odd, positive], [odd, positive, "no"]):
        with pytest.raises(ValueError, match="looks like the positive value"):
            read(values, positive, rest_negative=rest_negative)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (["no", "yes", "unknown"], ("yes",)),
        (["no", "yes", "unknown"], ("yes", ("no",))),
        ([0, 1, 2], ("1",)),
        ([0, 1, 2], ()),
        (["no", "yes"], ()),
        (["true", "false"], ()),
        ([0, 1, 0], ("3",)),
        (["no", "yes"], ("Yes",)),
    ],
)
def test_what_was_not_named_is_refused_with_every_value_and_its_count(
    values: list[Any], named: tuple[Any, ...]
) -> None:
    with pytest.raises(ValueError, match="holds") as refused:
        read(values * 3, *named)
    for value, count in Counter(values * 3).items():
        assert f"'{value}' ({count})" in str(refused.value)


def test_a_rule_that_contradicts_itself_is_refused() -> None:
    contradictions: list[Any] = [("yes", ("yes",)), (None, ("no",)), (None, (), True)]
    for named in contradictions:
        with pytest.raises(ValueError, match="named"):
            LabelRule(*named)


def claims(path: Path) -> Path:
    """A table whose positives are spelled in three ways, and some of whose rows are unknown."""
    rows = pd.read_csv(write_table(path))
    spelled = np.where(rows.sick == 1, np.resize(["yes", "yes", "Yes", " yes"], len(rows)), "no")
    rows.assign(sick=np.where(rows.index % 40 == 0, "unknown", spelled)).to_csv(path, index=False)
    return path


def test_no_command_counts_an_unnamed_value_as_negative(run: Run) -> None:
    """92 of 305 frauds were lost this way."""
    data = claims(Path("data.csv"))
    counts = pd.read_csv(data).sick.value_counts()
    options = ("--target", "sick", "--positive", "yes", "--drop", "name", "--epochs", "1", "--out", "out")
    desk = ("--label", "sick", "--score", "size", "--positive", "yes")
    commands = [
        ("fit", "data.csv", *options),
        ("tune", "data.csv", *options, "--trials", "1"),
        ("certify", "data.csv", *desk),
        ("compare", "data.csv", "data.csv", *desk),
        ("monitor", "data.csv", *desk, "--threshold", "0"),
        ("recertify", "data.csv", *desk, "--threshold", "0"),
        ("report", "data.csv", *desk, "--out", "report.html"),
    ]
    for command in commands:
        for more in ((), ("--rest-negative",), ("--negative", "no")):
            status, out, error = run(*command, *more)
            assert (status, out) == (2, ""), command
            assert all(f"{value!r} ({count})" in error for value, count in counts.items()), error
            assert "Traceback" not in error


@pytest.mark.slow
def test_a_target_of_many_values_is_learned_evaluated_and_certified_once_they_are_named(run: Run) -> None:
    rows = pd.read_csv(write_table(Path("data.csv")))
    kinds = np.where(rows.sick == 1, "mel", np.resize(["nv", "df", "bkl"], len(rows)))
    rows.assign(sick=kinds).to_csv("data.csv", index=False)
    rows.assign(sick=np.where(kinds == "df", "new", kinds)).to_csv("other.csv", index=False)
    arguments = ("fit", "data.csv", "--target", "sick", "--positive", "mel", "--drop", "name", "--epochs", "1")
    named = ("--negative", "nv", "--negative", "df", "--negative", "bkl")
    status, _, error = run(*arguments, "--out", "none")
    assert status == 2
    assert "--negative df --negative nv --negative bkl" in error  # what to type
    assert "--rest-negative" in error
    for out, options in (("named", named), ("rest", ("--rest-negative",))):
        assert run(*arguments, *options, "--tpr", "0.5", "--out", out)[0] == 0
        status, said, _ = run("evaluate", out, "data.csv", "--json")
        assert (status, json.loads(said)["positives"], json.loads(said)["negatives"]) == (0, 80, 320)
    assert run("evaluate", "rest", "other.csv")[0] == 0
    status, _, error = run("evaluate", "named", "other.csv")
    assert (status, "'new' (" in error) == (2, True)
    assert run("evaluate", "named", "other.csv", "--negative", "new")[0] == 0
    assert evaluate(load_bundle("named"), "other.csv", rest_negative=True).evaluation.negatives == 320
    desk = ("certify", "data.csv", "--label", "sick", "--score", "size", "--positive", "mel", "--tpr", "0.9")
    assert run(*desk)[0] == 2
    for options in (named, ("--rest-negative",)):
        assert json.loads(run(*desk, *options, "--json")[1])["positives"] == 80


def test_an_evaluation_refuses_labels_that_the_fit_did_not_know(run: Run) -> None:
    rows = pd.read_csv(write_table(Path("data.csv")))
    rows.assign(sick=rows.sick.map({0: "no", 1: "yes"})).to_csv("data.csv", index=False)
    arguments = ("fit", "data.csv", "--target", "sick", "--positive", "yes", "--drop", "name", "--epochs", "1")
    assert run(*arguments, "--tpr", "0.5", "--out", "out")[0] == 0
    for odd in ("Yes", " yes", "unknown"):
        rows.assign(sick=np.where(rows.sick == 0, "no", np.resize(["yes", odd], 400))).to_csv(
            "new.csv", index=False
        )
        status, _, error = run("evaluate", "out", "new.csv")
        assert (status, f"{odd!r} (" in error) == (2, True)


def test_two_spellings_are_not_two_classes_of_an_estimator() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    labels = np.where(np.arange(60) % 3 == 0, "yes", "Yes")
    for model in (
        RankRegClassifier(pos_label="yes", epochs=1),
        CertifiedThresholdClassifier(LogisticRegression(), pos_label="yes", tpr=0.5),
    ):
        with pytest.raises(ValueError, match="look like one"):
            model.fit(rows, labels)


def test_the_fit_that_a_search_names_reads_the_labels_as_the_search_did() -> None:
    source = Source(Path("a.csv"), target="kind", positive="mel", negative=("nv", "no idea"))
    words = shlex.split(SourceData(source, Path("c")).train_command(Path("best.toml"), Path("out"), 0.9))
    named = [words[place + 1] for place, word in enumerate(words) if word == "--negative"]
    assert (named, "--rest-negative" in words) == (["nv", "no idea"], False)
    rest = SourceData(replace(source, negative=(), rest_negative=True), Path("c"))
    assert "--rest-negative" in rest.train_command(Path("best.toml"), Path("out"), 0.9)
