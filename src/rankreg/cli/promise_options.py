"""What a threshold must promise, as `rankreg certify` and `rankreg report` take it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankreg.cli.options import TPR

if TYPE_CHECKING:
    from rankreg.operating import PromisedGroups, PromisedPoint, Promises, Review, ReviewGroups


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
