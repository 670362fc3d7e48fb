"""Tables and comparisons, as the command line shows them."""

import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rankreg_bench.arms import TUNED
from rankreg_bench.grids import plan_run
from rankreg_bench.pages import Page, rendered
from rankreg_bench.records import Selection
from rankreg_bench.tables import Sheet, pages_of
from tests.bench.handmade import write, write_all
from tests.conftest import Run

LOSSES = ("bce", "ldam")
ONLY = ("--only", "bce", "--only", "ldam")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two losses, four arms, three splits of a main table, one ablation, one noise share and several classes."""
    home = tmp_path_factory.mktemp("records")
    write_all(home, "cifar100-100", only=LOSSES)
    write_all(home, "buffer-policy", splits=2, only=("cifar100-100",))
    write_all(home, "label-noise", splits=2, only=("cifar10-100", "cifar10-100-noise-50", "base", "rankreg"))
    write_all(home, "multiclass", splits=2, only=("cifar10-lt-100",))
    return home


@pytest.fixture
def table(run: Run, folder: Path) -> Run:
    """`rankreg bench …` on these records."""
    return lambda *words: run("bench", *words, "--records", str(folder))


def test_a_main_table_has_the_papers_rows_the_published_values_and_delta(table: Run) -> None:
    status, out, error = table("table", "cifar100-100", *ONLY, "--splits", "3")
    assert (status, error) == (0, "")
    labels = [line.strip().split("  ")[0] for line in out.splitlines()]
    start = labels.index("BCE")
    assert labels[start : start + 4] == ["BCE", "+ ALM", "+ buffer", "+ RankReg (scores)"]
    assert "(93.0)" in out  # BCE's published FPR@98
    assert out.index("official test set: 40 positives, 80 negatives") < out.index("extended test set")
    assert "100 positives, 80 negatives" in out


def test_what_could_be_detected_is_said_of_the_ranking_term(run: Run, tmp_path: Path) -> None:
    write_all(tmp_path, "last-epoch", splits=3, only=("cifar100-100",))
    out = " ".join(run("bench", "table", "last-epoch", "--records", str(tmp_path))[1].split())
    assert "a true RankReg (scores), last epoch − buffer, last epoch of" in out


def test_runs_that_diverged_are_named(run: Run, tmp_path: Path) -> None:
    write_all(tmp_path, "label-noise", splits=2, only=("cifar10-100",))
    assert "Diverged" not in run("bench", "table", "label-noise", "--records", str(tmp_path))[1]
    write(tmp_path, plan_run("compact", "cifar10-100", "bce", "alm", 1), diverged="training diverged in epoch 2")
    for name in ("label-noise", "cifar10-100"):
        out = " ".join(run("bench", "table", name, "--records", str(tmp_path))[1].split())
        assert "their best epoch before that: BCE + ALM on CIFAR-10 1:100, split 1." in out


def test_the_published_delta_is_that_of_the_losses_shown(folder: Path) -> None:
    (page, _) = pages_of(Selection("cifar100-100", "compact", folder, 3, LOSSES))
    gains = {n.measure: n.published for n in page.numbers if n.kind == "ensemble gain" and n.published is not None}
    assert gains["fpr@98"] == pytest.approx(((91.0 - 85.2) + (80.0 - 70.3)) / 2)


def test_the_best_of_each_loss_is_underlined_with_ties_as_printed(tmp_path: Path) -> None:
    for split in range(2):
        for arm, quality in (("base", 0.1), ("alm", 50.0), ("buffer", 60.0), ("rankreg", 70.0)):
            write(tmp_path, plan_run("compact", "cifar100-100", "bce", arm, split), quality=quality)
    selection = Selection("cifar100-100", "compact", tmp_path, 2, ("bce",))
    block = Sheet(selection, selection.grids("official")[0], "cifar100-100").ensembles()
    assert [row.entries[0].best for row in block.rows[:4]] == [False, True, True, True]
    page = Page("", (block,))
    assert rendered([page], "text").count("_0.0_") == 9
    assert rendered([page], "markdown").count("<u>0.0</u>") == 9
    assert rendered([page], "latex").count(r"\underline{0.0}") == 9


def test_cells_without_records_are_dashes_and_the_command_that_fills_them_is_named(
    run: Run, tmp_path: Path
) -> None:
    home = tmp_path / "records"
    for arm, splits in (("base", 2), ("rankreg", 1)):
        for split in range(splits):
            write(home, plan_run("compact", "cifar100-100", "bce", arm, split))
    status, out, _ = run("bench", "table", "cifar100-100", "--only", "bce", "--test", "official")
    assert status == 0
    assert re.search(r"\+ buffer +– \(–\) .*0/5", out)
    assert re.search(r"\+ RankReg \(scores\) .* 1/5\n", out)
    assert "17 of 20 runs are missing: rankreg bench run cifar100-100 --preset compact --only bce" in out
    assert "more splits are needed" in out
    assert "_" not in out.split("Single networks")[0]  # ensembles of different splits have no best


def test_a_table_without_any_record_is_dashes_beside_the_published_values(run: Run) -> None:
    status, out, _ = run("bench", "table", "cifar100-100", "--only", "bce")
    assert status == 0
    assert "– (93.0)" in out
    assert "20 of 20 runs are missing" in out


def test_the_table_of_long_runs_has_rows_for_what_they_train_only(run: Run) -> None:
    status, out, _ = run("bench", "table", "cifar10-100", "--preset", "converged")
    assert status == 0
    assert re.search(r"\+ RankReg \(published\) .*\(94\.3\)", out)
    assert "S-ML" not in out
    assert "70 of 70 runs are missing" in out


def test_rows_of_several_losses_name_the_loss(run: Run) -> None:
    words = ("--preset", "converged", "--only", "cifar100-100", "--test", "official")
    status, out, _ = run("bench", "table", "gains", *words)
    labels = {line.split("  ")[0].strip() for line in out.splitlines()}
    assert status == 0
    assert {"LDAM base loss", "LDAM + buffer", "CB-BCE base loss", "CB-BCE + buffer"} <= labels
    assert "30 of 30 runs are missing" in out


def test_every_table_names_what_it_could_have_detected_and_how_many_comparisons_it_makes(table: Run) -> None:
    for words in (("cifar100-100", *ONLY), ("label-noise",), ("multiclass",)):
        _, out, _ = table("table", *words)
        text = " ".join(out.split())
        assert "with 80 % power at the 5 % level" in text
        assert re.search(r"\d+ differences are shown.* Holm's correction", text)
        assert "better than" not in text


def test_noise_shares_are_columns_beside_the_published_values(table: Run) -> None:
    status, out, _ = table("table", "label-noise", "--splits", "2", "--test", "official")
    assert status == 0
    head = next(line for line in out.splitlines() if "flipped labels" in line)
    assert head.split()[2::2] == ["0", "5", "10", "20", "30", "40", "50"]
    row = next(line for line in out.splitlines() if "base loss" in line)
    assert re.findall(r"\(([\d.]+)\)", row) == ["56.0", "57.7", "61.2", "65.5", "72.0", "81.0", "81.2"]


def test_several_classes_are_measured_by_the_others_error(table: Run) -> None:
    status, out, _ = table("table", "multiclass", "--splits", "2", "--only", "cifar10-lt-100", "--test", "official")
    assert status == 0
    assert "error@80" in out
    assert "12 critical, 108 others" in out
    assert "(29.8)" in out


@pytest.mark.parametrize("style", ["text", "markdown", "csv", "latex"])
def test_the_same_records_give_the_same_bytes(table: Run, style: str) -> None:
    words = ("table", "cifar100-100", *ONLY, "--format", style)
    first, again = table(*words), table(*words)
    assert first == again
    assert first[0] == 0


def test_csv_holds_every_number_once(table: Run) -> None:
    _, out, _ = table("table", "cifar100-100", *ONLY, "--splits", "3", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == [
        *("experiment", "data", "test", "loss", "arm", "measure", "kind"),
        *("value", "low", "high", "splits", "published"),
    ]
    keys = [tuple(row[name] for name in ("test", "loss", "arm", "measure", "kind")) for row in rows]
    assert len(set(keys)) == len(keys)
    kinds = [row["kind"] for row in rows if row["test"] == "official"]
    assert kinds.count("ensemble") == kinds.count("single") == 2 * 4 * 4
    assert kinds.count("difference") == kinds.count("p-value") == 4 * 4
    assert all(row["splits"] == "3" for row in rows if row["kind"] == "single")


def test_csv_names_the_losses_of_a_mean_over_some_of_them(tmp_path: Path) -> None:
    write_all(tmp_path, "cifar100-100", splits=2, only=LOSSES)
    names = {}
    for only in ((), LOSSES, ("bce",)):
        (page,) = pages_of(Selection("cifar100-100", "compact", tmp_path, 2, only), "official")
        pooled = [number for number in page.numbers if " " in number.arm]
        names[only] = {number.loss for number in pooled}
        assert {number.kind for number in pooled} >= {"difference", "ensemble gain", "single gain"}
    assert names == {(): {"bce ldam"}, LOSSES: {"all"}, ("bce",): {"bce"}}


def test_markdown_rows_have_as_many_cells_as_their_head(table: Run) -> None:
    _, out, _ = table("table", "cifar100-100", *ONLY, "--format", "markdown")
    for block in re.findall(r"(?:^\|.*\n)+", out, flags=re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_a_file_is_written_whole_in_the_format_of_its_ending(table: Run, tmp_path: Path) -> None:
    words = ("table", "buffer-policy", "--splits", "2")
    for ending, style in (("md", "markdown"), ("csv", "csv"), ("tex", "latex"), ("txt", "text")):
        status, out, _ = table(*words, "--out", f"table.{ending}")
        assert (status, out) == (0, f"written: table.{ending}\n")
        assert (tmp_path / f"table.{ending}").read_text() == table(*words, "--format", style)[1]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".md", ".tex", ".txt"]


def test_text_fits_in_130_columns(table: Run) -> None:
    for words in (("cifar100-100", *ONLY), ("buffer-policy",), ("multiclass",)):
        assert max(map(len, table("table", *words, "--splits", "3")[1].splitlines())) <= 130


def test_a_comparison_has_a_row_for_each_loss_and_one_over_all(table: Run) -> None:
    status, out, error = table("compare", "rankreg", "buffer", "--data", "cifar100-100", "--test", "official")
    assert (status, error) == (0, "")
    first = out.split("Ensembles of these")[0]
    assert [line.split("  ")[0].strip() for line in first.splitlines() if re.match(r" [A-Za-z]", line)] == [
        *("BCE", "LDAM", "all losses")
    ]
    assert "split 2" in out
    assert re.search(
        r"RankReg \(scores\) − buffer, 3 splits, 2 losses: FPR@98 .*(not told apart|lower|higher)", out
    )


def test_several_data_sets_are_compared_at_a_glance_before_the_details(table: Run) -> None:
    words = ("compare", "rankreg", "base", "--test", "official")
    brief, whole = (table(*words, *more)[1] for more in (("--brief",), ()))
    assert whole.startswith(brief.rstrip())
    assert brief.count("RankReg (scores) − base of single networks") == 2  # two classes, and several
    rows = {line.split("  ")[0].strip(): line.rstrip() for line in brief.splitlines() if line.startswith(" ")}
    for data, loss, title in (
        ("cifar100-100", "2 losses", "CIFAR-100 1:100"),
        ("cifar10-100", "BCE", "CIFAR-10 1:100"),
    ):
        alone = table(*words, "--data", data)[1]
        assert "every data set" not in alone
        last = [line for line in alone.split("Ensembles of these")[0].splitlines() if re.match(r" (BCE|all)", line)]
        numbers = re.findall(r"[+−]?[\d.]+ \([^)]*\)", last[-1])
        assert re.findall(r"[+−]?[\d.]+ \([^)]*\)", rows[title]) == [*numbers[:2], numbers[3]]  # not FPR@90, FPR@92
        assert rows[title].endswith(loss)
    one_by_one = csv.DictReader(io.StringIO(table(*words, "--format", "csv")[1]))
    at_once = list(csv.DictReader(io.StringIO(table(*words, "--brief", "--format", "csv")[1])))
    assert at_once == [row for row in one_by_one if row["test"] == "official"] != []


def test_a_comparison_the_other_way_round_has_the_opposite_sign(table: Run) -> None:
    found = {}
    for arms in (("rankreg", "base"), ("base", "rankreg")):
        words = ("compare", *arms, "--data", "cifar100-100", "--loss", "bce", "--format", "csv")
        rows = csv.DictReader(io.StringIO(table(*words)[1]))
        found[arms] = [float(row["value"]) for row in rows if row["kind"] == "difference"]
    assert found["rankreg", "base"] == pytest.approx([-value for value in found["base", "rankreg"]])
    assert len(found["rankreg", "base"]) == 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("table", "cifar100-10"), "did you mean 'cifar100-100'"),
        (("table", "cifar100-100", "--format", "html"), "unknown format 'html'"),
        (("table", "cifar100-100", "--out", "table.pdf"), "unknown ending of --out '.pdf'"),
        (("table", "cifar100-100", "--test", "train"), "unknown test set 'train'"),
        (("table", "cifar100-100", "--preset", "large"), "unknown preset 'large'"),
        (("table", "cifar100-100", "--only", "focal"), "unknown part of cifar100-100 'focal'"),
        (("table", "tuning", "--test", "official"), "never on a test set"),
        (("compare", "rankreg", "rankreg"), "name two"),
        (("compare", "rankreg", "bufer"), "did you mean 'buffer'"),
        (("compare", "rankreg", "oversampling"), "no split is recorded for both"),
        (("compare", "base", next(iter(TUNED)), "--test", "official"), "never on a test set"),
        (("compare", "reach-10", "buffer", "--test", "official"), "never on a test set"),
    ],
)
def test_what_cannot_be_shown_is_a_message(table: Run, words: tuple[str, ...], message: str) -> None:
    status, out, error = table(*words)
    assert (status, out) == (2, "")
    assert message in " ".join(error.split())


@pytest.mark.parametrize(
    "words",
    [
        ("table", "cifar100-100", "--only", "bce"),
        ("table", "multiclass", "--format", "latex"),
        ("compare", "rankreg", "buffer", "--data", "cifar100-100"),
        ("status",),
    ],
)
def test_records_are_enough_without_torch_and_data(folder: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    code = (
        "import atexit, sys\n"
        "sys.modules['torch'] = None\n"  # importing it fails
        "unwanted = ['sklearn', 'scipy.stats', 'pandas', 'matplotlib']\n"
        "atexit.register(lambda: print('loaded', [name for name in unwanted if name in sys.modules]))\n"
        "from rankreg.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "bench", *words, "--records", str(folder)]
    home = {name: value for name, value in os.environ.items() if not name.startswith("RANKREG")}
    done = subprocess.run(command, cwd=tmp_path, env=home, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("loaded []\n")
