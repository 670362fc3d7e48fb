"""Real data for tests: found in place or unpacked once, and skipped when absent."""

import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from tests import own_data


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets."""
    return own_data.shared_data()


@pytest.fixture(scope="session")
def cifar(shared_data: Path) -> Path:
    """A folder with the official CIFAR pickles, unpacked once for all test runs."""
    named = os.environ.get("RANKREG_TEST_DATA")
    place = Path(named) if named else platformdirs.user_cache_path("rankreg-tests")
    finished = place / "cifar-unpacked"
    if not finished.exists():
        import fcntl

        place.mkdir(parents=True, exist_ok=True)
        with (place / "cifar.lock").open("w") as lock:  # parallel test workers wait for the first
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                subprocess.run(
                    [sys.executable, shared_data / "unpack_cifar", place], check=True, stdout=subprocess.DEVNULL
                )
                finished.touch()
    return place
