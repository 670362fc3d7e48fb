"""The demo's results as a table and sentences that claim no more than was measured."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rankreg.demo.runs import ARMS, CRITICAL, RATIO
from rankreg.demo.statistics import CONTRASTS, METRICS, TPRS, Results
from rankreg.operating.repeats import Estimate, mean_of

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = {
    "buffer": "What the buffer adds to BCE",
    "ranking": "What the ranking term adds to the buffer",
    "both": "What both add to BCE",
}


def result_table(results: Mapping[str, Results]) -> "Table":
    """One row per arm, one column per metric: the mean over splits and its interval."""
    from rich.table import Table

    splits = len(next(iter(results.values())))
    table = Table(
        title=f"Digit {CRITICAL} against the others, 1:{RATIO} in training, test part, mean over {splits} splits"
        " (95 % interval), in %",
        title_justify="left",
    )
    table.add_column("trained with")
    for metric in METRICS:
        table.add_column(metric, justify="right")
    for name, rows in results.items():
        table.add_row(ARMS[name].title, *(_cell(mean_of(rows[:, k])) for k in range(len(METRICS))))
    return table


def verdict_lines(found: Mapping[str, Mapping[str, Estimate]], splits: int) -> list[str]:
    """Each contrast in words, FPR by FPR."""
    lines = []
    for name, estimates in found.items():
        first, second = (ARMS[arm].title for arm in CONTRASTS[name])
        lines.append(f"{HEADINGS[name]} ({first} less {second}, split by split):")
        lines += [f"  FPR at {100 * tpr:.0f} % TPR: {_verdict(estimates[f'FPR@{100 * tpr:.0f}'])}" for tpr in TPRS]
    lines.append(
        f"The {splits} splits differ in what is trained on and share one test part: the intervals say how much"
        " the split matters, not what another data set would give."
    )
    return lines


def _verdict(difference: Estimate) -> str:
    if difference.low is None or difference.high is None:
        return f"{difference.mean:+.1f} points in one split; one split says nothing about the next"
    text = f"{difference.mean:+.1f} points ({difference.low:+.1f} to {difference.high:+.1f})"
    if not difference.excludes_zero:
        return f"{text}; no verdict, 0 is inside"
    return f"{text}; {'fewer' if difference.mean < 0 else 'more'} false alarms here"


def _cell(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:.1f}"
    return f"{estimate.mean:.1f} ({max(estimate.low, 0):.0f}–{min(estimate.high, 100):.0f})"
