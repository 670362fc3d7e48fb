"""How far the experiments are: runs done, their mean time, and the hours left on this machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankreg._cores import cores
from rankreg.bench.asking import Asked
from rankreg.bench.grids import DATA, EXPERIMENTS
from rankreg.bench.planning import Plan, offers, plans_of, unique
from rankreg.bench.presets import PRESETS
from rankreg.bench.records import Records

if TYPE_CHECKING:
    from rich.table import Table

LIMIT = 60_000_000  # bytes of records that a repository should hold


@dataclass(frozen=True)
class Standing:
    """One experiment at one size; seconds: a run's mean, None without a record; hours: left, None if unknown."""

    experiment: str
    preset: str
    done: int
    total: int
    seconds: float | None
    hours: float | None


@dataclass(frozen=True)
class Status:
    """All of them, and the folder's size, its records of no experiment, and what cannot be read."""

    standings: tuple[Standing, ...]
    size: int
    records: int
    others: int
    damaged: tuple[str, ...]


def status_of(folder: Path, workers: int | None = None) -> Status:
    """What is recorded in a folder."""
    seconds, damaged = _seconds(folder)
    standings: list[Standing] = []
    known: set[str] = set()
    for preset in PRESETS:
        if not any(name.startswith(f"{preset}/") for name in seconds):
            continue
        able = [name for name, one in EXPERIMENTS.items() if offers(preset, *one.data)]
        plans = {name: unique(plans_of(name, preset)) for name in able}
        plans["all"] = unique(plan for each in plans.values() for plan in each)
        known |= {plan.name for plan in plans["all"]}
        pace = _pace([plan for plan in plans["all"] if plan.name in seconds], seconds)
        standings += [
            _standing(name, preset, each, seconds, pace, workers or cores()) for name, each in plans.items()
        ]
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Status(tuple(standings), size, len(seconds), len(set(seconds) - known), tuple(damaged))


def status_table(status: Status) -> "Table":
    """One line for every experiment of a preset that was begun."""
    from rich.table import Table

    table = Table("preset", "experiment", title="Runs", title_justify="left")
    for head in ("done", "left", "s a run", "hours left"):
        table.add_column(head, justify="right")
    for place, one in enumerate(status.standings):
        last = one.experiment == "all" and place + 1 < len(status.standings)
        left = one.total - one.done
        hours = "?" if one.hours is None else f"{one.hours:.1f}" if left else "–"
        mean = "–" if one.seconds is None else f"{one.seconds:.0f}"
        name = "all, shared runs once" if one.experiment == "all" else one.experiment
        table.add_row(one.preset, name, f"{one.done}/{one.total}", str(left), mean, hours, end_section=last)
    return table


def status_lines(status: Status, folder: Path, workers: int | None = None) -> list[str]:
    """What the table does not say."""
    lines = [f"{folder}: {status.records:,} records, {status.size / 1e6:.2f} MB of {LIMIT / 1e6:.0f} MB"]
    if status.size > LIMIT:
        lines[0] += ": too large for the repository"
    if status.records:
        lines.append(
            f"hours left: on {workers or cores()} cores at the pace of the records; failed runs leave no record and"
            " count as left"
        )
    if status.others:
        lines.append(f"{status.others} records are of runs that no experiment has any longer: its settings changed")
    lines += [f"damaged: {reason}; delete it and run again" for reason in status.damaged]
    begin = Asked("cifar100-100", "compact", folder, only=("bce",)).command()
    return lines if status.records else [*lines, f"begin with: {begin}"]


def _seconds(folder: Path) -> tuple[dict[str, float], list[str]]:
    """Every record's wall time by the run's name, and what could not be read."""
    found, damaged = {}, []
    for path in Records(folder).files():
        try:
            record = Records.read_file(path)
            spent = record["seconds"]  # of a resumed run, the total is of its last part
            whole = max(spent["total"], spent.get("training", 0.0))
            found[path.relative_to(folder).with_suffix("").as_posix()] = float(whole)
        except (KeyError, TypeError):
            damaged.append(f"{path} does not say how long the run took")
        except ValueError as error:
            damaged.append(str(error))
    return found, damaged


def _standing(
    name: str,
    preset: str,
    plans: list[Plan],
    seconds: Mapping[str, float],
    pace: Mapping[str, float],
    workers: int,
) -> Standing:
    done = [plan for plan in plans if plan.name in seconds]
    left = [plan for plan in plans if plan.name not in seconds]
    mean = float(np.mean([seconds[plan.name] for plan in done])) if done else None
    expected = [pace.get(DATA[plan.data].family, pace.get("")) for plan in left]
    known = [one * plan.cost for one, plan in zip(expected, left, strict=True) if one is not None]
    hours = sum(known) / workers / 3600 if len(known) == len(left) else None
    return Standing(name, preset, len(done), len(plans), mean, hours)


def _pace(done: Iterable[Plan], seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds per unit of cost by family of data sets, and over all under the name ""."""
    found: dict[str, list[float]] = {}
    for plan in done:
        for family in (DATA[plan.data].family, ""):
            found.setdefault(family, []).append(seconds[plan.name] / plan.cost)
    return {family: float(np.mean(values)) for family, values in found.items()}
