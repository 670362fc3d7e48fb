"""The methods: five lines of one's own, the fit of version 0.1, cross-fitted learners and ways to combine them."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.bundle.ensemble import TableViews
from rankreg.datasets.partitions import stratified_parts
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.datasets.splits import Samples, Splits
from rankreg.fit import settings
from rankreg.fit.crossfit import OutOfFold, averaged, cross_fit, folds_for
from rankreg.fit.learners import LEARNERS, RANKED
from rankreg.metrics import fpr_at_tpr
from rankreg.operating import auc_interval
from rankreg.train import score, train

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Half:
    """What a method gets: training rows with labels and units, and test rows."""

    train: pd.DataFrame
    labels: Labels
    units: Labels
    test: pd.DataFrame
    seed: int


def encoded(half: Half) -> tuple[NDArray[Any], NDArray[Any]]:
    """Medians for gaps, one column per category: what everybody does first."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    encode = make_column_transformer(
        (SimpleImputer(strategy="median"), make_column_selector(dtype_include="number")),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            make_column_selector(dtype_exclude="number"),
        ),
    ).fit(half.train)
    return encode.transform(half.train), encode.transform(half.test)


def _scikit_learn(make: Callable[[int], Any]) -> Callable[[Half], Floats]:
    def scores(half: Half) -> Floats:
        train_rows, test_rows = encoded(half)
        found: Floats = make(half.seed).fit(train_rows, half.labels).predict_proba(test_rows)[:, 1]
        return found

    return scores


def _scaled(model: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), model)


def logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return _scaled(LogisticRegression(class_weight="balanced", max_iter=5000))


def lightgbm(**options: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1, **options)

    return make


def _histogram(**options: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(random_state=seed, **options)

    return make


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(300, random_state=seed)


def _perceptron(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return _scaled(MLPClassifier((64, 64), random_state=seed, max_iter=100))


def _fit_before(half: Half) -> Floats:
    """`rankreg fit` of version 0.1: one network on 60 % of the rows, a tenth chooses the epoch."""
    shares = {"train": 0.6, "validation": 0.1, "calibration": 0.15, "test": 0.15}
    parts = stratified_parts(half.labels, half.units, shares, seed=half.seed)
    preparation = TablePreprocessor.fit(half.train.iloc[parts["train"]])
    rows = preparation.transform(half.train)
    splits = Splits(
        "half",
        {
            name: Samples(rows, parts[name], half.labels[parts[name]], parts[name])
            for name in ("train", "validation")
        },
    )
    config = settings("table", 0.95, seed=half.seed, method="rankreg").model_copy(update={"selection": "auc"})
    run = train(splits, config, score_parts=(), progress=False)
    return score(run.model, preparation.transform(half.test), precision="float32").astype(np.float64)


OWN_LINES: dict[str, Callable[[Half], Floats]] = {
    "logistic regression": _scikit_learn(logistic),
    "LightGBM": _scikit_learn(lightgbm()),
    "LightGBM, balanced": _scikit_learn(lightgbm(class_weight="balanced")),
    "HistGradientBoosting": _scikit_learn(_histogram()),
    "HistGradientBoosting, balanced": _scikit_learn(_histogram(class_weight="balanced")),
    "random forest": _scikit_learn(_forest),
    "MLP": _scikit_learn(_perceptron),
    "rankreg fit 0.1": _fit_before,
}


def cross_fitted(half: Half, names: Mapping[str, Any]) -> Iterator[tuple[str, Floats, float]]:
    """Test scores of each cross-fitted learner and of each way to combine them, with seconds."""
    preparation = TablePreprocessor.fit(half.train)
    views = TableViews(preparation.transform(half.train), preparation)
    new = TableViews(preparation.transform(half.test), preparation)
    folds = folds_for(half.labels, half.units, seed=half.seed)
    found: dict[str, OutOfFold] = {}
    levels: dict[str, Floats] = {}
    logits: dict[str, Floats] = {}
    for name, learner in names.items():
        start = time.perf_counter()
        found[name] = cross_fit(learner, name, views, half.labels, folds)
        raw = [member.score(new[learner.view]) for member in found[name].members]
        scales = found[name].scales
        levels[name] = np.mean([scale(one) for scale, one in zip(scales, raw, strict=True)], axis=0)
        logits[name] = np.mean(raw, axis=0)
        yield f"cross-fitted {name}", levels[name], time.perf_counter() - start
    base = [name for name in LEARNERS if name in found]
    start = time.perf_counter()
    fitted = averaged({name: found[name] for name in base}, half.labels, folds, best=3).ensemble
    yield "best three, chosen inside the folds", fitted.score(new).astype(np.float64), time.perf_counter() - start
    for name, weights in combinations(found, half.labels, base).items():
        yield name, sum(weight * levels[one] for one, weight in weights.items()), 0.0  # type: ignore[misc]
    yield "average of logits", np.mean([logits[name] for name in base], axis=0), 0.0
    if set(RANKED) <= set(found):
        yield "average with rank learners", np.mean(list(levels.values()), axis=0), 0.0
        swapped = [f"{name}-rank" if f"{name}-rank" in found else name for name in base]
        yield "average, rank learners instead", np.mean([levels[name] for name in swapped], axis=0), 0.0


def combinations(found: Mapping[str, OutOfFold], labels: Labels, base: list[str]) -> dict[str, dict[str, float]]:
    """Weights of the learners, from nothing but out-of-fold scores."""
    rates = {name: fpr_at_tpr(labels, found[name].mean_levels, 0.95) for name in base}
    areas = {name: auc_interval(labels, found[name].mean_levels) for name in base}
    best = min(base, key=lambda name: rates[name])
    highest = max(base, key=lambda name: areas[name].estimate)
    useful = [name for name in base if areas[name].high >= areas[highest].low]
    shrunk = {name: 0.5 / len(base) + 0.5 * weight for name, weight in _by_result(rates).items()}
    three = sorted(base, key=lambda name: rates[name])[:3]
    return {
        "rankreg fit": dict.fromkeys(base, 1 / len(base)),
        "choice: best learner out of fold": {best: 1.0},
        "average of the best three": dict.fromkeys(three, 1 / 3),
        "average without useless learners": dict.fromkeys(useful, 1 / len(useful)),
        "weights from out-of-fold FPR, shrunk": shrunk,
    }


def _by_result(rates: Mapping[str, float]) -> dict[str, float]:
    """Weights that fall with the FPR, a factor e for each tenth of FPR more."""
    lowest = min(rates.values())
    weights = {name: float(np.exp(-(rate - lowest) / 0.1)) for name, rate in rates.items()}
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}
