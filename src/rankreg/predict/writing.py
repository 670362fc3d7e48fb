"""Scores of new data, written as they come."""

import codecs
import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankreg._terminal import progress_bar
from rankreg.bundle import Bundle
from rankreg.metrics import raises_alarm
from rankreg.predict.reading import read_chunks
from rankreg.predict.scoring import scored
from rankreg.safe_files import whole_file

COLUMNS = ("id", "score", "alarm", "problem")
SHOWN = 5


@dataclass(frozen=True)
class Predicted:
    """How many samples there were, how many raised an alarm, how many of these because they could not be read or
    scored (`unreadable`), and the first of those."""

    out: Path
    samples: int
    alarms: int
    unreadable: int
    examples: tuple[str, ...]


def predict(bundle: Bundle, data: Path | str, out: Path | str, *, device: str = "auto") -> Predicted:
    """Write id, score, alarm (0 / 1) and problem for every sample of `data`, in its order, to a CSV file.

    ids are those of the table's id column, else row numbers from 1; of images, paths relative to the folder. A
    sample that cannot be read or scored gets no score but its problem, and raises an alarm: a fault must not read
    as "no alarm". The file appears once it is whole.

    ids are written as they are, so that they match the data. A spreadsheet may take one like "=1+1" for a formula:
    import the column as text.
    """
    target = Path(out)
    if target.is_dir():
        raise ValueError(f"{target} is a folder: give the name of a CSV file to write")
    if Path(data).resolve() == target.resolve():
        raise ValueError(f"{target} is the data itself: choose another file for the scores")
    threshold, samples, alarms = bundle.card.threshold.value, 0, 0
    unreadable = 0
    examples: list[str] = []
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as file, progress_bar() as progress:
        text = codecs.getwriter("utf-8")(file, "backslashreplace")  # a file's name may be no text
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        task = progress.add_task("scoring", total=None)
        for chunk, values in scored(bundle.model, read_chunks(data, bundle.card), device):
            alarm = raises_alarm(values, threshold)
            for name, value, alarmed, problem in zip(chunk.ids, values, alarm, chunk.problems, strict=True):
                writer.writerow((name, "" if problem else str(value), int(alarmed), problem))
                if problem:
                    unreadable += 1
                    if len(examples) < SHOWN:
                        examples.append(f"{name} ({problem})")
            samples, alarms = samples + len(values), alarms + int(np.count_nonzero(alarm))
            progress.advance(task, len(values))
    return Predicted(target, samples, alarms, unreadable, tuple(examples))
