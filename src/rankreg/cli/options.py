"""Options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

TPR = 0.95  # the default target everywhere

File = Annotated[Path, typer.Argument(help="CSV file, also compressed, or Parquet file.", show_default=False)]
Parts = Annotated[
    Path,
    typer.Argument(
        help="CSV file, also compressed, or Parquet file, of any size; a folder of them; or a pattern in quotes,"
        " e.g. 'scores/*.parquet'. With --group or --unit one file that fits in memory.",
        show_default=False,
    ),
]
Files = Annotated[
    list[Path],
    typer.Argument(
        help="Scores, one per model: a CSV or Parquet file of any size; a folder of them; or a pattern in quotes,"
        " e.g. 'scores/*.parquet'. With --unit files that fit in memory.",
        show_default=False,
    ),
]
Label = Annotated[
    str,
    typer.Option(help="Column of labels. Labels other than 0/1 or true/false need --positive.", show_default=False),
]
Score = Annotated[str, typer.Option(help="Column of scores; higher means more critical.", show_default=False)]
Positive = Annotated[str | None, typer.Option(help="Label of the critical class.", show_default=False)]
Negative = Annotated[
    list[str] | None, typer.Option(help="Label that counts as negative; repeatable.", show_default=False)
]
RestNegative = Annotated[
    bool, typer.Option("--rest-negative", help="Every label except --positive counts as negative.")
]
Separator = Annotated[str, typer.Option(help="Separator of the columns of a CSV file: ',', ';' or tab.")]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", help="Column of sample ids. Without it, rows are matched by position.", show_default=False
    ),
]
Tpr = Annotated[float, typer.Option(help="Share of positives that must raise an alarm.")]
Tprs = Annotated[
    list[float] | None,
    typer.Option("--tpr", help="Share of positives that must raise an alarm; repeatable.", show_default=str(TPR)),
]
Confidence = Annotated[float, typer.Option(help="Confidence of guarantees and intervals.")]
Prevalence = Annotated[
    float | None,
    typer.Option(help="Share of positives where the threshold is used, e.g. 0.006.", show_default="as in the file"),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help="Column of independent units, e.g. patients, that may have several rows.", show_default=False
    ),
]
Per = Annotated[
    Literal["row", "unit"],
    typer.Option(
        help="Guarantee an alarm for rows, or for units such as patients (on at least one of their rows)."
    ),
]
Fpr = Annotated[
    float | None,
    typer.Option(help="Promise: at most this share of the negatives raises an alarm.", show_default=False),
]
Precision = Annotated[
    float | None,
    typer.Option(
        help="Promise: at least this share of the alarms is real, at --prevalence or as in the file.",
        show_default=False,
    ),
]
Alarms = Annotated[
    float | None,
    typer.Option(
        help="Promise: at most so many alarms per 1,000 rows, or per day with --per-day.", show_default=False
    ),
]
PerDay = Annotated[
    float | None,
    typer.Option(help="Rows per day where the threshold is used. Then --alarms is per day.", show_default=False),
]
Review = Annotated[
    bool,
    typer.Option(
        "--review",
        help="Three answers: alarm at --precision, review in between, dismiss what --tpr can spare.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        help="Column of groups: keep the promises in each. A group that cannot is named and left uncertified.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Threshold = Annotated[float | None, typer.Option(help="The deployed threshold.", show_default=False)]
Point = Annotated[
    Path | None,
    typer.Option(
        help="The deployed operating point: what `certify --json` wrote (--tpr picks one of several), or the folder"
        " of a fit or a bundle.",
        show_default=False,
    ),
]
DeployedTpr = Annotated[
    float | None, typer.Option("--tpr", help="The recall promised.", show_default=f"that of --point, or {TPR}")
]
DeployedConfidence = Annotated[
    float | None,
    typer.Option("--confidence", help="Confidence of the guarantee.", show_default="that of --point, or 0.95"),
]
DeployedPer = Annotated[
    Literal["row", "unit"] | None,
    typer.Option("--per", help="Whose recall was promised.", show_default="that of --point, or row"),
]
