"""`make pictures`: the pictures of the theory pages, from code and records, and the numbers behind them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import beta

from rankreg import RankReg
from rankreg.operating import NotEnoughPositives, certify, positives_needed
from rankreg.operating.guarantees import certified_rank
from rankreg_bench.figures import COLORS, QUIET, look, save
from rankreg_bench.grids import plan_run
from rankreg_bench.records import RecordFolder

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
NUMBERS = IMAGES / "numbers.json"
Numbers = dict[str, Any]

# Ten samples: the scores of a batch, and which of them are positives.
SCORES = (1.9, 0.6, 0.45, 0.35, 0.3, 0.2, 0.1, 0.0, -0.8, -1.6)
LABELS = (0, 1, 0, 0, 1, 0, 0, 1, 0, 0)
FORMS = {
    "default, RankReg()": RankReg(),
    "scores, RankReg(among='all', weight=1)": RankReg(among="all", weight=1.0),
    "published, RankReg.published()": RankReg.published(),
}
REACHES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
SIZES = (30, 60, 100, 200, 400, 1000)  # calibration positives
TPR, CONFIDENCE = 0.95, 0.95
APART = {0.95: "#DDAA33", 0.98: "#004488", 0.99: "#BB5566"}  # AUC of two normal distributions
AT_HEART = {"base": "BCE", "buffer": "BCE and buffer", "probability": "BCE, buffer and published term"}


def steps(term: RankReg, scores: Any = SCORES, labels: Any = LABELS) -> list[float]:
    """What one step of descent on the term adds to each score, at a learning rate of 1."""
    given = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    term(given, torch.tensor(labels)).backward()
    assert given.grad is not None
    return [0.0 - value for value in given.grad.tolist()]


def ten_samples() -> Numbers:
    """The step of each of ten samples, for every form of the term."""
    return {name: steps(term) for name, term in FORMS.items()}


def reach_and_gamma() -> Numbers:
    """Steps by reach, and how far the hardest positive moves when a batch is repeated: by reach and by γ."""
    by_reach = [steps(RankReg(reach=reach, weight=1.0)) for reach in REACHES]
    copies = (1, 2, 4, 8)
    shift = []
    for count in copies:
        labels = torch.tensor(LABELS * count)
        scores = torch.tensor(SCORES * count)
        ranks = 1 + (scores[None, labels == 0] > scores[labels == 1, None]).sum(1)
        largest = 2 * ranks.max().item() / (1 + int((labels == 0).sum())) / int(labels.sum())
        shift.append(largest)
    width = 1.0 / shift[0]  # the γ that moves the hardest positive by 1 in the batch of ten
    return {
        "reach": list(REACHES),
        "positives": {str(i): [row[i] for row in by_reach] for i in range(10) if LABELS[i]},
        "negatives": [sum(row[i] for i in range(10) if not LABELS[i]) for row in by_reach],
        "copies": list(copies),
        "shift at reach 1": [1.0] * len(copies),
        "shift at one gamma": [width * value for value in shift],
    }


def coverage(draws: int = 40) -> Numbers:
    """True recall at the usual and the certified threshold: exact quantiles, and some draws.

    With n positives, the true recall at the k-th lowest of their scores has the distribution Beta(n − k + 1, k).
    """
    random, found = np.random.default_rng(5), list[Numbers]()
    for n in SIZES:
        usual = n - int(np.ceil(TPR * n - 1e-9)) + 1
        certified = certified_rank(n, TPR, CONFIDENCE)
        dots: dict[str, list[float]] = {"usual": [], "certified": []}
        for _ in range(draws):
            scores = random.normal(2.0, 1.0, n)
            dots["usual"].append(float(ndtr(2 - np.sort(scores)[usual - 1])))
            try:
                labels = np.repeat([1, 0], [n, 20])
                every = np.append(scores, random.normal(0, 1, 20))
                dots["certified"].append(float(ndtr(2 - certify(labels, every, tpr=TPR).threshold)))
            except NotEnoughPositives:
                pass
        row: Numbers = {"positives": n, "dots": dots}
        for name, k in (("usual", usual), ("certified", certified)):
            if k:
                law = beta(n - k + 1, k)
                row[name] = {str(q): float(law.ppf(q)) for q in (0.05, 0.5, 0.95)}
                row[f"{name} short"] = float(law.cdf(TPR))
        found.append(row)
    return {"sizes": found}


def needed() -> Numbers:
    """How many positives certify a recall."""
    tprs = [round(float(t), 3) for t in np.linspace(0.8, 0.995, 40)]
    return {
        "tpr": tprs,
        "positives": {str(sure): [positives_needed(t, sure) for t in tprs] for sure in (0.8, 0.9, 0.95, 0.99)},
    }


def distance(auc: float) -> float:
    """How far apart two normal distributions with this AUC are, in standard deviations."""
    return float(np.sqrt(2) * ndtri(auc))


def expected_fpr(n: int, auc: float, tpr: float = TPR, confidence: float = CONFIDENCE) -> float | None:
    """The mean FPR at the certified threshold of n positives, N(d, 1) against N(0, 1); None if none exists."""
    rank = certified_rank(n, tpr, confidence)
    if not rank:
        return None
    law, apart = beta(rank, n - rank + 1), distance(auc)  # of the share of positives below the threshold
    low, high = law.ppf(1e-9), law.ppf(1 - 1e-9)
    return float(quad(lambda u: law.pdf(u) * ndtr(-apart - ndtri(u)), low, high, limit=200)[0])


def price() -> Numbers:
    """The mean FPR by the number of positives that certify, and where it ends with infinitely many."""
    every = np.arange(positives_needed(TPR, CONFIDENCE), 3000)
    ranks = np.array([certified_rank(int(n), TPR, CONFIDENCE) for n in every])
    firsts = every[np.flatnonzero(np.diff(ranks, prepend=0))]  # where one more positive may be missed
    counts = firsts[np.unique(np.round(np.geomspace(1, len(firsts), 30)).astype(int)) - 1].tolist()
    return {
        "positives": counts,
        "fpr": {str(auc): [expected_fpr(n, auc) for n in counts] for auc in APART},
        "limit": {str(auc): float(ndtr(-distance(auc) - ndtri(1 - TPR))) for auc in APART},
    }


def few_positives() -> Numbers:
    """Cross-fitted beside certified thresholds in the recorded simulations: recall, FPR, how often too low."""
    rows = pd.read_csv(ROOT / "records/fit/coverage.csv")
    found: Numbers = {}
    for count in (20, 50, 100, 300):
        own = rows[rows["setting"] == f"{count} positives"]
        for kind, part in own.groupby("kind", sort=False):
            found.setdefault(str(kind), []).append(
                {
                    "positives": count,
                    "draws": len(part),
                    "recall": float(part["recall"].mean()),
                    "fpr": float(part["fpr"].mean()),
                    "short": float((part["recall"] < part["tpr"]).mean()),
                }
            )
    return found


def by_heart() -> Numbers:
    """Training positives and new images, epoch by epoch: five short runs, and two splits of the long ones."""
    short = [_record("compact", "cifar10-100", "among-negatives-weight-0.1", split) for split in range(5)]
    ranks = [[33 * np.sqrt(10 * value) - 1 for value in one["training_losses"]["rankreg"]] for one in short]
    long = {arm: [_record("converged", "cifar100-100", arm, split) for split in (0, 1)] for arm in AT_HEART}
    return {
        "above": np.array(
            ranks
        ).tolist(),  # negatives above a positive, root of the mean square, by split and epoch
        "validation auc": [[100 * value for value in one["validation_auc"]] for one in short],
        "loss": {arm: [one["training_losses"]["base"] for one in runs] for arm, runs in long.items()},
        "tuning auc": {arm: [one["curves"]["tuning"]["auc"] for one in runs] for arm, runs in long.items()},
    }


def _record(preset: str, data: str, arm: str, split: int) -> Numbers:
    return RecordFolder(ROOT / "records").read(plan_run(preset, data, "bce", arm, split))


PICTURES: dict[str, Callable[[], Numbers]] = {
    "ten-samples": ten_samples,
    "reach": reach_and_gamma,
    "coverage": coverage,
    "needed": needed,
    "price": price,
    "few-positives": few_positives,
    "by-heart": by_heart,
}


def numbers(name: str) -> Numbers:
    """What a picture shows, rounded to what is kept."""
    rounded: Numbers = json.loads(
        json.dumps(PICTURES[name]()), parse_float=lambda text: float(f"{float(text):.6g}")
    )
    return rounded


def recorded() -> dict[str, Numbers]:
    """What the pictures in docs/images show."""
    found: dict[str, Numbers] = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return found


def percent(axis: Any) -> None:
    """Ticks as percentages."""
    axis.set_major_formatter(lambda value, place: f"{100 * value:g} %")


def _draw_ten_samples(figure: Any, data: Numbers) -> None:
    charts = figure.subplots(len(data), 1, sharex=True)
    for chart, (name, found) in zip(charts, data.items(), strict=True):
        largest = max(abs(value) for value in found)
        for place, (score, label, step) in enumerate(zip(SCORES, LABELS, found, strict=True)):
            height = 0.2 + 0.08 * place
            color, marker = COLORS[3] if label else COLORS[2]
            chart.plot(score, 0, marker, color=color, markersize=8, zorder=4)
            if abs(step) > 1e-9:
                end = (score + 0.9 * step / largest, height)
                style = {"arrowstyle": "-|>", "color": color, "linewidth": 1.5, "shrinkA": 0}
                chart.annotate("", end, (score, height), arrowprops=style)
                chart.plot([score, score], [0, height], color=color, linewidth=0.6)
        chart.set(title=f"{name}: largest step {largest:.3f}", ylim=(-0.2, 1.05), yticks=[], xlim=(-1.9, 2.2))
        chart.spines["left"].set_visible(False)
    charts[-1].set_xlabel("score; red: positives, blue: negatives; arrows: steps, each row to its own scale")


def _draw_reach(figure: Any, data: Numbers) -> None:
    left, right = figure.subplots(1, 2)
    for (place, values), (color, marker) in zip(
        data["positives"].items(), (COLORS[1], COLORS[3], COLORS[6]), strict=True
    ):
        left.plot(
            data["reach"],
            values,
            marker + "-",
            color=color,
            markersize=4,
            label=f"positive at {SCORES[int(place)]}",
        )
    left.plot(data["reach"], data["negatives"], "s-", color=COLORS[2][0], markersize=4, label="all negatives")
    left.axhline(0, color=QUIET, linewidth=0.6)
    left.set(xscale="log", title="Step by reach, weight 1", xlabel="reach", ylabel="step of a score")
    left.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    left.legend(fontsize=8)
    right.plot(data["copies"], data["shift at reach 1"], "o-", color=COLORS[2][0], label="reach 1")
    right.plot(data["copies"], data["shift at one gamma"], "D-", color=COLORS[3][0], label="one γ")
    right.set(
        title="The batch repeated", xlabel="copies of the ten samples", ylabel="shift of the hardest positive"
    )
    right.set_xticks(data["copies"])
    right.set_ylim(0, 1.1)
    right.legend(fontsize=8)


def _draw_coverage(figure: Any, data: Numbers) -> None:
    charts = figure.subplots(1, 2, sharey=True)
    titles = {"usual": "Usual threshold", "certified": f"Certified, {100 * CONFIDENCE:.0f} % confidence"}
    for chart, (kind, title), (color, _) in zip(charts, titles.items(), (COLORS[1], COLORS[2]), strict=True):
        rows = [row for row in data["sizes"] if kind in row]
        sizes = [row["positives"] for row in rows]
        low, middle, high = ([row[kind][q] for row in rows] for q in ("0.05", "0.5", "0.95"))
        chart.fill_between(sizes, low, high, color=color, alpha=0.25, linewidth=0, label="90 % of all samples")
        chart.plot(sizes, middle, color=color, label="median")
        spread = np.random.default_rng(0)
        for row in rows:
            dots = row["dots"][kind]
            places = row["positives"] * np.exp(spread.uniform(-0.05, 0.05, len(dots)))
            chart.plot(places, dots, ".", color=color, markersize=2.5)
        chart.axhline(TPR, color="#000000", linewidth=1.2)
        chart.text(1080, TPR - 0.004, "promise", ha="right", va="top", fontsize=8)
        chart.set(xscale="log", title=title, xlabel="calibration positives", ylim=(0.8, 1.003))
        chart.set_xticks(list(SIZES), [f"{n:,}" for n in SIZES])
        chart.minorticks_off()
        chart.grid(axis="y", visible=True)
        chart.legend(fontsize=8, loc="lower right")
    charts[0].set_ylabel("true recall")
    percent(charts[0].yaxis)


def _draw_needed(figure: Any, data: Numbers) -> None:
    chart = figure.subplots()
    for (sure, counts), (color, _) in zip(data["positives"].items(), COLORS, strict=False):
        chart.step(data["tpr"], counts, where="post", color=color, label=f"{100 * float(sure):g} % confidence")
    chart.set(yscale="log", xlabel="recall to certify", ylabel="independent positives needed", ylim=(5, 1200))
    chart.set_yticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1,000"])
    chart.minorticks_off()
    chart.set_xticks([0.8, 0.85, 0.9, 0.95, 0.98])
    percent(chart.xaxis)
    chart.grid(visible=True)
    chart.legend(fontsize=8)


def _draw_price(figure: Any, data: Numbers) -> None:
    chart = figure.subplots()
    for auc, color in APART.items():
        chart.plot(data["positives"], data["fpr"][str(auc)], ".-", color=color, label=f"AUC {auc}")
        chart.axhline(data["limit"][str(auc)], color=color, linestyle=(0, (4, 3)), linewidth=0.9)
    chart.set(xscale="log", xlabel="positives that certify", ylabel="mean FPR", ylim=(0, None))
    chart.set_xticks([59, 100, 200, 500, 1000, 3000], ["59", "100", "200", "500", "1,000", "3,000"])
    chart.minorticks_off()
    percent(chart.yaxis)
    chart.grid(axis="y", visible=True)
    chart.legend(fontsize=8)


def _draw_few_positives(figure: Any, data: Numbers) -> None:
    charts = figure.subplots(1, 2)
    looks = {"expected": COLORS[5], "cross-fitted": COLORS[2], "certified": COLORS[1]}
    for chart, what, label in zip(charts, ("fpr", "short"), ("mean FPR", "share of draws"), strict=True):
        for kind, rows in data.items():
            color, marker = looks[kind]
            places = [row["positives"] for row in rows]
            chart.plot(places, [row[what] for row in rows], marker + "-", color=color, label=kind)
        chart.set(xscale="log", xlabel="positives in all", ylabel=label)
        chart.set_xticks([20, 50, 100, 300], ["20", "50", "100", "300"])
        chart.minorticks_off()
        chart.set_ylim(0, None)
        percent(chart.yaxis)
        chart.grid(axis="y", visible=True)
    charts[0].set_title("Price")
    charts[1].set_title("Recall below 90 %")
    charts[1].axhline(0.1, color="#000000", linewidth=1.0)
    charts[1].text(300, 0.105, "stated: 10 %", ha="right", va="bottom", fontsize=8)
    charts[0].legend(fontsize=8, loc="lower left")


def _draw_by_heart(figure: Any, data: Numbers) -> None:
    charts = figure.subplots(2, 2, sharex="col")
    epochs = range(1, 1 + len(data["above"][0]))
    for chart, name in ((charts[0, 0], "above"), (charts[1, 0], "validation auc")):
        for values in data[name]:
            chart.plot(epochs, values, color=COLORS[3][0], linewidth=0.6, alpha=0.5)
        chart.plot(epochs, np.mean(data[name], axis=0), color=COLORS[3][0], linewidth=1.8)
    charts[0, 0].set(
        title="CIFAR-10 1:100, 44 positives", ylabel="training: negatives\nabove a positive (of 32)", ylim=(0, None)
    )
    charts[1, 0].set(ylabel="AUC on validation\nimages (%)", xlabel="epochs", ylim=(50, 100))
    for (arm, label), (color, _) in zip(AT_HEART.items(), (COLORS[0], COLORS[2], COLORS[3]), strict=True):
        factor = 1 if arm == "base" else 2  # an epoch with a buffer holds twice the samples
        for chart, name in ((charts[0, 1], "loss"), (charts[1, 1], "tuning auc")):
            for split, values in enumerate(data[name][arm]):
                places = factor * np.arange(1, 1 + len(values))
                chart.plot(places, values, color=color, linewidth=1.1, label=None if split else label)
    charts[0, 1].set(title="CIFAR-100 1:100, 20 positives", ylabel="training: BCE", yscale="log")
    charts[1, 1].set(ylabel="AUC on tuning\nimages (%)", xlabel="epochs of BCE", ylim=(50, 100))
    charts[1, 1].legend(fontsize=8)


DRAWN: dict[str, tuple[Callable[[Any, Numbers], None], tuple[float, float]]] = {
    "ten-samples": (_draw_ten_samples, (7.0, 5.4)),
    "reach": (_draw_reach, (7.6, 3.1)),
    "coverage": (_draw_coverage, (7.6, 3.3)),
    "needed": (_draw_needed, (6.2, 3.4)),
    "price": (_draw_price, (6.2, 3.2)),
    "few-positives": (_draw_few_positives, (7.6, 3.0)),
    "by-heart": (_draw_by_heart, (7.8, 4.8)),
}


def draw(name: str, data: Numbers) -> None:
    """Write one picture."""
    from matplotlib.figure import Figure

    drawing, size = DRAWN[name]
    with look():
        figure = Figure(figsize=size, layout="constrained")
        drawing(figure, data)
        save(figure, IMAGES / f"theory-{name}.png")


if __name__ == "__main__":
    torch.set_num_threads(1)
    every = {name: numbers(name) for name in PICTURES}
    NUMBERS.write_text(json.dumps(every, separators=(",", ":")) + "\n", encoding="utf-8")
    for name, data in every.items():
        draw(name, data)
