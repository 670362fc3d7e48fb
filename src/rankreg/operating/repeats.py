"""Means over repeats, such as training splits, and differences paired over them, with Student's intervals."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

CONFIDENCE = 0.95
POWER = 0.8


@dataclass(frozen=True)
class Estimate:
    """A mean over repeats and its 95 % interval; None where one repeat leaves no interval."""

    mean: float
    low: float | None
    high: float | None

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def reach(self) -> float | None:
        """Half the interval's width."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def mean_of(values: ArrayLike) -> Estimate:
    """mean ± t · s / √n, the usual interval for the mean of n normal values."""
    from scipy.special import stdtrit

    numbers = np.asarray(values, dtype=np.float64)
    mean, count = float(numbers.mean()), len(numbers)
    if count < 2:
        return Estimate(mean, None, None)
    reach = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2) * numbers.std(ddof=1) / math.sqrt(count))
    return Estimate(mean, mean - reach, mean + reach)


def p_value(differences: ArrayLike) -> float | None:
    """Student's two-sided p-value of paired differences; None with fewer than two."""
    from scipy.special import stdtr

    numbers = np.asarray(differences, dtype=np.float64)
    count = len(numbers)
    if count < 2:
        return None
    mean, error = float(numbers.mean()), float(numbers.std(ddof=1)) / math.sqrt(count)
    if error == 0:
        return float(mean == 0)  # without any spread the difference is certain, one way or the other
    return float(2 * stdtr(count - 1, -abs(mean) / error))


def detectable(differences: ArrayLike) -> float | None:
    """The smallest true difference that so many pairs with this spread find with 80 % power at the 5 % level.

        δ · s / √n,    P(T(n − 1, δ) > t) = 0.8,    t the quantile of Student's interval

    T: noncentral t; the other tail's share is negligible. None with fewer than two pairs or none that differ.
    """
    from scipy.special import nctdtrinc, stdtrit

    numbers = np.asarray(differences, dtype=np.float64)
    count = len(numbers)
    if count < 2 or np.ptp(numbers) == 0:
        return None
    shift = nctdtrinc(count - 1, 1 - POWER, stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    return float(shift * numbers.std(ddof=1) / math.sqrt(count))


def still_significant(p_values: ArrayLike) -> int:
    """How many of several p-values stay below 5 % by Holm's correction for their number."""
    ordered = np.sort(np.asarray(p_values, dtype=np.float64))
    passed = ordered <= (1 - CONFIDENCE) / (len(ordered) - np.arange(len(ordered)))
    return len(ordered) if passed.all() else int(passed.argmin())


def standard_deviation(values: ArrayLike) -> float | None:
    """Of a sample, with n − 1; None with fewer than two."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.std(ddof=1)) if len(numbers) > 1 else None
