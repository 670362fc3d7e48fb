"""The README's loop on real data: what the buffer gives and what the ranking term adds, with intervals."""

import importlib.util
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_buffer_cuts_false_alarms_on_digits_and_the_ranking_term_does_not_undo_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = Path(__file__).parents[1] / "examples/plain_pytorch.py"
    spec = importlib.util.spec_from_file_location("plain_pytorch", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)

    fprs = example.main(seeds=6)
    with capsys.disabled():
        print("\n" + capsys.readouterr().out)
    gain, half = example.mean_and_interval(fprs["bce"] - fprs["bce + buffer"])
    assert gain - half > 0, "the buffer's gain is within noise"
    added, half = example.mean_and_interval(fprs["bce + buffer + rankreg"] - fprs["bce + buffer"])
    assert added - half < 5, "the ranking term makes things clearly worse"
