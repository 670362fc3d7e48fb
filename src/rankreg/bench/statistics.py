"""Differences between arms, paired over the splits that both have.

All splits share the test set, and the losses of a split share its training data: losses are averaged within a split
first, and only splits count as repeats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankreg.bench.arms import ARMS, TUNING
from rankreg.bench.grids import Experiment
from rankreg.bench.published import higher_is_better, ranking_arm
from rankreg.bench.results import Grid
from rankreg.operating.repeats import Estimate, detectable, mean_of, p_value

BETTER = "better of base and ALM"
OTHERS = ("base", "alm")
ROUNDING = 0.0021  # measures have three decimals: equal differences may seem to be so much apart


@dataclass(frozen=True)
class Paired:
    """One arm less another on the same splits, averaged over losses: by measure one difference per split."""

    first: str
    second: str
    losses: tuple[str, ...]
    splits: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]

    def estimate(self, measure: str) -> Estimate:
        """The mean difference and Student's interval."""
        return mean_of(self.values[measure])

    def detectable(self, measure: str) -> float | None:
        """The smallest true difference that would be found in four of five such experiments."""
        return detectable(self.values[measure])

    def p_value(self, measure: str) -> float | None:
        """Student's, two-sided; None where all splits happen to have one and the same difference."""
        values = self.values[measure]
        return None if np.ptp(values) == 0 and values[0] != 0 else p_value(values)


def pair(grid: Grid, data: str, losses: Sequence[str], first: str, second: str) -> Paired | None:
    """The first arm less the second, an arm or `BETTER`, on the splits that every loss has in both.

    Losses without any such split are left out. Which of base and ALM is the better one is decided for each loss and
    measure by its mean over the same splits.
    """
    arms = (first, *(OTHERS if second == BETTER else (second,)))
    used, splits = grid.shared(data, losses, arms)
    if not splits:
        return None
    values = {}
    for measure in grid.measures(data):
        rows = []
        for loss in used:
            ours, *others = (
                [grid.cells[data, loss, arm].singles[split][measure] for split in splits] for arm in arms
            )
            rows.append(np.subtract(ours, _better(others, measure)))
        found = np.mean(rows, axis=0)
        if np.ptp(found) <= ROUNDING:
            found[:] = found[0]
        values[measure] = tuple(float(value) for value in found)
    return Paired(first, second, used, splits, values)


def _better(rows: Sequence[Sequence[float]], measure: str) -> Sequence[float]:
    return (max if higher_is_better(measure) else min)(rows, key=np.mean)


def contrasts_of(experiment: Experiment, arms: Sequence[str]) -> list[tuple[str, str]]:
    """What is compared with what, as far as there are such arms.

    The main tables: what the ranking term adds to the buffer, the buffer to the base loss, and both. Elsewhere a
    method's other budgets with its own, everything with the base loss, and what ranks with its buffer alone, or the
    usual one; without these, with the paper's own choice.
    """
    if experiment.layout in ("main", "noise"):
        ours = ranking_arm(experiment)
        wanted = [(ours, "buffer"), (ours, BETTER), (ours, "base"), ("buffer", "base")]
        return [(a, b) for a, b in wanted if {a, *(OTHERS if b == BETTER else (b,))} <= set(arms)]
    found: list[tuple[str, str]] = []
    papers = "rankreg" if "rankreg" in arms else arms[0]
    base = "base-last" if "base-last" in arms else "base"
    for arm in arms:
        own = [other for other in arms if arm in TUNING and arm.startswith(f"{other}-")]
        if own:
            found.append((arm, own[0]))
            continue
        alone = [_control_of(arm, arms)] if ARMS[arm].ranks else []
        against = [*alone, base] if {base, "buffer"} & set(arms) else [papers]
        found += [(arm, other) for other in against if other in arms and other != arm]
    return found


def _control_of(arm: str, arms: Sequence[str]) -> str:
    """The arm that is the same without the ranking term: the one it names, or with its buffer, or the usual."""
    ours = ARMS[arm]
    if ours.control is not None:
        return ours.control
    wanted = {**ours.config, "method": {"name": "buffer", "buffer": ours.config["method"]["buffer"]}}
    return next((other for other in arms if ARMS[other].config == wanted), "buffer")
