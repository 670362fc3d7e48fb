"""The six tables, which rows belong together, and the halves they are cut into."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.datasets.partitions import stratified_parts
from rankreg.datasets.preprocessing import TablePreprocessor

SHARED = Path(os.environ.get("RANKREG_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))


@dataclass(frozen=True, eq=False)
class RareTable:
    """Features, labels with 1 for the rare class, and a number per group of rows that must stay together."""

    name: str
    features: pd.DataFrame
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fold:
    """A training and a test half as numbers; columns are scaled and coded by what the training half says."""

    train_inputs: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    train_groups: NDArray[np.int64]
    test_inputs: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    test_rows: NDArray[np.int64]


def _mammography(path: Path) -> tuple[pd.DataFrame, Any]:
    rows = pd.read_csv(path, header=None)
    return rows.iloc[:, :-1], rows.iloc[:, -1].str.strip("'") == "1"


def _arrays(path: Path) -> tuple[pd.DataFrame, Any]:
    with np.load(path, allow_pickle=False) as file:
        return pd.DataFrame(file["X"]), file["y"] == 1


def _creditcard(path: Path) -> tuple[pd.DataFrame, Any]:
    rows = pd.read_csv(path)
    return rows.drop(columns=["Time", "Class"]), rows["Class"] == 1  # Time gives the subset's frauds away


def _abalone(path: Path) -> tuple[pd.DataFrame, Any]:
    rows = pd.read_csv(path)
    return rows.drop(columns="Class"), rows["Class"] == 1


def _isic(path: Path) -> tuple[pd.DataFrame, Any]:
    rows = pd.read_csv(path)
    return rows[["sex", "age_approx", "anatom_site_general_challenge", "patient_id"]], rows["target"] == 1


TABLES: dict[str, tuple[str, Callable[[Path], tuple[pd.DataFrame, Any]]]] = {
    "mammography": ("mammography.csv.xz", _mammography),
    "thyroid": ("thyroid.npz", _arrays),
    "annthyroid": ("annthyroid.npz", _arrays),
    "creditcard subset": ("creditcard_subset_9999.csv.xz", _creditcard),
    "abalone 19": ("abalone_19.csv.xz", _abalone),
    "isic2020 table": ("isic2020_train.csv.xz", _isic),
}


def load(name: str, folder: Path = SHARED) -> RareTable:
    """One table. Rows of one patient, or else rows equal in all features, form a group."""
    file, read = TABLES[name]
    features, target = read(folder / "tabular" / file)
    features.columns = features.columns.astype(str)
    if "patient_id" in features:  # equal rows of two patients are chance: three features have few values
        groups = pd.factorize(features.pop("patient_id"))[0]
    else:
        groups = pd.factorize(pd.util.hash_pandas_object(features, index=False))[0]
    return RareTable(name, features, np.asarray(target, dtype=np.int64), groups)


def halves(table: RareTable, seed: int) -> tuple[Fold, Fold]:
    """Two stratified halves, each tested by a model of the other; no group is in both."""
    shares = {"train": 0.5, "test": 0.5}
    parts = stratified_parts(table.labels, table.groups, shares, seed=seed, largest_first=True)  # as recorded
    one, other = parts["train"], parts["test"]
    return _fold(table, one, other), _fold(table, other, one)


def inner(fold: Fold, seed: int) -> Fold:
    """A training half cut again, two thirds to one: for choices that must not see the test half."""
    shares = {"train": 2 / 3, "validation": 1 / 3}
    parts = stratified_parts(fold.train_labels, fold.train_groups, shares, seed=seed, largest_first=True)
    train, validation = parts["train"], parts["validation"]
    return Fold(
        fold.train_inputs[train],
        fold.train_labels[train],
        fold.train_groups[train],
        fold.train_inputs[validation],
        fold.train_labels[validation],
        validation,
    )


def _fold(table: RareTable, train: NDArray[np.int64], test: NDArray[np.int64]) -> Fold:
    preprocessor = TablePreprocessor.fit(table.features.iloc[train])
    return Fold(
        preprocessor.transform(table.features.iloc[train]),
        table.labels[train],
        table.groups[train],
        preprocessor.transform(table.features.iloc[test]),
        table.labels[test],
        test,
    )
