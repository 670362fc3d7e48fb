"""What reaches a terminal: names from files cannot steer it, and no encoding fails."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from rankreg import terminal
from rankreg.terminal import Terminal, printable
from tests.conftest import Run
from tests.own_data import command

ESCAPE = "\x1b[2J\x9b31m\x07\x08\u202e"


def test_control_codes_become_pictures_and_other_text_stays() -> None:
    assert printable("a\x1b[31mb\x07\r\x7f") == "a␛[31mb␇␍␡"
    assert printable("\x9b2J \u202e \u2066 \udcff") == "\ufffd2J \ufffd \ufffd \ufffd"
    kept = "Größe ≥ 5\n\tнос, 猫, \u200d, \u00a0"
    assert printable(kept) == kept


def test_a_table_on_a_terminal_has_only_the_escapes_of_its_own_style(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name")
    table.add_row(Text(f"evil{ESCAPE}", style="bold"))
    terminal = Terminal(force_terminal=True, color_system="standard", width=60)
    terminal.print(table, f"evil{ESCAPE}", markup=False, highlight=False)
    out = capsys.readouterr().out
    assert "\x1b[1m" in out  # its own
    assert "\x1b[2J" not in out
    assert not set("\x9b\x07\x08\u202e") & set(out)
    assert out.count("␛[2J") == 2


def test_no_name_in_a_file_reaches_the_terminal_as_a_command(run: Run) -> None:
    rows = "".join(f"{k % 2},{k % 2 + k / 1000},g{k % 4 // 2}{ESCAPE}\n" for k in range(400))
    Path("scores.csv").write_text(f"y{ESCAPE},s,g\n{rows}", encoding="utf-8")
    asked = ("certify", "scores.csv", "--score", "s", "--group", "g", "--tpr", "0.9", "--label")
    status, out, error = run(*asked, f"y{ESCAPE}")
    assert (status, error) == (0, "")
    _, _, refused = run(*asked, "x")
    for said in (out, refused):
        assert not set("\x1b\x9b\x07\x08\u202e") & set(said)
    assert "␛[2J" in out
    _, said, _ = run(*asked, f"y{ESCAPE}", "--json")
    assert said.isascii()
    assert not set("\x1b\x07\x08") & set(said)
    assert json.loads(said)["labels"]["column"] == f"y{ESCAPE}"  # nothing is lost to a program


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ascii"])
def test_an_output_that_lacks_a_sign_spells_it_out(tmp_path: Path, encoding: str) -> None:
    rows = "".join(f"{k % 2},{k % 2 + k / 1000},猫\n" for k in range(400))
    (tmp_path / "scores.csv").write_text(f"y,s,g\n{rows}", encoding="utf-8")
    environment = os.environ | {"PYTHONIOENCODING": f"{encoding}:strict", "PYTHONUTF8": "0", "COLUMNS": "200"}
    done = subprocess.run(
        command("certify", "scores.csv", "--label", "y", "--score", "s", "--tpr", "0.9", "--group", "g"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b">=" in done.stdout
    done.stdout.decode(encoding)


def test_an_endless_message_is_cut(run: Run) -> None:
    Path("scores.csv").write_text("x" * 100_000 + "\n1\n")
    status, _, error = run("certify", "scores.csv", "--label", "y", "--score", "s")
    assert status == 2
    assert len(error) < 3000


@pytest.mark.parametrize(
    "fault", [MemoryError("Unable to allocate 9 TiB"), RecursionError("maximum recursion depth")]
)
def test_what_the_machine_cannot_do_is_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    from rankreg import score_files

    def failing(*ignored: object) -> None:
        raise fault

    monkeypatch.setattr(score_files, "read_scores", failing)
    status, out, error = run("certify", "scores.csv", "--label", "y", "--score", "s")
    assert (status, out) == (2, "")
    assert error.startswith("rankreg: ")
    assert "Traceback" not in error
    assert error.count("\n") == 1


def test_long_names_are_short_on_the_screen_and_whole_in_json(run: Run) -> None:
    sick, well, site = "S" * 5000, "W" * 5000, "g" * 3000
    rows = "".join(
        f"{sick if k % 2 else well},{k % 2 + k % 37 / 30},{site if k % 3 else 'h'}\n" for k in range(600)
    )
    Path("scores.csv").write_text(f"y,s,g\n{rows}")
    asked = ("certify", "scores.csv", "--label", "y", "--score", "s", "--tpr", "0.8", "--positive", sick)
    for more in ((), ("--group", "g"), ("--group", "g", "--fpr", "0.9")):
        status, said, _ = run(*asked, *more)
        assert status == 0
        assert max(map(len, re.findall(r"\w+", said))) <= 60
    record = json.loads(run(*asked, "--group", "g", "--json")[1])
    assert (record["labels"]["positive"], record["labels"]["others"]) == (sick, [well])
    assert site in record["points"]
    status, _, refused = run(*asked[:-2])
    assert status == 2
    assert len(refused) < 400


def test_a_long_task_says_now_and_then_what_it_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    log = terminal.SparseLog()
    for now in (1.0, 29.0, 31.0, 50.0, 62.0):
        log.note(f"at {now:g}")
    assert capsys.readouterr().err.split("\n") == ["at 31", "at 62", ""]
