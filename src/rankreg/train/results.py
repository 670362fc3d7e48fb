"""What a finished run leaves: best weights, scores of every part but the training one, metrics."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rankreg.datasets.splits import Splits
from rankreg.safe_files import read_json
from rankreg.scores import Scores
from rankreg.train.folder import read_state, write_json, write_lines, write_state


class Results(NamedTuple):
    """The best epoch's record with its weights, scores by part, one record per epoch, how it diverged if it did."""

    best: dict[str, Any]
    scores: Mapping[str, Scores]
    history: list[dict[str, Any]]
    diverged: str | None = None


def write_finished(folder: Path, results: Results) -> None:
    """Write everything; last the file whose presence says that all the rest is there."""
    best, scores, history, diverged = results
    write_lines(folder / "metrics.jsonl", history)
    write_state(folder / "best.pt", best)
    for name, values in scores.items():
        values.save(folder / f"scores-{name}.npz")
    write_json(
        folder / "finished.json",
        {
            "epochs": len(history),
            "best_epoch": best["epoch"],
            "validation": history[best["epoch"]]["validation"],
            "diverged": diverged,
        },
    )


def read_finished(folder: Path, splits: Splits) -> Results | None:
    """What `write_finished` wrote, or None if the run is not finished."""
    finished = folder / "finished.json"
    if not finished.exists():
        return None
    best = read_state(folder / "best.pt")
    if best is None:
        raise ValueError(f"{folder} says it is finished but has no best.pt: remove finished.json to repeat the run")
    scores = {name: Scores.load(folder / f"scores-{name}.npz") for name in splits.parts if name != "train"}
    said = read_json(finished, ": remove it to repeat the run")
    try:
        history = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / 'metrics.jsonl'} is damaged: remove {finished} to repeat the run") from error
    return Results(best, scores, history, said.get("diverged") if isinstance(said, dict) else None)
