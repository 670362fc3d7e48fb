"""Ready to publish: one version, workflows that call targets that exist, and bounds that can be tried."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from release.lowest import INSTEAD, lower_bounds, lowest
from release.package import source_files

import rankreg

ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.stem: path for path in (ROOT / ".github/workflows").glob("*.yml")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def workflow(name: str) -> Any:
    return yaml.safe_load(WORKFLOWS[name].read_text())


def called(name: str) -> list[str]:
    """The make targets that a workflow calls, in order."""
    steps = [step for job in workflow(name)["jobs"].values() for step in job["steps"]]
    return re.findall(r"\bmake ([a-z]+)", "\n".join(step.get("run", "") for step in steps))


def test_the_version_has_one_place_and_the_documents_agree() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == rankreg.__version__
    assert citation["preferred-citation"]["year"] == 2023
    newest = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[0]
    assert newest == rankreg.__version__


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_target_that_a_workflow_calls_exists(name: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert called(name)
    assert set(called(name)) <= targets


def test_ci_tries_every_python_that_the_package_names() -> None:
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert workflow("ci")["jobs"]["tests"]["strategy"]["matrix"]["python"] == named
    assert {"check", "test", "package", "lowest"} <= set(called("ci"))


def test_only_the_job_that_publishes_may_ask_for_a_token() -> None:
    found = workflow("publish")
    assert found["permissions"] == {"contents": "read"}
    assert found["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert found["jobs"]["publish"]["needs"] == "package"
    assert "permissions" not in found["jobs"]["package"]
    assert found[True] == {"push": {"tags": ["v*"]}}  # YAML reads "on" as true


def test_every_dependency_has_a_lower_bound_that_is_tried() -> None:
    tried = dict(line.split("==") for line in lowest())
    assert {name: tried[name] for name in lower_bounds()} == lower_bounds() | INSTEAD


def test_data_files_are_among_the_files_that_a_wheel_must_hold() -> None:
    assert {"rankreg/report/templates/page.js", "rankreg_bench/published/main.csv"} <= source_files()
