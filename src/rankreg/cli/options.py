"""Options that several commands share, each declared once, and the promises that they make together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from rankreg.operating import PromisedGroups, PromisedPoint, Promises, Review, ReviewGroups

TPR = 0.95  # the default target everywhere


def option(text: str, *names: str, panel: str | None = None, shown: str | bool = False, **more: Any) -> Any:
    """An option of a command whose default is not shown, or is shown in these words."""
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=shown, **more)


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
Label = Annotated[str, option("Column of labels. Labels other than 0/1 or true/false need --positive.")]
Score = Annotated[str, option("Column of scores; higher means more critical.")]
Positive = Annotated[str | None, option("Label of the critical class.")]
Negative = Annotated[list[str] | None, option("Label that counts as negative; repeatable.")]
RestNegative = Annotated[
    bool, typer.Option("--rest-negative", help="Every label except --positive counts as negative.")
]
Separator = Annotated[str, typer.Option(help="Separator of the columns of a CSV file: ',', ';' or tab.")]
Id = Annotated[str | None, option("Column of sample ids. Without it, rows are matched by position.", "--id")]
Tpr = Annotated[float, typer.Option(help="Share of positives that must raise an alarm.")]
Tprs = Annotated[
    list[float] | None,
    option("Promise: at least this share of the positives raises an alarm; repeatable.", "--tpr", shown=str(TPR)),
]
Confidence = Annotated[float, typer.Option(help="Confidence of guarantees and intervals.")]
Prevalence = Annotated[
    float | None, option("Share of positives where the threshold is used, e.g. 0.006.", shown="as in the file")
]
Unit = Annotated[str | None, option("Column of independent units, e.g. patients, that may have several rows.")]
Per = Annotated[
    Literal["row", "unit"],
    typer.Option(
        help="Promise the recall of rows, or of units such as patients. A unit is caught if at least one of its"
        " rows raises an alarm."
    ),
]
Fpr = Annotated[float | None, option("Promise: at most this share of the negatives raises an alarm.")]
Precision = Annotated[
    float | None, option("Promise: at least this share of the alarms is real, at --prevalence or as in the file.")
]
Alarms = Annotated[
    float | None, option("Promise: at most so many alarms per 1,000 rows, or per day with --per-day.")
]
PerDay = Annotated[float | None, option("Rows per day where the threshold is used. Then --alarms is per day.")]
ReviewOption = Annotated[
    bool,
    typer.Option(
        "--review",
        help="Three answers: alarm, review, dismiss. --precision holds for the alarms, --tpr for alarms and reviews"
        " together.",
    ),
]
Group = Annotated[
    str | None,
    option(
        "Column of groups: keep the promises in each group. A group that cannot keep them is named and left"
        " uncertified."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Threshold = Annotated[float | None, option("The deployed threshold.")]
Point = Annotated[
    Path | None,
    option(
        "The deployed operating point: what `certify --json` wrote (--tpr picks one of several), or the folder"
        " of a fit or a bundle."
    ),
]
DeployedTpr = Annotated[float | None, option("The recall promised.", "--tpr", shown=f"that of --point, or {TPR}")]
DeployedConfidence = Annotated[
    float | None, option("Confidence of the guarantee.", "--confidence", shown="that of --point, or 0.95")
]
DeployedPer = Annotated[
    Literal["row", "unit"] | None, option("Whose recall was promised.", "--per", shown="that of --point, or row")
]


@dataclass(frozen=True)
class PromiseOptions:
    """The options --tpr, --fpr, --precision, --alarms, --per-day, --review and --group, and what goes with them.

    tprs: as often as --tpr was given; empty if it was not. group: the column, if any. Options that do not
    go together are a ValueError.
    """

    tprs: Sequence[float] = ()
    fpr: float | None = None
    precision: float | None = None
    alarms: float | None = None
    per_day: float | None = None
    review: bool = False
    group: str | None = None
    unit: str | None = None
    per: Any = "row"
    confidence: float = 0.95
    prevalence: float | None = None

    def __post_init__(self) -> None:
        if self.per_day is not None and not 0 < self.per_day < float("inf"):
            raise ValueError(f"--per-day must be a number of rows above 0, got {self.per_day:g}")
        if self.alarms is not None and self.per_day is not None and not 0 < self.alarms < self.per_day:
            raise ValueError(
                f"--alarms must lie between 0 and the {self.per_day:g} rows per day, got {self.alarms:g}"
            )
        if self.beside_recall and len(self.tprs) > 1:
            raise ValueError(
                "--fpr, --precision, --alarms and --review go with one --tpr: run the command once for each"
            )
        if self.group is not None and len(self.tprs) > 1:
            raise ValueError("--group goes with one --tpr: run the command once for each")
        others = self.fpr is not None or self.alarms is not None
        if self.review and (self.precision is None or others):
            raise ValueError("--review takes --precision and --tpr, and no other promise")
        if self.review and self.unit is not None and self.prevalence is None:
            raise ValueError("--review with --unit needs --prevalence")

    @property
    def beside_recall(self) -> bool:
        """Whether more than a recall is promised."""
        return self.review or not (self.fpr is None and self.precision is None and self.alarms is None)

    @property
    def targets(self) -> tuple[float, ...]:
        """The recalls to show or to promise; 95 % if none was given."""
        return tuple(self.tprs) or (TPR,)

    @property
    def described(self) -> dict[str, Any]:
        """What was asked for, for the foot of the page."""
        given = {"fpr": self.fpr, "precision": self.precision, "alarms": self.alarms, "group": self.group}
        named = {name: value for name, value in given.items() if value is not None}
        return named | ({"review": True} if self.review else {}) | ({"tpr": list(self.tprs)} if self.tprs else {})

    @property
    def alarms_per_1000(self) -> float | None:
        """--alarms, per day or not."""
        if self.alarms is None or self.per_day is None:
            return self.alarms
        return self.alarms * 1000 / self.per_day

    def beside(self) -> "Promises":
        """What a fit promises beside its recall."""
        from rankreg.operating import Promises

        return Promises(self.fpr, self.precision, self.alarms_per_1000, self.prevalence, self.review)

    def certified(
        self, *data: Any, units: Any = None, groups: Any = None, names: Sequence[str] | None = None
    ) -> "PromisedPoint | Review | PromisedGroups | ReviewGroups":
        """What labels and scores, or a `ScoreSummary`, show of the promises; with `groups`, in each group."""
        from rankreg import operating

        given: dict[str, Any] = {"confidence": self.confidence, "prevalence": self.prevalence, "units": units}
        if groups is not None:
            given |= {"groups": groups, "names": names}
        if self.review and self.precision is not None:
            reviewed: Review | ReviewGroups = operating.certify_review(
                *data, tpr=self.targets[0], precision=self.precision, **given
            )
            return reviewed
        given |= {"fpr": self.fpr, "precision": self.precision, "alarms": self.alarms_per_1000, "per": self.per}
        if self.tprs or not self.beside_recall:
            given["tpr"] = self.targets[0]
        found: PromisedPoint | PromisedGroups = operating.certify_promises(*data, **given)
        return found
