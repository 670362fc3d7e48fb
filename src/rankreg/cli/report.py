"""`rankreg report`: score files in, one HTML page out, without torch."""

from pathlib import Path
from typing import Annotated

import typer

from rankreg.cli import options as opt
from rankreg.terminal import say, waiting


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)


def report(
    files: opt.Files,
    label: opt.Label,
    score: Annotated[
        list[str], typer.Option(help="Column of scores; repeatable, one per model.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="HTML file to write.", show_default=False)],
    tpr: opt.Tprs = None,
    confidence: opt.Confidence = 0.95,
    unit: opt.Unit = None,
    per: opt.Per = "row",
    prevalence: opt.Prevalence = None,
    per_day: Annotated[
        float | None, typer.Option(help="Samples per day where the threshold is used.", show_default=False)
    ] = None,
    id_column: opt.Id = None,
    positive: opt.Positive = None,
    negative: opt.Negative = None,
    rest_negative: opt.RestNegative = False,
    image: Annotated[
        str | None, typer.Option(help="Column with the file name of each sample's image.", show_default=False)
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of images. Without --image, files are named by --id.", show_default=False),
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option(help="Column to show beside the hardest samples; repeatable.", show_default=False),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name of a model; repeatable, in the order of the files.", show_default=False),
    ] = None,
    separator: opt.Separator = ",",
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Operating point report",
) -> None:
    """Write one HTML page about a threshold: recall, false alarms, ROC, hardest samples, models compared."""
    from rankreg.labels import LabelRule
    from rankreg.report import Model, Settings, write
    from rankreg.report.scored_model import files_and_columns, short_names
    from rankreg.safe_files import is_stream
    from rankreg.score_files import ScoreColumns, check_units

    rule = LabelRule(positive, tuple(negative or ()), rest_negative)
    settings = Settings(
        tprs=tuple(tpr or [opt.TPR]),
        confidence=confidence,
        prevalence=prevalence,
        per_day=per_day,
        title=title,
        config={"label": label, "score": score, "positive": positive, "id": id_column, "unit": unit},
        per=per,
    )
    check_units(per, unit)
    if images is not None and image is None and id_column is None:
        raise ValueError("--images needs each sample's file name: name its column with --image, or ids with --id")
    if images is not None and not images.is_dir():
        raise ValueError(f"{images} is not a folder of images")
    to_stream = is_stream(out)  # refuses what cannot be written before anything is computed
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} is not a folder: make it first, or write the report elsewhere")
    pairs = files_and_columns(files, score)
    names = name or short_names(pairs)
    if len(names) != len(pairs):
        raise ValueError(f"{len(pairs)} models but {len(names)} names: give --name once per model")
    models = []
    for (file, column), model in zip(pairs, names, strict=True):
        columns = ScoreColumns(column, label, rule, id=id_column, unit=unit, separator=separator)
        with waiting(f"reading {file.name}"):
            models.append(Model.from_file(file, columns, model, show=show or (), image=image, images=images))
    with waiting(f"writing {out.name}"):
        write(out, models, settings)
    size = "written" if to_stream else f"{out.stat().st_size / 1000:,.0f} kB"
    say(f"{out}: {size}; open it in a browser", err=to_stream)
