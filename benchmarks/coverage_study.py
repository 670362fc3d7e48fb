"""How often does the recall of a fitted threshold fall short? `python -m benchmarks.coverage_study run` tells.

Every draw goes through the steps of a fit: columns by their quantiles, folds, cross-fitted learners on one scale,
the best of them or their average, the threshold. The true recall is measured on fresh positives. The certified
threshold is chosen in the same draws, with positives held out of the same data. Results go to
records/fit/coverage.csv, a line per draw; `table` prints them. Settings named "fit" train and average what
`rankreg fit` does by default.
"""

import argparse
import csv
import subprocess
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binomtest

from rankreg.bundle.ensemble import Linear, Member, TableViews, View
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.fit.crossfit import CrossFitted, averaged, cross_fit, folds_for
from rankreg.fit.learners import FOREST, LEARNERS, Folds, Learner, trees
from rankreg.operating import choose_threshold, cross_fitted_threshold

PLACE = Path(__file__).parents[1] / "records/fit/coverage.csv"
FIELDS = ["setting", "draw", "kind", "recall", "fpr", "tpr", "confidence", "commit"]
Rows = NDArray[np.float64]

NEGATIVES, FRESH = 800, 4000
STEPS = 12  # of Newton's method: these problems have converged after 8


def logistic(view: View, strength: float) -> Learner:
    """`rankreg.fit.learners.logistic` by Newton's method in a few lines: a tenth of the time for so few rows."""

    def train(rows: NDArray[np.float32], labels: NDArray[np.int64], folds: Folds) -> list[Member]:
        members: list[Member] = []
        for one in range(folds.members):
            kept = folds.kept(one)
            x, y = np.c_[rows[kept], np.ones(len(kept))].astype(np.float64), labels[kept]
            weight = np.where(y == 1, 0.5 * len(y) / y.sum(), 0.5 * len(y) / (len(y) - y.sum()))
            penalty = np.append(np.full(rows.shape[1], 1 / strength), 1e-9)
            found = np.zeros(x.shape[1])
            for _ in range(STEPS):
                chance = expit(x @ found)
                slope = x.T @ (weight * (chance - y)) + penalty * found
                curve = (x * (weight * chance * (1 - chance))[:, None]).T @ x + np.diag(penalty)
                found -= np.linalg.solve(curve + 1e-8 * np.eye(len(found)), slope)
            members.append(Linear(found[:-1], float(found[-1])))
        return members

    return Learner(view, train)


def heavy_tails(rows: Rows) -> Rows:
    """The same order, some values far away."""
    return np.asarray(np.sign(rows) * np.expm1(np.abs(rows) * 2))


FAST: dict[str, Learner] = {
    "weak penalty": logistic("standardised", 1.0),
    "strong penalty": logistic("normal", 1e-3),
}
FORESTS: dict[str, Learner] = {
    "forest": trees(20, **FOREST, feature_fraction_bynode=0.3),
    "extra-trees": trees(20, **FOREST, feature_fraction_bynode=0.6, extra_trees=True),
}
OVERFITTING: dict[str, Learner] = {"hardly any penalty": logistic("normal", 100.0)}


@dataclass(frozen=True)
class Setting:
    """A population and a promise.

    Args:
        positives: how many there are.
        held: the share that certifies; None where no certificate is possible.
        tpr: the target recall.
        confidence: that it is reached.
        unit: rows per unit of a positive.
        change: what is done to the features, e.g. rounding, which makes ties.
        learners: that are cross-fitted.
        best: how many of them are averaged, chosen inside the folds; None: all, as `rankreg fit` does.
        features: how many columns there are; two of them tell something.
        share: of the draws that are asked for, because some learners take long.
    """

    positives: int
    held: float | None = None
    tpr: float = 0.9
    confidence: float = 0.9
    unit: int = 1
    change: Callable[[Rows], Rows] = lambda rows: rows
    learners: Any = None
    best: int | None = 1
    features: int = 10
    share: float = 1.0

    def draw(self, random: np.random.Generator, positives: int) -> tuple[Rows, NDArray[np.int64]]:
        """Positives of varying difficulty, in units of rows that are alike, and the unit of each."""
        units = positives // self.unit
        rows = random.normal(size=(units, self.features))
        rows[:, 0] += random.exponential(2.0, units)
        rows[:, 1] += random.exponential(1.0, units)
        place = np.repeat(np.arange(units), self.unit)
        near = random.normal(size=(len(place), self.features)) if self.unit > 1 else 0.0
        return self.change(0.8 * rows[place] + 0.6 * near if self.unit > 1 else rows[place]), place


DEFAULT_FITS: dict[str, dict[str, Any]] = {
    "30 positives": {"positives": 30},
    "60 positives": {"positives": 60},
    "60 positives, ties": {"positives": 60, "change": np.round},
    "60 positives, heavy tails": {"positives": 60, "change": heavy_tails},
    "100 positives, 95 % at 95 %": {"positives": 100, "tpr": 0.95, "confidence": 0.95},
}
SETTINGS = {
    "20 positives": Setting(20),
    "30 positives": Setting(30),
    "50 positives": Setting(50, held=0.5),
    "100 positives": Setting(100, held=0.4),
    "300 positives": Setting(300, held=0.2),
    "ties": Setting(60, held=0.4, change=np.round),
    "groups of 3": Setting(180, held=0.4, unit=3),
    "heavy tails": Setting(60, held=0.4, change=heavy_tails),
    "over-fitting learner": Setting(60, held=0.4, learners=OVERFITTING, features=40),
    "random forests": Setting(60, held=0.4, learners=FORESTS, share=0.1),
    "95 % at 95 %": Setting(100, held=0.6, tpr=0.95, confidence=0.95),
    **{
        f"fit, {name}": Setting(**how, learners=LEARNERS, best=None, share=0.1)
        for name, how in DEFAULT_FITS.items()
    },
}


def one_draw(setting: Setting, seed: int) -> list[dict[str, object]]:
    """Both kinds of threshold on one draw."""
    random = np.random.default_rng([seed, setting.positives, setting.unit])
    positives, place = setting.draw(random, setting.positives)
    negatives = setting.change(random.normal(size=(NEGATIVES, setting.features)))
    rows = np.concatenate([positives, negatives])
    labels = np.repeat([1, 0], [len(positives), NEGATIVES])
    units = np.append(place, place.max() + 1 + np.arange(NEGATIVES)) if setting.unit > 1 else None
    fresh = setting.draw(random, FRESH)[0], setting.change(random.normal(size=(FRESH, setting.features)))
    promise: dict[str, Any] = {"tpr": setting.tpr, "confidence": setting.confidence}

    model, prepared = fitted(setting, rows, labels, units, seed)
    found = cross_fitted_threshold(labels, model.scores, units=units, **promise)
    results = [judged(model, prepared, found.value, fresh) | {"kind": found.kind}]
    if setting.held is not None:
        held = np.zeros(len(labels), dtype=bool)
        for kind in (1, 0):
            own = np.unique(place if kind else np.arange(NEGATIVES))
            drawn = random.permutation(own)[: round(setting.held * len(own))]
            held[labels == kind] = np.isin(place if kind else np.arange(NEGATIVES), drawn)
        apart = None if units is None else units[~held]
        model, prepared = fitted(setting, rows[~held], labels[~held], apart, seed)
        scores = model.ensemble.score(prepared(rows[held]))
        certified = choose_threshold(labels[held], scores, units=None if units is None else units[held], **promise)
        results.append(judged(model, prepared, certified.value, fresh) | {"kind": certified.kind})
    return results


def fitted(
    setting: Setting, rows: Rows, labels: NDArray[np.int64], units: NDArray[np.int64] | None, seed: int
) -> tuple[CrossFitted, Callable[[Rows], TableViews]]:
    """The cross-fitted model, and how rows are prepared for it."""
    frame = pd.DataFrame(rows).rename(columns=str)
    preparation = TablePreprocessor.fit(frame)

    def prepared(some: Rows) -> TableViews:
        return TableViews(preparation.transform(pd.DataFrame(some).rename(columns=str)), preparation)

    folds, views = folds_for(labels, units, seed=seed), prepared(rows)
    found = {
        name: cross_fit(learner, name, views, labels, folds) for name, learner in (setting.learners or FAST).items()
    }
    return averaged(found, labels, folds, tpr=setting.tpr, best=setting.best), prepared


def judged(
    model: CrossFitted, prepared: Callable[[Rows], TableViews], threshold: float, fresh: tuple[Rows, Rows]
) -> dict[str, object]:
    """The share of fresh positives and negatives that raise an alarm."""
    recall, fpr = (float(np.mean(model.ensemble.score(prepared(rows)) >= threshold)) for rows in fresh)
    return {"recall": round(recall, 5), "fpr": round(fpr, 5)}


def main() -> None:
    """Simulate what is missing, or print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage_study", description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--settings", nargs="*", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--records", type=Path, default=PLACE)
    asked = parser.parse_args()
    if asked.command == "table":
        print(table(pd.read_csv(asked.records)))
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    asked.records.parent.mkdir(parents=True, exist_ok=True)
    known: set[tuple[str, int]] = set()
    if asked.records.exists():
        before = pd.read_csv(asked.records)
        known = set(zip(before["setting"], before["draw"], strict=True))
    with asked.records.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not known:
            writer.writeheader()
        for draw in range(asked.draws):
            for name in asked.settings:
                setting = SETTINGS[name]
                if (name, draw) in known or draw >= round(setting.share * asked.draws):
                    continue
                common = {"setting": name, "draw": draw, "tpr": setting.tpr, "confidence": setting.confidence}
                writer.writerows(common | row | {"commit": commit} for row in one_draw(setting, draw))
            file.flush()


def table(rows: pd.DataFrame) -> str:
    """A Markdown row per setting and kind."""
    lines = [
        "| setting | threshold | draws | mean recall | falls short | stated | FPR |",
        "|---|---|---|---|---|---|---|",
    ]
    for (setting, kind), own in rows.groupby(["setting", "kind"], sort=False):
        short = int((own["recall"] < own["tpr"]).sum())
        bounds = binomtest(short, len(own)).proportion_ci(method="exact")
        said = f"{100 * short / len(own):.1f} % ({100 * bounds.low:.1f} to {100 * bounds.high:.1f})"
        stated = f"{100 * (1 - own['confidence'].iloc[0]):.0f} %" if kind != "expected" else "–"
        lines.append(
            f"| {setting} | {kind} | {len(own):,} | {100 * own['recall'].mean():.1f} % | {said} | {stated} |"
            f" {100 * own['fpr'].mean():.1f} % |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
