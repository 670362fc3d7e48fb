"""Old module names keep working for one version."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from rankreg.names import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_module_hands_out_the_names_of_the_new_one_and_warns(old: str) -> None:
    assert find_spec(MOVED[old]) is not None
    program = f"""
import warnings
from importlib import import_module
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    old = import_module({old!r})
new = import_module({MOVED[old]!r})
assert any(one.category is FutureWarning and {MOVED[old]!r} in str(one.message) for one in caught)
assert all(getattr(old, name) is getattr(new, name) for name in getattr(new, "__all__", ()))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
