"""Every number of a table by itself, for the CSV format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rankreg.bench.pages import Number
from rankreg.bench.results import Cell, Grid, Key
from rankreg.bench.statistics import Paired
from rankreg.operating.repeats import mean_of, standard_deviation


def cell_numbers(
    experiment: str, grid: Grid, key: Key, cell: Cell, published: Mapping[str, float]
) -> Iterator[Number]:
    """A cell's ensemble, the mean of its splits and their standard deviation; what is missing has no row."""
    for measure in grid.measures(key[0]) if cell.scores else ():
        number = Number(experiment, key[0], grid.test, key[1], key[2], measure, "ensemble", 0.0)
        number = replace(number, splits=len(cell.splits), published=published.get(measure))
        found = cell.ensemble[measure]
        yield replace(number, value=found.estimate, low=found.low, high=found.high)
        values = [single[measure] for single in cell.singles.values()]
        mean, deviation = mean_of(values), standard_deviation(values)
        yield replace(number, kind="single", value=mean.mean, low=mean.low, high=mean.high)
        if deviation is not None:
            yield replace(number, kind="deviation", value=deviation, published=None)


def pooled_name(used: Sequence[str], losses: Sequence[str]) -> str:
    """Of which losses a number is the mean: "all" of several, or their names."""
    return "all" if len(used) == len(losses) > 1 else " ".join(used)


def difference_numbers(
    experiment: str, test: str, data: str, losses: Sequence[str], paired: Paired
) -> Iterator[Number]:
    """A contrast's mean difference, what it could have detected, and its p-value."""
    arm, loss = f"{paired.first} minus {paired.second}", pooled_name(paired.losses, losses)
    for measure in paired.values:
        found, count = paired.estimate(measure), len(paired.splits)
        number = Number(experiment, data, test, loss, arm, measure, "difference", found.mean, splits=count)
        yield replace(number, low=found.low, high=found.high)
        for kind, value in (("detectable", paired.detectable(measure)), ("p-value", paired.p_value(measure))):
            if value is not None:
                yield replace(number, kind=kind, value=value)
