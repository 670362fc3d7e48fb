"""What a search found: the winner, the baseline beside it, files to go on with, and what may be luck."""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from rankreg.datasets.splits import Splits
from rankreg.notation import Lines, percent
from rankreg.safe_files import write_json, write_whole
from rankreg.train import TrainConfig
from rankreg.tune.search_data import Data
from rankreg.tune.space import BASELINE, Space

FEW = 50  # validation positives: below, 98 % of them is all of them


@dataclass(frozen=True, eq=False)
class TriedSettings:
    """A trial that came to its end.

    Attributes:
        number: of the trial.
        value: what was made small.
        config: the settings.
        params: those that were searched.
        splits: validation FPR and AUC of every split.
        fixed: its name, if its parameters were given and not drawn.
    """

    number: int
    value: float
    config: TrainConfig
    params: Mapping[str, Any]
    splits: Sequence[Mapping[str, float]]
    fixed: str | None

    @property
    def fpr(self) -> float:
        """The mean over splits."""
        return float(np.mean([split["fpr"] for split in self.splits]))

    @property
    def auc(self) -> float:
        """The mean over splits."""
        return float(np.mean([split["auc"] for split in self.splits]))

    def summary(self) -> dict[str, Any]:
        """Its results, ready for JSON."""
        means = {"trial": self.number, "fpr": self.fpr, "auc": self.auc}
        return means | {"splits": [dict(split) for split in self.splits], "params": dict(self.params)}


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The outcome of a search.

    Attributes:
        best: the winner.
        baseline: method "none" as `rankreg fit` trains it, shuffled or oversampled, whichever is better;
            None if both diverged.
        ranked: all trials that came to their end, best first.
        tries: by method, how many trials, whatever became of them.
        given_up: how many were stopped early.
        diverged: how many diverged.
    """

    best: TriedSettings
    baseline: TriedSettings | None
    ranked: tuple[TriedSettings, ...]
    tries: Mapping[str, int]
    given_up: int
    diverged: int


def rank_trials(trials: Iterable[FrozenTrial], plan: Space) -> SearchResult:
    """Rank the finished trials; ties go to the earlier one.

    Args:
        trials: from `search`.
        plan: of that search.

    Returns:
        The winner, the baseline and the others.

    Raises:
        ValueError: no trial came to its end.

    >>> rank_trials([], Space(TrainConfig()))
    Traceback (most recent call last):
    ValueError: no trial of 0 came to its end; run more --trials
    """
    trials = list(trials)
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    tried = [
        TriedSettings(
            number=trial.number,
            value=trial.value,
            config=plan.of(trial.params),
            params=trial.params,
            splits=trial.user_attrs["splits"],
            fixed=trial.user_attrs.get("fixed"),
        )
        for trial in complete
        if trial.value is not None  # never of one that is complete
    ]
    ranked = tuple(sorted(tried, key=lambda one: (one.value, one.number)))
    winners = [one for one in ranked if one.config.method.name in plan.may_win]
    diverged = sum("diverged" in trial.user_attrs for trial in trials)
    if not winners:
        why = f"{diverged} diverged: lower learning_rate in --config" if diverged else "run more --trials"
        raise ValueError(f"no trial of {len(trials)} came to its end; {why}")
    baselines = [one for one in ranked if one.fixed is not None and one.config.method.name == BASELINE]
    return SearchResult(
        best=winners[0],
        baseline=baselines[0] if baselines else None,
        ranked=ranked,
        tries=Counter(trial.params["method"] for trial in trials),
        given_up=len(trials) - len(complete) - diverged,
        diverged=diverged,
    )


def write_results(out: Path, result: SearchResult, *, tpr: float) -> None:
    """Write best.toml and baseline.toml for `rankreg fit --config`, trials.csv and summary.json."""
    write_whole(out / "trials.csv", _table(result).encode())
    for name, one in (("baseline", result.baseline), ("best", result.best)):
        if one is not None:
            comments = (
                f"trial {one.number} of a search at a TPR of {tpr:g}: validation FPR {100 * one.fpr:.2f} %,"
                f" AUC {100 * one.auc:.2f} %, mean over {len(one.splits)} splits",
                "the seed also cuts the parts of the data: with another, the search has seen test samples",
            )
            write_whole(out / f"{name}.toml", config_toml(one.config, comments).encode())
    summary = {
        "tpr": tpr,
        "tries": dict(result.tries),
        "finished": len(result.ranked),
        "given_up": result.given_up,
        "diverged": result.diverged,
        "best": result.best.summary(),
        "baseline": None if result.baseline is None else result.baseline.summary(),
    }
    write_json(out / "summary.json", summary)


def config_toml(config: TrainConfig, comments: Sequence[str] = ()) -> str:
    """Every key, so that a later default changes nothing; but not tpr, which `rankreg fit` takes as an option."""
    content = config.model_dump(mode="json", exclude_none=True, exclude={"tpr"})
    return "\n".join([*(f"# {line}" for line in comments), *_toml_lines(content, ())]) + "\n"


def _toml_lines(content: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[str]:
    """Plain values first, then one section for each table in it."""
    for key, value in content.items():
        if not isinstance(value, Mapping):
            # TOML writes lists, strings, numbers and truth values as JSON does, but has no bare DEL.
            written = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
            yield f"{key} = {written}"
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield ""
            yield f"[{'.'.join((*place, key))}]"
            yield from _toml_lines(value, (*place, key))


def result_lines(result: SearchResult, plan: Space, parts: Sequence[Splits], tpr: float) -> Lines:
    """The result as headings and sentences: what won, against what, and what may be luck."""
    tried = len(result.ranked) + result.given_up + result.diverged
    tries = ", ".join(f"{method} {count}" for method, count in Counter(result.tries).most_common())
    winner = f"trial {result.best.number}: {rates(result.best, tpr)}; {settings_text(result.best)}"
    ends = f"{len(result.ranked)} to their end, {result.given_up} given up early, {result.diverged} diverged"
    lines = [
        ("Winner", winner),
        *_others(result, tpr),
        ("Beware", _beware(result, parts, tried)),
        ("Trials", f"{tried}: {ends}"),
        ("Tries", f"{tries}; a method with few tries had little chance (--method NAME searches it alone)"),
        ("Judged by", judge_text(plan, parts, tpr)),
    ]
    first = parts[0]
    sizes = ", ".join(f"{name} {len(first[name]):,} ({_positives(first, name):,})" for name in first.parts)
    again = f"; {len(parts)} splits" if len(parts) > 1 else ""
    critical = first.classes[first.critical]
    lines.append(("Data", f"{first.name}; samples ({critical!r}): {sizes}{again}; no other part was looked at"))
    return lines


def judge_text(plan: Space, parts: Sequence[Splits], tpr: float) -> str:
    """The number that was made small, and how fine it is."""
    over = f", mean over {len(parts)} splits" if len(parts) > 1 else ""
    if plan.judge == "auc":
        return f"validation AUC{over}"
    positives = min(_positives(split, "validation") for split in parts)
    needed = math.ceil(tpr * positives - 1e-9)
    what = f"validation FPR at {percent(tpr)} TPR, ties by AUC{over}"
    if positives >= FEW and needed < positives:
        return what
    all_of_them = needed == positives
    return (
        f"{what}; coarse: {percent(tpr)} of {positives} validation positives is {'all' if all_of_them else needed},"
        f" so one score decides, {'the lowest' if all_of_them else f'number {needed}'}"
    )


def rates(one: TriedSettings, tpr: float) -> str:
    """FPR and AUC, with the spread over splits."""
    found = [split["fpr"] for split in one.splits]
    spread = f" ({100 * min(found):.1f} to {100 * max(found):.1f} by split)" if len(found) > 1 else ""
    return f"FPR {100 * one.fpr:.1f} %{spread} at {percent(tpr)} TPR, AUC {100 * one.auc:.1f} %"


def settings_text(one: TriedSettings) -> str:
    """The trial's parameters."""
    shown = {name: f"{value:.3g}" if isinstance(value, float) else str(value) for name, value in one.params.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def next_steps(data: Data, out: Path, result: SearchResult, tpr: float) -> list[str]:
    """What trains the winner and the baseline for good, and tests them on what the search has not seen."""
    compared = result.baseline is not None and result.baseline is not result.best
    names = ["best", "baseline"] if compared else ["best"]
    return [data.train_command(out / f"{name}.toml", out / name, tpr) for name in names]


def _others(result: SearchResult, tpr: float) -> Lines:
    """The baseline, how the splits compare, and the best trial of each other method."""
    lines: Lines = []
    best, baseline = result.best, result.baseline
    if baseline is not None:
        batches = "oversampled" if baseline.config.sampling == "balanced" else "shuffled"
        lines.append(
            ("Baseline", f"method none with the defaults of `rankreg fit`, {batches}: {rates(baseline, tpr)}")
        )
        if len(best.splits) > 1 and best is not baseline:
            won = sum(ours["fpr"] < its["fpr"] for ours, its in zip(best.splits, baseline.splits, strict=True))
            lines.append(("", f"the winner has the lower FPR in {won} of {len(best.splits)} splits"))
    seen = set()
    for one in result.ranked:
        method = one.config.method.name
        if method not in seen and one is not best and one is not baseline:
            lines.append((f"Best {method}", f"trial {one.number}: {rates(one, tpr)}"))
        seen.add(method)
    return lines


def _beware(result: SearchResult, parts: Sequence[Splits], tried: int) -> str:
    if result.baseline is None:
        return "the baseline diverged, so there is nothing to compare with: lower learning_rate in --config"
    if result.baseline.value <= result.best.value:
        return "no trial beat the baseline: use baseline.toml"
    positives = min(_positives(split, "validation") for split in parts)
    return (
        f"the winner is the best of {tried} trials on the same {positives:,} validation positives, so part of its"
        " lead is luck; the baseline is the better of two. Only the test part can compare them"
    )


def _table(result: SearchResult) -> str:
    """One line per trial that came to its end, best first."""
    names = sorted({name for one in result.ranked for name in one.params})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "fpr", "auc", *names])
    for one in result.ranked:
        writer.writerow([one.number, one.fpr, one.auc, *(one.params.get(name, "") for name in names)])
    return text.getvalue()


def _positives(splits: Splits, part: str) -> int:
    return int(np.count_nonzero(splits[part].labels == splits.critical))
