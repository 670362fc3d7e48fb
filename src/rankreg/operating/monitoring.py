"""Watching a deployed threshold: has its recall fallen? Valid at every moment one looks (docs/decisions/0024)."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.metrics import Floats, check_scores
from rankreg.notation import Record, percent
from rankreg.operating.certification import certify
from rankreg.operating.guarantees import NotEnoughPositives, bounds, check_share, check_target
from rankreg.operating.intervals import Interval
from rankreg.operating.points import OperatingPoint
from rankreg.operating.units import Per, Sample, Trials, rows_of, unit_codes, units_of

DRAWS, LONGEST = 2000, 10_000  # simulated continuations of a stream, and their length
ODDS_RATIOS = 2.0 ** np.arange(0.5, 5.25, 0.5)  # how much likelier a miss may have become: 1.4 to 32 times

VERIFICATION_BIAS = (
    "positives below the threshold are rarely looked at, so they are rarely confirmed. Among confirmed positives"
    " the recall looks better than it is, so no alarm is no proof. Confirm a random share of the negatives too"
)


class StreamRecord(Record):
    """What a stream has come to. Its arrays are left out of the dictionary."""

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays."""
        arrays = ("path", "times", "bets", "sizes")
        return {name: value for name, value in super().to_dict().items() if name not in arrays}


@dataclass(frozen=True)
class Watch(StreamRecord):
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
        first_time: when the first positive was confirmed; None without times.
        last_time: when the last one was; None without times.
        alarm_time: when the TPR was ruled out; None without times or without an alarm.
        times: the time of each entry of `path`; for a unit, when all its rows were in.
        bets: the evidence now for each odds ratio, as logarithms.
        sizes: the rows of each unit, relative to the largest unit.
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
    first_time: str | None = None
    last_time: str | None = None
    alarm_time: str | None = None
    times: NDArray[Any] | None = field(default=None, repr=False, compare=False)
    bets: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    sizes: NDArray[np.float64] = field(default_factory=lambda: np.ones(1), repr=False, compare=False)


def monitor(
    scores: ArrayLike,
    *,
    threshold: float,
    tpr: float = 0.95,
    level: float = 0.05,
    verified_below: float = 1.0,
    units: ArrayLike | None = None,
    per: Per = "row",
    times: ArrayLike | None = None,
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
        times: when each positive was confirmed, ascending: numbers or numpy dates (datetime64).

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
    check_level(level)
    if not 0 < verified_below <= 1:
        raise ValueError(
            f"verified_below must lie in (0, 1], got {verified_below!r}: 1 means without regard to score"
        )
    if np.isnan(threshold):
        raise ValueError("threshold is NaN: pass the deployed threshold")
    values = stream_scores(scores, "confirmed positive")
    if per not in ("row", "unit"):
        raise ValueError(f'per must be "row" or "unit", got {per!r}')
    if per == "unit" and units is None:
        raise ValueError('per="unit" watches a recall of units: pass them as units=, one value per positive')
    codes = np.arange(len(values)) if units is None else unit_codes(units, len(values))
    below, rows = (np.bincount(codes, weights).astype(np.float64) for weights in (values < threshold, None))
    if per == "unit":
        below, rows = (below == rows).astype(np.float64), np.ones(len(rows))
    evidence, bets = log_evidence(below / rows, miss_rate_of(tpr, verified_below), rows / rows.max())
    when = None if times is None else check_times(times, len(values))
    known = None
    if when is not None:  # when each unit and all units before it had all their rows
        last = np.full(codes.max() + 1, when[0])
        np.maximum.at(last, codes, when)
        known = np.maximum.accumulate(last)
    return Watch(
        threshold=float(threshold),
        tpr=tpr,
        level=level,
        verified_below=verified_below,
        positives=len(values),
        misses=int(below.sum()),
        recall=float(1 - below.sum() / rows.sum()),
        warning=VERIFICATION_BIAS,
        units=None if units is None else len(rows),
        per=per,
        **alarm_record(evidence, level, when, known),
        bets=bets,
        sizes=rows / rows.max(),
    )


def check_level(level: float) -> None:
    """The chance of ever raising a false alarm."""
    check_share(level, "level", "write 0.05 for one false alarm in twenty such streams")


def stream_scores(scores: ArrayLike, what: str) -> Floats:
    """The scores of a stream, at least one."""
    values = check_scores(scores)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"expected the scores of at least one {what}, shape (N,), got {values.shape}")
    return values


def check_times(times: ArrayLike, count: int) -> NDArray[Any]:
    """One number or date per row, ascending."""
    found = np.asarray(times)
    if found.shape != (count,) or found.dtype.kind not in "iufM":
        raise ValueError(
            f"expected {count:,} times, numbers or numpy dates, got {found.dtype} of shape {found.shape}"
        )
    if np.any(found[1:] < found[:-1]) or np.any(found != found):
        raise ValueError("times must ascend and none may be missing: sort the rows by time first")
    return found


def time_texts(times: NDArray[Any]) -> list[str]:
    """Dates as 2025-01-31, with the time of the day if any has one; other numbers as they are."""
    if times.dtype.kind != "M":
        return [f"{time:.15g}" for time in times.tolist()]
    seconds = times.astype("datetime64[s]")
    whole_days = bool(np.all(seconds == seconds.astype("datetime64[D]")))
    return [str(time).replace("T", " ") for time in (seconds.astype("datetime64[D]") if whole_days else seconds)]


def alarm_record(
    evidence: NDArray[np.float64], level: float, times: NDArray[Any] | None, steps: NDArray[Any] | None
) -> dict[str, Any]:
    """The evidence of a stream, given as logarithms, and when it raised the alarm.

    times: of the rows, if they are known; steps: of the evidence.
    """
    with np.errstate(over="ignore"):
        path: NDArray[np.float64] = np.exp(evidence)
    alarms = np.flatnonzero(evidence >= -np.log(level))
    alarm_at = int(alarms[0]) + 1 if len(alarms) else None
    found = {"e_value": float(path[-1]), "largest_e_value": float(path.max()), "alarm_at": alarm_at}
    if times is None or steps is None:
        return found | {"path": path}
    first, last, alarm = time_texts(np.array([times[0], times[-1], steps[(alarm_at or 1) - 1]]))
    texts = {"first_time": first, "last_time": last, "alarm_time": alarm if alarm_at else None}
    return found | texts | {"path": path, "times": steps}


def positives_until_alarm(watch: Watch, *, recall: float | None = None, draws: int = DRAWS, seed: int = 0) -> float:
    """How many more confirmed positives it takes, on average, until a fallen recall raises the alarm.

    The stream goes on from where it is, with the recall given from now on, in simulation. The mean
    over 2,000 continuations is known to about 2 %. A unit counts as one, has as many rows as one
    of those seen, and is missed or caught as a whole: the slowest case.

    Args:
        watch: what `monitor` found so far.
        recall: the recall from now on. Default: three times as many misses as promised, e.g. 85 %
            where 95 % was promised.
        draws: how many continuations are simulated, default 2,000.
        seed: of the simulation; the same seed gives the same number.

    Returns:
        The mean number of positives, or of units where the watch has units. 0 if the alarm was
        raised; infinite if it takes more than 10,000 in over 1 % of the continuations.

    Raises:
        ValueError: the recall is not below the one promised, or the settings make no sense.

    >>> watch = monitor([1.0] * 50, threshold=0.0, tpr=0.95)
    >>> 30 < positives_until_alarm(watch, recall=0.85) < positives_until_alarm(watch, recall=0.9)
    True
    """
    fallen = fallen_recall(watch.tpr) if recall is None else recall
    if not 0 <= fallen < watch.tpr:
        raise ValueError(f"recall must be at least 0 and below {watch.tpr:g}, the one promised, got {fallen!r}")
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    if watch.alarm_at is not None:
        return 0.0
    miss_rate, actual = (miss_rate_of(share, watch.verified_below) for share in (watch.tpr, fallen))
    stakes, alike = _stakes(miss_rate)[:, None], np.ptp(watch.sizes) == 0
    generator = np.random.default_rng(seed)
    bets = np.repeat(np.exp(watch.bets)[:, None], draws, axis=1)
    total, alive = 0, draws
    for step in range(1, LONGEST + 1):
        time = len(watch.path) + step
        missed = generator.random(alive) < actual
        weights = 1.0 if alike else generator.choice(watch.sizes, alive)
        bets = (bets + 1 / (time * (time + 1))) * (1 + stakes * weights * (missed - miss_rate))
        quiet = bets.mean(axis=0) + 1 / (time + 1) < 1 / watch.level
        total += alive  # every continuation without an alarm so far has gone one positive further
        bets, alive = bets[:, quiet], int(np.count_nonzero(quiet))
        if not alive:
            break
    return total / draws if alive <= 0.01 * draws else np.inf


def fallen_recall(tpr: float) -> float:
    """The fall that a watch names: three times as many misses as promised, or half the recall if that is more."""
    return round(max(1 - 3 * (1 - tpr), tpr / 2), 9)


def log_evidence(
    missed: NDArray[np.bool_] | NDArray[np.float64],
    miss_rate: float,
    weights: NDArray[np.float64] | float = 1.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The logarithm of an e-process against "the share missed is at most miss_rate", and what each bet has come to.

        E_t = Σ_q Σ_(j ≤ t) w_q v_j Π_(i = j … t) L_i(q) + 1 / (t + 1)

        L(q) = 1 + weight · (missed − p) · (q − p) / (p (1 − p));    p: miss_rate;    v_j = 1 / (j (j + 1))

    missed: 0 or 1 for a single positive, where L is q / p on a miss and (1 − q) / (1 − p)
    otherwise; or the share of a unit's rows, weighted by its size relative to the largest. A
    mixture over what the miss rate may have become (q) and since when (j). Each product is a
    supermartingale if the weighted share missed is expected to be at most p, and the weights sum to
    1, so P(E_t ≥ 1 / level for any t) ≤ level (Ville). Along the last axis. There is one bet for each q.
    """
    time = np.arange(1, missed.shape[-1] + 1)
    starts = -np.log(time) - np.log1p(time)
    total = -np.log1p(time)  # the weight of falls yet to come, on which nothing has been staked
    bets = []
    for stake in _stakes(miss_rate):
        steps = np.log1p(stake * weights * (missed - miss_rate))
        sums = steps.cumsum(axis=-1)
        since = np.logaddexp.accumulate(starts - sums + steps, axis=-1)
        total = np.logaddexp(total, sums + since - np.log(len(ODDS_RATIOS)))
        bets.append((sums + since)[..., -1])
    return np.asarray(total), np.array(bets)


def _stakes(miss_rate: float) -> NDArray[np.float64]:
    """(q − p) / (p (1 − p)) for every rate q that a miss may have come to."""
    odds = ODDS_RATIOS * miss_rate / (1 - miss_rate)
    return np.asarray((odds / (1 + odds) - miss_rate) / (miss_rate * (1 - miss_rate)))


def miss_rate_of(tpr: float, verified_below: float) -> float:
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
    low, high = bounds(np.array(successes), trials, confidence)
    return Interval(successes / rows_of(trials), float(low), float(high), confidence)
