"""Numbers and verdicts as words; a difference is never called more than its interval allows."""

from collections.abc import Mapping, Sequence

from rankreg.bench.arms import ARMS
from rankreg.bench.gains import Gain
from rankreg.bench.grids import DATA, TestSet
from rankreg.bench.pages import Entry, Row
from rankreg.bench.presets import PRESETS
from rankreg.bench.results import Cell, Grid
from rankreg.bench.statistics import BETTER, Paired
from rankreg.operating import Interval
from rankreg.operating.repeats import Estimate, mean_of, standard_deviation, still_significant

ENSEMBLES = "Ensembles of the splits' networks: ours [95 % interval over test samples]"
SINGLES = "Single networks: mean over splits ± half of Student's 95 % interval (standard deviation)"
DIFFERENCES = "Paired differences of single networks (Student's 95 % interval over splits)"
AVERAGED = ", averaged over the base losses within each split"
BELOW = "; below: what the interval allows to say; the smallest difference that could be detected"
CHANCES = (
    "Intervals over test samples leave out the chance of training; those over splits leave out the chance of the"
    " test samples, which all splits share."
)
NOTHING = Entry("–")
TEST_TITLES: Mapping[TestSet, str] = {
    "official": "official test set",
    "extended": "extended test set (official and fresh positives)",
    "tuning": "validation and tuning pool",
}


def measure_title(measure: str) -> str:
    """As the tables head it: FPR@98, AUC, error@80."""
    return measure.upper() if measure.startswith(("fpr", "auc")) else measure.removesuffix("tpr")


def arm_title(arm: str) -> str:
    """Inside a sentence."""
    names = {"base": "base", BETTER: "base/ALM"}
    return names[arm] if arm in names else ARMS[arm].title.removeprefix("+ ")


def contrast_title(first: str, second: str) -> str:
    """One arm less another."""
    return f"{arm_title(first)} − {arm_title(second)}"


def test_title(grid: Grid, data: str) -> str:
    """Which test set, and how many samples it has."""
    counts, words = grid.counts(data), TEST_TITLES[grid.test]
    if counts is None:
        return words
    kinds = ("critical", "others") if DATA[data].several_classes else ("positives", "negatives")
    return f"{words}: {counts[0]:,} {kinds[0]}, {counts[1]:,} {kinds[1]}"


def plain(value: float) -> str:
    """One decimal, with a real minus."""
    return _digits(value, 1)


def _digits(value: float, count: int) -> str:
    return f"{value:z.{count}f}".replace("-", "−")  # z: no negative zero


def short(value: float, reach: float) -> str:
    """Without decimals where the interval is too wide for them to mean anything."""
    return plain(value) if reach < 20 else _digits(value, 0)


def signed(value: float) -> str:
    """The same with its sign."""
    text = plain(value)
    return text if text == "0.0" or text.startswith("−") else f"+{text}"


def bracket(interval: Interval) -> str:
    """An interval in few characters: decimals only where it is narrow."""
    digits = 0 if interval.high - interval.low >= 3 else 1
    return f"[{interval.low:.{digits}f}–{interval.high:.{digits}f}]"


def gain_limits(gain: Gain | Interval) -> str:
    """The interval of a gain, which may be a loss."""
    digits = 0 if gain.high - gain.low >= 3 else 1
    low, high = (_digits(end, digits) for end in (gain.low, gain.high))
    return f"[{low} to {high}]" if gain.low < 0 else f"[{low}–{high}]"


def spread(estimate: Estimate) -> str:
    """± half the interval, or nothing from one split."""
    return "" if estimate.reach is None else f"± {short(estimate.reach, estimate.reach)}"


def limits(estimate: Estimate) -> str:
    """The interval of a difference."""
    if estimate.low is None or estimate.high is None or estimate.reach is None:
        return "(one split)"
    return f"({short(estimate.low, estimate.reach)} to {short(estimate.high, estimate.reach)})"


def verdict(estimate: Estimate) -> str:
    """What the interval allows to say."""
    if estimate.reach is None:
        return "no interval"
    if estimate.reach < 1e-9:  # a few splits that agree to the digit are no certainty
        return "no spread" if estimate.mean else "identical"
    if not estimate.excludes_zero:
        return "not told apart"
    return "lower" if estimate.mean < 0 else "higher"


def published_words(value: float | None, *, others: bool) -> str:
    """A published value in brackets; a dash for none in a table that has others."""
    return f"({plain(value)})" if value is not None else "(–)" if others else ""


def single_entry(cell: Cell, measure: str, *, deviation: bool = True) -> Entry:
    """The mean over splits with its interval and spread; from one split the value alone."""
    values = [single[measure] for single in cell.singles.values()]
    if not values:
        return NOTHING
    found, around = mean_of(values), standard_deviation(values)
    rest = f" ({plain(around)})" if deviation and around is not None else ""
    return Entry(plain(found.mean), spread(found) + rest)


def difference_rows(paired: Paired, losses: Sequence[str], label: str | None = None) -> list[Row]:
    """A contrast's differences, and below what they allow to say and could have shown."""
    found = {measure: paired.estimate(measure) for measure in paired.values}
    values = [Entry(signed(one.mean), limits(one)) for one in found.values()]
    words = []
    for measure, one in found.items():
        smallest = paired.detectable(measure)
        words.append(Entry(verdict(one) + ("" if smallest is None else f"; {short(smallest, smallest)}")))
    kept = f"{len(paired.losses)} of {len(losses)} losses" if len(paired.losses) < len(losses) else ""
    return [
        Row(label or contrast_title(paired.first, paired.second), (*values, Entry(str(len(paired.splits))))),
        Row("", (*words, Entry(kept)), part=True),
    ]


def count_of(cell: Cell) -> str:
    """How many splits there are, of how many if some are missing."""
    have = len(cell.splits)
    return str(have) if have == cell.planned else f"{have}/{cell.planned}"


def scope(paired: Paired, losses: Sequence[str]) -> str:
    """What a difference rests on."""
    splits = f"{len(paired.splits)} split" + "s" * (len(paired.splits) != 1)
    if len(losses) == 1:
        return splits
    kept = len(paired.losses)
    return f"{splits}, {kept} losses" if kept == len(losses) else f"{splits}, {kept} of {len(losses)} losses"


def power_note(paired: Paired, losses: Sequence[str]) -> str:
    """Which difference could have been detected."""
    title = contrast_title(paired.first, paired.second)
    if len(paired.splits) < 2:
        return f"{title}: one split leaves no interval and nothing that could be detected; more splits are needed."
    found = {measure: paired.detectable(measure) for measure in paired.values}
    parts = [f"{plain(value)} in {measure_title(m)}" for m, value in found.items() if value is not None]
    if not parts:
        return f"{title}: the differences do not vary over splits; what could be detected cannot be said."
    return (
        f"Detectable: with {scope(paired, losses)} and their spread, a true {title} of {', '.join(parts)} points"
        " would be found with 80 % power at the 5 % level; smaller ones would mostly go unseen."
    )


def multiplicity_note(pairs: Sequence[Paired]) -> str | None:
    """How many differences are shown, and how many would stand out by chance alone."""
    values = [p for one in pairs for m in one.values if (p := one.p_value(m)) is not None]
    if len(values) < 2:
        return None
    found, kept = sum(value < 0.05 for value in values), still_significant(values)
    return (
        f"{len(values)} differences are shown: without any true one about {0.05 * len(values):.1f} would be told"
        f" apart by chance. Told apart: {found}; by Holm's correction for {len(values)}: {kept}."
    )


def preset_note(preset: str) -> str:
    """How large the networks were, since the paper's were larger."""
    return f"Preset {preset}: {PRESETS[preset].title}. Published: full width, 100 epochs, ensembles of 10 splits."


def sentence(paired: Paired, losses: Sequence[str]) -> str:
    """A contrast in words, measure by measure."""
    parts = []
    for measure in paired.values:
        found = paired.estimate(measure)
        parts.append(f"{measure_title(measure)} {signed(found.mean)} {limits(found)}: {verdict(found)}")
    return f"{contrast_title(paired.first, paired.second)}, {scope(paired, losses)}: {'; '.join(parts)}."


def growth_note(paired: Paired) -> str | None:
    """The paper's claim that gains grow with the TPR, as a difference of differences."""
    rates = [measure for measure in paired.values if measure.startswith("fpr")]
    if len(rates) < 2 or paired.second != BETTER:
        return None
    pairs = zip(paired.values[rates[-1]], paired.values[rates[0]], strict=True)
    growth = mean_of([easy - strict for easy, strict in pairs])
    return (
        f"Does Δ grow with the TPR? Δ in {measure_title(rates[0])} less Δ in {measure_title(rates[-1])}, single"
        f" networks: {signed(growth.mean)} {limits(growth)}: {verdict(growth)}."
    )
