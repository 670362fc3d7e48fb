"""Drift: have the scores changed? An early warning without labels, not about the recall (docs/decisions/0029)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rankreg.metrics import Floats
from rankreg.operating.monitoring import StreamRecord, alarm_record, check_level, check_times, stream_scores

# Beta densities, each a bet on how places among earlier scores may spread
BETS = np.array(
    [(1, 1)]  # as before; then higher, higher, lower, lower, wider, narrower, each boldly and mildly
    + [bet for f in (0.5, 0.8) for bet in [(1, f), (1 / f, 1), (f, 1), (1, 1 / f), (f, f), (1 / f, 1 / f)]]
)
JUMP = 0.003  # how much of each bet is dealt out again among all bets after every score
SMALLEST = 1e-15  # a place is neither 0 nor 1


@dataclass(frozen=True)
class Drift(StreamRecord):
    """What a stream of scores without labels says about their distribution. It says nothing of the recall.

    Attributes:
        level: the chance of ever raising a false alarm.
        reference: how many reference scores there were.
        scores: how many new scores there were.
        e_value: the evidence now, against 1 / level for an alarm.
        largest_e_value: the most evidence there was.
        alarm_at: after how many new scores the drift was shown; None if it was not.
        above_median: the share of new scores above the median of the reference; one half without drift.
        path: the evidence after each new score.
        first_time: the time of the first new score; None without times.
        last_time: that of the last one; None without times.
        alarm_time: when the drift was shown; None without times or without an alarm.
        times: the time of each entry of `path`; None without times.
    """

    level: float
    reference: int
    scores: int
    e_value: float
    largest_e_value: float
    alarm_at: int | None
    above_median: float
    path: NDArray[np.float64] = field(repr=False, compare=False)
    first_time: str | None = None
    last_time: str | None = None
    alarm_time: str | None = None
    times: NDArray[Any] | None = field(default=None, repr=False, compare=False)


def drift(
    reference: ArrayLike,
    scores: ArrayLike,
    *,
    level: float = 0.05,
    times: ArrayLike | None = None,
    seed: int = 0,
) -> Drift:
    """Test, after every new score, whether scores still come as in the reference. No labels are needed.

    A conformal test martingale: the place of each new score among all scores before it is uniform
    and independent of the others unless the distribution has changed. The bets against this are
    valid at every moment, however often one looks (docs/decisions/0029).

    Drift is a reason to look, not a fall of the recall: rare positives may change unseen among many
    negatives, and negatives may change while the recall holds.

    Args:
        reference: scores from when all was well, e.g. those that certified the threshold. They
            must have come as the new ones do: with the same share of positives, and not a selection.
        scores: the new ones, in the order in which they came.
        level: the chance of ever raising a false alarm, however long the stream is; default 0.05.
        times: when each new score came, ascending: numbers or numpy dates (datetime64). Scores of
            one time are taken in random order.
        seed: of the random places of equal scores, and of the order within one time.

    Returns:
        The evidence, and when it raised the alarm.

    Raises:
        ValueError: the scores or settings make no sense.

    >>> drift(range(1000), [370 * n % 1000 for n in range(30)]).alarm_at is None
    True
    >>> drift(range(1000), [990] * 30).alarm_at is None
    False
    """
    check_level(level)
    before, new = stream_scores(reference, "reference sample"), stream_scores(scores, "new sample")
    generator = np.random.default_rng(seed)
    chances = generator.random((len(new), 2))  # a longer stream begins with the same numbers
    when = None if times is None else check_times(times, len(new))
    if when is not None:
        new = new[np.lexsort((chances[:, 1], when))]
    evidence = log_drift_evidence(places(before, new, chances[:, 0]))
    median = np.median(before)
    return Drift(
        level=level,
        reference=len(before),
        scores=len(new),
        above_median=float(np.mean(new > median) + np.mean(new == median) / 2),
        **alarm_record(evidence, level, when, when),
    )


def places(reference: Floats, scores: Floats, chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each new score among all scores up to it, between 0 (lowest) and 1: a conformal p-value.

        (#lower + u · #equal) / #all,    each score itself included;    u: a chance for each score

    Independent and uniform if all scores are exchangeable.
    """
    lower, equal = _earlier(np.concatenate([reference, scores]))
    seen = np.arange(len(reference) + 1, len(lower) + 1)
    return np.asarray((lower[len(reference) :] + chances * (equal[len(reference) :] + 1)) / seen[: len(scores)])


def log_drift_evidence(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of a martingale against "these places are uniform and independent".

        E_t = Σ_k c_k(t),    c_k(t) = b_k(place_t) · ((1 − J) c_k(t − 1) + J E_(t − 1) / K),    c_k(0) = 1 / K

    b_k: K Beta densities. They integrate to 1, so the mean of E stays 1 and P(E_t ≥ 1 / level for
    any t) ≤ level (Ville). J lets the bets change with what comes. Along the last axis.
    """
    inside = np.clip(found, SMALLEST, 1 - SMALLEST)[..., None]
    high, low = BETS.T
    densities = np.exp((high - 1) * np.log(inside) + (low - 1) * np.log1p(-inside) - special.betaln(high, low))
    shares = np.full(densities[..., 0, :].shape, 1 / len(BETS))
    growth = np.empty(found.shape)
    for step in range(found.shape[-1]):  # shares sum to 1, so nothing overflows in a long stream
        shares = densities[..., step, :] * ((1 - JUMP) * shares + JUMP / len(BETS))
        growth[..., step] = total = shares.sum(axis=-1)
        shares /= total[..., None]
    return np.asarray(np.log(growth).cumsum(axis=-1))


def _earlier(values: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each value, how many before it are lower and how many are equal; a pass for each digit of the ranks."""
    codes = np.unique(values, return_inverse=True)[1]
    order, lower = np.arange(len(codes)), np.zeros(len(codes), dtype=np.int64)
    for digit in reversed(range(int(codes.max()).bit_length())):
        ordered = codes[order]  # values that share all higher digits lie together, earlier ones first
        one = (ordered >> digit) & 1
        zeros = np.cumsum(1 - one)
        first = np.searchsorted(ordered >> (digit + 1), ordered >> (digit + 1))
        lower[order] += one * (zeros - np.append(0, zeros)[first])
        order = order[np.argsort(ordered >> digit, kind="stable")]
    ordered, equal = codes[order], np.empty_like(lower)
    equal[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return lower, equal
