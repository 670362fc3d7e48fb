"""Ready to publish: one version, workflows that call targets that exist, and bounds that can be tried."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from release.lowest import INSTEAD, lower_bounds, lowest
from release.package import IN_SDIST, dead_links, sdist_faults, source_files, wheel_faults

import rankreg
from tests.documents import BLOCK

ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.stem: path for path in (ROOT / ".github/workflows").glob("*.yml")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

DESCRIPTION = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")


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
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, flags=re.MULTILINE)[0] == rankreg.__version__
    assert [line for line in changes.splitlines() if len(line) > 100] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_target_that_a_workflow_calls_exists(name: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert called(name)
    assert set(called(name)) <= targets


def test_ci_tries_every_python_that_the_package_names() -> None:
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert workflow("ci")["jobs"]["tests"]["strategy"]["matrix"]["python"] == named
    assert {"check", "test", "docs", "package", "lowest"} <= set(called("ci"))


def test_ci_tries_all_that_the_local_script_tries() -> None:
    local = re.findall(r"^make ([a-z]+)", (ROOT / ".ci/run").read_text(), flags=re.MULTILINE)
    assert local
    assert set(local) <= set(called("ci"))


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
    assert {
        "rankreg/py.typed",
        "rankreg/report/templates/page.js",
        "rankreg_bench/published/main.csv",
    } <= source_files()


def wheel(**changes: bytes) -> dict[str, bytes]:
    """The files of a good wheel, and other ones."""
    described = f"Metadata-Version: 2.4\nName: rankreg\n\n{DESCRIPTION}".encode()
    return dict.fromkeys(source_files(), b"") | {"rankreg-9.dist-info/METADATA": described} | changes


def test_a_wheel_with_other_files_machine_paths_or_dead_links_is_refused() -> None:
    assert wheel_faults(wheel()) == []
    without = wheel()
    del without["rankreg/py.typed"]
    linked = b"Name: rankreg\n\n![a picture](docs/images/report-1400.png)"
    bad = [
        without,
        wheel(**{"tests/test_it.py": b""}),
        wheel(**{"rankreg/metrics.py": f"# {ROOT}".encode()}),
        wheel(**{"rankreg-9.dist-info/METADATA": linked}),
    ]
    assert [len(wheel_faults(files)) for files in bad] == [1, 1, 1, 1]


def test_an_sdist_holds_what_a_build_needs_and_no_tests_that_cannot_run_there() -> None:
    good = {*IN_SDIST, *(f"src/{name}" for name in source_files())}
    assert sdist_faults(good) == []
    assert len(sdist_faults(good - {"LICENSE"} | {"tests/test_release.py"})) == 2


def test_the_description_on_pypi_has_no_dead_link_and_shows_only_what_the_readme_runs() -> None:
    assert dead_links(DESCRIPTION) == []
    assert dead_links("[a](docs/a.md), ![b](b.png), [c](#d), [e](https://example.org)") == [
        "docs/a.md",
        "b.png",
        "#d",
    ]
    run = {(kind, block) for kind, block in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))}
    shown = BLOCK.findall(DESCRIPTION)
    assert [kind for kind, _ in shown] == ["python", "sh", "sh", "text"]
    assert set(shown) <= run
    assert [line for line in DESCRIPTION.splitlines() if len(line) > 100] == []


def test_the_description_on_pypi_names_every_extra() -> None:
    extras = {name for name, needs in PROJECT["optional-dependencies"].items() if needs}
    assert {name for name in extras if f"`{name}`" in DESCRIPTION} == extras
