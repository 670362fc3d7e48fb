"""What newcomers type by mistake: one sentence, exit status 2, and every file as it was."""

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankreg.names import did_you_mean
from tests.conftest import Run


@pytest.fixture
def scores(run: Run, tmp_path: Path) -> pd.DataFrame:
    """400 scores in good.csv, and an empty folder."""
    rng = np.random.default_rng(2)
    labels = (rng.random(400) < 0.3).astype(int)
    frame = pd.DataFrame({"id": [f"r{k}" for k in range(400)], "y": labels, "s": rng.normal(size=400) + 2 * labels})
    frame.round(4).to_csv(tmp_path / "good.csv", index=False)
    (tmp_path / "folder").mkdir()
    return frame.round(4)


FILES: dict[str, Callable[[pd.DataFrame], bytes]] = {
    "empty": lambda frame: b"",
    "header": lambda frame: b"y,s\n",
    "one class": lambda frame: frame.assign(y=1).to_csv().encode(),
    "no score": lambda frame: frame.assign(s=frame["s"].where(frame["s"] > -1)).to_csv().encode(),
    "text": lambda frame: frame.assign(s="high").to_csv().encode(),
    "two of a name": lambda frame: frame.to_csv(index=False).replace("id,y,s", "s,y,s").encode(),
    "semicolons": lambda frame: frame.to_csv(index=False, sep=";").encode(),
    "utf-16": lambda frame: frame.to_csv(index=False).encode("utf-16"),
    "latin-1": lambda frame: frame.assign(id="é").to_csv(index=False).encode("latin-1"),
    "other case": lambda frame: frame.to_csv(index=False).replace("id,y,s", "id,Y, S ").encode(),
    "three labels": lambda frame: frame.assign(y=np.arange(400) % 3).to_csv().encode(),
    "no label": lambda frame: frame.assign(y=frame["y"].where(frame.index > 3)).to_csv().encode(),
    "binary": lambda frame: b"\0\1\2" * 99,
}
COMMANDS = (
    "certify {} --label y --score s",
    "compare good.csv {} --label y --score s",
    "monitor {} --label y --score s --threshold 0.5",
    "recertify {} --label y --score s --threshold 0.5",
    "report {} --label y --score s --out page.html",
)
TYPED = (
    "certify nowhere.csv --label y --score s",
    "certify folder --label y --score s",
    "certify good.csv --label y --score s --tpr 95",
    "certify good.csv --label y --score s --tpr 1.0",
    "certify good.csv --label y --score s --tpr nan",
    "certify good.csv --label y --score s --confidence 95",
    "certify good.csv --label y --score y",
    "compare good.csv folder --label y --score s",
    "compare good.csv good.csv --label y --score s --draws 0",
    "monitor good.csv --score s",
    "monitor good.csv --score s --threshold nan",
    "monitor good.csv --score s --point folder",
    "monitor good.csv --score s --point good.csv",
    "monitor good.csv --score s --threshold 0.5 --plot nowhere/plot.png",
    "monitor good.csv --score s --threshold 0.5 --time id",
    "report good.csv --label y --score s --out nowhere/page.html",
    "report good.csv --label y --score s --out folder",
    "report good.csv --label y --score s --out good.csv",
    "report good.csv --label y --score s --out page.html --show nope",
    "predict nowhere good.csv --out p.csv",
    "predict folder good.csv --out p.csv",
    "predict good.csv good.csv --out p.csv",
)


def refused(run: Run, line: str) -> str:
    """The sentence with which a command ends; nothing was written, changed or printed."""
    before = {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()}
    status, out, error = run(*shlex.split(line))
    assert (status, out) == (2, "")
    assert error.startswith("rankreg: ")
    assert error.count("\n") == 1
    assert "Errno" not in error
    assert {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()} == before
    return error


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_used_is_one_sentence(run: Run, scores: pd.DataFrame, name: str) -> None:
    Path("odd.csv").write_bytes(FILES[name](scores))
    for command in COMMANDS:
        if (command.split()[0], name) != ("monitor", "one class"):  # all positives: as it should be
            assert "odd" in refused(run, command.format("odd.csv")) or name == "one class"


@pytest.mark.parametrize("line", TYPED)
def test_an_option_that_cannot_be_is_one_sentence(run: Run, scores: pd.DataFrame, line: str) -> None:
    refused(run, line)


def test_line_ends_quotes_and_marks_of_encodings_change_nothing(run: Run, scores: pd.DataFrame) -> None:
    arguments = ("--label", "y", "--score", "s", "--tpr", "0.9", "--json")
    expected = run("certify", "good.csv", *arguments)
    assert expected[0] == 0
    text = scores.to_csv(index=False)
    for odd in (text.replace("\n", "\r\n"), "\ufeff" + text, text.rstrip(), scores.to_csv(index=False, quoting=1)):
        Path("odd.csv").write_bytes(odd.encode())
        assert run("certify", "odd.csv", *arguments) == expected


@pytest.mark.parametrize(
    ("asked", "nearest"), [("Age", "age"), ("score", " Score "), ("scor", "score"), ("x", None)]
)
def test_the_nearest_column_is_suggested_in_any_case(asked: str, nearest: str | None) -> None:
    hint = did_you_mean(asked, ["sex", nearest or "age"])
    assert (repr(nearest) in hint) if nearest else not hint
