"""One record per finished run: a JSON file that says how it was made, and its scores beside it.

Ids and labels, the same for many runs, are kept once, named by their digest.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg._files import write_whole
from rankreg._untrusted import read_arrays, read_json
from rankreg.bench.planning import Plan
from rankreg.scores import Scores

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run came to: its record and its scores by part."""

    record: dict[str, Any]
    scores: Mapping[str, Scores]


@dataclass(frozen=True)
class Records:
    """The records' folder."""

    folder: Path

    def has(self, plan: Plan) -> bool:
        """Whether the run is finished."""
        return self._path(plan, ".json").exists()

    def write(self, plan: Plan, outcome: Outcome) -> None:
        """Write scores, then the record, each whole: a run without a record is unfinished."""
        known = {part: {"ids": s.ids, "labels": s.labels} for part, s in outcome.scores.items()}
        arrays = {f"{part}-{kind}": array for part, both in known.items() for kind, array in both.items()}
        digest = _digest(arrays)
        samples = self.folder / "samples" / f"{digest}.npz"
        if not samples.exists():
            _write(samples, _npz(arrays))
        values = {part: compact(scores.values) for part, scores in outcome.scores.items()}
        _write(self._path(plan, ".npz"), _npz(values))
        record = {"format": FORMAT, **outcome.record, "samples": digest}
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        _write(self._path(plan, ".json"), text.encode())

    def read(self, plan: Plan) -> dict[str, Any]:
        """The record of a finished run."""
        return self.read_file(self._path(plan, ".json"))

    def by_part(self, plan: Plan) -> dict[str, Scores]:
        """All scores of a run."""
        record, path, digest = self._path(plan, ".json"), self._path(plan, ".npz"), self.read(plan).get("samples")
        if not isinstance(digest, str):
            raise ValueError(f"{record} is damaged: it names no samples; delete it and run again")
        samples = self.folder / "samples" / f"{digest}.npz"
        with _readable(samples, f"delete it and {record}"):  # any run on these samples writes them anew
            known = _remembered(samples, samples.stat().st_mtime_ns)
        with _readable(path, f"delete {record}"):
            return {
                part: Scores(known[f"{part}-ids"], known[f"{part}-labels"], array)
                for part, array in read_arrays(path).items()
            }

    def files(self) -> Iterator[Path]:
        """Every record there is, of any experiment and preset."""
        return iter(sorted(path for path in self.folder.glob("*/*/*.json")))

    @staticmethod
    def read_file(path: Path) -> dict[str, Any]:
        """A record by its file."""
        record = read_json(path, ": it is not a record or is damaged")
        if not isinstance(record, dict):
            raise ValueError(f"{path} is not a record: it holds no JSON object")
        if record.get("format") != FORMAT:
            raise ValueError(f"{path} has format {record.get('format')!r}, this version reads {FORMAT}")
        return dict(record)

    def _path(self, plan: Plan, suffix: str) -> Path:
        return self.folder / (plan.name + suffix)


def plan_of(record: Mapping[str, Any]) -> Plan:
    """The plan that a record was made from."""
    names = ("preset", "data", "loss", "arm", "split", "loader", "settings", "config")
    lacking = [name for name in names if name not in record]
    if lacking:
        raise ValueError(f"the record lacks {', '.join(lacking)}")
    return Plan(**{name: record[name] for name in names})


def compact(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Scores as float32, or float16 if they are; logits of several classes, ten times as many, as float16."""
    return values.astype(np.float32 if values.ndim == 1 and values.dtype != np.float16 else np.float16)


@contextmanager
def _readable(path: Path, remedy: str) -> Iterator[None]:
    """What goes wrong inside is the file's fault, and can be mended."""
    try:
        yield
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path} is missing or damaged ({error}): restore it, or {remedy} and run again"
        ) from error


@lru_cache(maxsize=32)
def _remembered(path: Path, changed: int) -> dict[str, NDArray[Any]]:
    """Ids and labels that many runs share, read once as long as the file is the same."""
    return read_arrays(path)


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    content = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        content.update(f"{name} {array.dtype} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()[:16]


def _npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content, shared=True)
