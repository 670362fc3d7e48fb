"""Two arms epoch by epoch: what the choice of the epoch hides, read off the validation AUC that records keep."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rankreg.bench.arms import ARMS
from rankreg.bench.grids import DATA
from rankreg.bench.numbers import difference_numbers
from rankreg.bench.pages import Block, Entry, Page, Row
from rankreg.bench.planning import Plan, title_of
from rankreg.bench.records import Records
from rankreg.bench.statistics import Paired
from rankreg.bench.wording import (
    arm_title,
    contrast_title,
    limits,
    multiplicity_note,
    plain,
    scope,
    signed,
    verdict,
)

Curve = NDArray[np.float64]
KEPT = "epoch kept"
WHICH = (
    "Of each network the epoch with the {} is kept: the other pages are about that one. Without a validation part"
    " to choose by, the last epoch is what one has."
)
HIGHEST, LOWEST = "highest validation AUC", "lowest validation error of the other classes"
FLATTERS = (
    "Validation samples choose the epoch, so the row of the one kept flatters both arms; all splits share them."
)
UNSEEN = (
    "Of each network the last epoch is kept, whatever its validation results: the other pages are about that one."
)


def curves_page(plans: Sequence[Plan], records: Records, data: str, arms: tuple[str, str]) -> Page | None:
    """Validation AUC of both arms after every epoch, and its paired difference; None without runs as long."""
    first, second = (_curves(plans, records, data, arm) for arm in arms)
    both = [key for key in first if key in second and len(first[key]) == len(second[key])]
    losses = tuple(dict.fromkeys(loss for loss, _ in both))
    shared = set.intersection(*({split for of, split in both if of == loss} for loss in losses)) if both else set()
    if not shared or len({len(first[key]) for key in both}) > 1:
        return None
    splits = tuple(sorted(shared))
    means = [
        np.array([np.mean([curves[loss, split] for loss in losses], axis=0) for split in splits])
        for curves in (first, second)
    ]
    paired = Paired(*arms, losses, splits, _by_epoch(np.round(means[0] - means[1], 6)))  # equal ones stay equal
    levels = [_by_epoch(mean) for mean in means]
    rows = []
    for name in paired.values:
        found = paired.estimate(name)
        before = [Entry(plain(float(np.mean(level[name])))) for level in levels]
        entries = (*before, Entry(signed(found.mean), limits(found)), Entry(verdict(found)))
        rows.append(Row(name, entries, rule=name == KEPT))
    title, many = contrast_title(*arms), multiplicity_note([paired])
    head = ("", *map(arm_title, arms), title, "")
    return Page(
        f"{title}: {title_of(data, plans[0].preset)}, validation AUC epoch by epoch, {scope(paired, losses)}",
        (Block(f"{title} (Student's 95 % interval over splits)", head, tuple(rows)),),
        (*_how_kept(data, arms), *filter(None, [many])),
        tuple(difference_numbers("compare", "validation", data, losses, paired)),
    )


def _how_kept(data: str, arms: tuple[str, str]) -> tuple[str, ...]:
    if all(ARMS[arm].config.get("selection") == "last" for arm in arms):
        return (UNSEEN,)
    return (WHICH.format(LOWEST if DATA[data].several_classes else HIGHEST), FLATTERS)


def _curves(plans: Sequence[Plan], records: Records, data: str, arm: str) -> dict[tuple[str, int], Curve]:
    """By loss and split, in percent: every epoch's, then that of the epoch that was kept."""
    found = {}
    for plan in plans:
        record = records.read(plan) if (plan.data, plan.arm) == (data, arm) else {}
        if values := record.get("validation_auc"):
            found[plan.loss, plan.split] = 100 * np.array([*values, values[record["best_epoch"]]])
    return found


def _by_epoch(values: Curve) -> Mapping[str, tuple[float, ...]]:
    """One value per split for every epoch and the one kept, from (splits, epochs + 1)."""
    names = [*(f"epoch {epoch + 1}" for epoch in range(values.shape[1] - 1)), KEPT]
    return {name: tuple(map(float, column)) for name, column in zip(names, values.T, strict=True)}
