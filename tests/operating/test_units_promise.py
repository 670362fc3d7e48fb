"""The promises over units, by simulation: 1,000 draws or more of every setting (docs/decisions/0026)."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from rankreg.operating import compare, monitor, positives_needed
from rankreg.operating.guarantees import bounds, certified_rank
from rankreg.operating.monitoring import log_evidence
from rankreg.operating.units import UnitSizes

pytestmark = pytest.mark.slow
Reals = NDArray[np.float64]
DRAWS = 1000


def allowed(risk: float, draws: int = DRAWS) -> float:
    """The risk plus three standard errors of the simulation."""
    return risk + 3 * float(np.sqrt(risk * (1 - risk) / draws))


def normal_scores(sizes: NDArray[np.int64], correlation: float, generator: np.random.Generator) -> Reals:
    """One row of scores per draw: standard normal, correlated within units."""
    of_units = np.repeat(generator.standard_normal((DRAWS, len(sizes))), sizes, axis=1)
    of_rows = generator.standard_normal((DRAWS, int(sizes.sum())))
    return np.asarray(np.sqrt(correlation) * of_units + np.sqrt(1 - correlation) * of_rows)


def heavy_scores(sizes: NDArray[np.int64], correlation: float, generator: np.random.Generator) -> Reals:
    """The same, through the normal distribution to Student's with one degree of freedom."""
    return np.asarray(stats.cauchy.ppf(stats.norm.cdf(normal_scores(sizes, correlation, generator))))


def falls_short(
    scores: Reals, rank: int, tpr: float, recall: Callable[[Reals], Reals] = lambda t: stats.norm.sf(t)
) -> float:
    """How often the rank-th lowest score has a recall below the TPR in the population."""
    thresholds = np.partition(scores, rank - 1, axis=1)[:, rank - 1]
    return float(np.mean(recall(thresholds) < tpr - 1e-12))


@pytest.mark.parametrize(
    ("units", "rows", "correlation", "tpr", "before"),
    [
        (24, 5, 1.0, 0.95, 0.29),  # copies
        (100, 5, 1.0, 0.95, 0.26),
        (15, 10, 1.0, 0.98, 0.74),
        (160, 10, 1.0, 0.98, 0.37),
        (10, 10, 0.5, 0.95, 0.16),  # patients
        (10, 10, 0.9, 0.95, 0.40),
        (100, 10, 0.9, 0.95, 0.27),
    ],
)
def test_copies_and_patients_do_not_break_the_promise(
    units: int, rows: int, correlation: float, tpr: float, before: float
) -> None:
    """Too few units certify nothing; enough of them keep the promise. Rows taken as independent broke it."""
    sizes = np.full(units, rows)
    scores = normal_scores(sizes, correlation, np.random.default_rng(1))
    as_rows = falls_short(scores, certified_rank(units * rows, tpr, 0.95), tpr)
    assert as_rows == pytest.approx(before, abs=0.05)
    rank = certified_rank(UnitSizes.of(sizes), tpr, 0.95)
    assert (rank > 0) == (units >= positives_needed(tpr, 0.95))
    assert not rank or falls_short(scores, rank, tpr) <= allowed(0.05)


SHAPES: dict[str, NDArray[np.int64]] = {
    "ten rows each": np.full(150, 10),
    "geometric": np.random.default_rng(2).geometric(0.2, 300),
    "one or fifty": np.repeat([1, 50], [300, 60]),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("draw", [normal_scores, heavy_scores])
def test_the_recall_of_rows_holds_for_any_correlation_and_sizes(
    name: str, correlation: float, draw: Callable[..., Reals]
) -> None:
    sizes = SHAPES[name]
    scores = draw(sizes, correlation, np.random.default_rng(3))
    rank = certified_rank(UnitSizes.of(sizes), 0.9, 0.95)
    assert rank > 0
    recall = stats.norm.sf if draw is normal_scores else stats.cauchy.sf
    assert falls_short(scores, rank, 0.9, recall) <= allowed(0.05)


@pytest.mark.parametrize("name", ["geometric", "one or fifty"])
@pytest.mark.parametrize("harder", ["large", "small"])
@pytest.mark.parametrize("correlation", [0.5, 1.0])
def test_the_recall_of_rows_holds_if_difficulty_goes_with_size(name: str, harder: str, correlation: float) -> None:
    """The scores of units above the median size are shifted; the truth is the mean over the rows of such sizes."""
    sizes = SHAPES[name]
    hard = (sizes > np.median(sizes)) == (harder == "large")
    shift = np.where(hard, -1.5, 0.5)
    scores = normal_scores(sizes, correlation, np.random.default_rng(4)) + np.repeat(shift, sizes)
    of_hard = sizes[hard].sum() / sizes.sum()

    def recall(thresholds: Reals) -> Reals:
        return np.asarray(
            of_hard * stats.norm.sf(thresholds + 1.5) + (1 - of_hard) * stats.norm.sf(thresholds - 0.5)
        )

    rank = certified_rank(UnitSizes.of(sizes), 0.9, 0.95)
    assert falls_short(scores, rank, 0.9, recall) <= allowed(0.05)


def test_the_worst_difficulty_comes_close_to_what_is_allowed() -> None:
    """Copies of one size, and the lowest score: the bound is the chance itself, (1 − 0.05)^60."""
    sizes = np.full(60, 10)
    rank = certified_rank(UnitSizes.of(sizes), 0.95, 0.95)
    lowest = np.random.default_rng(5).random((40_000, 60)).min(axis=1)  # copies: the lowest is that of the units
    assert rank == 1
    assert np.mean(lowest > 0.05) == pytest.approx(0.95**60, abs=0.0035)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("size", [3, 10])
def test_the_recall_of_units_holds(correlation: float, size: int) -> None:
    sizes = np.full(200, size)
    scores = normal_scores(sizes, correlation, np.random.default_rng(6)).reshape(DRAWS, 200, size).max(axis=2)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)

    def recall(thresholds: Reals) -> Reals:
        """P(the highest of a unit's rows ≥ t), by integrating over what its rows share."""
        if correlation == 1:
            return np.asarray(stats.norm.sf(thresholds))
        below = stats.norm.cdf((thresholds[:, None] - np.sqrt(correlation) * nodes) / np.sqrt(1 - correlation))
        return np.asarray(1 - below**size @ weights / weights.sum())

    assert falls_short(scores, certified_rank(200, 0.95, 0.95), 0.95, recall) <= allowed(0.05)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("correlation", [0.0, 0.9, 1.0])
def test_the_bound_of_the_fpr_holds_over_units(name: str, correlation: float) -> None:
    sizes = SHAPES[name]
    negatives = normal_scores(sizes, correlation, np.random.default_rng(7))
    for threshold in (0.5, 1.5):
        counts = np.count_nonzero(negatives >= threshold, axis=1)
        bounds = UnitSizes.of(sizes).largest_share(counts, 0.05)
        assert np.mean(stats.norm.sf(threshold) > bounds) <= allowed(0.05)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_the_bound_for_any_threshold_holds_at_the_worst_one(correlation: float) -> None:
    """For every draw the threshold, of two hundred, at which the bound is exceeded most."""
    sizes = np.full(60, 5)
    scores = normal_scores(sizes, correlation, np.random.default_rng(8))
    trials, thresholds = UnitSizes.of(sizes), np.linspace(-1, 3, 200)
    found = bounds(np.arange(301), trials, 0.9, anywhere=True)[1]
    counts = np.array([np.count_nonzero(scores >= threshold, axis=1) for threshold in thresholds])
    assert np.mean((stats.norm.sf(thresholds)[:, None] > found[counts]).any(axis=0)) <= allowed(0.1)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_the_monitor_rarely_raises_a_false_alarm_over_units(correlation: float) -> None:
    """Streams of 200 units of geometric sizes, at the target, and the same rows taken as independent."""
    generator, alarms, by_row = np.random.default_rng(9), 0, 0
    threshold = float(stats.norm.ppf(0.05))
    for _ in range(DRAWS):
        sizes = generator.geometric(0.25, 200)
        units = np.repeat(np.arange(200), sizes)
        shared, own = generator.standard_normal(200)[units], generator.standard_normal(len(units))
        scores = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
        alarms += monitor(scores, threshold=threshold, tpr=0.95, units=units).alarm_at is not None
        by_row += monitor(scores, threshold=threshold, tpr=0.95).alarm_at is not None
    assert alarms / DRAWS <= allowed(0.05)
    assert correlation < 1 or by_row / DRAWS > 0.2


@pytest.mark.parametrize("harder", ["large", "small"])
def test_the_monitor_allows_for_difficulty_that_goes_with_size(harder: str) -> None:
    """Copies of one or ten rows; all misses on one kind, the rows just at the target of 95 %."""
    generator = np.random.default_rng(10)
    large = generator.random((4000, 400)) < 0.3
    of_large = 0.3 * 10 / (0.3 * 10 + 0.7)
    chance = 0.05 / of_large if harder == "large" else 0.05 / (1 - of_large)
    missed = (generator.random((4000, 400)) < chance) & (large == (harder == "large"))
    evidence, _ = log_evidence(missed.astype(float), 0.05, np.where(large, 1.0, 0.1))
    assert np.mean(evidence.max(axis=1) >= np.log(20)) <= allowed(0.05, 4000)
    if harder == "small":  # a unit's missed share without its weight would be wrong
        unweighted, _ = log_evidence(missed.astype(float), 0.05)
        assert np.mean(unweighted.max(axis=1) >= np.log(20)) > 0.2


def test_looking_while_the_rows_of_units_are_still_coming_in_is_safe_in_simulation() -> None:
    """Fifty units of six rows that arrive in any order, and a look after every thirtieth row."""
    generator, alarms = np.random.default_rng(11), 0
    threshold = float(stats.norm.ppf(0.05))
    for _ in range(DRAWS):
        units = generator.permutation(np.repeat(np.arange(50), 6))
        scores = np.sqrt(0.7) * generator.standard_normal(50)[units] + np.sqrt(0.3) * generator.standard_normal(300)
        alarms += any(
            monitor(scores[:seen], threshold=threshold, tpr=0.95, units=units[:seen]).alarm_at is not None
            for seen in range(30, 301, 30)
        )
    assert alarms / DRAWS <= allowed(0.05)


@pytest.mark.parametrize(("correlation", "shifts"), [(0.0, (2.5, 1.5)), (0.5, (2.0, 2.0)), (0.9, (2.5, 1.5))])
def test_the_interval_of_a_difference_covers_over_units(correlation: float, shifts: tuple[float, float]) -> None:
    """Sixty positive and 150 negative units of five rows: 95 % intervals are near nominal."""
    generator = np.random.default_rng(12)
    fprs = [stats.norm.sf(shift + stats.norm.ppf(0.05)) for shift in shifts]
    areas = [stats.norm.cdf(shift / np.sqrt(2)) for shift in shifts]
    labels, units = np.repeat([1, 0], [300, 750]), np.arange(1050) // 5
    covered = np.zeros(2)
    for seed in range(DRAWS):
        shared, own = generator.standard_normal((2, 210))[:, units], generator.standard_normal((2, 1050))
        a, other = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
        b = 0.7 * a + np.sqrt(0.51) * other
        found = compare(
            labels, a + shifts[0] * labels, b + shifts[1] * labels, tpr=0.95, draws=300, seed=seed, units=units
        )
        covered += [
            found.fpr.low <= fprs[0] - fprs[1] <= found.fpr.high,
            found.auc.low <= areas[0] - areas[1] <= found.auc.high,
        ]
    assert (covered / DRAWS >= 0.915).all()
