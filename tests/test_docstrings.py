"""Examples in docstrings run, and print what they say."""

import doctest
from importlib import import_module

import pytest

WITH_EXAMPLES = ("rankreg.regularizer",)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_print_what_they_say(name: str) -> None:
    found = doctest.testmod(import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
