"""`rankreg export`: what it says, and what it refuses with exit status 2."""

import sys
from pathlib import Path

import pytest

from rankreg.bundle.storage import save_bundle
from rankreg.models import build_model
from tests.bundle.test_storage import contents
from tests.conftest import Run


@pytest.fixture
def export(run: Run, tmp_path: Path) -> Run:
    """The command, in a folder that holds the folder `bundle`, threshold 0.5, uncertified."""
    save_bundle(tmp_path / "bundle", build_model(contents()["model"]), **contents())
    return lambda *arguments: run("export", *arguments)


def test_the_command_says_what_it_wrote_and_what_is_left_to_do(tmp_path: Path, export: Run) -> None:
    status, said, warned = export("bundle", "model.onnx")
    assert status == 0
    assert "outputs score and alarm (score ≥ 0.5)" in said
    assert warned == "The threshold is uncertified: no recall is guaranteed.\n"
    assert "Left to you: read the table" in said
    assert (tmp_path / "model.onnx").stat().st_size > 1000
    assert export("bundle", "model.onnx")[0] == 2
    assert export("bundle", "model.onnx", "--force")[0] == 0


def test_the_command_refuses_what_is_no_bundle_and_what_is_no_name(tmp_path: Path, export: Run) -> None:
    assert export("nowhere", "m.onnx")[::2] == (
        2,
        "rankreg: no bundle at nowhere: give the folder that `rankreg fit --out` wrote\n",
    )
    status, _, error = export("bundle", "bundle.json")
    assert (status, "let it end in .onnx" in error) == (2, True)
    (tmp_path / "bundle/model.safetensors").write_bytes(b"cut")
    status, _, error = export("bundle", "m.onnx")
    assert (status, "truncated or was changed" in error) == (2, True)
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_onnx_one_line_says_what_to_install(
    tmp_path: Path, export: Run, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    status, _, error = export("bundle", "m.onnx")
    assert (status, error) == (2, "rankreg: exporting needs onnx and onnxruntime: pip install 'rankreg[onnx]'\n")
    assert not (tmp_path / "m.onnx").exists()


def test_the_help_says_what_goes_in_and_what_comes_out(export: Run) -> None:
    status, said, _ = export("--help")
    assert status == 0
    for word in ("BUNDLE", "MODEL.onnx", "--force", "score and alarm", "numbers and texts", "onnxruntime"):
        assert word in " ".join(said.split())
