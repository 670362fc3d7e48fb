"""Pages that are executed: their Python and shell blocks in order, and the output that they show."""

import math
import re
import shlex
from pathlib import Path
from typing import Any

from tests.own_data import run_command

BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def run_page(page: str, folder: Path, names: dict[str, Any], *, tolerance: float = 0.0) -> int:
    """Run all blocks in a folder; a text block must be part of what the shell block before it printed.

    names: what the Python blocks may use; the current folder must be `folder` for them. Returns how many commands
    were typed. tolerance: how far a number may be from the one shown, relative to it.
    """
    said, typed = "", 0
    for kind, block in BLOCK.findall(page):
        if kind == "python":
            exec(block, names)
        elif kind == "text":
            assert shown_in(block, said, tolerance), f"the page shows\n{block}\nbut the command printed\n{said}"
        else:
            said = ""
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] != ["rankreg"]:
                    continue
                done = run_command(*words[1:], cwd=folder)
                assert done.returncode == 0, (line, done.stderr)
                said, typed = said + done.stdout, typed + 1
    return typed


def shown_in(shown: str, said: str, tolerance: float = 0.0) -> bool:
    """Whether these words follow each other in what was said, however lines were broken."""
    expected, found = shown.split(), said.split()
    starts = range(len(found) - len(expected) + 1)
    return any(all(map(lambda a, b: _same(a, b, tolerance), expected, found[at:])) for at in starts)


def _same(shown: str, said: str, tolerance: float) -> bool:
    if NUMBER.sub("0", shown) != NUMBER.sub("0", said):
        return False
    numbers = [[float(one.replace(",", "")) for one in NUMBER.findall(text)] for text in (shown, said)]
    return all(math.isclose(a, b, rel_tol=tolerance, abs_tol=0) for a, b in zip(*numbers, strict=True))
