"""A search in words: what won, against what, how much of it may be luck, and what to do next."""

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rankreg.datasets.splits import Splits
from rankreg.operating import percent
from rankreg.tune.data import NAMED, Data, Own
from rankreg.tune.presets import Plan
from rankreg.tune.results import Result, Tried, best_of_each_method

Lines = list[tuple[str, str]]
SAMPLINGS = {"shuffled": "shuffled", "balanced": "oversampled"}
FEW = 50  # validation positives: below, 98 % of them is all of them


def result_lines(result: Result, plan: Plan, parts: Sequence[Splits], tpr: float) -> Lines:
    """One heading and one sentence a line."""
    tried = len(result.ranked) + result.given_up + result.diverged
    ends = [
        f"{len(result.ranked)} to their end",
        f"{result.given_up} given up early",
        f"{result.diverged} diverged",
    ]
    lines = [
        ("Data", data_words(parts)),
        ("Judged by", judge_words(plan, parts, tpr)),
        ("Trials", f"{tried}: {', '.join(ends)}"),
        ("Tries", _tries(result)),
        ("Winner", f"trial {result.best.number}: {numbers(result.best, tpr)}; {settings_words(result.best)}"),
        *_baseline(result, tpr),
        ("Beware", _beware(result, plan, parts, tried)),
    ]
    if result.importance:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in result.importance.items())
        lines.append(("What mattered", f"share of the variance between trials: {shares}"))
    return lines


def data_words(parts: Sequence[Splits]) -> str:
    """What was trained on and what judged."""
    first = parts[0]
    sizes = ", ".join(f"{name} {len(first[name]):,} ({_positives(first, name):,})" for name in first.parts)
    again = f"; {len(parts)} splits" if len(parts) > 1 else ""
    name = first.classes[first.critical]
    return f"{first.name}; samples (of which {name!r}): {sizes}{again}; no other part was looked at"


def judge_words(plan: Plan, parts: Sequence[Splits], tpr: float) -> str:
    """The number that was made small, and how fine it is."""
    what = f"validation FPR at {percent(tpr)} TPR, ties by AUC" if plan.judge == "fpr" else "validation AUC"
    over = f", mean over {len(parts)} splits" if len(parts) > 1 else ""
    positives = min(_positives(split, "validation") for split in parts)
    needed = math.ceil(tpr * positives - 1e-9)
    if plan.judge == "fpr" and (positives < FEW or needed == positives):
        of_them = "all" if needed == positives else f"{needed}"
        return f"{what}{over}; coarse: {percent(tpr)} of {positives} validation positives is {of_them}, so that" + (
            " the lowest one's score decides" if needed == positives else f" the {needed}-th one's score decides"
        )
    return what + over


def numbers(one: Tried, tpr: float) -> str:
    """FPR and AUC, with the spread over splits."""
    rates = [split["fpr"] for split in one.splits]
    spread = f" ({100 * min(rates):.1f} to {100 * max(rates):.1f} by split)" if len(rates) > 1 else ""
    return f"FPR {100 * one.fpr:.1f} %{spread} at {percent(tpr)} TPR, AUC {100 * one.auc:.1f} %"


def settings_words(one: Tried) -> str:
    """The trial's parameters."""
    shown = {name: f"{value:.3g}" if isinstance(value, float) else str(value) for name, value in one.params.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _baseline(result: Result, tpr: float) -> Lines:
    """The plain base loss by default, the best one of each other method, and how the splits compare."""
    lines: Lines = []
    if result.baseline is not None:
        sampling = SAMPLINGS[result.baseline.config.sampling]
        what = f"method none with the defaults of `rankreg fit`, {sampling}"
        lines.append(("Baseline", f"{what}: {numbers(result.baseline, tpr)}"))
        if len(result.best.splits) > 1 and result.best is not result.baseline:
            pairs = zip(result.best.splits, result.baseline.splits, strict=True)
            won = sum(winner["fpr"] < other["fpr"] for winner, other in pairs)
            lines.append(("", f"the winner has the lower FPR in {won} of {len(result.best.splits)} splits"))
    for method, one in best_of_each_method(result).items():
        if one is not result.best and one is not result.baseline:
            lines.append((f"Best {method}", f"trial {one.number}: {numbers(one, tpr)}"))
    return lines


def _tries(result: Result) -> str:
    """How often each method was tried: the search spends its trials where it hopes, which is no fair contest."""
    counts = ", ".join(f"{method} {count}" for method, count in sorted(result.tries.items(), key=lambda t: -t[1]))
    return f"{counts}; a method with few tries has not had its chance (--method NAME searches it and the baseline)"


def _beware(result: Result, plan: Plan, parts: Sequence[Splits], tried: int) -> str:
    positives = min(_positives(split, "validation") for split in parts)
    baseline = result.baseline
    if baseline is None:
        return "the baseline diverged, so there is nothing to compare with: lower learning_rate in --config"
    if baseline.value <= result.best.value:
        return "nothing beat the baseline: more settings would only have been fitted to the validation part"
    return (
        f"the winner's number is the best of {tried} on the same {positives:,} validation positives, so part of it"
        " is luck, while the baseline's is the better of two (shuffled, oversampled): only the test part can"
        " compare the two"
    )


def next_steps(data: Data, out: Path, result: Result, tpr: float) -> list[str]:
    """Commands that train the winner and the baseline for good, on the same parts."""
    compared = result.baseline is not None and result.baseline is not result.best
    names = ["best", "baseline"] if compared else ["best"]
    if isinstance(data, Own):
        return [fit_command(data, out / f"{name}.toml", out / name, tpr) for name in names]
    options = f", seed={data.seed}" + (
        "" if data.ratio is None else f", {NAMED[data.name].imbalance}={data.ratio:g}"
    )
    files = [str(out / f"{name}.toml") for name in names]
    return [f"train(load({data.name!r}{options}), TrainConfig.from_toml({file!r}), folder)" for file in files]


def fit_command(data: Own, config: Path, out: Path, tpr: float) -> str:
    """`rankreg fit` on the same parts with that config."""
    source = data.source
    words = ["rankreg", "fit", str(source.path), "--config", str(config), "--out", str(out), "--tpr", repr(tpr)]
    words += source.command_line()
    for option, value in {
        "--groups": source.groups,
        "--size": source.size,
        "--calibration": None if source.calibration == type(source).calibration else source.calibration,
    }.items():
        words += [] if value is None else [option, str(value)]
    return shlex.join(words)


def _positives(splits: Splits, part: str) -> int:
    return int(np.count_nonzero(splits[part].labels == splits.critical))
