"""`make lowest`: the tests of a meaningful part, in an environment with the lowest version of every dependency."""

import re
import sys
import tomllib
from collections.abc import Sequence

from release.environment import CONSTRAINTS, ROOT, empty_environment

INSTEAD = {"torch": "2.13.0"}  # older ones cannot be had everywhere as a small build for CPUs
EXTRAS = ("dask", "figures", "onnx", "parquet", "tune", "xgboost")
TOOLS = ("hypothesis", "pytest", "pytest-xdist")
TESTS = (
    "tests/boosting",
    "tests/bundle",
    "tests/cli",
    "tests/core/test_metrics.py",
    "tests/core/test_ranking.py",
    "tests/core/test_regularizer.py",
    "tests/datasets",
    "tests/estimators",
    "tests/files",
    "tests/fit",
    "tests/operating",
)
BOUND = re.compile(r"^([A-Za-z0-9_-]+)(?:\[.*?\])?>=([0-9.]+)")


def lower_bounds() -> dict[str, str]:
    """The lowest version of every dependency that pyproject.toml states, optional ones too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    found = {}
    for requirement in stated:
        match = BOUND.match(requirement)
        if match is None:
            raise ValueError(f"{requirement!r} in pyproject.toml states no lower bound")
        found[match[1]] = match[2]
    return found


def lowest() -> list[str]:
    """Constraints for pip."""
    pinned = dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines())
    tools = {name: pinned[name] for name in TOOLS}
    return [f"{name}=={version}" for name, version in (lower_bounds() | INSTEAD | tools).items()]


def main(arguments: Sequence[str]) -> None:
    """Install them and run the tests; arguments: other tests or options for pytest."""
    with empty_environment(lowest()) as environment:
        environment.install(f"{ROOT}[{','.join(EXTRAS)}]", *TOOLS)
        environment.run("python", "-m", "pip", "freeze", cwd=environment.folder)
        options = [
            "-q",
            "-m",
            "not slow",
            "-W",
            "default",
            "-p",
            "no:cacheprovider",
        ]  # old versions warn of new ones
        environment.run("python", "-m", "pytest", *options, *(arguments or TESTS), cwd=ROOT)


if __name__ == "__main__":
    main(sys.argv[1:])
