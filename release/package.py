"""`make package`: build wheel and sdist, check their files, and try the wheel in an empty environment."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from release.environment import CONSTRAINTS, ROOT, empty_environment

DIST = ROOT / "dist"
PACKAGES = ("rankreg", "rankreg_bench")
IN_SDIST = ("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "constraints.txt", "pyproject.toml")


def main() -> None:
    """Build, look, install, try; any failure is an exit status other than 0."""
    shutil.rmtree(DIST, ignore_errors=True)
    # The wheel is built from the sdist.
    python("build", "--outdir", str(DIST), str(ROOT), PIP_CONSTRAINT=str(CONSTRAINTS))
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    missing = missing_in_wheel(wheel) + missing_in_sdist(sdist)
    version = wheel.name.split("-")[1]
    if os.environ.get("TAG", f"v{version}") != f"v{version}":
        sys.exit(f"the tag {os.environ['TAG']} is not v{version}: tag the version of src/rankreg/__init__.py")
    if missing:
        sys.exit(f"not in {wheel.name} or {sdist.name}: {', '.join(missing)}")
    python("twine", "check", "--strict", str(wheel), str(sdist))  # the README renders as the long description
    with empty_environment(CONSTRAINTS.read_text().splitlines()) as environment:
        environment.install(wheel)
        away = environment.folder.parent / "away"
        away.mkdir()
        environment.run("python", "-I", ROOT / "release" / "smoke.py", cwd=away)
    print(f"{wheel.name} and {sdist.name}: built, installed and tried with Python {sys.version.split()[0]}")


def python(module: str, *arguments: str, **environment: str) -> None:
    """Run a module in this environment."""
    subprocess.run([sys.executable, "-m", module, *arguments], env=os.environ | environment, check=True)


def source_files() -> set[str]:
    """Every file of the packages, code and data alike, as paths in a wheel."""
    found = {path for package in PACKAGES for path in (ROOT / "src" / package).rglob("*") if path.is_file()}
    return {path.relative_to(ROOT / "src").as_posix() for path in found if "__pycache__" not in path.parts}


def missing_in_wheel(wheel: Path) -> list[str]:
    """Files of the packages that a wheel does not hold."""
    with zipfile.ZipFile(wheel) as opened:
        return sorted(source_files() - set(opened.namelist()))


def missing_in_sdist(sdist: Path) -> list[str]:
    """Files that an sdist must hold and does not."""
    with tarfile.open(sdist) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    return sorted({*(f"src/{name}" for name in source_files()), *IN_SDIST} - held)


if __name__ == "__main__":
    main()
