"""Groups that share one confidence: which of them can be certified at all, and what each of these gets."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.operating.guarantees import ROUNDING, dependent_share, independent_share
from rankreg.operating.units import Sample


@dataclass(frozen=True, eq=False)
class Groups:
    """A sample in groups.

    parts: the samples of each group by its name. places: for each row the place of its group among the
    parts. spread: a unit has rows in more than one group, so that the groups are not independent.
    """

    parts: dict[str, Sample]
    places: NDArray[np.integer]
    spread: bool

    @classmethod
    def of(cls, sample: Sample, groups: ArrayLike, names: Sequence[str] | None = None) -> "Groups":
        """The groups of a sample: one value per row, or with `names` an index into the names."""
        members = np.asarray(groups)
        if members.shape != sample.scores.shape:
            raise ValueError(f"expected one group per sample, shape {sample.scores.shape}, got {members.shape}")
        values, places = np.unique(members, return_inverse=True)
        parts = {
            str(value) if names is None else names[int(value)]: sample.part(places == place)
            for place, value in enumerate(values)
        }
        if sample.units is None:
            return cls(parts, places, spread=False)
        pairs = np.unique(np.stack([sample.units, places]), axis=1)
        return cls(parts, places, spread=int(pairs.shape[1]) > len(np.unique(sample.units)))

    def rows_in(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Which rows belong to groups of these names."""
        chosen: NDArray[np.bool_] = np.array([name in names for name in self.parts], dtype=bool)[self.places]
        return chosen


class Shortage(NamedTuple):
    """Of a group that is left out: the confidence it would have needed, and how many groups shared it then."""

    confidence: float
    groups: int


def share_confidence(
    risks: Mapping[str, float], confidence: float, *, independent: bool
) -> tuple[float, dict[str, Shortage]]:
    """The confidence of each certified group, and the groups that are left out.

    The group that could show least is left out until the others share the confidence.

    risks: for each group the least risk at which a sample of its size could keep the promise. It may
    not depend on the scores: then nothing is paid for the choice.
    """
    share = independent_share if independent else dependent_share
    left, short = dict(risks), dict[str, Shortage]()
    while left:
        each = share(confidence, len(left))
        worst = max(left, key=left.__getitem__)
        if left[worst] <= (1 - each) * ROUNDING:
            return each, short
        short[worst] = Shortage(each, len(left))
        del left[worst]
    return confidence, short
