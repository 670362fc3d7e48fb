"""Figures show what the records and the paper hold, to the number, and need nothing but matplotlib."""

import io
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import sem
from scipy.stats import t as student
from sklearn.metrics import roc_curve

from rankreg.metrics import fpr_at_tpr
from rankreg.scores import Scores
from rankreg_bench import figures
from rankreg_bench.figures import ARM_COLORS, COLORS, FigureSource, figure_of, write_figure
from rankreg_bench.grids import DATA, EXPERIMENTS, RunPlan, plan_run, plans_of
from rankreg_bench.records import Outcome, RecordFolder, Selection
from tests.bench import handmade
from tests.conftest import Run


def choose(
    name: str,
    records: Path,
    splits: int | None = None,
    only: Sequence[str] = (),
    preset: str | None = None,
    test: str | None = None,
) -> FigureSource:
    """The recorded runs of an experiment."""
    preset = preset or EXPERIMENTS[name].preset
    return figures.choose(Selection(name, preset, records, splits, tuple(only)), test)


def scores_of(plan: RunPlan, *, fresh: bool = False) -> Scores:
    """Scores that a run of that plan might have had, the same ones whenever selection."""
    random = np.random.default_rng([plan.split, len(plan.arm), len(plan.data), fresh])
    if DATA[plan.data].several_classes:
        labels = np.arange(300) % 10
        values = random.standard_normal((300, 10)) + 2 * np.eye(10)[labels]
    else:
        labels = (np.arange(300) % 3 == 0).astype(np.int64) if not fresh else np.ones(50, np.int64)
        values = random.standard_normal(len(labels)) + labels
    return Scores(np.arange(len(labels)), labels, values.astype(np.float32))


def record(folder: Path, plans: list[RunPlan]) -> Path:
    """Records of these runs, without training."""
    for plan in plans:
        parts = {"test": scores_of(plan), "extended": scores_of(plan, fresh=True), "validation": scores_of(plan)}
        if DATA[plan.data].several_classes:
            del parts["extended"]
        epochs = {"auc": [70.0, 80.0], "fpr@95": [60.0, 50.0]}
        RecordFolder(folder).write(plan, Outcome({"curves": {"extended": epochs, "official": epochs}}, parts))
    return folder


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two splits of the four arms on CIFAR-10."""
    return record(tmp_path_factory.mktemp("records"), plans_of("roc", "compact", splits=2, only=["cifar10-100"]))


def runs_of(name: str, data: str, arm: str) -> list[RunPlan]:
    return [plan for plan in plans_of(name, "compact") if (plan.data, plan.arm) == (data, arm)]


def drawn(figure: Figure, chart: int, color: str, **wanted: Any) -> list[Any]:
    """The (x, y) of a chart's lines of that colour with these properties."""
    lines = [line for line in figure.axes[chart].get_lines() if line.get_color() == color]
    kept = [line for line in lines if all(getattr(line, f"get_{key}")() == value for key, value in wanted.items())]
    return [np.asarray(line.get_xydata()) for line in kept]


def words_of(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.texts).replace("\n", " ")


def test_a_bold_roc_curve_is_scikit_learns_of_the_mean_score_and_the_thin_ones_are_the_splits(curves: Path) -> None:
    figure = figure_of(choose("roc", curves, splits=2))
    runs = [scores_of(plan) for plan in runs_of("roc", "cifar10-100", "rankreg")[:2]]
    mean = np.mean([run.values for run in runs], axis=0, dtype=np.float64).astype(np.float32)
    for chart in (0, 1):
        lines = drawn(figure, chart, COLORS[ARM_COLORS["rankreg"]][0])
        for line, values in zip(lines, [*(run.values for run in runs), mean], strict=True):
            fpr, tpr, _ = roc_curve(runs[0].labels, values, drop_intermediate=False)
            np.testing.assert_allclose(line, np.stack([fpr, tpr], axis=1))
    assert figure.axes[0].get_title() == "CIFAR-10 1:100: 100 positives, 200 negatives"
    assert figure.axes[1].get_ylim()[0] == 0.8


def test_label_noise_shows_the_papers_numbers_dashed_and_our_mean_with_scipys_interval(tmp_path: Path) -> None:
    record(tmp_path, plans_of("label-noise", "compact", only=["rankreg"]))
    figure = figure_of(choose("label-noise", tmp_path, only=["rankreg"]))
    color = COLORS[ARM_COLORS["rankreg"]][0]
    (published,) = [line for line in drawn(figure, 1, color) if 26.2 in line[:, 1]]
    shares = [0, 5, 10, 20, 30, 40, 50]
    np.testing.assert_allclose(published[:, 0], shares)
    assert published[:, 1].tolist() == [26.2, 26.5, 34.0, 42.7, 52.0, 60.0, 59.1]  # Fig. 4, FPR at 95 % TPR

    (ours,) = drawn(figure, 1, color, linestyle="-", marker="None")
    band = np.asarray(figure.axes[1].collections[0].get_paths()[0].vertices)
    for share, data in zip(shares, EXPERIMENTS["label-noise"].data, strict=True):
        runs = [scores_of(plan) for plan in runs_of("label-noise", data, "rankreg")]
        fprs = np.array([100 * fpr_at_tpr(run.labels, run.values, 0.95) for run in runs])
        assert ours[list(ours[:, 0]).index(share), 1] == pytest.approx(fprs.mean(), abs=1e-3)
        spread = student.interval(0.95, len(fprs) - 1, fprs.mean(), fprs.std(ddof=1) / len(fprs) ** 0.5)
        there = band[np.isclose(band[:, 0], share), 1]
        assert (there.min(), there.max()) == pytest.approx(spread, abs=1e-3)


def test_buffer_sizes_are_drawn_in_proportion(tmp_path: Path) -> None:
    record(tmp_path, plans_of("buffer-size", "compact", splits=1, only=["cifar10-100"]))
    figure = figure_of(choose("buffer-size", tmp_path, splits=1))
    lines = [np.asarray(line.get_xdata()).tolist() for line in figure.axes[0].get_lines()]
    assert lines == 6 * [[0, 5, 10, 20, 32, 48]]  # three TPRs, ours and published


def test_an_arm_has_its_mean_solid_its_interval_its_ensemble_hollow_and_the_papers_bar(tmp_path: Path) -> None:
    record(tmp_path, plans_of("rank-penalty", "compact", splits=2, only=["cifar10-100", "cubed"]))
    chosen = choose("rank-penalty", tmp_path, splits=2, only=["cifar10-100", "cubed"])
    runs = [scores_of(plan) for plan in runs_of("rank-penalty", "cifar10-100", "cubed")[:2]]
    one, two = (100 * fpr_at_tpr(run.labels, run.values, 0.95) for run in runs)
    ensemble = 100 * fpr_at_tpr(runs[0].labels, np.mean([run.values for run in runs], axis=0), 0.95)
    reach = student.ppf(0.975, 1) * abs(one - two) / 2
    found = {line.get_marker(): np.asarray(line.get_xdata()) for line in figure_of(chosen).axes[0].get_lines()}
    hollow = [line for line in figure_of(chosen).axes[0].get_lines() if line.get_markerfacecolor() == "none"]
    np.testing.assert_allclose(found["None"], [(one + two) / 2 - reach, (one + two) / 2 + reach], atol=1e-2)
    np.testing.assert_allclose(np.asarray(hollow[0].get_xdata()), [ensemble], atol=1e-2)
    assert found["|"].tolist() == [31.9]


def test_arms_have_the_papers_names_where_it_names_all_and_ours_elsewhere(tmp_path: Path) -> None:
    expected = {
        "buffer-policy": ["dequeue-max", "fifo", "dequeue-min"],
        "multiclass": ["base loss", "+ ALM", "+ buffer", "+ RankReg (scores)"],
    }
    for name, labels in expected.items():
        record(tmp_path, plans_of(name, "compact", splits=1))
        chart = figure_of(choose(name, tmp_path, splits=1)).axes[0]
        assert [label.get_text() for label in chart.get_yticklabels()] == labels


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_figure_small_enough_to_commit(tmp_path: Path, run: Run, name: str) -> None:
    preset, losses = EXPERIMENTS[name].preset, EXPERIMENTS[name].losses
    several, only = len(losses) > 2, losses[:2]
    record(tmp_path / "records", plans_of(name, preset, splits=1, only=only))
    status, out, error = run("bench", "figure", name, "--splits", "1")
    assert (status, error) == (0, "")
    assert ("0 to 1 splits (1 planned" if several else "1 split") in out
    with Image.open(tmp_path / f"{name}.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 200
    assert (tmp_path / f"{name}.png").stat().st_size < 150_000


def test_incomplete_grids_show_what_is_there_and_say_so(tmp_path: Path, curves: Path) -> None:
    figure = figure_of(choose("roc", curves))
    assert len(figure.axes) == 2  # one data set, whole and upper part
    assert "0 to 2 splits (5 planned, runs are missing)" in words_of(figure)
    record(tmp_path, runs_of("label-noise", "cifar10-100", "base")[:1])
    figure = figure_of(choose("label-noise", tmp_path))
    assert "0 to 1 splits (3 planned, runs are missing)" in words_of(figure)


def test_the_extended_test_set_has_the_fresh_positives(curves: Path) -> None:
    figure = figure_of(choose("roc", curves, test="extended"))
    assert "150 positives, 200 negatives" in figure.axes[0].get_title()
    assert "extended test set" in words_of(figure)


@pytest.mark.parametrize("endings", [[".svg"], pytest.param([".png", ".pdf"], marks=pytest.mark.slow)])
def test_the_same_records_give_the_same_bytes_without_torch_and_without_pyplot(
    curves: Path, tmp_path: Path, endings: list[str]
) -> None:
    before = dict(rcParams)
    for ending in endings:
        write_figure(choose("roc", curves, splits=2), tmp_path / f"here{ending}")
    assert dict(rcParams) == before
    program = """
import sys
from pathlib import Path
sys.modules["torch"] = None
from rankreg_bench.figures import choose, write_figure
from rankreg_bench.records import Selection
records, out, *endings = sys.argv[1:]
for ending in endings:
    write_figure(choose(Selection("roc", "compact", Path(records), 2)), Path(out) / f"there{ending}")
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program, curves, tmp_path, *endings], check=True)
    for ending in endings:
        assert (tmp_path / f"here{ending}").read_bytes() == (tmp_path / f"there{ending}").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2 * len(endings)  # nothing unfinished


def test_a_figure_that_cannot_be_written_leaves_the_old_file(
    curves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "roc.png"
    old.write_bytes(b"old")

    def fails(self: Path, target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="no space left"):
        write_figure(choose("roc", curves, splits=2), old)
    assert old.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [old]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["roc"], "`rankreg bench run roc --preset compact`"),
        (["roc", "--only", "base", "--preset", "smoke"], "`rankreg bench run roc --preset smoke --only base`"),
        (["rok"], "did you mean 'roc'?"),
        (["roc", "--test", "offical"], "did you mean 'official'?"),
        (["tuning", "--test", "official"], "never on a test set"),
        (["roc", "--out", "roc.gif"], "must end in .png, .svg, .pdf"),
    ],
)
def test_what_cannot_be_drawn_is_said_with_a_remedy(run: Run, arguments: list[str], message: str) -> None:
    status, out, error = run("bench", "figure", *arguments)
    assert (status, out) == (2, "")
    assert message in error
    assert error.count("\n") == 1


def test_the_folder_of_a_figure_is_made(curves: Path, tmp_path: Path) -> None:
    write_figure(choose("roc", curves, splits=2), tmp_path / "new" / "folder" / "roc.svg")
    assert (tmp_path / "new" / "folder" / "roc.svg").stat().st_size > 0


def test_a_test_set_that_no_run_has_is_refused(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "records", plans_of("multiclass", "compact", splits=1))
    status, _, error = run("bench", "figure", "multiclass", "--splits", "1", "--test", "extended")
    assert status == 2
    assert "extended test set" in error


def test_without_matplotlib_one_line_says_what_to_install(
    curves: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, error = run("bench", "figure", "roc", "--records", str(curves))
    assert (status, error) == (2, "rankreg: figures need matplotlib: pip install 'rankreg[figures]'\n")


def test_the_four_arms_colours_stay_apart_in_grey() -> None:
    channels = np.array([to_rgb(COLORS[number][0]) for number in ARM_COLORS.values()])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    light = np.sort(linear @ [0.2126, 0.7152, 0.0722]) + 0.05  # as web accessibility counts contrast
    assert (light[1:] / light[:-1]).min() > 2


def test_a_picture_with_a_palette_looks_like_the_one_without(curves: Path, tmp_path: Path) -> None:
    with figures.look():
        figure = figure_of(choose("roc", curves, splits=2))
        figures.save(figure, tmp_path / "small.png")
        whole = io.BytesIO()
        figure.savefig(whole, format="png", dpi=130)
    small, full = (np.asarray(Image.open(f).convert("RGB"), dtype=float) for f in (tmp_path / "small.png", whole))
    assert np.abs(small - full).mean() < 1


def test_learning_curves_are_the_means_of_the_recorded_epochs(tmp_path: Path) -> None:
    for split, arm in product((0, 1), ("base", "buffer")):
        plan = plan_run("converged", "cifar10-100", "bce", arm, split)
        epochs = np.arange(plan.config["epochs"], dtype=float)
        curve = {"auc": list(50 + epochs / 4 + split), "fpr@95": list(90 - epochs / 4)}
        handmade.write(tmp_path, plan, curves={"extended": curve, "official": curve})
    figure = figure_of(choose("learning-curves", tmp_path, splits=2, only=("cifar10-100",)))
    base, buffer = (np.asarray(line.get_xydata()) for line in figure.axes[0].get_lines()[:2])
    assert base[0].tolist() == [1, 50.5]
    assert base[-1].tolist() == [150, 87.75]
    assert buffer[-1].tolist() == [150, 69.0]  # its 75 epochs have twice the samples
    assert len(figure.axes) == 2


def test_a_band_ends_at_one_hundred_percent(tmp_path: Path) -> None:
    for split in range(5):
        level = 60.0 if split == 4 else 99.0  # Student's interval: 71.2 to 112.9
        curve = {"auc": [level, level], "fpr@95": [100 - level, 100 - level]}
        plan = plan_run("converged", "cifar100-100", "bce", "base", split)
        handmade.write(tmp_path, plan, curves={"extended": curve, "official": curve})
    figure = figure_of(choose("learning-curves", tmp_path, splits=5, only=("cifar100-100", "base")))
    heights = [np.asarray(chart.collections[0].get_paths()[0].vertices)[:, 1] for chart in figure.axes]
    low, high = student.interval(0.95, 4, loc=91.2, scale=sem([99, 99, 99, 99, 60]))
    assert high > 100
    np.testing.assert_allclose([[own.min(), own.max()] for own in heights], [[low, 100], [0, 100 - low]])


def test_a_legend_of_many_arms_stays_inside_the_figure_and_above_the_charts(tmp_path: Path) -> None:
    for arm in EXPERIMENTS["learning-curves"].arms:
        plan = plan_run("converged", "cifar100-100", "bce", arm, 0)
        curve = {"auc": [50.0, 60.0], "fpr@95": [90.0, 80.0]}
        handmade.write(tmp_path, plan, curves={"extended": curve, "official": curve})
    with figures.look():
        figure = figure_of(choose("learning-curves", tmp_path, splits=1, only=("cifar100-100",)))
        FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    charts = figure.axes[0].get_tightbbox()
    legend = figure.legends[0].get_window_extent()
    assert len(figure.legends[0].get_texts()) == 7
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.x1
    assert charts is not None
    assert charts.y1 < legend.y0 < legend.y1 <= figure.bbox.y1


def test_learning_curves_need_records_that_hold_curves(tmp_path: Path) -> None:
    handmade.write(tmp_path, plan_run("compact", "cifar10-100", "bce", "base", 0))
    with pytest.raises(ValueError, match="converged"):
        figure_of(choose("learning-curves", tmp_path, preset="compact", splits=1))
