"""`rankreg report`: score files in, one HTML page out, without torch."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rankreg._terminal import say
from rankreg.cli.operating import (
    Confidence,
    Label,
    Negative,
    Per,
    Positive,
    Prevalence,
    RestNegative,
    Separator,
    Unit,
)
from rankreg.safe_files import is_stream

Files = Annotated[
    list[Path], typer.Argument(help="CSV (may be compressed) or Parquet files, one per model.", show_default=False)
]
SHOWN = 6  # columns beside the hardest samples, if none are named


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)


def report(
    files: Files,
    label: Label,
    score: Annotated[
        list[str], typer.Option(help="Column of scores, higher = more critical; several: one model each.")
    ],
    out: Annotated[Path, typer.Option(help="HTML file to write.", show_default=False)],
    tpr: Annotated[
        list[float] | None, typer.Option(help="Target TPR, 0.98 if not given; several: certified together.")
    ] = None,
    confidence: Confidence = 0.95,
    unit: Unit = None,
    per: Per = "row",
    prevalence: Prevalence = None,
    per_day: Annotated[float | None, typer.Option(help="Samples per day where the threshold is used.")] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column that names the samples; without it models are matched by position."),
    ] = None,
    positive: Positive = None,
    negative: Negative = None,
    rest_negative: RestNegative = False,
    image: Annotated[str | None, typer.Option(help="Column with the file name of each sample's image.")] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder with all images; without --image they are named by --id, any ending."),
    ] = None,
    show: Annotated[
        list[str] | None, typer.Option(help="Column to show beside the hardest samples; may be repeated.")
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="Name of a model, in the order of the files.")] = None,
    separator: Separator = ",",
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Operating point report",
) -> None:
    """One HTML page on a threshold: recall, false alarms and bounds, ROC, hardest samples, models compared."""
    from rankreg import score_files
    from rankreg.cli.operating import check_per, waiting
    from rankreg.labels import LabelRule
    from rankreg.report import Settings, write

    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    settings = Settings(
        tprs=tuple(tpr or [0.98]),
        confidence=confidence,
        prevalence=prevalence,
        per_day=per_day,
        title=title,
        config={"label": label, "score": score, "positive": positive, "id": id_column, "unit": unit},
        per=per,
    )
    check_per(per, unit)
    if images is not None and image is None and id_column is None:
        raise ValueError(
            "--images needs to know each sample's file: name the column with --image, or ids with --id"
        )
    if images is not None and not images.is_dir():
        raise ValueError(f"{images} is not a folder of images")
    is_stream(out)  # refuses what cannot be written before anything is computed
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} is not a folder: make it first, or write the report elsewhere")
    pairs = _pairs(files, score)
    names = name or _names(pairs)
    if len(names) != len(pairs):
        raise ValueError(f"{len(pairs)} models but {len(names)} names: give --name once per model")
    models = []
    for (file, column), model_name in zip(pairs, names, strict=True):
        with waiting(f"reading {file.name}"):
            columns = score_files.ScoreColumns(column, label, rule, id=id_column, unit=unit, separator=separator)
            rows = score_files.read_scores(file, columns)
        used = (column, label, id_column, image)
        models.append(_model(file, rows, model_name, show, used, image, images, columns.delimiter))
    with waiting(f"writing {out.name}"):
        write(out, models, settings)
    if is_stream(out):
        say(f"{out}: written; open it in a browser", err=True)
    else:
        say(f"{out}: {out.stat().st_size / 1000:,.0f} kB; open it in a browser")


def _pairs(files: list[Path], scores: list[str]) -> list[tuple[Path, str]]:
    """Each model's file and column: one column for all files, several for one file, or one each."""
    if len(scores) == 1:
        return [(file, scores[0]) for file in files]
    if len(files) == 1:
        return [(files[0], column) for column in scores]
    if len(files) == len(scores):
        return list(zip(files, scores, strict=True))
    raise ValueError(f"{len(files)} files and {len(scores)} --score columns: give one --score, or one per file")


def _names(pairs: list[tuple[Path, str]]) -> list[str]:
    """The shortest names that tell the models apart: file, column, or both."""
    for names in (
        [file.name.split(".")[0] or file.name for file, _ in pairs],
        [column for _, column in pairs],
        [file.name for file, _ in pairs],
        [f"{file.name}, {column}" for file, column in pairs],
    ):
        if len(set(names)) == len(names):
            return names
    return [f"model {number}" for number in range(1, len(pairs) + 1)]


def _model(
    file: Path,
    rows: Any,
    name: str,
    show: list[str] | None,
    used: tuple[str | None, ...],
    image: str | None,
    images: Path | None,
    delimiter: str,
) -> Any:
    import hashlib

    from rankreg.report import Model
    from rankreg.report.examples import header, images_in, rows_of

    columns = header(file, delimiter)
    for wanted in [*(show or []), *([image] if image else [])]:
        if wanted not in columns:
            raise ValueError(f"{file} has no column {wanted!r}: it has {', '.join(map(repr, columns[:20]))}")
    shown = show or [column for column in columns if column not in used][:SHOWN]
    pictures: dict[int, str] = {}

    def details(places: Any) -> dict[str, list[str]]:
        found = rows_of(file, places, [*shown, *([image] if image else [])], delimiter)
        if image is not None:
            pictures.update(zip(places, found[image], strict=True))
        elif images is not None:
            pictures.update((place, str(rows.ids[place])) for place in places)
        return {column: found[column] for column in shown}

    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return Model(
        name,
        rows.labelled(),
        rows.scores,
        rows.ids,
        details=details,
        image=images_in(images or file.parent, pictures.__getitem__) if image or images else None,
        source={"file": file.name, "column": used[0] or "", "sha256": digest},
        units=rows.units,
    )
