"""`make tree`: the list of source files in docs/architecture.md, from the first sentence of each docstring."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- tree: made by docs/tree.py -->", "<!-- end of the tree -->"


def sentence(file: Path) -> str:
    """The first sentence of a file's docstring."""
    paragraph = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    text = " ".join(paragraph.split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", text, maxsplit=1)[0]


def tree() -> str:
    """Every source file with one line, room by room."""
    lines = []
    for folder in sorted({file.parent for file in (ROOT / "src").rglob("*.py")}):
        files = sorted(folder.glob("*.py"))
        lines += ["", f"**`{folder.relative_to(ROOT)}/`**", "", "| file | what it holds |", "|---|---|"]
        lines += [f"| `{file.name}` | {sentence(file).replace('|', chr(92) + '|')} |" for file in files]
    return "\n".join([START, *lines[1:], "", END])


def page() -> str:
    """The whole page with the tree of today."""
    before, rest = PAGE.read_text().split(START)
    return before + tree() + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page())
