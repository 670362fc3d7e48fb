"""`rankreg report`, through `main()` as users meet it."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from rankreg.operating import certify
from rankreg.operating.units import Per
from rankreg.report.model_files import images_in
from tests.conftest import Run

COLUMNS = ("--label", "truth", "--out", "report.html")


@pytest.fixture
def run(run: Run) -> Run:
    """Run `rankreg report`."""
    return lambda *arguments: run("report", *arguments)


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    """Two models' scores in one file, under odd column names."""
    generator = np.random.default_rng(23)
    labels = np.repeat([1, 0], [300, 700])
    frame = pd.DataFrame(
        {
            "sample no": [f"{row:05d}" for row in range(1000)],
            "truth": labels,
            "old one": generator.standard_normal(1000) + 2 * labels,
            "new one": generator.standard_normal(1000) + 3 * labels,
            "answer": np.where(labels == 1, "yes", "no"),
            "place": [f"site {row % 7}" for row in range(1000)],
        }
    ).sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "scores.csv", index=False)
    return frame


def test_a_file_becomes_a_page(run: Run, table: pd.DataFrame) -> None:
    status, out, error = run("scores.csv", *COLUMNS, "--score", "old one", "--id", "sample no", "--tpr", "0.9")
    assert (status, error) == (0, "")
    assert "report.html" in out
    page = Path("report.html").read_text(encoding="utf-8")
    assert repr(certify(table["truth"], table["old one"], tpr=0.9).threshold) in page
    assert hashlib.sha256(Path("scores.csv").read_bytes()).hexdigest() in page
    hardest = table[table["truth"] == 1].sort_values("old one").iloc[0]
    assert f">{hardest['sample no']}</th>" in page
    assert f"<td>{hardest['place']}</td>" in page


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_the_rows_shown_are_the_hardest_ones_own(run: Run, table: pd.DataFrame, ending: str) -> None:
    if ending == "parquet":
        table.to_parquet("t.parquet")
    else:
        table.to_csv(f"t.{ending}", index=False)
    run(f"t.{ending}", *COLUMNS, "--score", "old one", "--show", "new one", "--show", "sample no")
    page = Path("report.html").read_text(encoding="utf-8")
    for label, order in ((1, True), (0, False)):
        for _, row in table[table["truth"] == label].sort_values("old one", ascending=order).head(12).iterrows():
            assert f"<td>{row['new one']:.6g}</td><td>{row['sample no']}</td>" in page


def test_other_separators_read_alike(run: Run, table: pd.DataFrame) -> None:
    table.to_csv("other.csv", index=False, sep=";")
    status, _, error = run("other.csv", *COLUMNS, "--score", "old one")
    assert (status, "--separator ';'" in error) == (2, True)
    assert run("other.csv", *COLUMNS, "--score", "old one", "--separator", ";")[0] == 0
    hardest = table[table["truth"] == 1].sort_values("old one").iloc[0]
    assert f"<td>{hardest['place']}</td>" in Path("report.html").read_text(encoding="utf-8")


def test_several_files_or_columns_are_several_models(run: Run, table: pd.DataFrame) -> None:
    table.sample(frac=1, random_state=3).to_csv("other.csv", index=False)
    arguments = ("scores.csv", "other.csv", *COLUMNS, "--score", "old one", "--score", "new one")
    assert run(*arguments, "--id", "sample no")[0] == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert "other is better than scores" in page
    status, _, error = run(*arguments)
    assert (status, "--id" in error) == (2, True)
    assert (
        run("scores.csv", *COLUMNS, "--score", "old one", "--score", "new one", "--name", "A", "--name", "B")[0]
        == 0
    )
    assert "B is better than A" in Path("report.html").read_text(encoding="utf-8")


def test_a_test_file_stands_beside_the_file_that_chose_the_threshold(run: Run, table: pd.DataFrame) -> None:
    test = table.sample(n=200, random_state=5)
    test.to_csv("test.csv", index=False)
    assert run("scores.csv", *COLUMNS, "--score", "old one", "--test", "test.csv")[0] == 0
    positive = test[test["truth"] == 1]["old one"]
    missed = int((positive < certify(table["truth"], table["old one"]).threshold).sum())
    page = Path("report.html").read_text(encoding="utf-8")
    assert f'data-other="test"><em>test:</em> {missed} of {len(positive)} (' in page
    status, _, error = run("scores.csv", *COLUMNS, "--score", "old one", "--test", "absent.csv")
    assert (status, "absent.csv" in error) == (2, True)
    two = ("scores.csv", "test.csv", *COLUMNS, "--score", "old one", "--id", "sample no")
    status, _, error = run(*two, "--test", "test.csv")  # whose model's scores would it hold?
    assert (status, "once per file" in error) == (2, True)
    test.assign(truth=1).to_csv("one class.csv", index=False)
    status, _, error = run("scores.csv", *COLUMNS, "--score", "old one", "--test", "one class.csv")
    assert (status, "scores, test: undefined without negatives" in error) == (2, True)


def test_labels_are_mapped_as_told_and_never_guessed(run: Run, table: pd.DataFrame) -> None:
    arguments = ("scores.csv", "--label", "answer", "--score", "old one", "--out", "report.html")
    status, _, error = run(*arguments)
    assert (status, "--positive" in error) == (2, True)
    assert run(*arguments, "--positive", "yes")[0] == 0


def test_images_are_found_by_id_or_by_column(run: Run, table: pd.DataFrame, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in table["sample no"]:
        Image.new("L", (8, 8), int(name) % 256).save(folder / f"{name}.png")
    table.assign(file="pictures/" + table["sample no"] + ".png").to_csv("scores.csv", index=False)
    named = ("scores.csv", *COLUMNS, "--score", "old one", "--id", "sample no")
    for arguments in (("--images", "pictures"), ("--image", "file")):
        assert run(*named, *arguments)[0] == 0
        assert Path("report.html").read_text(encoding="utf-8").count("data:image/png;base64,") == 24
    assert run(*named, "--images", "nowhere")[0] == 2
    assert "no image of the 24 samples" in run(*named, "--image", "place")[2]
    assert (
        "--image, or ids with --id" in run("scores.csv", *COLUMNS, "--score", "old one", "--images", "pictures")[2]
    )


def test_images_outside_of_the_folder_are_refused(run: Run, table: pd.DataFrame, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for name in ("pictures/inside.png", "secret.png"):
        Image.new("L", (8, 8), 90).save(tmp_path / name)
    (pictures / "link.png").symlink_to("../secret.png")
    (pictures / "near.png").symlink_to("inside.png")
    asked = ("scores.csv", *COLUMNS, "--score", "old one", "--image", "file", "--images", "pictures")
    for name in ("../secret.png", str(tmp_path / "secret.png"), "link.png", "../secret", "x/../../secret.png"):
        table.assign(file=name).to_csv("scores.csv", index=False)
        status, out, error = run(*asked)
        assert (status, out) == (2, "")
        assert "lies outside of pictures" in error
        assert not Path("report.html").exists()
    for name in ("inside.png", str(pictures / "inside.png"), "near", "../pictures/inside.png"):
        table.assign(file=name).to_csv("scores.csv", index=False)
        assert run(*asked)[0] == 0
        assert Path("report.html").read_text(encoding="utf-8").count("data:image/png;base64,") == 24
        Path("report.html").unlink()


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "loop"])
def test_a_name_that_no_file_can_have_is_no_picture(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert images_in(tmp_path, lambda place: name)(0) is None


def test_pixels_without_a_range_are_refused(run: Run, table: pd.DataFrame, tmp_path: Path) -> None:
    Image.fromarray(np.ones((8, 8), dtype=np.float32)).save("float.tiff")
    table.assign(file="float.tiff").to_csv("scores.csv", index=False)
    status, _, error = run("scores.csv", *COLUMNS, "--score", "old one", "--image", "file")
    assert status == 2
    assert "8 or 16 bits" in error


def test_sixteen_bit_pictures_are_scaled(tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 8), 32768, dtype=np.uint16)).save(tmp_path / "a.tiff")
    image = images_in(tmp_path, lambda place: "a")(0)
    assert image is not None
    assert (np.asarray(image) == 128).all()


BAD = {
    "one class": ("y,s\n1,1\n1,2\n", "bad: undefined without negatives"),
    "no score": ("y,s\n1,1\n0,NaN\n0,\n", "no score (NaN) in 2 rows, first in row 2"),
    "equal scores": ("y,s\n" + "1,3\n" * 200 + "0,3\n" * 9, "bad: all 209 scores equal 3.0"),
    "no such column": ("Y,s\n1,1\n", "no column 'y'"),
    "empty": ("", "is not a table in CSV"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_a_message_and_status_two(run: Run, name: str) -> None:
    text, message = BAD[name]
    Path("bad.csv").write_text(text)
    status, out, error = run("bad.csv", "--label", "y", "--score", "s", "--out", "report.html")
    assert (status, out) == (2, "")
    assert message in error
    assert not Path("report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent.csv",), "absent.csv"),
        (("scores.csv", "--tpr", "98"), "tpr must lie"),
        (("scores.csv", "--per-day", "0"), "per-day must be"),
        (("scores.csv", "--show", "colour"), "no column 'colour'"),
        (("scores.csv", "--name", "a", "--name", "b"), "1 models but 2 names"),
        (("scores.csv", "--out", "nowhere/report.html"), "nowhere is not a folder"),
        (("scores.csv", "--out", "./scores.csv"), "is the data itself"),
        (("scores.csv", "--test", "test.csv", "--out", "test.csv"), "is the data itself"),
    ],
)
def test_bad_requests_are_a_message_and_status_two(
    run: Run, table: pd.DataFrame, arguments: tuple[str, ...], message: str
) -> None:
    before = Path("scores.csv").read_bytes()
    status, out, error = run(*COLUMNS, "--score", "old one", *arguments)
    assert (status, out) == (2, "")
    assert message in error
    assert "[Errno" not in error
    assert Path("scores.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (("--help",), ["torch", "scipy", "pandas", "numpy", "jinja2", "PIL"]),
        (("scores.csv", *COLUMNS, "--score", "old one"), ["torch", "sklearn", "scipy.stats"]),
    ],
)
def test_the_command_starts_without_what_it_does_not_need(
    table: pd.DataFrame, tmp_path: Path, arguments: tuple[str, ...], unwanted: list[str]
) -> None:
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('loaded', [name for name in {unwanted!r} if name in sys.modules]))\n"
        "from rankreg.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "report", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("loaded []\n")


@pytest.mark.parametrize("per", ["row", "unit"])
def test_the_promise_over_units_and_its_threshold(run: Run, table: pd.DataFrame, per: Per) -> None:
    table.assign(patient=np.arange(1000) // 3).to_csv("patients.csv", index=False)
    arguments = ("patients.csv", *COLUMNS, "--score", "old one", "--unit", "patient", "--per", per, "--tpr", "0.8")
    assert run(*arguments)[0] == 0
    page = " ".join(Path("report.html").read_text(encoding="utf-8").split())
    point = certify(table["truth"], table["old one"], tpr=0.8, units=np.arange(1000) // 3, per=per)
    assert repr(point.threshold) in page
    assert f"the {point.units} units are independent of each other" in page
    status, _, error = run("patients.csv", *COLUMNS, "--score", "old one", "--per", "unit")
    assert (status, "--unit" in error) == (2, True)
