"""The label-noise table: arms by the share of flipped labels, one table per measure."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rankreg.bench.arms import ARMS
from rankreg.bench.asking import Asked
from rankreg.bench.numbers import cell_numbers, difference_numbers
from rankreg.bench.pages import Block, Entry, Number, Page, Row
from rankreg.bench.published import noise_of, published_values
from rankreg.bench.results import Cell, Grid
from rankreg.bench.statistics import BETTER, Paired, contrasts_of, pair
from rankreg.bench.wording import (
    BELOW,
    CHANCES,
    DIFFERENCES,
    NOTHING,
    bracket,
    contrast_title,
    difference_rows,
    measure_title,
    multiplicity_note,
    plain,
    power_note,
    preset_note,
    published_words,
    signed,
    single_entry,
    spread,
    test_title,
    verdict,
)

MEAN = "cifar10-100-noise"  # in files of numbers, what is averaged over shares
SHORT = {"not told apart": "undecided"}  # seven columns leave little room


def noise_page(asked: Asked, grid: Grid) -> Page:
    """Ensembles, single networks and paired differences, measure by measure."""
    data, loss = grid.names(0), grid.names(1)[0]
    pairs = {one: _pairs(asked, grid, one, loss) for one in data}
    blocks = []
    for measure in grid.measures(data[0]):
        blocks += [_ensembles(asked, grid, loss, measure), _singles(grid, loss, measure)]
        blocks += [_differences(grid, pairs, measure)] * any(pairs.values())
    means = _means(pairs)
    blocks += [_mean_block(grid, means, loss)] if means else []
    flat = [paired for each in pairs.values() for paired in each]
    notes: list[str | None] = []
    if flat:
        first = next(one for one, each in pairs.items() if each)
        notes += [f"At {_share(first)} flipped labels: {power_note(pairs[first][0], [loss])}"]
        notes += [f"Averaged over shares: {power_note(means[0], [loss])}"] if means else []
        notes += [multiplicity_note([*flat, *means])]
    notes += [CHANCES, preset_note(asked.preset), *asked.experiment.notes, asked.diverged(data), asked.missing()]
    title = f"{asked.experiment.title}: {test_title(grid, data[0])}, preset {asked.preset}"
    return Page(title, tuple(blocks), tuple(filter(None, notes)), tuple(_numbers(asked, grid, loss, pairs, means)))


def _pairs(asked: Asked, grid: Grid, data: str, loss: str) -> list[Paired]:
    wanted = [(a, b) for a, b in contrasts_of(asked.experiment, grid.names(2)) if b != BETTER]
    return [found for a, b in wanted if (found := pair(grid, data, [loss], a, b)) is not None]


def _ensembles(asked: Asked, grid: Grid, loss: str, measure: str) -> Block:
    rows = []
    for arm in grid.names(2):
        values, intervals = [], []
        for data in grid.names(0):
            cell = grid.cells[data, loss, arm]
            printed = published_values(asked.experiment, data, loss, arm).get(measure)
            words = published_words(printed, others=True)
            found = cell.ensemble.get(measure)
            values.append(Entry(plain(found.estimate), words) if found else Entry(NOTHING.value, words))
            intervals.append(Entry(bracket(found)) if found else Entry(""))
        rows += [Row(ARMS[arm].title, tuple(values)), Row("", tuple(intervals), part=True)]
    title = f"{measure_title(measure)} of ensembles (published), below the 95 % interval over test samples"
    return Block(title, _head(grid), tuple(rows))


def _singles(grid: Grid, loss: str, measure: str) -> Block:
    def entry(cell: Cell) -> Entry:
        found = single_entry(cell, measure, deviation=False)
        short = f"n = {len(cell.splits)}" if 0 < len(cell.splits) < cell.planned else ""
        return Entry(found.value, f"{found.rest} {short}".strip())

    rows = [
        Row(ARMS[arm].title, tuple(entry(grid.cells[data, loss, arm]) for data in grid.names(0)))
        for arm in grid.names(2)
    ]
    title = f"{measure_title(measure)} of single networks: mean over splits ± half of Student's 95 % interval"
    return Block(title, _head(grid), tuple(rows))


def _differences(grid: Grid, pairs: dict[str, list[Paired]], measure: str) -> Block:
    rows = []
    for contrast, known in _by_contrast(pairs).items():
        found = [known[data].estimate(measure) if data in known else None for data in grid.names(0)]
        values = [Entry(signed(one.mean), spread(one)) if one else NOTHING for one in found]
        words = [Entry(SHORT.get(verdict(one), verdict(one))) if one else Entry("") for one in found]
        rows += [Row(contrast_title(*contrast), tuple(values)), Row("", tuple(words), part=True)]
    return Block(
        f"{measure_title(measure)}: paired differences over the same splits (undecided: not told apart)",
        _head(grid),
        tuple(rows),
    )


def _by_contrast(pairs: Mapping[str, Sequence[Paired]]) -> dict[tuple[str, str], dict[str, Paired]]:
    found: dict[tuple[str, str], dict[str, Paired]] = {}
    for data, each in pairs.items():
        for paired in each:
            found.setdefault((paired.first, paired.second), {})[data] = paired
    return found


def _means(pairs: Mapping[str, Sequence[Paired]]) -> list[Paired]:
    """Every contrast averaged over the shares of flipped labels, within each split that all of several shares have.

    Shares of a split start from the same images: as fresh draws they would make the interval too small.
    """
    noisy, found = [data for data in pairs if noise_of(data)], []
    for (first, second), known in _by_contrast(pairs).items():
        each = [known[data] for data in noisy if data in known]
        splits = sorted(set.intersection(*(set(one.splits) for one in each))) if len(each) == len(noisy) > 1 else []
        if splits:
            values = {
                measure: tuple(
                    float(np.mean([one.values[measure][one.splits.index(split)] for one in each]))
                    for split in splits
                )
                for measure in each[0].values
            }
            found.append(Paired(first, second, each[0].losses, tuple(splits), values))
    return found


def _mean_block(grid: Grid, means: Sequence[Paired], loss: str) -> Block:
    noisy = [data for data in grid.names(0) if noise_of(data)]
    shares = f"{_share(noisy[0])} to {_share(noisy[-1])} of flipped labels"
    title = f"{DIFFERENCES}, averaged over {shares} within each split{BELOW}"
    head = ("", *map(measure_title, grid.measures(noisy[0])), "splits")
    return Block(title, head, tuple(row for paired in means for row in difference_rows(paired, [loss])))


def _head(grid: Grid) -> tuple[str, ...]:
    return ("flipped labels", *(_share(data) for data in grid.names(0)))


def _share(data: str) -> str:
    return f"{100 * noise_of(data):.0f} %"


def _numbers(
    asked: Asked, grid: Grid, loss: str, pairs: dict[str, list[Paired]], means: list[Paired]
) -> Iterator[Number]:
    for key, cell in grid.cells.items():
        yield from cell_numbers(asked.name, grid, key, cell, published_values(asked.experiment, *key))
    for data, each in {**pairs, MEAN: means}.items():
        for paired in each:
            yield from difference_numbers(asked.name, grid.test, data, [loss], paired)
