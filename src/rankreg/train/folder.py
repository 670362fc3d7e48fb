"""The folder of a run: files are written whole, one process at a time, and two runs never share it."""

import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch

from rankreg.datasets.splits import Samples, Splits
from rankreg.safe_files import read_json, write_json, write_whole
from rankreg.scores import Scores
from rankreg.terminal import progress_bar
from rankreg.train.config import TrainConfig, as_of_today

CHUNK = 1 << 24  # bytes of inputs read at a time

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FolderInUseError(ValueError):
    """Another process trains in the run's folder."""


class Finished(NamedTuple):
    """The best epoch's number and weights, one record per epoch, and how training diverged, if it did."""

    best: dict[str, Any]
    history: list[dict[str, Any]]
    diverged: str | None = None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes until the block ends, or this process does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as file:
        try:
            _try_lock(file)
        except OSError as error:
            raise FolderInUseError(
                f"another process is training in {folder}: wait for it, or choose another folder"
            ) from error
        yield


def in_use(folder: Path) -> bool:
    """Whether a process holds a folder by `locked`."""
    if not folder.exists():
        return False
    try:
        with locked(folder):
            return False
    except FolderInUseError:
        return True
    except (FileNotFoundError, FileExistsError):  # whoever held it is done and has removed it
        return False


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    """Write one JSON record a line."""
    write_whole(path, "".join(json.dumps(record) + "\n" for record in records).encode())


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, nothing else."""
    content = io.BytesIO()
    torch.save(state, content)
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        kept = "the one before is whole" if path.exists() else "there was none before"
        raise OSError(
            error.errno, f"could not save {path} ({error.strerror}); {kept}: make room and start the run again"
        ) from error


def read_state(path: Path) -> dict[str, Any] | None:
    """What `write_state` wrote, or None if there is no such file; nothing in it is executed."""
    try:
        content = io.BytesIO(path.read_bytes())
    except FileNotFoundError:
        return None
    try:
        state: dict[str, Any] = torch.load(content, map_location="cpu", weights_only=True)
    except Exception as error:  # bad bytes make torch raise anything
        raise ValueError(f"{path} is not a checkpoint or is damaged: remove it to start afresh") from error
    return state


def claim(folder: Path, config: TrainConfig, splits: Splits, *, progress: bool | None = None) -> None:
    """Say what is trained here on what, or refuse when the folder already holds something else."""
    settings, data = config.model_dump(mode="json"), fingerprint(splits, progress=progress)
    for name, content in (("config.json", settings), ("data.json", data)):
        file = folder / name
        if not file.exists():
            write_json(file, content)
            continue
        held = read_json(file, ": choose another folder")
        if not isinstance(held, dict):
            raise ValueError(f"{file} is damaged: choose another folder")
        if content is data and not {"preprocessing", "inputs"} <= held.keys():
            raise ValueError(
                f"{folder} holds a run of an older rankreg, whose data.json does not say what the inputs were, so"
                " it cannot be told whether they are the same: choose another folder"
            )
        held = as_of_today(held) if content is settings else held
        only_shown = set() if config.selection in ("fpr", "error") else {"tpr"}  # another one trains the same
        different = sorted(key for key in {*content, *held} - only_shown if content.get(key) != held.get(key))
        if different:
            raise ValueError(
                f"{folder} holds a run that differs in {', '.join(different)} ({name}): choose another folder"
            )


def fingerprint(splits: Splits, *, progress: bool | None = None) -> dict[str, Any]:
    """What tells data sets apart: sizes, and digests of ids and labels, of the preprocessing, of every input.

    progress: show a bar; by default when standard error is a terminal.
    """
    prepared = json.dumps(dict(splits.preprocessing), sort_keys=True, separators=(",", ":"))
    with progress_bar(shown=progress) as bar:
        task = bar.add_task("reading the data", total=sum(map(len, splits.parts.values())))
        inputs = {name: _inputs(part, partial(bar.advance, task)) for name, part in splits.parts.items()}
    return {
        "name": splits.name,
        "classes": list(splits.classes),
        "critical": splits.critical,
        "parts": {name: {"samples": len(part), "digest": _digest(part)} for name, part in splits.parts.items()},
        "preprocessing": hashlib.blake2b(prepared.encode(), digest_size=16).hexdigest(),
        "inputs": inputs,
    }


def _digest(samples: Samples) -> str:
    lines = "\n".join(f"{name} {label}" for name, label in zip(samples.ids, samples.labels, strict=True))
    return hashlib.blake2b(lines.encode(), digest_size=16).hexdigest()


def _inputs(samples: Samples, advance: Callable[[int], None]) -> dict[str, Any]:
    """Shape, type and a digest of every input of the part, a chunk at a time."""
    source = samples.source
    order = np.argsort(samples.rows, kind="stable")  # a memory map is read forwards
    found = hashlib.blake2b(np.ascontiguousarray(order, dtype="<i8").tobytes(), digest_size=16)
    step = max(1, CHUNK // max(1, source[:1].nbytes))
    for start in range(0, len(order), step):
        chunk = samples.inputs(order[start : start + step])
        found.update(np.ascontiguousarray(chunk).tobytes())
        advance(len(chunk))
    return {"shape": list(source.shape[1:]), "dtype": str(source.dtype), "digest": found.hexdigest()}


def write_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write the checkpoint, from which everything else can be made again, then the rest."""
    write_state(folder / "last.pt", state)
    write_lines(folder / "metrics.jsonl", state["history"])
    if state["history"] and state["history"][-1]["better"]:
        write_state(folder / "best.pt", state["best"])


def write_finished(folder: Path, finished: Finished, scores: Mapping[str, Scores], *, anew: bool) -> None:
    """Write what is not there yet; last the file whose presence says that all the rest is there.

    anew: the run has just ended, so whatever is there is of an earlier attempt.
    """
    best, history, diverged = finished
    for name, values in scores.items():
        file = folder / f"scores-{name}.npz"
        if anew or not file.exists():
            values.save(file)
    if not anew:
        return
    write_lines(folder / "metrics.jsonl", history)
    write_state(folder / "best.pt", best)
    content = {
        "epochs": len(history),
        "best_epoch": best["epoch"],
        "validation": history[best["epoch"]]["validation"],
        "diverged": diverged,
    }
    write_json(folder / "finished.json", content)


def read_finished(folder: Path) -> Finished | None:
    """What `write_finished` wrote, without the scores; None if the run is not finished."""
    file = folder / "finished.json"
    if not file.exists():
        return None
    best = read_state(folder / "best.pt")
    if best is None:
        raise ValueError(f"{folder} says it is finished but has no best.pt: remove finished.json to repeat the run")
    said = read_json(file, ": remove it to repeat the run")
    try:
        history = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / 'metrics.jsonl'} is damaged: remove {file} to repeat the run") from error
    return Finished(best, history, said.get("diverged") if isinstance(said, dict) else None)


def read_scores(folder: Path, parts: Sequence[str]) -> dict[str, Scores]:
    """The scores of those parts that a finished run was asked for."""
    files = {part: folder / f"scores-{part}.npz" for part in parts}
    return {part: Scores.load(file) for part, file in files.items() if file.exists()}
