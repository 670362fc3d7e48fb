"""Watching a deployed threshold: has its recall fallen? Valid at every moment one looks (docs/decisions/0024)."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.metrics import check_scores
from rankreg.notation import Record, percent
from rankreg.operating.certification import certify
from rankreg.operating.guarantees import NotEnoughPositives, check_share, check_target, lower_bound, upper_bound
from rankreg.operating.intervals import Interval
from rankreg.operating.points import OperatingPoint
from rankreg.operating.units import Per, Sample, Trials, rows_of, unit_codes, units_of

ODDS_RATIOS = 2.0 ** np.arange(0.5, 5.25, 0.5)  # how much likelier a miss may have become: 1.4 to 32 times

VERIFICATION_BIAS = (
    "positives below the threshold are rarely looked at, so rarely confirmed: among confirmed positives the recall"
    " looks better than it is, and no alarm is no proof; confirm a random share of the negatives too"
)


@dataclass(frozen=True)
class Watch(Record):
    """What a stream of confirmed positives says about a deployed threshold.

    Attributes:
        threshold: the deployed threshold.
        tpr: the recall that was promised.
        level: the chance of ever raising a false alarm.
        verified_below: as for `monitor`.
        positives: how many positives were confirmed.
        misses: positive rows below the threshold; with per="unit", units without any row above it.
        recall: the share observed.
        e_value: the evidence now, against 1 / level for an alarm.
        largest_e_value: the most evidence there was.
        alarm_at: after how many positives, or units, the TPR was ruled out; None if it was not.
        warning: why no alarm is no proof.
        path: the evidence after each positive, or each unit in the order of their first rows.
        units: how many units there were; None if none were given.
        per: "row" or "unit".
    """

    threshold: float
    tpr: float
    level: float
    verified_below: float
    positives: int
    misses: int
    recall: float
    e_value: float
    largest_e_value: float
    alarm_at: int | None
    warning: str
    path: NDArray[np.float64] = field(repr=False, compare=False)
    units: int | None = None
    per: Per = "row"

    def to_dict(self) -> dict[str, Any]:
        """All but the path."""
        return {name: value for name, value in super().to_dict().items() if name != "path"}


def monitor(
    scores: ArrayLike,
    *,
    threshold: float,
    tpr: float = 0.95,
    level: float = 0.05,
    verified_below: float = 1.0,
    units: ArrayLike | None = None,
    per: Per = "row",
) -> Watch:
    """Test, after every confirmed positive, whether the recall at the threshold has fallen below the TPR.

    The test is valid at every moment, however often one looks (docs/decisions/0024).

    Args:
        scores: those of the confirmed positives, in the order in which they were confirmed.
        threshold: the deployed threshold.
        tpr: the recall that was promised, default 0.95.
        level: the chance of ever raising a false alarm, however long the stream is; default 0.05.
        verified_below: how likely a positive below the threshold is to be confirmed, relative to
            one above it. 1 (default) if confirmation does not look at the score; 0.1 if one in ten
            of the samples below is checked at random. Near 0, the usual case, no test can see a
            fall.
        units: one value per confirmed positive, the same for rows that are not independent. A unit
            counts once, with all its rows: leave a unit out until its rows are in.
        per: the promise to watch, as for `certify`. Per row a unit weighs by its rows, relative to
            the largest unit of the stream. Later units are taken to be no larger.

    Returns:
        The evidence, and when it raised the alarm.

    Raises:
        ValueError: the scores or settings make no sense.

    >>> monitor([1.0] * 50, threshold=0.0).alarm_at is None
    True
    >>> monitor([-1.0] * 50, threshold=0.0).alarm_at
    2
    """
    check_target(tpr)
    check_share(level, "level", "write 0.05 for one false alarm in twenty such streams")
    if not 0 < verified_below <= 1:
        raise ValueError(
            f"verified_below must lie in (0, 1], got {verified_below!r}: 1 means without regard to score"
        )
    if np.isnan(threshold):
        raise ValueError("threshold is NaN: pass the deployed threshold")
    values = check_scores(scores)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"expected the scores of at least one confirmed positive, shape (N,), got {values.shape}")
    if per not in ("row", "unit"):
        raise ValueError(f'per must be "row" or "unit", got {per!r}')
    if per == "unit" and units is None:
        raise ValueError('per="unit" watches a recall of units: pass them as units=, one value per positive')
    below, rows = _by_unit(values < threshold, units)
    if per == "unit":
        below, rows = (below == rows).astype(np.float64), np.ones(len(rows))
    evidence = log_evidence(below / rows, _miss_rate(tpr, verified_below), rows / rows.max())
    with np.errstate(over="ignore"):
        path: NDArray[np.float64] = np.exp(evidence)
    alarms = np.flatnonzero(evidence >= -np.log(level))
    return Watch(
        threshold=float(threshold),
        tpr=tpr,
        level=level,
        verified_below=verified_below,
        positives=len(values),
        misses=int(below.sum()),
        recall=float(1 - below.sum() / rows.sum()),
        e_value=float(path[-1]),
        largest_e_value=float(path.max()),
        alarm_at=int(alarms[0]) + 1 if len(alarms) else None,
        warning=VERIFICATION_BIAS,
        path=path,
        units=None if units is None else len(rows),
        per=per,
    )


def _by_unit(missed: NDArray[np.bool_], units: ArrayLike | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many rows each unit misses and has, in the order of the units' first rows."""
    if units is None:
        return missed.astype(np.float64), np.ones(len(missed))
    codes = unit_codes(units, len(missed))
    return np.bincount(codes, missed).astype(np.float64), np.bincount(codes).astype(np.float64)


def log_evidence(
    missed: NDArray[np.bool_] | NDArray[np.float64],
    miss_rate: float,
    weights: NDArray[np.float64] | float = 1.0,
) -> NDArray[np.float64]:
    """The logarithm of an e-process against "the share missed is at most miss_rate".

        E_t = Σ_q Σ_(j ≤ t) w_q v_j Π_(i = j … t) L_i(q) + 1 / (t + 1)

        L(q) = 1 + weight · (missed − p) · (q − p) / (p (1 − p));    p: miss_rate;    v_j = 1 / (j (j + 1))

    missed: 0 or 1 for a single positive, where L is q / p on a miss and (1 − q) / (1 − p)
    otherwise; or the share of a unit's rows, weighted by its size relative to the largest. A
    mixture over what the miss rate may have become (q) and since when (j). Each product is a
    supermartingale if the weighted share missed is expected to be at most p, and the weights sum to
    1, so P(E_t ≥ 1 / level for any t) ≤ level (Ville). Along the last axis.
    """
    odds = ODDS_RATIOS * miss_rate / (1 - miss_rate)
    rates = odds / (1 + odds)
    time = np.arange(1, missed.shape[-1] + 1)
    starts = -np.log(time) - np.log1p(time)
    total = -np.log1p(time)  # the weight of falls yet to come, on which nothing has been staked
    for rate in rates:
        stake = (rate - miss_rate) / (miss_rate * (1 - miss_rate))
        steps = np.log1p(stake * weights * (missed - miss_rate))
        sums = steps.cumsum(axis=-1)
        since = np.logaddexp.accumulate(starts - sums + steps, axis=-1)
        total = np.logaddexp(total, sums + since - np.log(len(rates)))
    return np.asarray(total)


def _miss_rate(tpr: float, verified_below: float) -> float:
    """The share of misses among *confirmed* positives when the recall is just the TPR."""
    missed = (1 - tpr) * verified_below
    return missed / (missed + tpr)


@dataclass(frozen=True)
class Recertification(Record):
    """The deployed threshold on new labelled scores, and the threshold that they certify.

    Attributes:
        deployed_threshold: the one in use.
        recall: that of the deployed threshold. Each bound holds with the confidence.
        fpr: that of the deployed threshold. Each bound holds with the confidence.
        verdict: "holds" if the recall's lower bound reaches the TPR, "fallen" if its upper bound
            stays below it, otherwise "undecided".
        sentence: the verdict in words.
        point: the new certified point; None where the new positives are too few.
        uncertified_because: why there is no point; otherwise None.
        positives: how many new positives there were.
        units: how many units they belong to; None if none were given.
        per: "row" or "unit".
    """

    deployed_threshold: float
    recall: Interval
    fpr: Interval
    verdict: Literal["holds", "fallen", "undecided"]
    sentence: str
    point: OperatingPoint | None
    uncertified_because: str | None
    positives: int
    units: int | None = None
    per: Per = "row"


def recertify(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    threshold: float,
    tpr: float = 0.95,
    confidence: float = 0.95,
    prevalence: float | None = None,
    units: ArrayLike | None = None,
    per: Per = "row",
) -> Recertification:
    """Check the deployed threshold on new labelled scores, and certify a new one on them.

    Args:
        y_true: labels, 1 for the critical class.
        y_score: scores, higher = more critical.
        threshold: the deployed threshold.
        tpr: the target recall, default 0.95.
        confidence: of each bound and of the new guarantee, default 0.95.
        prevalence: share of positives where it will be used; default: that of the sample.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.
        per: "row" (default) or "unit", as for `certify`.

    Returns:
        The verdict on the deployed threshold, and the new point.

    Raises:
        ValueError: the labels, scores or settings make no sense.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> recertify(labels, scores, threshold=800).verdict
    'holds'
    """
    if np.isnan(threshold):
        raise ValueError("threshold is NaN: pass the deployed threshold")
    sample = Sample.of(y_true, y_score, units)
    judged = sample.judged(per)
    point, because = None, None
    try:
        point = certify(
            y_true, y_score, tpr=tpr, confidence=confidence, prevalence=prevalence, units=units, per=per
        )
    except NotEnoughPositives as error:  # a fall can be proved with fewer positives than a certificate needs
        because = str(error)
    recall = _rate(int(np.count_nonzero(judged.scores >= threshold)), judged.trials, confidence)
    verdict: Literal["holds", "fallen", "undecided"] = "undecided"
    if recall.low >= tpr:
        verdict = "holds"
    elif recall.high < tpr:
        verdict = "fallen"
    sentences = {
        "holds": f"The deployed threshold still has a recall of at least {percent(tpr)}",
        "fallen": f"The recall of the deployed threshold has fallen below {percent(tpr)}",
        "undecided": f"These samples neither confirm nor rule out that the recall is still {percent(tpr)}",
    }
    return Recertification(
        deployed_threshold=float(threshold),
        recall=recall,
        fpr=_rate(sample.alarms(threshold)[1], sample.negative_trials, confidence),
        verdict=verdict,
        sentence=sentences[verdict],
        point=point,
        uncertified_because=because,
        positives=len(sample.positives),
        units=units_of(judged.trials),
        per=per,
    )


def _rate(successes: int, trials: Trials, confidence: float) -> Interval:
    """A share with its two one-sided bounds."""
    low, high = lower_bound(successes, trials, confidence), upper_bound(successes, trials, confidence)
    return Interval(successes / rows_of(trials), low, high, confidence)
