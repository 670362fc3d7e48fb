"""Where the sliders can stand: finer where people operate, and always on what was fixed beforehand."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from rankreg.operating import Record

Shares = tuple[float, ...]

TPRS: Shares = tuple(
    whole / 10_000 for whole in chain(range(5000, 9000, 100), range(9000, 9950, 10), range(9950, 10_000, 5))
)
COARSE_TPRS: Shares = tuple(
    whole / 1000 for whole in chain(range(500, 900, 50), range(900, 990, 10), range(990, 1000, 2))
)
COARSE_CONFIDENCES: Shares = (0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
CONFIDENCES: Shares = (*(whole / 100 for whole in range(80, 100)), 0.995, 0.999)
MANTISSAS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
PREVALENCES: Shares = tuple(
    mantissa / scale for scale in (100_000, 10_000, 1000, 100) for mantissa in MANTISSAS if mantissa / scale <= 0.5
)


@dataclass(frozen=True)
class Stops(Record):
    """The stops of the three sliders, and which of them were fixed before the scores were seen."""

    tprs: Shares
    confidences: Shares
    prevalences: Shares
    fixed_tprs: tuple[int, ...]
    fixed_confidence: int
    fixed_prevalence: int

    @classmethod
    def around(
        cls, tprs: Iterable[float], confidence: float, prevalence: float, *, coarse: bool = False
    ) -> "Stops":
        """The usual stops and the ones that were fixed; coarse: fewer, where each costs more to compute."""
        wanted = tuple(dict.fromkeys(tprs))
        all_tprs = _with(COARSE_TPRS if coarse else TPRS, wanted)
        confidences = _with(COARSE_CONFIDENCES if coarse else CONFIDENCES, [confidence])
        prevalences = _with(PREVALENCES, [prevalence])
        return cls(
            tprs=all_tprs,
            confidences=confidences,
            prevalences=prevalences,
            fixed_tprs=tuple(map(all_tprs.index, wanted)),
            fixed_confidence=confidences.index(confidence),
            fixed_prevalence=prevalences.index(prevalence),
        )

    def cell(self, tpr: int, confidence: int) -> int:
        """Where a pair of stops stands in the tables."""
        return tpr * len(self.confidences) + confidence


def _with(stops: Shares, more: Iterable[float]) -> Shares:
    return tuple(sorted({*stops, *more}))
