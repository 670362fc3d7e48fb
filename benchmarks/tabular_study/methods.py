"""The contestants: each trains on a fold's training half and scores its test half, higher = more critical."""

import tempfile
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.tabular_study.data import Fold, inner
from rankreg.boosting import lightgbm_objective, xgboost_objective
from rankreg.datasets.splits import Samples, Splits
from rankreg.models import MLPShape
from rankreg.train import AdamWSettings, TrainConfig, train

Scores = NDArray[np.float64]

ROUNDS = 100
TREES: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 31,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}
XGB_TREES: dict[str, Any] = {"learning_rate": 0.1, "max_depth": 6, "nthread": 1}
EPOCHS = 15
MOST_ROWS_OF_A_QUERY = 10_000  # LightGBM's own limit


def logistic_regression(fold: Fold, seed: int) -> Scores:
    """scikit-learn's, with its usual penalty, on scaled columns."""
    model = LogisticRegression(max_iter=2000).fit(fold.train_inputs, fold.train_labels)
    return np.asarray(model.decision_function(fold.test_inputs), dtype=np.float64)


def mlp(fold: Fold, seed: int, *, method: str | dict[str, object]) -> Scores:
    """`rankreg fit`'s network and optimizer for a shorter time; a third of the training half picks the epoch."""
    cut = inner(fold, seed)
    inputs = np.concatenate([cut.train_inputs, cut.test_inputs, fold.test_inputs])
    labels = np.concatenate([cut.train_labels, cut.test_labels, fold.test_labels])
    ends = np.cumsum([0, len(cut.train_labels), len(cut.test_labels), len(fold.test_labels)])
    rows = [np.arange(a, b) for a, b in pairwise(ends.tolist())]
    parts = {
        name: Samples(inputs, part, labels[part], part)
        for name, part in zip(("train", "validation", "test"), rows, strict=True)
    }
    config = TrainConfig(
        seed=seed,
        epochs=EPOCHS,
        batch_size=128,
        learning_rate=2e-3,
        schedule="cosine",
        optimizer=AdamWSettings(),
        model=MLPShape(hidden=(64, 64), dropout=0.1),
        method=method,  # type: ignore[arg-type]
    )
    with tempfile.TemporaryDirectory() as folder:
        scores = train(Splits("table", parts), config, folder, progress=False).scores["test"]
    return scores.values[np.argsort(scores.ids)].astype(np.float64)


def trees(fold: Fold, seed: int, **settings: Any) -> Scores:
    """LightGBM with these settings."""
    data = lightgbm.Dataset(fold.train_inputs, fold.train_labels)
    booster = lightgbm.train({**TREES, "objective": "binary", "seed": seed, **settings}, data, ROUNDS)
    return np.asarray(booster.predict(fold.test_inputs, raw_score=True), dtype=np.float64)


def weighted_trees(fold: Fold, seed: int) -> Scores:
    """scale_pos_weight as its documentation advises: negatives over positives."""
    positives = int(fold.train_labels.sum())
    return trees(fold, seed, scale_pos_weight=(len(fold.train_labels) - positives) / positives)


def focal(scores: Scores, data: Any, gamma: float = 2.0) -> tuple[Scores, Scores]:
    """−(1 − p)^γ log p with p the probability of the true class, from the base rate on."""
    labels = data.get_label()
    sign = 2 * labels - 1
    rate = labels.mean()
    p = 1 / (1 + np.exp(-np.clip(sign * (scores + np.log(rate / (1 - rate))), -30, 30)))
    inside = gamma * p * np.log(p) + p - 1
    slope = (1 - p) ** gamma * inside
    bend = (
        p * (1 - p) * ((1 - p) ** gamma * (gamma * np.log(p) + gamma + 1) - gamma * (1 - p) ** (gamma - 1) * inside)
    )
    # The loss is not convex: no less than the log-loss's bend at the present weights.
    return sign * slope, np.maximum(bend, (1 - p) ** gamma * p * (1 - p))


def lambdarank(fold: Fold, seed: int) -> Scores:
    """All training rows as one query, or a few random ones where LightGBM's limit asks for it."""
    order = np.random.default_rng(seed).permutation(len(fold.train_labels))
    queries = -(-len(order) // MOST_ROWS_OF_A_QUERY)
    sizes = [len(part) for part in np.array_split(order, queries)]
    data = lightgbm.Dataset(fold.train_inputs[order], fold.train_labels[order], group=sizes)
    settings = {
        "objective": "lambdarank",
        "seed": seed,
        "lambdarank_truncation_level": max(30, int(fold.train_labels.sum()) // queries),  # every positive counts
    }
    booster = lightgbm.train({**TREES, **settings}, data, ROUNDS)
    return np.asarray(booster.predict(fold.test_inputs, raw_score=True), dtype=np.float64)


def xgb_trees(fold: Fold, seed: int, **settings: Any) -> Scores:
    """XGBoost with log-loss, or with an objective of one's own."""
    data = xgboost.DMatrix(fold.train_inputs, fold.train_labels)
    base = {"objective": "binary:logistic", "base_score": float(fold.train_labels.mean()), "seed": seed}
    booster = xgboost.train({**XGB_TREES, **base}, data, ROUNDS, **settings)
    scores = booster.predict(xgboost.DMatrix(fold.test_inputs), output_margin=True)
    return np.asarray(scores, dtype=np.float64)


PUBLISHED = {"name": "rankreg", "among": "all", "weight": 1.0}
Method = Callable[[Fold, int], Scores]
METHODS: dict[str, Method] = {  # in the order in which they are run
    "LightGBM": trees,
    "LightGBM + RankReg": lambda fold, seed: trees(fold, seed, objective=lightgbm_objective()),
    "LightGBM, scale_pos_weight": weighted_trees,
    "LightGBM, is_unbalance": lambda fold, seed: trees(fold, seed, is_unbalance=True),
    "LightGBM, focal loss": lambda fold, seed: trees(fold, seed, objective=focal),
    "LightGBM, LambdaRank": lambdarank,
    "logistic regression": logistic_regression,
    "MLP, BCE": lambda fold, seed: mlp(fold, seed, method="none"),
    "MLP, BCE + RankReg": lambda fold, seed: mlp(fold, seed, method=PUBLISHED),
    "XGBoost": xgb_trees,
    "XGBoost + RankReg": lambda fold, seed: xgb_trees(fold, seed, obj=xgboost_objective()),
}
