"""Finished runs, run again from their record alone: do the same scores come out?"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rankreg.bench.planning import Plan
from rankreg.bench.records import Records, compact, plan_of
from rankreg.bench.training import machine, perform
from rankreg.scores import Scores


@dataclass(frozen=True)
class Verification:
    """The largest absolute difference of a score by part, and what was different in how the record was made."""

    plan: Plan
    by_part: Mapping[str, float]
    changes: tuple[str, ...]

    @property
    def difference(self) -> float:
        """The largest absolute difference, infinite where the two cannot be compared."""
        return max(self.by_part.values())


def choose(folder: Path, count: int, seed: int | None = None) -> list[Path]:
    """So many records, drawn at random: of those made on such a machine, where the same scores come out, if any.

    Without a seed, others every time.
    """
    files = list(Records(folder).files())
    if not files:
        raise ValueError(f"{folder} holds no records")
    files = [file for file in files if Records.read_file(file).get("machine") == machine()] or files
    return Random(seed).sample(files, min(count, len(files)))


def verify(path: Path, data_dir: Path | None = None) -> Verification:
    """Train as the record's config says, in a temporary folder, and compare the scores with the recorded ones."""
    record = Records.read_file(path)
    try:
        plan = plan_of(record)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    folder = path.absolute().parents[2]
    if record.get("hash") != plan.hash or path.absolute() != folder / f"{plan.name}.json":
        raise ValueError(f"{path} does not fit its own config: it was edited, renamed or moved")
    expected = Records(folder).by_part(plan)
    with TemporaryDirectory(prefix="rankreg-verify-") as scratch:
        outcome = perform(plan, Path(scratch) / "run", data_dir, progress=None)
    parts = dict.fromkeys((*expected, *outcome.scores))
    return Verification(
        plan,
        {part: _difference(expected.get(part), outcome.scores.get(part)) for part in parts},
        tuple(_changes(record, outcome.record)),
    )


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tables within tables as one: "method.reach" for the reach of the method."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        inner = {f"{name}.{key}": deep for key, deep in flat(value).items()} if isinstance(value, dict) else {}
        found |= inner or {name: value}
    return found


def _difference(expected: Scores | None, found: Scores | None) -> float:
    """Rounded as records are; infinite if not of the same samples."""
    if expected is None or found is None or not np.array_equal(expected.ids, found.ids):
        return float("inf")
    if not np.array_equal(expected.labels, found.labels) or expected.values.shape != found.values.shape:
        return float("inf")
    gap = np.abs(compact(found.values).astype(np.float64) - expected.values.astype(np.float64))
    return float(gap.max(initial=0.0)) if not np.isnan(gap).any() else float("inf")


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not as it was: what the config comes to, the commit, uncommitted changes, versions, the machine."""
    pairs: dict[str, tuple[Any, Any]] = {"commit": (str(before.get("commit"))[:10], str(now["commit"])[:10])}
    versions = before.get("versions", {})
    pairs |= {name: (versions.get(name), version) for name, version in now["versions"].items()}
    pairs["machine"] = (before.get("machine"), now["machine"])
    configs = [flat(one.get("complete_config", {})) for one in (before, now)]
    pairs |= {
        name: (old, configs[1].get(name)) for name, old in configs[0].items()
    }  # keys that are newer do not count
    changes = [f"{name} {old}, now {new}" for name, (old, new) in pairs.items() if old != new]
    when = {"then": before.get("changed_since"), "now": now["changed_since"]}
    return changes + [f"uncommitted changes {word}" for word, changed in when.items() if changed]
