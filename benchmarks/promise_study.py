"""How often is a certified promise broken? `python -m benchmarks.promise_study run` simulates, `table` prints.

Every draw is a sample from a population whose true recall and FPR are known at every threshold. A promise is broken
if a threshold was given and the true value is on the wrong side. Where no threshold keeps the promises in truth,
every threshold given is a broken promise. Results go to records/operating/promises.csv, a line
per setting; what is there is not done again.
"""

import argparse
import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats

from rankreg.operating.promise_certification import promised_groups, review_groups
from rankreg.operating.reviews import Review, review_point
from rankreg.operating.spans import WEAKEST, Asked, Steps
from rankreg.operating.units import Groups, Sample

PLACE = Path("records/operating/promises.csv")
FIELDS = [
    "setting",
    "promised",
    "population",
    "positives",
    "negatives",
    "draws",
    "given",
    "broken",
    "low",
    "high",
    "stated",
    "recall",
]
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    """How scores of positives and negatives are drawn, and the true share of each at or above a threshold."""

    draw: Callable[[np.random.Generator, int, bool], Scores]
    share: Callable[[float, bool], float]


def normal(shift: float = 2.0) -> Population:
    """N(shift, 1) against N(0, 1)."""
    return Population(
        lambda random, count, positive: random.normal(shift * positive, 1, count),
        lambda threshold, positive: float(special.ndtr(shift * positive - threshold)),
    )


def tied(shift: float = 2.0, step: float = 0.5) -> Population:
    """The same, rounded: many scores are equal, also of positives and negatives."""
    return Population(
        lambda random, count, positive: np.round(random.normal(shift * positive, 1, count) / step) * step,
        lambda threshold, positive: float(special.ndtr(shift * positive + step / 2 - threshold)),
    )


def heavy(shift: float = 4.0) -> Population:
    """Student's t with 2 degrees of freedom: extreme negatives lie above most positives."""
    return Population(
        lambda random, count, positive: random.standard_t(2, count) + shift * positive,
        lambda threshold, positive: float(special.stdtr(2, shift * positive - threshold)),
    )


def dipping(shift: float = 2.5, extra: float = 0.02, place: float = 2.2, width: float = 0.05) -> Population:
    """A clump of negatives among the positives: the precision falls, rises and falls again with the threshold."""

    def draw(random: np.random.Generator, count: int, positive: bool) -> Scores:
        found = random.normal(shift * positive, 1, count)
        clump = random.random(count) < extra * (not positive)
        return np.where(clump, random.normal(place, width, count), found)

    def share(threshold: float, positive: bool) -> float:
        plain = float(special.ndtr(shift * positive - threshold))
        part = extra * (not positive)
        return (1 - part) * plain + part * float(special.ndtr((place - threshold) / width))

    return Population(draw, share)


POPULATIONS: dict[str, Population] = {
    "normal": normal(),
    "normal, good model": normal(3.5),
    "ties": tied(),
    "heavy tails": heavy(),
    "dip in precision": dipping(),
}


@dataclass(frozen=True)
class Setting:
    """What is promised, and on what sample.

    representative: the rows are drawn together, so that the number of positives is random; `positives` is expected.
    groups: positives, negatives and population of each group; then the promises are kept in each of them.
    """

    positives: int
    negatives: int
    population: str = "normal"
    tpr: float | None = None
    fpr: float | None = None
    precision: float | None = None
    alarms: float | None = None
    prevalence: float | None = None
    confidence: float = 0.95
    review: bool = False
    groups: tuple[tuple[int, int, str], ...] = ()

    @property
    def promised(self) -> str:
        """In words."""
        words = {"tpr": "recall ≥ {}", "fpr": "FPR ≤ {}", "precision": "precision ≥ {}", "alarms": "alarms ≤ {}"}
        said = [text.format(getattr(self, name)) for name, text in words.items() if getattr(self, name) is not None]
        at = ", representative" if self.prevalence is None and (self.precision or self.alarms) else ""
        at = f", prevalence {self.prevalence}" if self.prevalence else at
        where = f"in {len(self.groups)} groups, " if self.groups else ""
        return where + ("review: " if self.review else "") + " and ".join(said) + at

    @property
    def parts(self) -> tuple["Setting", ...]:
        """The setting of each group."""
        return tuple(
            replace(self, positives=positives, negatives=negatives, population=population, groups=())
            for positives, negatives, population in self.groups
        )

    @property
    def asked(self) -> Asked:
        """The promises."""
        given = {name: getattr(self, name) for name in WEAKEST}
        promised = {name: target for name, target in given.items() if target is not None}
        return Asked(promised, self.prevalence, self.confidence)

    def sample(self, random: np.random.Generator) -> tuple[Scores, Scores]:
        """Scores of positives and of negatives."""
        rows, positives = self.positives + self.negatives, self.positives
        if self.prevalence is None and (self.precision or self.alarms):
            positives = int(random.binomial(rows, self.positives / rows))
        people = POPULATIONS[self.population]
        return people.draw(random, positives, True), people.draw(random, rows - positives, False)

    def broken(self, threshold: float, names: tuple[str, ...] = ("tpr", "fpr", "precision", "alarms")) -> bool:
        """Whether a promise does not hold at the threshold."""
        people, share = POPULATIONS[self.population], self.prevalence
        if share is None:
            share = self.positives / (self.positives + self.negatives)
        tpr, fpr = people.share(threshold, True), people.share(threshold, False)
        alarms = share * tpr + (1 - share) * fpr
        wrong = {
            "tpr": self.tpr is not None and tpr < self.tpr,
            "fpr": self.fpr is not None and fpr > self.fpr,
            "precision": self.precision is not None and share * tpr < self.precision * alarms,
            "alarms": self.alarms is not None and 1000 * alarms > self.alarms,
        }
        return any(wrong[name] for name in names)


def settings() -> list[Setting]:
    """Every promise alone, pairs, three and four together, and reviews; sizes, targets, ties, heavy tails."""
    found = []
    shapes = ("normal", "ties", "heavy tails", "dip in precision")
    for shape in shapes:
        for count in (100, 1000):
            found += [
                Setting(count, 2000, shape, tpr=0.95),
                Setting(count, 2000, shape, tpr=0.8, fpr=0.6),
                Setting(count, 2000, shape, precision=0.5, prevalence=0.1),
                Setting(count, 9 * count, shape, precision=0.8),
            ]
        more = [Setting(200, count, shape, fpr=fpr) for count in (100, 2000) for fpr in (0.1, 0.01)]
        more += [
            Setting(200, 2000, shape, precision=0.9, prevalence=0.3),
            Setting(2000, 5000, shape, precision=0.9, prevalence=0.3),
            Setting(500, 1000, shape, precision=0.9),
            Setting(200, 2000, shape, alarms=100, prevalence=0.01),
            Setting(200, 2000, shape, alarms=50, prevalence=0.2),
            Setting(200, 2000, shape, alarms=100),
            Setting(50, 500, shape, alarms=60),
            Setting(400, 2000, shape, tpr=0.8, precision=0.2, prevalence=0.1),
            Setting(400, 2000, shape, tpr=0.5, precision=0.5),
            Setting(400, 2000, shape, tpr=0.8, alarms=400, prevalence=0.05),
            Setting(400, 2000, shape, tpr=0.8, alarms=400),
            Setting(400, 2000, shape, fpr=0.02, precision=0.6, prevalence=0.1),
            Setting(400, 2000, shape, fpr=0.05, alarms=80, prevalence=0.05),
            Setting(400, 2000, shape, precision=0.6, alarms=80, prevalence=0.1),
            Setting(400, 2000, shape, precision=0.7, alarms=150),
            Setting(400, 2000, shape, tpr=0.7, fpr=0.5, precision=0.15, alarms=500, prevalence=0.1),
            Setting(400, 4000, shape, tpr=0.9, precision=0.7, review=True),
            Setting(400, 4000, shape, tpr=0.9, precision=0.7, prevalence=0.1, review=True),
            Setting(200, 1000, shape, tpr=0.9, fpr=0.1, confidence=0.8),
            Setting(200, 1000, shape, precision=0.6, prevalence=0.2, confidence=0.8),
            Setting(200, 1000, shape, precision=0.8, confidence=0.8),
        ]
        found += [one for one in more if shape != "dip in precision" or one.precision is not None]
    # where the truth is exactly at the promise, or nothing can keep both
    edge = float(stats.norm.isf(0.9))
    at_edge = float(stats.norm.sf(edge + 2.0))
    found += [
        Setting(400, 2000, tpr=0.9, fpr=round(at_edge + extra, 4), confidence=sure)
        for extra in (-0.002, 0.002, 0.05)
        for sure in (0.9, 0.95)
    ]
    found += [
        Setting(400, 2000, "normal, good model", tpr=0.95, fpr=0.1),
        Setting(400, 2000, "normal, good model", tpr=0.9, precision=0.7, prevalence=0.1),
        Setting(400, 2000, "normal, good model", tpr=0.9, precision=0.8),
        Setting(400, 4000, "normal, good model", tpr=0.95, precision=0.9, review=True),
    ]
    return found + in_groups()


def in_groups() -> list[Setting]:
    """Promises in each of several groups, of which some are too small, and some differ in their population."""
    like = ((200, 2000, "normal"), (200, 2000, "normal"), (200, 2000, "normal"))
    mixed = (
        (100, 1000, "normal"),
        (300, 3000, "heavy tails"),
        (400, 2000, "dip in precision"),
        (200, 2000, "ties"),
    )
    small = ((300, 3000, "normal"), (300, 3000, "normal"), (8, 60, "normal"), (4, 10, "heavy tails"))
    edge = tuple((count, 10 * count, "normal") for count in (22, 26, 30, 34, 38))  # sizes that barely suffice
    asked: list[dict[str, Any]] = [
        {"tpr": 0.9},
        {"fpr": 0.1},
        {"precision": 0.6},
        {"precision": 0.5, "prevalence": 0.1},
        {"alarms": 80},
        {"tpr": 0.8, "fpr": 0.3},
        {"tpr": 0.7, "precision": 0.2, "prevalence": 0.1},
        {"tpr": 0.7, "alarms": 300},
        {"tpr": 0.8, "precision": 0.6, "review": True},
        {"tpr": 0.8, "precision": 0.6, "prevalence": 0.1, "review": True},
    ]
    return [
        Setting(sum(one[0] for one in groups), sum(one[1] for one in groups), name, groups=groups, **promise)
        for name, groups in (
            ("like groups", like),
            ("mixed groups", mixed),
            ("small groups", small),
            ("edge", edge),
        )
        for promise in asked
    ]


def one_draw(setting: Setting, random: np.random.Generator) -> tuple[bool, bool, float]:
    """Whether a threshold was given, whether a promise is broken, and the true recall."""
    if setting.groups:
        return _one_of_groups(setting, random)
    positives, negatives = setting.sample(random)
    scores, labels = np.append(positives, negatives), np.repeat([1, 0], [len(positives), len(negatives)])
    people = POPULATIONS[setting.population]
    if setting.review:
        return _one_review(setting, labels, scores)
    steps = Steps.of(Sample.of(labels, scores))
    kept = setting.asked.kept(steps)
    if kept.empty:
        return False, False, 0.0
    ends = [float(steps.thresholds[place]) for place in (kept.first, kept.last)]
    given = ends[setting.tpr is None]
    return True, any(setting.broken(threshold) for threshold in ends), people.share(given, True)


def _one_review(setting: Setting, labels: NDArray[np.int64], scores: Scores) -> tuple[bool, bool, float]:
    people = POPULATIONS[setting.population]
    assert setting.tpr is not None
    assert setting.precision is not None
    found = review_point(
        Steps.of(Sample.of(labels, scores)),
        setting.precision,
        setting.tpr,
        setting.prevalence,
        setting.confidence,
    )
    wrong = _review_broken(setting, found)
    return found.alarm_from is not None, wrong, people.share(found.review_from, True)


def _review_broken(setting: Setting, found: Review) -> bool:
    people = POPULATIONS[setting.population]
    share = setting.prevalence or setting.positives / (setting.positives + setting.negatives)
    top = np.inf if found.alarm_from is None else found.alarm_from
    between = [people.share(found.review_from, kind) - people.share(top, kind) for kind in (True, False)]
    load = 1000 * (share * between[0] + (1 - share) * between[1])
    assert found.review_per_1000_at_most is not None
    wrong = setting.broken(found.review_from, ("tpr",)) or load > found.review_per_1000_at_most + 1e-9
    return wrong or (found.alarm_from is not None and setting.broken(found.alarm_from, ("precision",)))


def _one_of_groups(setting: Setting, random: np.random.Generator) -> tuple[bool, bool, float]:
    """Broken if a promise is broken in any certified group, at its threshold or at the one for all groups."""
    drawn = [part.sample(random) for part in setting.parts]
    sizes = [(len(positives), len(negatives)) for positives, negatives in drawn]
    labels = np.concatenate([np.repeat([1, 0], size) for size in sizes])
    scores = np.concatenate([half for one in drawn for half in one])
    groups = np.repeat(np.arange(len(sizes)), [sum(size) for size in sizes])
    parts = Groups.of(Sample.of(labels, scores), groups)
    if setting.review:
        assert setting.tpr is not None
        assert setting.precision is not None
        wanted = setting.precision, setting.tpr, setting.prevalence, setting.confidence
        reviews = review_groups(parts, *wanted, advise=False).points
        broken = any(_review_broken(setting.parts[int(name)], one) for name, one in reviews.items())
        return bool(reviews), broken, float("nan")
    found = promised_groups(parts, setting.asked, advise=False)
    broken = False
    for name, point in found.points.items():
        ends = [point.lowest, point.highest, found.everyone and found.everyone.threshold]
        broken |= any(setting.parts[int(name)].broken(end) for end in ends if end is not None)  # type: ignore[arg-type]
    return bool(found.points), broken, float("nan")


def main() -> None:
    """Simulate, or print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promise_study", description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--records", type=Path, default=PLACE)
    asked = parser.parse_args()
    if asked.command == "table":
        print(table(pd.read_csv(asked.records)))
        return
    asked.records.parent.mkdir(parents=True, exist_ok=True)
    known = set(pd.read_csv(asked.records)["setting"]) if asked.records.exists() else set()
    with asked.records.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not known:
            writer.writeheader()
        for number, setting in enumerate(settings()):
            if number not in known:
                writer.writerow(result(number, setting, asked.draws))
                file.flush()


def result(number: int, setting: Setting, draws: int) -> dict[str, Any]:
    """One line of the records."""
    random = np.random.default_rng([7, number])
    drawn = [one_draw(setting, random) for _ in range(draws)]
    given, broken = sum(one[0] for one in drawn), sum(one[1] for one in drawn)
    interval = stats.binomtest(broken, draws).proportion_ci(method="exact")
    recalls = [recall for has, _, recall in drawn if has and not np.isnan(recall)]
    return {
        "setting": number,
        "promised": setting.promised,
        "population": setting.population,
        "positives": setting.positives,
        "negatives": setting.negatives,
        "draws": draws,
        "given": given,
        "broken": broken,
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "stated": round(1 - setting.confidence, 4),
        "recall": round(float(np.mean(recalls)), 4) if recalls else "",
    }


def table(rows: pd.DataFrame) -> str:
    """A Markdown row for every promise: the settings, and the worst of them."""
    rows = rows.assign(
        kind=rows["promised"].str.replace(r" [\d.]+", "", regex=True), share=rows["broken"] / rows["draws"]
    )
    lines = [
        "| promised | settings | stated | broken on average | broken most often (exact 95 % interval) |",
        "|---|---|---|---|---|",
    ]
    for (kind, _), own in rows.groupby(["kind", "stated"], sort=False):
        worst = own.iloc[int(own["share"].argmax())]
        most = f"{100 * worst['share']:.1f} % ({100 * worst['low']:.1f} to {100 * worst['high']:.1f})"
        where = f"{worst['population']}, {worst['positives']:,} positives, {worst['promised']}"
        average = f"{100 * own['share'].mean():.1f} %"
        lines.append(f"| {kind} | {len(own)} | {100 * worst['stated']:.0f} % | {average} | {most}: {where} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
