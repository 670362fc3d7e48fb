"""Scores of any number in O(#positives) numbers, which merge exactly.

Every threshold that matters is a positive's score: between two of them a lower threshold only adds
false alarms. So the ROC curve, its area, the FPR at a TPR and a certified threshold depend on the
negatives only through how many of them lie between neighbouring positives (docs/decisions/0064).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import mul
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.metrics import Floats, Roc, ScoreGrid, check_binary, check_scores, check_tprs, empirical_thresholds
from rankreg.operating.units import Judged, Per, Sample

Counts = NDArray[np.int64]
CHUNKS = 1 << 13, 1 << 20  # scores sorted at once: few if there are few positives, so that they stay in the cache
BLOCK = 1 << 19  # scores that a grid takes at once


@dataclass(frozen=True, eq=False)
class ScoreSummary:
    """The positives' scores, and how many negatives lie at, between and beyond them.

    `certify`, `certify_targets`, `findings`, `auc_interval` and `fpr_at_tpr_interval` take it in
    place of labels and scores. The results are the same.

    For data in many pieces, go over them twice. First collect the scores of all positives and make
    an empty summary of them. Then let every piece `count` its negatives, and `merge` the results.
    `ScoreSpool` does this where the pieces come only once.

    Negatives are counted at the scores of positives. To know how many reach another threshold, e.g.
    one that is in use, name it in `levels` when the summary is made.

    Attributes:
        scores: the distinct scores of positives, and the levels, ascending, shape (K,).
        positive_counts: how many positives have each, shape (K,); none a level that is no positive's score.
        tied_counts: how many negatives have each, shape (K,).
        between_counts: how many negatives lie below the first, between neighbours and above the
            last, shape (K + 1,).
        lowest: the lowest score of a negative, and how many negatives have it.
        highest: the highest score of a negative, and how many negatives have it.

    >>> pieces = [([0, 1, 0], [0.1, 0.4, 0.4]), ([0, 1], [0.3, 0.9])]
    >>> empty = ScoreSummary.of_positives([0.4, 0.9])
    >>> parts = [empty.count([s for y, s in zip(*piece) if y == 0]) for piece in pieces]
    >>> merged = parts[0].merge(parts[1])
    >>> merged.between_counts.tolist(), merged.tied_counts.tolist(), round(merged.auc(), 3)
    ([2, 0, 0], [1, 0], 0.917)
    """

    scores: Floats
    positive_counts: Counts
    tied_counts: Counts
    between_counts: Counts
    lowest: tuple[float, int] = (np.inf, 0)
    highest: tuple[float, int] = (-np.inf, 0)

    @classmethod
    def of(cls, y_true: ArrayLike, y_score: ArrayLike, *, levels: ArrayLike = ()) -> "ScoreSummary":
        """The summary of labels and scores in memory.

        Args:
            y_true: labels, 1 for the critical class, shape (N,).
            y_score: scores, higher = more critical, shape (N,).
            levels: further thresholds at which negatives are counted.

        Returns:
            The summary.

        Raises:
            ValueError: a class is missing, a score is NaN, or the shapes do not fit.

        >>> ScoreSummary.of([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.9]).fpr_at_tpr(0.95)
        0.5
        """
        positive, scores = check_binary(y_true, y_score)
        return cls.of_positives(scores[positive], levels=levels).count(scores[~positive])

    @classmethod
    def of_positives(cls, scores: ArrayLike, *, levels: ArrayLike = ()) -> "ScoreSummary":
        """The summary of all positives and, so far, no negatives.

        Args:
            scores: the scores of all positives, in any order.
            levels: further thresholds at which negatives are counted.

        Returns:
            A summary to `count` negatives with.

        Raises:
            ValueError: a score is NaN or not a number.

        >>> ScoreSummary.of_positives([0.9, 0.4, 0.9]).positive_counts.tolist()
        [1, 2]
        """
        own, own_counts = np.unique(check_scores(scores) + 0, return_counts=True)
        more = check_scores(levels) + 0
        distinct = np.union1d(own, more) if len(more) else own
        size = len(distinct)
        counts = np.zeros(size, np.int64)
        counts[np.searchsorted(distinct, own)] = own_counts
        return cls(distinct, counts, np.zeros(size, np.int64), np.zeros(size + 1, np.int64))

    def count(self, negatives: ArrayLike) -> "ScoreSummary":
        """The summary with more negatives.

        Args:
            negatives: their scores, in any order.

        Returns:
            A new summary.

        Raises:
            ValueError: a score is NaN or not a number.

        >>> ScoreSummary.of_positives([0.4, 0.9]).count([0.1, 0.4]).tied_counts.tolist()
        [1, 0]
        """
        given = check_scores(negatives)
        tied, between = self.tied_counts.copy(), self.between_counts.copy()
        lowest, highest = self.lowest, self.highest
        chunk = min(max(8 * len(self.scores), CHUNKS[0]), CHUNKS[1])
        grid = ScoreGrid(self.scores)
        for start in range(0, len(given), BLOCK):
            near = given[start : start + BLOCK]
            low, high = near.min(), near.max()
            lowest = _extreme(lowest, (float(low), int(np.count_nonzero(near == low))), 1)
            highest = _extreme(highest, (float(high), int(np.count_nonzero(near == high))), -1)
            if grid.useful and len(near) > grid.cells:  # fewer are sorted faster
                near, apart = grid.apart(near)
                between += apart
            for first in range(0, len(near), chunk):
                ordered = np.sort(near[first : first + chunk])
                below = np.searchsorted(ordered, self.scores, side="left")
                reached = np.searchsorted(ordered, self.scores, side="right")
                tied += reached - below
                between += np.append(below, len(ordered)) - np.append(0, reached)
        return replace(self, tied_counts=tied, between_counts=between, lowest=lowest, highest=highest)

    def merge(self, *others: "ScoreSummary") -> "ScoreSummary":
        """The summary of the negatives of all of them; the order does not matter.

        Args:
            others: summaries that began with the same positives.

        Returns:
            A new summary.

        Raises:
            ValueError: the positives differ.

        >>> empty = ScoreSummary.of_positives([0.4])
        >>> empty.count([0.1]).merge(empty.count([0.2]), empty.count([0.5])).between_counts.tolist()
        [2, 1]
        """
        merged = self
        for other in others:
            if not (
                np.array_equal(merged.scores, other.scores)
                and np.array_equal(merged.positive_counts, other.positive_counts)
            ):
                raise ValueError(
                    "these summaries have different positives: collect the scores of all positives first, and count"
                    " every part's negatives with the one summary of them"
                )
            merged = replace(
                merged,
                tied_counts=merged.tied_counts + other.tied_counts,
                between_counts=merged.between_counts + other.between_counts,
                lowest=_extreme(merged.lowest, other.lowest, 1),
                highest=_extreme(merged.highest, other.highest, -1),
            )
        return merged

    def roc(self) -> Roc:
        """The corners of the ROC curve: the same curve as `rankreg.metrics.roc` draws, with fewer points.

        Returns:
            FPRs, TPRs and thresholds. There are two points for every distinct score of positives:
            alarm above the score, and alarm from it on. A last one alarms on every sample.

        Raises:
            ValueError: there are no positives or no negatives.

        >>> curve = ScoreSummary.of([0, 1, 0, 1], [0.1, 0.4, 0.2, 0.9]).roc()
        >>> curve.fpr.tolist(), curve.tpr.tolist()
        ([0.0, 0.0, 0.0, 1.0], [0.0, 0.5, 1.0, 1.0])
        """
        (positives, negatives), own = self.class_sizes(), self._without_levels
        caught, false = own._reached(own.positive_counts)[::-1], own._false_alarms[::-1]
        above = np.nextafter(own.scores, np.array(np.inf, dtype=own.scores.dtype))[::-1]
        corners = [
            np.stack(pair, axis=1).ravel()
            for pair in (
                (false - own.tied_counts[::-1], false),
                (caught - own.positive_counts[::-1], caught),
                (above, own.scores[::-1]),
            )
        ]
        ends = (0, negatives), (0, positives), (np.inf, self.span[0])
        false, caught, thresholds = (
            np.concatenate([[start], column, [end]]) for column, (start, end) in zip(corners, ends, strict=True)
        )
        new = np.append(True, (np.diff(false) > 0) | (np.diff(caught) > 0))
        return Roc(
            fpr=false[new] / negatives,
            tpr=caught[new] / positives,
            thresholds=thresholds[new].astype(self.scores.dtype),
        )

    def auc(self) -> float:
        """The area under the ROC curve, as `rankreg.metrics.auc` has it.

        Returns:
            The area, between 0 and 1.

        Raises:
            ValueError: there are no positives or no negatives.

        >>> ScoreSummary.of([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).auc()
        0.75
        """
        positives, negatives = self.class_sizes()
        pairs = 2 * positives * negatives
        won = sum(map(mul, self.positive_counts.tolist(), self._twice_beaten.tolist()))  # of any size
        return float(won / pairs if positives <= negatives else 1 - (pairs - won) / pairs)

    @overload
    def fpr_at_tpr(self, tpr: float) -> float: ...
    @overload
    def fpr_at_tpr(self, tpr: Sequence[float]) -> NDArray[np.float64]: ...
    def fpr_at_tpr(self, tpr: float | Sequence[float]) -> float | NDArray[np.float64]:
        """The share of negatives that raise an alarm once the wanted share of positives does.

        Args:
            tpr: the true positive rate in (0, 1], or several.

        Returns:
            The FPR, or an array with one FPR per TPR, as `rankreg.metrics.fpr_at_tpr` has them.

        Raises:
            ValueError: a TPR is not in (0, 1], or there are no positives or no negatives.

        >>> ScoreSummary.of([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).fpr_at_tpr([0.5, 1])
        array([0. , 0.5])
        """
        targets, (_, negatives) = check_tprs(tpr), self.class_sizes()
        rates = self.false_alarms(empirical_thresholds(self.positives, targets)) / negatives
        return rates if np.ndim(tpr) else float(rates[0])

    def to_dict(self) -> dict[str, Any]:
        """The summary as lists and numbers, e.g. to send a part from one machine to another.

        Returns:
            What `from_dict` takes.

        >>> sent = ScoreSummary.of([0, 1], [0.1, 0.4]).to_dict()
        >>> ScoreSummary.from_dict(sent).auc()
        1.0
        """
        arrays = {name: getattr(self, name).tolist() for name in ARRAYS}
        return {"dtype": self.scores.dtype.name, **arrays, "lowest": [*self.lowest], "highest": [*self.highest]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "ScoreSummary":
        """The summary that `to_dict` described.

        Args:
            content: lists and numbers by name.

        Returns:
            The summary.

        Raises:
            ValueError: something is missing, or the arrays do not fit together.
        """
        try:
            scores: Floats = np.array(
                content["scores"], np.float32 if content["dtype"] == "float32" else np.float64
            )
            counts = [np.array(content[name], dtype=np.int64) for name in ARRAYS[1:]]
            lowest, highest = ((float(one[0]), int(one[1])) for one in (content["lowest"], content["highest"]))
        except (KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
            raise ValueError(f"this is not a summary of scores ({error}): pass what to_dict() returned") from error
        lengths = [len(one) if one.ndim == 1 else -1 for one in (scores, *counts)]
        ascending = bool(np.all(scores[1:] > scores[:-1])) if scores.ndim == 1 else False
        if (
            lengths != [lengths[0]] * 3 + [lengths[0] + 1]
            or not ascending
            or any((one < 0).any() for one in counts)
        ):
            raise ValueError("this is not a summary of scores: its arrays do not fit together")
        return cls(scores, counts[0], counts[1], counts[2], lowest, highest)

    # What `Sample` offers too: the certified threshold and the intervals need nothing else.
    units = None
    mixed = False

    @cached_property
    def positives(self) -> Floats:
        """The scores of all positives, ascending."""
        return np.repeat(self.scores, self.positive_counts)

    @cached_property
    def positive_trials(self) -> int:
        """How many positives there are."""
        return int(self.positive_counts.sum())

    @cached_property
    def negative_trials(self) -> int:
        """How many negatives there are."""
        return int(self.tied_counts.sum() + self.between_counts.sum())

    @property
    def row_trials(self) -> int:
        """How many samples there are."""
        return self.positive_trials + self.negative_trials

    @cached_property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest score."""
        own = self.scores[self.positive_counts > 0]
        return min(self.lowest[0], float(own[0])) + 0.0, max(self.highest[0], float(own[-1])) + 0.0

    @property
    def two_valued(self) -> bool:
        """Whether every score is the lowest or the highest."""
        low, high = self.span
        at_ends = int(self.positive_counts[(self.scores == low) | (self.scores == high)].sum())
        at_ends += sum(count for score, count in {self.lowest, self.highest} if score in (low, high))
        return at_ends == self.row_trials

    def class_sizes(self) -> tuple[int, int]:
        """How many positives and negatives there are; both must be there."""
        sizes = self.positive_trials, self.negative_trials
        if not all(sizes):
            missing = "positives" if not sizes[0] else "negatives"
            kind = "negative" if missing == "positives" else "positive"
            raise ValueError(
                f"undefined without {missing}: all {sum(sizes):,} samples are {kind}; give samples of both classes"
            )
        return sizes

    def judged(self, per: Per) -> Judged:
        """The positives, whose recall is promised.

        Args:
            per: "row"; a summary knows no units.
        """
        if per != "row":
            raise ValueError(
                f"a summary of scores knows no units, and can promise a recall of rows only, not {per!r}"
            )
        return Judged(self.positives, self.positive_trials)

    def alarms(self, threshold: float) -> tuple[int, int]:
        """How many positives and negatives reach the threshold.

        Args:
            threshold: the score of a positive or a level, see `false_alarms`.
        """
        caught = int(self.positive_counts[self.scores >= threshold].sum())
        return caught, int(self.false_alarms(np.array([threshold]))[0])

    def false_alarms(self, thresholds: Floats) -> Counts:
        """How many negatives reach each threshold.

        Args:
            thresholds: scores of positives, or levels. Between two of them the number is known only if no
                negative is there.
        """
        place = np.searchsorted(self.scores, thresholds)
        known = np.isin(thresholds, self.scores) | (self.between_counts[place] == 0)
        known |= (thresholds <= self.lowest[0]) | (thresholds > self.highest[0])
        if not known.all():
            raise ValueError(
                f"this summary cannot tell how many negatives reach {thresholds[~known][0]:.6g}: it counts them at"
                " scores of positives and at its levels only. Make it with this level, or pass labels and scores"
            )
        above = np.append(self._false_alarms, self.between_counts[-1])[place]
        inside = np.where(thresholds <= self.lowest[0], self.negative_trials, above)
        return np.where(thresholds > self.highest[0], 0, inside)

    def components(self) -> list[tuple[NDArray[np.float64], Counts]]:
        """DeLong's structural components of positives and of negatives, with how often each occurs."""
        own = self._without_levels
        beats = own._twice_beaten / (2 * self.negative_trials)
        below = np.append(0, np.cumsum(own.positive_counts))
        at, between = below[:-1] + below[1:], 2 * below
        beaten = 1 - np.concatenate([at, between]) / (2 * self.positive_trials)
        return [(beats, own.positive_counts), (beaten, np.concatenate([own.tied_counts, own.between_counts]))]

    @cached_property
    def _without_levels(self) -> "ScoreSummary":
        """The same at scores of positives only, so that levels change no number, not even its last bit."""
        places = np.flatnonzero(self.positive_counts)
        if len(places) == len(self.scores):
            return self
        each = np.append(
            0,
            np.cumsum(
                np.append(np.stack([self.between_counts[:-1], self.tied_counts], 1), self.between_counts[-1])
            ),
        )
        between = each[np.append(2 * places + 1, -1)] - each[np.append(0, 2 * places + 2)]
        return replace(
            self,
            scores=self.scores[places],
            positive_counts=self.positive_counts[places],
            tied_counts=self.tied_counts[places],
            between_counts=between,
        )

    @cached_property
    def _false_alarms(self) -> Counts:
        """How many negatives reach each of the scores."""
        return self._reached(self.tied_counts + self.between_counts[1:])

    @cached_property
    def _twice_beaten(self) -> Counts:
        """Twice the number of negatives below each of the scores; those that are tied count half."""
        return 2 * (self.negative_trials - self._false_alarms) + self.tied_counts

    @staticmethod
    def _reached(counts: Counts) -> Counts:
        return np.cumsum(counts[::-1])[::-1]


ARRAYS = ("scores", "positive_counts", "tied_counts", "between_counts")
Evidence = Sample | ScoreSummary


def evidence(
    y_true: "ArrayLike | ScoreSummary", y_score: ArrayLike | None = None, units: ArrayLike | None = None
) -> Evidence:
    """What a promise rests on, checked once: labels and scores, or a summary of them.

    Scores that are all equal are refused, since every threshold alarms on all or on none.
    """
    if not isinstance(y_true, ScoreSummary):
        if y_score is None:
            raise ValueError("pass labels and scores, or a ScoreSummary alone: y_score is missing")
        return Sample.of(y_true, y_score, units)
    if y_score is not None or units is not None:
        raise ValueError("a ScoreSummary holds labels and scores already, and no units: pass it alone")
    total = sum(y_true.class_sizes())
    if y_true.span[0] == y_true.span[1]:
        raise ValueError(f"all {total} scores equal {y_true.span[0]}: they tell no sample from another")
    return y_true


def _extreme(one: tuple[float, int], other: tuple[float, int], sign: int) -> tuple[float, int]:
    """The lower (sign 1) or the higher (−1) of two scores with their counts; of equal ones, both counts."""
    if one[1] and other[1] and one[0] == other[0]:
        return one[0], one[1] + other[1]
    return min((found for found in (one, other) if found[1]), key=lambda found: sign * found[0], default=one)
