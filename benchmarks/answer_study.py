"""How often are the promises of a fit broken? `python -m benchmarks.answer_study run` tells.

Every draw goes through the steps of a fit, as in `coverage_study`: quantiles, folds, cross-fitted learners. The
best of them is chosen inside the folds. Then promises are made on its out-of-fold scores, and in two settings also
on a part that was held out of the same draw. Rows are drawn as they come: the number of positives is random. The
true recall, FPR, precision, alarms and reviews are measured on fresh rows. Results go to records/fit/answers.csv, a
line per draw and promise; `table` prints them. Out of fold the load of a review is an estimate: it cannot be
broken, and `reviews_at_most` is the bound that is no longer claimed. records/fit/answers_fresh.csv confirms this on
new draws: `run --first 1000000 --draws 300 --rare 1 --records records/fit/answers_fresh.csv`.
"""

import argparse
import csv
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest

from benchmarks.coverage_study import FORESTS, NEGATIVES, OVERFITTING, Setting, fitted
from rankreg.operating import PromisedPoint, Promises, Review, promised_threshold

PLACE = Path(__file__).parents[1] / "records/fit/answers.csv"
TRUE = ["recall", "fpr", "precision", "alarms", "reviews", "reviews_expected", "reviews_at_most", "broken"]
FIELDS = ["setting", "draw", "promise", "kind", "kept", *TRUE, "commit"]
FRESH = 10_000, 30_000  # positives and negatives that tell the truth
CONFIDENCE = 0.9

SETTINGS = {
    "100 positives": Setting(100, held=0.5),
    "300 positives": Setting(300, held=0.4),
    "ties": Setting(100, change=np.round),
    "heavy tails": Setting(100, change=lambda rows: np.sign(rows) * np.expm1(np.abs(rows) * 2)),
    "over-fitting learner": Setting(100, learners=OVERFITTING, features=40),
    "groups of 3": Setting(180, unit=3),
    "random forests": Setting(100, learners=FORESTS),
}
RARE = ("groups of 3", "random forests")  # they take long: a tenth of the draws, unless --rare says otherwise


def promises(setting: Setting) -> dict[str, tuple[float, Promises]]:
    """By name: the recall and what is promised beside it."""
    share = setting.positives / (setting.positives + NEGATIVES)
    found = {
        "recall ≥ 90 %, reviewed or alarmed; precision ≥ 50 %, prevalence": (
            0.9,
            Promises(precision=0.5, prevalence=share, review=True),
        ),
        "recall ≥ 70 % and FPR ≤ 35 %": (0.7, Promises(fpr=0.35)),
        "recall ≥ 70 % and precision ≥ 25 %, prevalence": (0.7, Promises(precision=0.25, prevalence=share)),
        "recall ≥ 70 % and alarms ≤ 350": (0.7, Promises(alarms=350)),
    }
    if setting.unit == 1:
        found["recall ≥ 90 %, reviewed or alarmed; precision ≥ 50 %"] = (0.9, Promises(precision=0.5, review=True))
        found["recall ≥ 90 %, reviewed or alarmed; precision ≥ 80 %"] = (0.9, Promises(precision=0.8, review=True))
    return found


def one_draw(setting: Setting, seed: int) -> list[dict[str, object]]:
    """All promises on one draw."""
    random = np.random.default_rng([seed, setting.positives, setting.unit, 7])
    share = setting.positives / (setting.positives + NEGATIVES)
    total = setting.positives + NEGATIVES
    count = int(random.binomial(total // setting.unit, share)) * setting.unit  # as many as happen to come
    positives, place = setting.draw(random, count)
    others = total - len(positives)
    rows = np.concatenate([positives, setting.change(random.normal(size=(others, setting.features)))])
    labels = np.repeat([1, 0], [len(positives), others])
    units = np.append(place, place.max() + 1 + np.arange(others)) if setting.unit > 1 else None
    fresh = setting.draw(random, FRESH[0])[0], setting.change(random.normal(size=(FRESH[1], setting.features)))

    model, prepared = fitted(setting, rows, labels, units, seed)
    truth = tuple(model.ensemble.score(prepared(some)) for some in fresh)
    found = judged(setting, labels, model.scores, units, truth, share, held_out=False)
    if setting.held is not None:  # a part with the shares of the whole, as `fit` cuts it
        held = np.zeros(len(labels), dtype=bool)
        for kind in (1, 0):
            own = np.flatnonzero(labels == kind)
            held[random.permutation(own)[: round(setting.held * len(own))]] = True
        model, prepared = fitted(setting, rows[~held], labels[~held], None, seed)
        truth = tuple(model.ensemble.score(prepared(some)) for some in fresh)
        scores = model.ensemble.score(prepared(rows[held]))
        found += judged(setting, labels[held], scores, None, truth, share, held_out=True)
    return found


def judged(
    setting: Setting,
    labels: NDArray[np.int64],
    scores: NDArray[np.float32],
    units: NDArray[np.int64] | None,
    truth: tuple[NDArray[np.float32], ...],
    share: float,
    *,
    held_out: bool,
) -> list[dict[str, object]]:
    """What each promise comes to in truth; one that is not kept breaks nothing."""
    results: list[dict[str, object]] = []
    for name, (tpr, asked) in promises(setting).items():
        made: dict[str, Any] = {"tpr": tpr, "confidence": CONFIDENCE, "units": units, "held_out": held_out}
        found = promised_threshold(labels, scores, promises=asked, **made)
        row: dict[str, object] = {"promise": name, "kind": "held out" if held_out else "out of fold"}
        row["kept"] = int(found.kept)
        if found.kept:  # out of fold the bound of a load is not claimed; it is recorded all the same
            made["held_out"] = True
            bounded = promised_threshold(labels, scores, promises=asked, **made).found
            row |= true_shares(bounded, truth, share, load_bounded=held_out)
        results.append(row)
    return results


def true_shares(
    found: PromisedPoint | Review, truth: tuple[NDArray[np.float32], ...], share: float, *, load_bounded: bool
) -> dict[str, object]:
    """The shares of fresh rows at the thresholds, and whether a promise is broken."""
    lower = found.review_from if isinstance(found, Review) else found.threshold
    upper = found.alarm_from if isinstance(found, Review) else lower
    assert lower is not None
    assert upper is not None
    recall, fpr = (float(np.mean(scores >= lower)) for scores in truth)
    alarmed = [float(np.mean(scores >= upper)) for scores in truth]
    alarms = share * alarmed[0] + (1 - share) * alarmed[1]
    precision = share * alarmed[0] / alarms if alarms else 1.0
    reviews = 1000 * (share * recall + (1 - share) * fpr - alarms)
    load: dict[str, object] = {}
    if isinstance(found, Review):
        most = found.review_per_1000_at_most
        assert most is not None
        load = {
            "reviews": round(reviews, 1),
            "reviews_expected": round(found.review_per_1000, 1),
            "reviews_at_most": round(most, 1),
        }
        broken = recall < found.tpr or precision < found.precision
        broken |= load_bounded and reviews > most
    else:
        targets = {one.name: one.target for one in found.promises}
        broken = (
            recall < targets["tpr"]
            or fpr > targets.get("fpr", 1)
            or precision < targets.get("precision", 0)
            or 1000 * alarms > targets.get("alarms", 1000)
        )
    return {
        "recall": round(recall, 4),
        "fpr": round(fpr, 4),
        "precision": round(precision, 4),
        "alarms": round(1000 * alarms, 1),
        "broken": int(broken),
    } | load


def main() -> None:
    """Simulate what is missing, or print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answer_study", description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number, and so the seed, of the first draw")
    parser.add_argument("--rare", type=int, default=10, help="slow settings: every so many draws")
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
    fields = FIELDS
    if asked.records.exists():
        before = pd.read_csv(asked.records)
        fields = list(before.columns)
        known = set(zip(before["setting"], before["draw"], strict=True))
    with asked.records.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields, extrasaction="ignore", lineterminator="\n")
        if not known:
            writer.writeheader()
        for draw in range(asked.first, asked.first + asked.draws):
            for name in asked.settings:
                if (name, draw) in known or (name in RARE and draw % asked.rare):
                    continue
                common = {"setting": name, "draw": draw, "commit": commit}
                writer.writerows(common | row for row in one_draw(SETTINGS[name], draw))
            file.flush()


def table(rows: pd.DataFrame) -> str:
    """A Markdown row per promise and kind: over all settings, and the setting where it is broken most often."""
    lines = [
        "| promised | judged | settings | draws | given | broken | broken most often (exact 95 % interval) |",
        "|---|---|---|---|---|---|---|",
    ]
    for (promise, kind), own in rows.groupby(["promise", "kind"], sort=False):
        shares = own.groupby("setting")["broken"].agg(lambda broken: broken.fillna(0).mean())
        worst = str(shares.idxmax())
        there = own[own["setting"] == worst]["broken"].fillna(0)
        bounds = binomtest(int(there.sum()), len(there)).proportion_ci(method="exact")
        lines.append(
            f"| {promise} | {kind} | {len(shares)} | {len(own):,} | {100 * own['kept'].mean():.0f} % |"
            f" {100 * own['broken'].fillna(0).mean():.1f} % | {100 * there.mean():.1f} %"
            f" ({100 * bounds.low:.1f} to {100 * bounds.high:.1f}): {worst} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
