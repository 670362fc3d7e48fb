"""No bad file ends in a traceback, a wait without an end, a full memory or an execution."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CASES = 1480  # forty for each reader


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and time are Linux's")
def test_every_reader_reads_or_refuses_whatever_it_is_given() -> None:
    """In a process of its own, whose memory is limited; every file has an alarm, the whole a deadline."""
    pytest.importorskip("pyarrow")
    done = subprocess.run(
        [sys.executable, "-m", "tests.files.fuzz_readers", "0", str(CASES)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert not found["executed"]
    assert found["memory"] < 1_500_000_000  # Pillow decodes up to 179 million pixels
    assert found["cases"] == CASES >= 1000
    assert found["readers"] >= 37
    assert found["refused"] > CASES / 2  # the damage is real
    assert found["read"] > CASES / 20  # and not all of it
