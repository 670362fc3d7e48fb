"""The bench is a guest of the library: public names only, and the library does without it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rankreg_bench
from tests.conftest import Run

HOME = Path(rankreg_bench.__file__).parent


def imported(file: Path) -> set[str]:
    """Every module and name that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_the_bench_imports_public_names_of_the_library_only() -> None:
    names = {name for file in HOME.rglob("*.py") for name in imported(file) if name.startswith("rankreg.")}
    assert names
    assert [name for name in names if any(part.startswith("_") for part in name.split("."))] == []


@pytest.mark.parametrize(("module", "words"), [("rankreg.cli", ["bench", "list"]), ("rankreg_bench.cli", ["list"])])
def test_both_doors_lead_to_the_same_commands(module: str, words: list[str]) -> None:
    program = f"import sys; sys.argv = ['x', *{words}]; from {module} import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, "label-noise" in done.stdout) == (0, True), done.stderr


def test_without_the_package_the_door_says_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rankreg_bench"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rankreg_bench", None)
    for command in (("bench", "list"), ("demo",)):
        status, _, error = run(*command)
        assert status == 2
        assert "rankreg_bench" in error
        assert error.count("\n") == 1


def test_a_wrong_option_and_a_failure_keep_their_exit_status(run: Run) -> None:
    assert run("bench", "table", "--nonsense")[0] == 2
    assert run("bench", "table", "nonsense")[0] == 2
    assert "did you mean" in run("bench", "table", "cifar10-10")[2]


def test_tables_and_figures_need_no_torch() -> None:
    program = "import sys; sys.modules['torch'] = None; import rankreg_bench.cli, rankreg_bench.figures"
    subprocess.run([sys.executable, "-c", program], check=True)
