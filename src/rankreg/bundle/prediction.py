"""A bundle at work: `predict` scores new data as a stream, `evaluate` measures the bundle on labelled data."""

import csv
import io
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import compress, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankreg.bundle.card import BundleCard, Recogniser
from rankreg.bundle.evaluation import ANSWERS, Evaluation, answers_to, evaluate_scores
from rankreg.bundle.storage import CARD, Bundle
from rankreg.datasets.columns import ColumnPlan
from rankreg.datasets.images import SUFFIXES, class_folders, folder_labels, read_image, walk_images
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.labels import LabelRule, listing, read_labels
from rankreg.operating import Finding, ScoreSpool, ScoreSummary
from rankreg.safe_files import check_not_read, whole_file
from rankreg.table_files import check_columns, table_chunks
from rankreg.terminal import progress_bar

IMAGES = 128  # decoded at once
ROWS = 20_000  # read at once
SHOWN = 5  # examples of samples without a score
NAMED = 1000  # samples without a score that an evaluation names
COLUMNS = ("id", "score", "alarm", "problem")  # and "answer" where there are three
TRAINING_DATA = Finding(
    "training-data",
    "The model was fitted on these samples, so the numbers below look better than they will be. Evaluate it on"
    " samples that the fit has not seen; for these, the report of the fit judges each by members that have not seen"
    " it",
)
NOT_FINITE = "the model's score is not a finite number"


@dataclass(frozen=True)
class Predicted:
    """The result of `predict`.

    Attributes:
        out: the file with the scores.
        samples: how many samples there were.
        alarms: how many raised an alarm or, with three answers, are to be reviewed.
        unreadable: how many could not be read or scored; each of them raises an alarm.
        examples: the first of these, with their problems.
        reviews: with three answers, how many of `alarms` are to be reviewed; None with two.
    """

    out: Path
    samples: int
    alarms: int
    unreadable: int
    examples: tuple[str, ...]
    reviews: int | None = None


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The result of `evaluate`.

    Attributes:
        evaluation: recall, false alarms and more at the bundle's threshold, with intervals.
        summary: of the scores it rests on.
        left_out: how many samples could not be read or scored.
        unreadable: the first 1,000 of them, with their problems.
    """

    evaluation: Evaluation
    summary: ScoreSummary
    left_out: int
    unreadable: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Samples in their order: every one has an id; `inputs` has a row for each whose problem is empty.

    labels, if they were asked for: 0 / 1, and -1 for rows of a table that have a problem.
    """

    ids: list[str]
    inputs: NDArray[Any]
    problems: list[str]
    labels: NDArray[np.int64] | None = None


def predict(bundle: Bundle, data: Path | str, out: Path | str, *, device: str = "auto") -> Predicted:
    """Score every sample of `data`, in its order, and write a CSV file: id, score, alarm (0 / 1), problem.

    A bundle with three answers adds a column `answer`: alarm, review or dismiss. `alarm` is then 1 for alarm and
    review, so that whoever reads that column alone keeps the promised recall.

    A sample that cannot be read or scored has a problem instead of a score, and raises an alarm: a
    fault must not read as "no alarm". The file appears once it is whole. Memory does not grow with
    the number of samples.

    The ids are those of the table's id column, or else row numbers from 1; for images they are paths
    relative to the folder. They are written as they are, so that they match the data. A spreadsheet
    may take an id like "=1+1" for a formula: import the column as text.

    Args:
        bundle: the model, from `load_bundle`.
        data: a table (CSV, Parquet), a folder of images, or one image.
        out: the CSV file to write.
        device: "cpu", "cuda" or "auto", which takes a GPU if there is one.

    Returns:
        The number of samples, of alarms, and of samples without a score.

    Raises:
        ValueError: if the data are of the wrong kind or lack a column, or `out` cannot be written.
        FileNotFoundError: if there are no such data.

    >>> import pandas as pd
    >>> from rankreg.bundle import load_bundle
    >>> from rankreg.estimators import RankRegClassifier
    >>> sick = np.arange(100) % 5 == 0
    >>> sizes = pd.DataFrame({"size": sick + np.arange(100) % 7 / 10})
    >>> _ = RankRegClassifier(epochs=1, random_state=0).fit(sizes, sick).save("model")
    >>> _ = Path("new.csv").write_text("size\\n0.3\\nunknown\\n")
    >>> found = predict(load_bundle("model"), "new.csv", "scores.csv")
    >>> found.samples, found.unreadable
    (2, 1)
    """
    threshold = bundle.card.threshold
    three = threshold.alarm_from is not None
    samples, alarms, reviews, unreadable = 0, 0, 0, 0
    examples: list[str] = []
    with _new_file(out, data) as file:
        file.write(csv_lines([(*COLUMNS, *(["answer"] if three else []))]))
        for chunk, values in scored(bundle, data, device):
            answers = answers_to(values, threshold)
            alarm = answers > 0
            texts = ["" if why else text for text, why in zip(map(str, values), chunk.problems, strict=True)]
            columns: list[Iterable[object]] = [chunk.ids, texts, alarm.astype(int).tolist(), chunk.problems]
            if three:
                columns.append([ANSWERS[place] for place in answers])
                reviews += int(np.count_nonzero(answers == 1))
            file.write(csv_lines(zip(*columns, strict=True)))
            found = [f"{name} ({why})" for name, why in zip(chunk.ids, chunk.problems, strict=True) if why]
            examples += found[: SHOWN - len(examples)]
            samples, alarms = samples + len(values), alarms + int(np.count_nonzero(alarm))
            unreadable += len(found)
    return Predicted(Path(out), samples, alarms, unreadable, tuple(examples), reviews if three else None)


def csv_lines(rows: Iterable[Sequence[object]]) -> bytes:
    """Lines of a CSV file; a file's name may be no text."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def evaluate(
    bundle: Bundle,
    data: Path | str,
    *,
    confidence: float = 0.95,
    device: str = "auto",
    negative: Collection[str] = (),
    rest_negative: bool = False,
    out: Path | str | None = None,
) -> Evaluated:
    """Score labelled data and measure recall, FPR, alarms and precision at the bundle's threshold.

    Samples that cannot be read or scored are left out and named; `predict` raises an alarm for each.
    The first finding is "training-data" if the data are those of the fit, or begin with them.
    Labels are read as in the fit. Memory grows with the positives only: many negatives' scores wait
    in a temporary file, 4 bytes each.

    Args:
        bundle: the model, from `load_bundle`.
        data: a table with the target column, or a folder with one folder of images per class.
        confidence: of the intervals, default 0.95.
        device: "cpu", "cuda" or "auto", which takes a GPU if there is one.
        negative: further values, or class folders, that are negative in these data.
        rest_negative: whether every value but the positive one is negative.
        out: a CSV file to write with id, label and score of every sample that is measured. It appears
            once it is whole.

    Returns:
        The evaluation, the summary of the scores, and the samples without a score.

    Raises:
        ValueError: if the data are of the wrong kind, lack a column or a class, none can be scored, or
            `out` cannot be written.
        FileNotFoundError: if there are no such data.

    >>> import pandas as pd
    >>> from rankreg.bundle import load_bundle
    >>> from rankreg.estimators import RankRegClassifier
    >>> sick = np.arange(100) % 5 == 0
    >>> sizes = pd.DataFrame({"size": sick + np.arange(100) % 7 / 10})
    >>> _ = RankRegClassifier(epochs=1, random_state=0).fit(sizes, sick).save("model")
    >>> sizes.assign(target=sick).to_csv("old.csv", index=False)
    >>> found = evaluate(load_bundle("model"), "old.csv").evaluation
    >>> found.positives, found.negatives
    (20, 80)
    """
    known = bundle.card.labels
    rule = replace(known, negative=(*known.negative, *negative), rest_negative=known.rest_negative or rest_negative)
    threshold = bundle.card.threshold
    left_out, unreadable = 0, list[str]()
    fitted_on = Recogniser(bundle.card.fitted_on)
    with ExitStack() as opened:
        spool = opened.enter_context(ScoreSpool(np.float32))
        file = None if out is None else opened.enter_context(_new_file(out, data))
        if file is not None:
            file.write(csv_lines([("id", "label", "score")]))
        for chunk, values in scored(bundle, data, device, rule):
            assert chunk.labels is not None  # they were asked for
            good = np.asarray([not problem for problem in chunk.problems], dtype=bool)
            spool.add(chunk.labels[good] == 1, values[good])
            fitted_on.add(chunk.inputs, chunk.labels[good])
            if file is not None:
                rows = zip(chunk.ids, chunk.labels.tolist(), map(str, values), strict=True)
                file.write(csv_lines(compress(rows, good)))
            bad = [f"{name} ({why})" for name, why in zip(chunk.ids, chunk.problems, strict=True) if why]
            left_out += len(bad)
            unreadable += bad[: NAMED - len(unreadable)]
        if not spool.rows:
            first = f": {unreadable[0]}" if unreadable else ""
            raise ValueError(f"{data} holds no sample that can be scored{first}")
        summary = spool.summary(levels=threshold.levels)
        evaluation = evaluate_scores(summary, threshold=threshold, confidence=confidence)
    if fitted_on.found:
        evaluation = replace(evaluation, findings=(TRAINING_DATA, *evaluation.findings))
    return Evaluated(evaluation, summary, left_out, tuple(unreadable))


@contextmanager
def _new_file(out: Path | str, data: Path | str) -> Iterator[IO[bytes]]:
    """A file that appears once it is whole; never the data themselves, nor a part of a model."""
    target = Path(out)
    if target.is_dir():
        raise ValueError(f"{target} is a folder: give the name of a CSV file to write")
    check_not_read(target, [Path(data)])
    real = target.resolve()
    if real.is_file() and (real.parent / CARD).is_file() and real.suffix != ".csv":
        raise ValueError(f"{target} is a part of a model: choose another file for the scores")
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as file:
        yield file


def scored(
    bundle: Bundle, data: Path | str, device: str = "auto", labels: LabelRule | None = None
) -> Iterator[tuple[Chunk, NDArray[np.float32]]]:
    """Each chunk with one float32 score per sample; NaN, and a problem, where there is no finite one.

    Always in float32, like the scores that the threshold was chosen on.
    """
    place = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if isinstance(bundle.model, torch.nn.Module):
        bundle.model.to(place)
    with progress_bar() as progress:
        task = progress.add_task("scoring", total=None)
        for chunk in read_chunks(data, bundle.card, labels=labels):
            good = np.asarray([not problem for problem in chunk.problems], dtype=bool)
            values = np.full(len(chunk.ids), np.nan, dtype=np.float32)
            if good.any():
                values[good] = bundle.score(chunk.inputs, device=place)
            lost = good & ~np.isfinite(values)
            if lost.any():
                values[lost] = np.nan
                problems = [NOT_FINITE if bad else said for bad, said in zip(lost, chunk.problems, strict=True)]
                chunk = replace(chunk, inputs=chunk.inputs[~lost[good]], problems=problems)
            yield chunk, values
            progress.advance(task, len(values))


def read_chunks(data: Path | str, card: BundleCard, *, labels: LabelRule | None = None) -> Iterator[Chunk]:
    """The samples of a table, of a folder of images or of a single image, as the bundle needs them.

    labels: read the target column, or take the first folder's name for the class, by this rule.
    """
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"no file or folder {path}")
    is_images = path.is_dir() or path.suffix.lower() in SUFFIXES
    wants_images = card.preprocessing["kind"] == "image"
    if is_images != wants_images:
        needed = "an image or a folder of them" if wants_images else "a table: a CSV or Parquet file"
        given = "a folder" if path.is_dir() else "an image" if is_images else "a table"
        raise ValueError(f"{path} is {given}, but the model {card.name!r} takes {needed}")
    return _images(path, card, labels) if is_images else _rows(path, card.preprocessing, labels)


def _rows(path: Path, preprocessing: Mapping[str, Any], rule: LabelRule | None) -> Iterator[Chunk]:
    preparation = TablePreprocessor.from_dict(preprocessing)
    target, names = preprocessing["target"], preprocessing["id_column"]
    said = preprocessing.get("columns")
    plan = None if said is None else ColumnPlan.from_dict(said)  # dates, "1,234" and the like
    reader = preparation if plan is None else plan
    needed = [*reader.columns, *([target] if rule is not None else [])]
    text = [*reader.text_columns, *([names] if names is not None else [])]
    said_of_file = ("header", "separator", "decimal", "encoding")
    written: dict[str, Any] = {name: preprocessing.get(name) for name in said_of_file}
    count, positives, others = 0, 0, dict[str, None]()
    for chunk in table_chunks(path, text=text, rows=ROWS, needed=[*needed, *text], **written):
        rows = chunk.rows
        check_columns(needed, rows.columns, str(path))
        decimal = None if chunk.dialect is None else chunk.dialect.decimal
        frame, unread = (rows, [""] * len(rows)) if plan is None else plan.read(rows, decimal=decimal)
        ids = rows[names] if names is not None and names in rows.columns else rows.index + 1
        problems = [bad or cells for bad, cells in zip(unread, preparation.problems(frame), strict=True)]
        for row, fault in chunk.faults.items():
            problems[row - rows.index[0]] = fault
        good = np.asarray([not problem for problem in problems], dtype=bool)
        for place in np.flatnonzero(~good).tolist():
            problems[place] = f"{chunk.name_row(rows.index[place])}: {problems[place]}"
        labels = None
        if rule is not None:
            labels = np.full(len(rows), -1, dtype=np.int64)
            where = f"{path}: the target {target!r}"
            labels[good], reading = read_labels(
                rows.loc[good, target], rule, where, partial=True, name_row=chunk.name_row
            )
            positives += reading.positives
            others |= dict.fromkeys(reading.others)
        count += len(rows)
        prepared = preparation.transform(frame if good.all() else frame.loc[good])
        yield Chunk(list(map(str, ids.tolist())), prepared, problems, labels)
    if rule is not None and count and not positives:
        raise ValueError(
            f"{path}: the target {target!r} holds {listing(map(repr, others))} and no {rule.positive!r}, which the"
            " bundle calls positive"
        )


def _images(path: Path, card: BundleCard, rule: LabelRule | None) -> Iterator[Chunk]:
    home = path if path.is_dir() else path.parent
    if rule is not None and rule.positive not in class_folders(home):
        raise ValueError(
            f"{home} has no folder {rule.positive!r}, which the bundle calls positive: there are"
            f" {', '.join(class_folders(home))}"
        )
    size = card.preprocessing["height"], card.preprocessing["width"]

    def attempt(image: Path) -> NDArray[np.uint8] | str:
        try:
            return read_image(image, size)
        except FileNotFoundError:
            return "missing"
        except (ValueError, OSError) as error:
            return str(error) or type(error).__name__

    images = walk_images(path, top=True, in_class_folders=rule is not None) if path.is_dir() else iter([path])
    some = False
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        while files := list(islice(images, IMAGES)):
            some = True
            results = list(pool.map(attempt, files))
            good = [result for result in results if not isinstance(result, str)]
            ids = [file.relative_to(home).as_posix() for file in files]
            yield Chunk(
                ids,
                np.stack(good) if good else np.empty((0, *size, 3), np.uint8),
                [result if isinstance(result, str) else "" for result in results],
                None if rule is None else folder_labels(ids, rule, home, partial=True)[0],
            )
    if not some:
        raise ValueError(f"{path} holds no images: looked for {', '.join(sorted(SUFFIXES))}")
