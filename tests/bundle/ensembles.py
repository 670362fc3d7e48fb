"""Small ensembles of every kind of member, made without `rankreg fit`: trained in a second or not at all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from rankreg.bundle import Bundle
from rankreg.bundle.card import LearnerCard
from rankreg.bundle.ensemble import (
    Ensemble,
    FittedLearner,
    ImageViews,
    Linear,
    Member,
    NegativeRanks,
    Network,
    TableViews,
    View,
    Views,
    learner_card,
)
from rankreg.bundle.storage import save_ensemble
from rankreg.bundle.trees import Trees
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.models import MLPShape, ResNetShape, build_model
from tests.bundle.test_storage import contents

TREES: dict[str, dict[str, Any]] = {  # the ways of LightGBM that learners use
    "boosting": {"learning_rate": 0.1, "num_leaves": 15},
    "forest": {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "min_data_in_leaf": 2},
    "extra-trees": {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "extra_trees": True},
}
FOLDS = 2


def table(rows: int = 600, seed: int = 0) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Numbers with ties, a heavy tail, gaps and large offsets, a constant, and a category; and labels."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.2).astype(np.int64)
    frame = pd.DataFrame(
        {
            "steps": np.round(2 * rng.normal(size=rows) + labels),
            "tail": np.exp(4 * rng.normal(size=rows) + labels),
            "gaps": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
            "seconds": 1.7e9 + rng.normal(size=rows) - labels,
            "same": 3.0,
            "site": rng.choice(["arm", "leg", "rare"], rows, p=[0.6, 0.39, 0.01]),
        }
    )
    return frame, labels


def booster(name: str, rows: NDArray[np.float32], labels: NDArray[np.int64], seed: int, rounds: int = 12) -> Any:
    """LightGBM's model, trained as our learners train theirs."""
    settings = {"objective": "binary", "use_missing": False, "seed": seed, "num_threads": 1, "verbosity": -1}
    return lightgbm.train(settings | TREES[name], lightgbm.Dataset(rows, labels), rounds)


def fitted(
    name: str, view: View, members: Sequence[Member], views: Views, labels: NDArray[np.int64], weight: float = 1.0
) -> FittedLearner:
    """A learner whose scales come from the negatives."""
    scales = [NegativeRanks.of(member.score(views[view])[labels == 0]) for member in members]
    return FittedLearner(name, view, members, scales, [weight] * len(members))


def table_learners(
    only: str | None = None, frame: pd.DataFrame | None = None, labels: Any = None
) -> tuple[Ensemble, list[LearnerCard], TablePreprocessor]:
    """Linear members on both views, three kinds of trees, networks; or `only` one of them."""
    if frame is None:
        frame, labels = table()
    preparation = TablePreprocessor.fit(frame)
    views = TableViews(preparation.transform(frame), preparation)
    shape = MLPShape(hidden=(8,), dropout=0.1, features=views["normal"].shape[1], classes=2, head="score")
    learners: list[FittedLearner] = []

    def wanted(name: str) -> bool:
        return only in (None, name)

    for name, view in (("logistic", "standardised"), ("logistic-normal", "normal")):
        if wanted(name):
            members = []
            for fold in range(FOLDS):
                kept = np.arange(len(labels)) % FOLDS == fold
                model = LogisticRegression(C=1.0).fit(views[view][kept], labels[kept])  # type: ignore[index]
                members.append(Linear(model.coef_[0].astype(np.float64), float(model.intercept_[0])))
            learners.append(fitted(name, view, members, views, labels, weight=0.5))  # type: ignore[arg-type]
    for name in TREES:
        if wanted(name):
            trees = [Trees.parse(booster(name, views["normal"], labels, k).model_to_string()) for k in range(FOLDS)]
            learners.append(fitted(name, "normal", trees, views, labels))
    if wanted("mlp"):
        torch.manual_seed(0)
        networks = [Network(build_model(shape).eval()) for _ in range(FOLDS)]
        learners.append(fitted("mlp", "normal", networks, views, labels, weight=2.0))
    cards = [learner_card(one, model=shape if one.name == "mlp" else None) for one in learners]
    return Ensemble(learners), cards, preparation


def table_ensemble(
    folder: Path, only: str | None = None, frame: pd.DataFrame | None = None, labels: Any = None, **card: Any
) -> Bundle:
    """The same as a saved bundle."""
    ensemble, cards, preparation = table_learners(only, frame, labels)
    said = {"target": "state", "positive": "sick", "id_column": None, "header": True}
    known = contents(model=None, preprocessing=preparation.to_dict() | said) | card
    return save_ensemble(folder, ensemble, cards, **known)


def image_ensemble(folder: Path, height: int, width: int, images: NDArray[np.uint8], **card: Any) -> Bundle:
    """A saved bundle of two learners, each with untrained networks; images: what the scales come from."""
    views, labels = ImageViews(images), np.zeros(len(images), np.int64)
    shapes = {
        "small": ResNetShape(name="resnet10", width=0.0625, classes=2, head="score"),
        "cosine": ResNetShape(name="resnet10", width=0.0625, classes=2, head="cosine"),
    }
    learners = []
    for name, shape in shapes.items():
        networks = [build_model(shape) for _ in range(FOLDS)]
        for network in networks:
            network(torch.from_numpy(images).permute(0, 3, 1, 2))  # moves the running statistics from their start
        learners.append(fitted(name, "images", [Network(one.eval()) for one in networks], views, labels))
    cards = [learner_card(one, model=shapes[one.name]) for one in learners]
    known = contents(model=None, preprocessing={"kind": "image", "height": height, "width": width}) | card
    return save_ensemble(folder, Ensemble(learners), cards, **known)
