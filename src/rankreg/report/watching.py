"""What a monitor found, in plain words with dates, and its evidence over time as a picture."""

import io
from collections.abc import Sequence
from math import floor, isfinite, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankreg.notation import Lines, number, percent, rounded_threshold, share
from rankreg.operating import Drift, Watch
from rankreg.operating.monitoring import LONGEST, miss_rate_of, time_texts
from rankreg.operating.points import assumption
from rankreg.safe_files import is_stream, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METADATA: dict[str, dict[str, None]] = {  # nothing in a file tells when it was drawn
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
}
LOOK: dict[Any, Any] = {
    "svg.hashsalt": "rankreg",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
}
EVIDENCE, ALARM = "#004488", "#BB5566"  # told apart by colour-blind readers and on grey paper


def watch_lines(watch: Watch, fallen: float, more: float) -> Lines:
    """What the monitor found.

    fallen: a recall; more: how many more positives it would take to notice a fall to it.
    """
    missed = f"{watch.misses:,} {'units ' if watch.per == 'unit' else ''}below {rounded_threshold(watch.threshold)}"
    of_units = "" if watch.units is None else f" of {watch.units:,} units"
    return [
        ("Verdict", recall_verdict(watch)),
        *([] if watch.alarm_at else [("Sensitivity", _sensitivity(watch, fallen, more))]),
        (
            "Seen",
            f"{watch.positives:,} confirmed positives{of_units}{_from_to(watch)}, {missed}:"
            f" recall {share(watch.recall)}",
        ),
        ("Evidence", _evidence(watch)),
        ("Assumption", assumption(watch)),
        ("Beware", watch.warning),
    ]


def recall_verdict(watch: Watch) -> str:
    """The verdict on the recall, in one or two sentences."""
    promised = percent(watch.tpr)
    if watch.alarm_at is not None:
        what = f"confirmed {'positive' if watch.units is None else 'unit'} {watch.alarm_at:,}"
        since = what if watch.alarm_time is None else f"{watch.alarm_time} ({what})"
        return (
            f"ALARM: the recall is below {promised}, known since {since}."
            f" The chance of a false alarm is at most {percent(watch.level)}"
        )
    expected = miss_rate_of(watch.tpr, watch.verified_below)
    if watch.e_value > 1 or 1 - watch.recall > expected:
        return f"no alarm, but a sign that the recall may have fallen below {promised}; it is not proven"
    return f"no sign that the recall fell below {promised}"


def drift_lines(drift: Drift, alarms: Sequence[float] | None = None) -> Lines:
    """What scores without labels say. alarms: the shares of alarms in the reference and now."""
    lines = [
        ("Drift", drift_verdict(drift)),
        (
            "Scores",
            f"{drift.scores:,} new ones{_from_to(drift)} against {drift.reference:,} of the reference;"
            f" {share(drift.above_median)} lie above the reference's median",
        ),
    ]
    if alarms is not None:
        before, now = (number(1000 * rate) for rate in alarms)
        lines.append(("Alarms", f"{now} per 1,000 samples now, {before} in the reference"))
    return [
        *lines,
        ("Drift evidence", _evidence(drift)),
        (
            "Drift means",
            "that the scores changed, for better or worse. It says nothing of the recall: confirm some new samples"
            " and run recertify. The test holds if samples without drift come independently, as in the reference",
        ),
    ]


def drift_verdict(drift: Drift) -> str:
    """The verdict on the scores' distribution, in one or two sentences."""
    if drift.alarm_at is None:
        return "no sign that the scores come otherwise than in the reference"
    what = f"new score {drift.alarm_at:,}"
    since = what if drift.alarm_time is None else f"{drift.alarm_time} ({what})"
    return (
        f"DRIFT: the scores no longer come as in the reference, known since {since}."
        f" The chance of a false alarm is at most {percent(drift.level)}"
    )


def check_plot(path: Path) -> None:
    """Refuse what cannot be drawn before anything is computed."""
    if path.suffix.lower() not in METADATA:
        raise ValueError(f"cannot draw into {path}: its name must end in {' or '.join(METADATA)}")
    is_stream(path)  # refuses folders and devices
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is not a folder: make it first, or draw elsewhere")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError("a plot needs matplotlib: pip install 'rankreg[figures]'") from error


def plot_evidence(path: Path, watch: Watch | None, drift: Drift | None) -> None:
    """Draw the evidence about the recall, about drift, or both, into a PNG or SVG file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels: list[tuple[Watch | Drift, str, str]] = []
    if watch is not None:
        name = "confirmed positives" if watch.units is None else "confirmed units"
        panels.append((watch, f"Recall: {recall_verdict(watch).removeprefix('ALARM: ')}", name))
    if drift is not None:
        panels.append((drift, f"Drift: {drift_verdict(drift).removeprefix('DRIFT: ')}", "new scores"))
    content, suffix = io.BytesIO(), path.suffix.lower()
    with rc_context(LOOK):
        figure = Figure(figsize=(8, 3 * len(panels)), layout="constrained")
        charts = figure.subplots(len(panels), squeeze=False)[:, 0]
        for chart, (found, title, name) in zip(charts, panels, strict=True):
            chart.set_title(title.split(". ")[0], wrap=True)
            _panel(chart, found, name)
        if len({found.times is None for found, _, _ in panels}) == 1 and panels[0][0].times is not None:
            for chart in charts[1:]:
                chart.sharex(charts[0])
        metadata: Any = METADATA[suffix]
        figure.savefig(content, format=suffix[1:], dpi=130, metadata=metadata)
    write_whole(path, content.getvalue())


def _panel(chart: "Axes", found: Watch | Drift, name: str) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    limit = 1 / found.level
    across: NDArray[Any] = np.arange(1, len(found.path) + 1) if found.times is None else found.times
    top = limit * min(1e3, max(5.0, found.largest_e_value / limit))  # far above the alarm, how far does not matter
    shown = np.clip(found.path, 1e-3, top)
    chart.step(across, shown, where="post", color=EVIDENCE, linewidth=1.6)
    chart.plot(across[-1:], shown[-1:], "o", color=EVIDENCE, markersize=4)
    chart.axhline(limit, color=ALARM, linewidth=1.2, linestyle=(0, (5, 3)))
    beside: dict[str, Any] = {"transform": chart.get_yaxis_transform(), "fontsize": 8, "va": "bottom"}
    chart.text(0.005, limit * 1.1, f"alarm at {limit:.3g}", color=ALARM, **beside)
    if found.largest_e_value > top:
        chart.text(0.995, top * 1.1, "beyond the scale", color=EVIDENCE, ha="right", **beside)
    if found.alarm_at is not None:
        chart.plot(
            across[[found.alarm_at - 1]], shown[[found.alarm_at - 1]], "D", color=ALARM, markersize=7, zorder=5
        )
    chart.set_yscale("log")
    chart.set_ylim(min(0.1, float(shown.min()) / 1.5), top * 2.5)
    chart.set_ylabel(f"evidence of {'a fall' if isinstance(found, Watch) else 'drift'} (e-value)")
    if found.times is None or found.times.dtype.kind != "M":
        chart.set_xlabel(name if found.times is None else "time")
    else:
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        chart.xaxis.set_major_locator(locator)
        chart.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    chart.grid(color="#dddddd", linewidth=0.6)
    chart.set_axisbelow(True)


def _sensitivity(watch: Watch, fallen: float, more: float) -> str:
    what = "confirmed positives" if watch.units is None else "confirmed units"
    drop = f"a drop to {percent(fallen)}"
    if not isfinite(more):
        return f"{drop} would be noticed after more than {LONGEST:,} more {what}"
    digits = max(0, floor(log10(more)) - 1)
    about = max(1, round(more / 10**digits) * 10**digits)
    return f"after about {about:,} more {what} {drop} would be noticed{_expected_date(watch, more)}"


def _expected_date(watch: Watch, more: float) -> str:
    """When that many more are confirmed, if they come as fast as so far."""
    times = watch.times
    if times is None or times.dtype.kind != "M" or times[0] == times[-1]:
        return ""
    seconds = times[[0, -1]].astype("datetime64[s]")
    pace = (seconds[1] - seconds[0]).astype(float) / (len(times) - 1)
    day = (seconds[1:] + np.timedelta64(round(more * pace), "s")).astype("datetime64[D]")
    return f", around {time_texts(day)[0]} if they come as fast as so far"


def _from_to(found: Watch | Drift) -> str:
    return "" if found.first_time is None else f" from {found.first_time} to {found.last_time}"


def _evidence(found: Watch | Drift) -> str:
    return (
        f"e-value {_size(found.e_value)} now, {_size(found.largest_e_value)} at its highest;"
        f" {_size(1 / found.level)} raises the alarm"
    )


def _size(e_value: float) -> str:
    """Three digits: nobody needs the others of an e-value in the millions."""
    return number(e_value) if e_value < 10_000 else f"{e_value:.3g}"
