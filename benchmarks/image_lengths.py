"""How long should `rankreg fit` train on images? The questions of docs/decisions/0059.

python -m benchmarks.image_lengths run      # adds the runs that have no record
python -m benchmarks.image_lengths table    # answers from the records
"""

from typing import Any

import numpy as np

from benchmarks import image_defaults
from benchmarks.converged_runs import RECORDS, command, difference_cell, recorded, train_all
from benchmarks.image_defaults import DATA, SPLITS, judged
from rankreg.operating.comparison import p_value, still_significant

PLACE = RECORDS / "images/lengths.jsonl"
WAYS = ("plain loss", "oversampling")  # the simplest first
STEPS = (300, 1000, 3000)  # the shortest is that of 0058
CHOOSING, CONFIRMING = range(3), range(3, SPLITS)
ALIKE = 0.5  # points of AUC
TODAY = (300, "oversampling")  # what 0058 found
Choice = tuple[int, str]
Asked = tuple[str, int, str, int]  # data, steps, way, split


def run(workers: int) -> None:
    """Train what has no record: first the runs that choose, then the candidate on the other splits."""
    choices = [(steps, way) for steps in STEPS for way in WAYS]
    _train([(data, *choice, split) for split in CHOOSING for data in DATA for choice in choices], workers)
    found = candidate()
    if found[0] != TODAY[0]:  # 0058 has recorded the others
        _train([(data, *found, split) for split in CONFIRMING for data in DATA], workers)


def _train(wanted: list[Asked], workers: int) -> None:
    done = {(one["data"], one["steps"], one["way"], one["split"]) for one in recorded(PLACE)}
    train_all(trained, (one for one in wanted if one not in done), PLACE, workers)


def trained(asked: Asked) -> dict[str, Any]:
    """One run: judged on the images that choose, or on the test images of the other splits."""
    data, steps, way, split = asked
    on = "tuning" if split in CHOOSING else "test"
    return {
        "data": data,
        "steps": steps,
        "way": way,
        "split": split,
        **judged(data, way, split, on=on, steps=steps),
    }


def averages(measure: str = "auc") -> dict[Choice, list[float]]:
    """For each length and way the mean of each data set on the images that choose."""
    runs = [one for one in recorded(PLACE) if one["split"] in CHOOSING]
    if len(runs) < (wanted := len(CHOOSING) * len(DATA) * len(STEPS) * len(WAYS)):
        raise SystemExit(f"{len(runs)} of {wanted} runs that choose are recorded: run `image_lengths run` first")
    return {
        (steps, way): [
            float(np.mean([r[measure] for r in runs if (r["data"], r["steps"], r["way"]) == (data, steps, way)]))
            for data in DATA
        ]
        for steps in STEPS
        for way in WAYS
    }


def candidate() -> Choice:
    """The shortest and simplest choice within half a point of the highest average."""
    means = {choice: np.mean(values) for choice, values in averages().items()}
    highest = max(means.values())
    return next(choice for choice, mean in means.items() if mean >= highest - ALIKE)


def confirmed(choice: Choice) -> dict[tuple[str, int], dict[str, Any]]:
    """The records of a choice on test images, by data and split."""
    steps, way = choice
    short = steps == TODAY[0]
    runs = recorded(image_defaults.PLACE) if short else recorded(PLACE)
    own = [r for r in runs if r["split"] in CONFIRMING and r["way"] == way and (short or r["steps"] == steps)]
    return {(r["data"], r["split"]): r for r in own}


def table() -> str:
    """AUC of every choice on the images that choose, then the candidate against today's recipe on test images."""
    lines = [f"| steps, way | mean | {' | '.join(DATA)} |", "|---|---|" + "---|" * len(DATA)]
    rates = averages("fpr@95")
    for choice, areas in averages().items():
        pairs = [(np.mean(areas), np.mean(rates[choice])), *zip(areas, rates[choice], strict=True)]
        cells = " | ".join(f"{area:.1f} ({rate:.1f})" for area, rate in pairs)
        lines.append(f"| {choice[0]:,}, {choice[1]} | {cells} |")
    found = candidate()
    lines += ["", f"Candidate: {found[0]:,} steps, {found[1]}.", ""]
    return "\n".join(lines + ([] if found == TODAY else comparison(found)))


def comparison(found: Choice) -> list[str]:
    """Lines: a choice against today's recipe, on test images of the splits that did not choose."""
    new, old = confirmed(found), confirmed(TODAY)
    titles = " | ".join(f"{steps:,}, {way}" for steps, way in (TODAY, found))
    lines = [
        f"| test images | splits | {titles} | AUC | FPR@95 | p-value of AUC |",
        "|---|---|---|---|---|---|---|",
    ]
    chances = []
    for data in DATA:
        splits = [split for split in CONFIRMING if (data, split) in new and (data, split) in old]
        if not splits:
            continue
        after, before = ([runs[data, split] for split in splits] for runs in (new, old))
        gaps = {
            measure: np.array([a[measure] - b[measure] for a, b in zip(after, before, strict=True)])
            for measure in ("auc", "fpr@95")
        }
        levels = " | ".join(f"{np.mean([r['auc'] for r in runs]):.1f}" for runs in (before, after))
        chance = p_value(gaps["auc"])
        chances += [] if chance is None else [chance]
        cells = " | ".join(difference_cell(values) for values in gaps.values())
        lines.append(
            f"| {data} | {len(splits)} | {levels} | {cells} | {'–' if chance is None else f'{chance:.4f}'} |"
        )
    if chances:
        passed = still_significant(chances)
        lines += ["", f"After Holm's correction the {passed} smallest of {len(chances)} p-values count."]
    return lines


if __name__ == "__main__":
    command("image_lengths", __doc__, run, table)
