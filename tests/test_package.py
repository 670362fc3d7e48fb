"""The package as a newcomer meets it: its names, its README, its command."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from docs.reference_pages import commands, homes
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

import rankreg

ROOT = Path(__file__).parents[1]
HOW_TO = sorted(set(ROOT.glob("docs/how-to/*.md")) - {ROOT / "docs/how-to/index.md"})
FOLDERS = ("guide", "theory", "coming-from", ".")  # of docs: every page there
PAGES = {
    page.relative_to(ROOT).with_suffix("").as_posix(): page.read_text(encoding="utf-8")
    for page in [
        ROOT / "README.md",
        *(page for one in FOLDERS for page in sorted((ROOT / "docs" / one).glob("*.md"))),
        *HOW_TO,
    ]
}
SNIPPET = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", flags=re.DOTALL)  # code, and what it prints
EXAMPLES = {
    f"{name}-{number}": (code, shown)
    for name, page in PAGES.items()
    for number, (code, shown) in enumerate(SNIPPET.findall(page))
}


def test_every_public_name_is_there_and_nothing_else_is() -> None:
    for name in rankreg.__all__:
        assert getattr(rankreg, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'rankregg'"):
        rankreg.rankregg  # noqa: B018


def test_importing_the_package_does_not_import_torch() -> None:
    program = "import sys, rankreg, rankreg.operating; sys.exit(bool({'torch', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning 2.6 with torch 2.13
@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.parametrize(("code", "shown"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_python_of_the_documents_runs_and_prints_what_they_show(
    code: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    inputs = torch.randn(200, 5)
    labels = (inputs[:, 0] + torch.randn(200) > 1.8).long()
    model = nn.Sequential(nn.Linear(5, 1), nn.Flatten(0))
    names = {
        "model": model,
        "loader": DataLoader(TensorDataset(inputs, labels), batch_size=20),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "bce": binary_cross_entropy_with_logits,
        "folder": tmp_path / "run",
        "y_true": labels.numpy(),
        "y_score": inputs[:, 0].numpy(),
    }
    exec(code, names)
    if shown:
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_page_asks_a_question_and_shows_the_output_of_every_answer(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.splitlines()[0].startswith("# ")
    assert text.splitlines()[0].endswith("?")
    answers = SNIPPET.findall(text)
    assert answers
    assert all(shown for _, shown in answers)


def test_the_five_line_example_adds_five_lines() -> None:
    marked = [line for line in EXAMPLES["README-0"][0].splitlines() if re.search(r"# [1-5]$", line)]
    assert len(marked) == 5


def test_the_documents_import_public_names_only() -> None:
    """What a page tells people to import is in the reference."""
    tutorials = [script.read_text(encoding="utf-8") for script in (ROOT / "docs/tutorials").glob("*.py")]
    blocks = [
        block for page in PAGES.values() for block in re.findall(r"```py(?:thon)?\n(.*?)```", page, re.DOTALL)
    ]
    imported = {
        f"{node.module}.{name.name}"
        for code in (*tutorials, *blocks)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rankreg"
        for name in node.names
    }
    assert len(imported) > 30
    assert sorted(imported - homes().keys()) == []


def test_every_command_and_option_in_the_documents_exists() -> None:
    """Lines that are typed, and commands within sentences."""
    text = "\n".join(PAGES.values())
    typed = re.findall(r"^(?:    )(rankreg [a-z].*)", text, flags=re.MULTILINE)
    typed += [
        line for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()
    ]
    typed += [" ".join(code.split()) for code in re.findall(r"`(rankreg [a-z][^`]*)`", text)]
    known = commands()
    assert len(typed) > 60
    for line in typed:
        words = line.partition(" #")[0].split()
        name = next((" ".join(words[:n]) for n in (3, 2) if " ".join(words[:n]) in known), None)
        assert name, f"no such command: {line}"
        options = {option for parameter in known[name].params for option in parameter.opts}
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= options | {"--help"}, f"no such option: {line}"


def test_the_console_script_shows_its_version_and_refuses_unknown_commands() -> None:
    script = Path(sys.executable).with_name("rankreg")
    shown = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == f"rankreg {rankreg.__version__}"
    assert subprocess.run([script, "fitt"], capture_output=True, check=False).returncode == 2
