"""`make package`: build wheel and sdist, check their files, and try both in an empty environment."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

from markdown_it import MarkdownIt

from release.environment import CONSTRAINTS, ROOT, empty_environment

DIST = ROOT / "dist"
PACKAGES = ("rankreg", "rankreg_bench")
IN_SDIST = ("CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "pyproject.toml", "release/pypi.md")
FROM_HATCH = (".gitignore",)  # may be there


def main() -> None:
    """Build, look, install, try; any failure is an exit status other than 0."""
    shutil.rmtree(DIST, ignore_errors=True)
    # The wheel is built from the sdist.
    python("build", "--outdir", str(DIST), str(ROOT), PIP_CONSTRAINT=str(CONSTRAINTS))
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    version = wheel.name.split("-")[1]
    if os.environ.get("TAG", f"v{version}") != f"v{version}":
        sys.exit(f"the tag {os.environ['TAG']} is not v{version}: tag the version of src/rankreg/__init__.py")
    faults = [*wheel_faults(wheel_files(wheel)), *sdist_faults(sdist_names(sdist))]
    if faults:
        sys.exit("\n".join(faults))
    python("twine", "check", "--strict", str(wheel), str(sdist))  # the description renders
    with empty_environment(CONSTRAINTS.read_text().splitlines()) as environment:
        for again, file in ((), wheel), (("--force-reinstall", "--no-deps"), sdist):
            environment.install(*again, file)
            away = environment.folder.parent / f"away-{file.suffix[1:]}"
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


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel by name."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def sdist_names(sdist: Path) -> set[str]:
    """The files of an sdist, without its folder."""
    with tarfile.open(sdist) as opened:
        return {one.name.partition("/")[2] for one in opened.getmembers() if one.isfile()}


def wheel_faults(files: dict[str, bytes]) -> list[str]:
    """What is missing in a wheel or should not be there: other files, paths of this machine, dead links."""
    own = {name for name in files if not name.split("/")[0].endswith(".dist-info")}
    (metadata,) = (text for name, text in files.items() if name.endswith(".dist-info/METADATA"))
    description = message_from_bytes(metadata).get_payload()
    return [
        *differences("the wheel", own, source_files()),
        *(f"the wheel: {name} holds {ROOT}" for name, text in files.items() if str(ROOT).encode() in text),
        *(f"dead on PyPI: a link to {link}" for link in dead_links(str(description))),
    ]


def sdist_faults(names: set[str]) -> list[str]:
    """What is missing in an sdist or should not be there."""
    wanted = {*(f"src/{name}" for name in source_files()), *IN_SDIST}
    return differences("the sdist", names - set(FROM_HATCH), wanted)


def differences(where: str, found: set[str], wanted: set[str]) -> list[str]:
    """Sentences about files that are missing or too many."""
    missing = [f"{where} lacks {name}" for name in sorted(wanted - found)]
    return missing + [f"{where} should not hold {name}" for name in sorted(found - wanted)]


def dead_links(markdown: str) -> list[str]:
    """Links and pictures that work in the repository only: PyPI has no files, and headings get no anchor there.

    >>> dead_links("[a](docs/a.md), [b](#b), [c](https://example.org), `d[0](1)`")
    ['docs/a.md', '#b']
    """
    inline = [child for token in MarkdownIt().enable("table").parse(markdown) for child in token.children or ()]
    found = [str(token.attrs.get("href") or token.attrs.get("src")) for token in inline if token.attrs]
    return [link for link in found if not re.match(r"https?://|mailto:", link)]


if __name__ == "__main__":
    main()
