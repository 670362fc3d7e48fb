"""`make tables`: the parts of pages that come from code and records, between two comments that name them."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import (
    auc_loss_peer,
    image_blends,
    image_features,
    image_peers,
    image_weights,
    mapie_peer,
    resampling_peer,
    threshold_peer,
)

from docs import results_pages
from docs.pictures import APART, CONFIDENCE, LABELS, SCORES, TPR, expected_fpr, recorded
from rankreg.fit.sources import CALIBRATION
from rankreg.operating import highest_tpr, positives_needed
from rankreg.operating.guarantees import certified_rank

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(<!-- ([\w-]+): made by docs/blocks\.py -->\n)(.*?)(<!-- end of \2 -->)", re.DOTALL)
Row = list[str]


def table(header: Row, rows: list[Row]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def share(value: float, digits: int = 1) -> str:
    """A share as a percentage."""
    return f"{100 * value:.{digits}f} %"


def _ten_samples() -> str:
    positives = [place for place, label in enumerate(LABELS) if label]
    header = ["form", *(f"positive at {SCORES[place]:g}" for place in positives), "all negatives together"]
    rows = []
    for name, steps in recorded()["ten-samples"].items():
        negatives = sum(step for step, label in zip(steps, LABELS, strict=True) if not label)
        rows.append(
            ["{}, `{}`".format(*name.split(", ", 1)), *(f"{steps[i]:+.3f}" for i in positives), f"{negatives:+.3f}"]
        )
    return table(header, rows)


def _reach() -> str:
    data = recorded()["reach"]
    copies, shift = data["copies"][-1], data["shift at one gamma"][-1]
    return (
        f"On the right the batch is repeated. At one γ, {copies} copies move the hardest positive by {shift:.2f}"
        " instead of 1.\nAt reach 1 it always moves by 1. So a reach keeps its meaning when the batch grows."
    )


def _coverage() -> str:
    rows = []
    for row in recorded()["coverage"]["sizes"]:
        kinds = [f"refused: {positives_needed(TPR, CONFIDENCE)} are needed", "–"]
        if "certified" in row:
            kinds = [share(row["certified short"]), share(row["certified"]["0.5"])]
        rows.append([f"{row['positives']:,}", share(row["usual short"]), *kinds])
    return table(
        [
            "calibration positives",
            "usual: recall below 95 % in",
            "certified: below 95 % in",
            "certified: median recall",
        ],
        rows,
    )


def _by_heart() -> str:
    data = recorded()["by-heart"]
    above, new = np.mean(data["above"], axis=0), np.mean(data["validation auc"], axis=0)
    rows = [[str(epoch), f"{above[epoch - 1]:.1f}", f"{new[epoch - 1]:.1f}"] for epoch in (1, 2, 3, 5, len(above))]
    return table(["epoch", "training: negatives above a positive", "new images: AUC"], rows)


def _long_runs() -> str:
    data, rows = recorded()["by-heart"], []
    for arm, name in (
        ("base", "BCE"),
        ("buffer", "BCE and buffer"),
        ("probability", "BCE, buffer, published term"),
    ):
        curves, losses = data["tuning auc"][arm], data["loss"][arm]
        early = " and ".join(f"{max(curve[: len(curve) // 5]):.1f}" for curve in curves)
        late = " and ".join(f"{np.mean(curve[-len(curve) // 5 :]):.1f}" for curve in curves)
        rows.append([name, " and ".join(f"{loss[-1]:.4f}" for loss in losses), early, late])
    return table(
        ["CIFAR-100 1:100", "training BCE at the end", "best AUC of the first fifth", "mean AUC of the last fifth"],
        rows,
    )


def _needed() -> str:
    confidences = (0.8, 0.9, 0.95, 0.99)
    return table(
        ["recall", *(f"{share(sure, 0)} confidence" for sure in confidences)],
        [
            [f"at least {share(tpr, 0)}", *(f"{positives_needed(tpr, sure):,}" for sure in confidences)]
            for tpr in (0.8, 0.9, 0.95, 0.98, 0.99)
        ],
    )


def _price() -> str:
    counts, limit = (59, 93, 181, 1000), recorded()["price"]["limit"]
    rows = []
    for auc in APART:
        found = [expected_fpr(n, auc) for n in counts]
        rows.append([f"{auc:g}", *(share(fpr) for fpr in found if fpr is not None), share(limit[str(auc)])])
    return table(["AUC of the scores", *(f"{n:,} positives" for n in counts), "distributions known"], rows)


def _few_positives() -> str:
    rows = [
        [
            str(row["positives"]),
            kind,
            f"{row['draws']:,}",
            share(row["recall"]),
            share(row["short"]),
            share(row["fpr"]),
        ]
        for kind, found in recorded()["few-positives"].items()
        for row in found
    ]
    rows.sort(key=lambda row: int(row[0]))
    return table(
        ["positives in all", "threshold", "draws", "mean recall", "recall below 90 % in", "mean FPR"], rows
    )


def fit_gives(positives: int, tpr: float) -> str:
    """The threshold that `rankreg fit` chooses by default, for independent positives."""
    if certified_rank(round(CALIBRATION * positives), tpr, CONFIDENCE):
        return "certified"
    return "cross-fitted" if certified_rank(positives, tpr, CONFIDENCE) else "expected"


ADVICE = {  # from docs/fit.md, docs/results.md and docs/decisions/0041
    20: "`rankreg fit`; promise nothing, collect more positives",
    50: "`rankreg fit`; promise 90 %",
    100: "`rankreg fit`; promise 95 %; for a proof `--tpr 0.9 --threshold certified --calibration 0.3`",
    300: "`rankreg fit` certifies 95 %; `--threshold cross-fitted` has fewer false alarms",
    1000: "`rankreg fit` certifies up to 98 %",
}


def _i_have() -> str:
    rows = []
    for count, advice in ADVICE.items():
        certified = f"{np.floor(1000 * highest_tpr(count, CONFIDENCE)) / 10:.1f} %"
        price = expected_fpr(count, 0.98)
        cost = "cannot" if price is None else share(price, 0)
        rows.append([f"{count:,}", advice, fit_gives(count, TPR), fit_gives(count, 0.9), certified, cost])
    return table(
        [
            "I have",
            "what to do",
            "`fit --tpr 0.95`",
            "`fit --tpr 0.9`",
            "highest recall, all certify",
            "FPR, all certify",
        ],
        rows,
    )


def mapie_records() -> list[tuple[Any, ...]]:
    """records/operating/mapie.csv as `mapie_peer.markdown` takes it."""
    with (ROOT / mapie_peer.RECORDS).open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [(row[0], row[1], *(int(value) for value in row[2:6]), *row[6:]) for row in rows]


def _mapie() -> str:
    lines = mapie_peer.markdown(mapie_records()).splitlines()
    return "\n".join(lines[:2] + [line for line in lines[2:] if line.startswith(("| recall ≥ 95", "| FPR"))])


BLOCKS: dict[str, Callable[[], str]] = {
    "ten-samples": _ten_samples,
    "reach": _reach,
    "coverage": _coverage,
    "by-heart": _by_heart,
    "long-runs": _long_runs,
    "needed": _needed,
    "price": _price,
    "few-positives": _few_positives,
    "i-have": _i_have,
    "tuned-threshold": threshold_peer.table,
    "imbalanced-learn": resampling_peer.overall,
    "imbalanced-learn-gains": resampling_peer.gains,
    "imbalanced-learn-by-table": resampling_peer.by_table,
    "libauc": auc_loss_peer.table,
    "mapie-beside": _mapie,
    "blended-positives": image_blends.table,
    "with-features": image_features.table,
    "weight-of-features": image_weights.table,
    "libauc-images": image_peers.table,
    "long-answers": results_pages.long_answers,
    "long-halves": results_pages.long_halves,
    "long-gains": results_pages.long_gains,
}


def pages() -> dict[Path, list[str]]:
    """Every page with such parts, and their names."""
    found = {page: [match[2] for match in BLOCK.finditer(page.read_text())] for page in sorted(DOCS.rglob("*.md"))}
    return {page: names for page, names in found.items() if names}


def rendered(page: Path) -> str:
    """The page with its parts of today."""
    return BLOCK.sub(
        lambda match: match[1] + BLOCKS[match[2]]() + "\n" + match[4], page.read_text(encoding="utf-8")
    )


if __name__ == "__main__":
    for page in pages():
        page.write_text(rendered(page), encoding="utf-8")
