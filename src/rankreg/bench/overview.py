"""Two arms on many data sets at a glance: one row for each, before the pages that go into detail."""

from collections.abc import Mapping
from dataclasses import replace

from rankreg.bench.grids import DATA
from rankreg.bench.pages import Block, Entry, Page, Row
from rankreg.bench.planning import title_of
from rankreg.bench.statistics import Paired
from rankreg.bench.wording import (
    BELOW,
    CHANCES,
    contrast_title,
    difference_rows,
    measure_title,
    multiplicity_note,
    preset_note,
)

SHARED = (
    "Rows share images: ratios and label noise of one data set are drawn from the same ones and are no repeats."
)


def overview_page(found: Mapping[str, Paired], test: str, preset: str) -> Page:
    """By data set the difference over all its losses; several classes are measured otherwise and stand apart."""
    kinds = [{d: found[d] for d in found if DATA[d].several_classes == several} for several in (False, True)]
    shown = [_comparable(kind) for kind in kinds if kind]
    blocks = tuple(_block(kind, preset) for kind in shown)
    many = multiplicity_note([paired for kind in shown for paired in kind.values()])
    names = f"{len(found)} data sets" if len(found) > 1 else title_of(next(iter(found)), preset)
    notes = (many, SHARED if len(found) > 1 else None, CHANCES, preset_note(preset))
    return Page(f"{_title(found)}: {names}, {test}, preset {preset}", blocks, tuple(filter(None, notes)))


def _comparable(found: Mapping[str, Paired]) -> dict[str, Paired]:
    """The same with the measures that all of them have."""
    every = [paired.values for paired in found.values()]
    common = [measure for measure in every[0] if all(measure in values for values in every)]
    return {d: replace(paired, values={m: paired.values[m] for m in common}) for d, paired in found.items()}


def _block(found: Mapping[str, Paired], preset: str) -> Block:
    rows: list[Row] = []
    for data, paired in found.items():
        first, second = difference_rows(paired, paired.losses, title_of(data, preset))
        used = f"{len(paired.losses)} losses" if len(paired.losses) > 1 else paired.losses[0].upper()
        rows += [
            replace(first, entries=(*first.entries, Entry(used))),
            replace(second, entries=(*second.entries, Entry(""))),
        ]
    measures = next(iter(found.values())).values
    head = ("", *map(measure_title, measures), "splits", "base loss")
    title = f"{_title(found)} of single networks (Student's 95 % interval over splits){BELOW}"
    return Block(title, head, tuple(rows))


def _title(found: Mapping[str, Paired]) -> str:
    first = next(iter(found.values()))
    return contrast_title(first.first, first.second)
