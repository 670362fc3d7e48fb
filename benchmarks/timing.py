"""Ratios that hold on a noisy machine: candidates take turns, and the best of many rounds counts."""

from collections.abc import Callable
from time import perf_counter

Work = Callable[[], object]


def best_times(candidates: dict[str, Work], *, seconds: float = 1.0, least_rounds: int = 5) -> dict[str, float]:
    """The shortest time of each candidate, in seconds, over rounds in which all take turns."""
    for work in candidates.values():
        work()
    best = dict.fromkeys(candidates, float("inf"))
    start, rounds = perf_counter(), 0
    while rounds < least_rounds or perf_counter() - start < seconds:
        for name, work in candidates.items():
            before = perf_counter()
            work()
            best[name] = min(best[name], perf_counter() - before)
        rounds += 1
    return best


def duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def verdict(ratio: float, at_most: float) -> str:
    """A ratio beside its target."""
    return f"{ratio:.2f} × ({'met' if ratio <= at_most else 'MISSED'}: ≤ {at_most:g})"
