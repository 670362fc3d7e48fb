"""A virtual environment of its own, outside the checkout, in which nothing of the checkout is found by chance."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"


@dataclass(frozen=True)
class Environment:
    """Its folder, and the constraints that every installation must heed."""

    folder: Path
    constraints: Path

    @property
    def bin(self) -> Path:
        """Where its commands are."""
        return self.folder / ("Scripts" if sys.platform == "win32" else "bin")

    def install(self, *requirements: str | Path) -> None:
        """Install with pip."""
        given: list[str | Path] = ["--quiet", "--disable-pip-version-check", "--constraint", self.constraints]
        self.run("python", "-I", "-m", "pip", "install", *given, *requirements, cwd=self.folder)

    def run(self, command: str, *arguments: str | Path, cwd: Path) -> None:
        """Run one of its commands; a CalledProcessError stops everything."""
        path = os.pathsep.join([str(self.bin), os.environ.get("PATH", "")])
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        words = [str(self.bin / command), *map(str, arguments)]
        subprocess.run(words, cwd=cwd, env=kept | {"PATH": path, "OMP_NUM_THREADS": "1"}, check=True)


@contextmanager
def empty_environment(constraints: Sequence[str]) -> Iterator[Environment]:
    """An environment with pip alone, removed in the end; constraints: lines as pip reads them."""
    with TemporaryDirectory(prefix="rankreg-environment-") as name:
        folder = Path(name) / "venv"
        venv.create(folder, with_pip=True)
        file = Path(name) / "constraints.txt"
        file.write_text("".join(f"{line}\n" for line in constraints))
        yield Environment(folder, file)
