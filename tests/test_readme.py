"""README and quick start: each is one page, and everything in it runs and prints what it shows."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from rankreg.operating import positives_needed
from tests.documents import run_page, shown_in

QUICK_START = (Path(__file__).parents[1] / "docs/quick-start.md").read_text(encoding="utf-8")
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
TOLERANCE = 0.15  # of the fit's numbers, which depend on the processor


def test_it_has_at_most_150_lines_of_at_most_100_characters() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.slow
def test_its_blocks_run_in_order_and_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = torch.randn(200, 5)
    labels = (inputs[:, 0] > 1).long()
    model = nn.Sequential(nn.Linear(5, 1), nn.Flatten(0))
    names = {
        "model": model,
        "loader": DataLoader(TensorDataset(inputs, labels), batch_size=20),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "bce": binary_cross_entropy_with_logits,
    }
    fitted, certified = README.split("## The operating point")
    assert run_page(fitted, tmp_path, names, tolerance=TOLERANCE) == 2
    assert run_page(certified, tmp_path, names) == 1


@pytest.mark.slow
def test_the_blocks_of_the_quick_start_run_in_order_and_print_what_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scores, table = QUICK_START.split("## A model for a table")
    assert run_page(scores, tmp_path, {}) == 2
    assert run_page(table, tmp_path, {}, tolerance=TOLERANCE) == 3
    assert (tmp_path / "model/report.html").is_file()


def test_its_numbers_of_positives_are_those_that_certify() -> None:
    (row,) = re.findall(r"\| `certify`.*\|(.*)\|$", README, flags=re.MULTILINE)
    found = {float(tpr) / 100: int(count) for tpr, count in re.findall(r"(\d+) %: (\d+)", row)}
    assert found == {tpr: positives_needed(tpr, 0.95) for tpr in (0.9, 0.95, 0.98, 0.99)}


def test_output_that_differs_is_noticed() -> None:
    assert shown_in("Price  expect 221 alarms", "…\nPrice expect\n 221 alarms per 1,000")
    assert shown_in("expect 221 (179", "expect 230 (170", tolerance=0.1)
    assert not shown_in("expect 221", "expect 222")
    assert not shown_in("expect 221", "expects 221")
    assert not shown_in("expect 221", "expect 300", tolerance=0.1)
