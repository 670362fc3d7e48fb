"""Every public name teaches by itself: its arguments are documented, and its examples run."""

import dataclasses
import doctest
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import rankreg

PACKAGES = [
    name
    for name in ["rankreg", *(f"rankreg.{module.name}" for module in pkgutil.iter_modules(rankreg.__path__))]
    if not re.search(r"\._|__main__|\.cli$", name)
]
SKLEARN = {"X", "y", "deep"}  # scikit-learn documents them, once for all estimators


def public() -> Iterator[tuple[str, Any]]:
    """Every name that a public module exports, once."""
    seen: set[int] = set()
    for package in PACKAGES:
        module = import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and id(value) not in seen:
                seen.add(id(value))
                yield f"{package}.{name}", value


def parameters(value: Any) -> list[str]:
    """What a caller may pass to a function or class, or the fields of a result."""
    if inspect.isclass(value):
        if issubclass(value, BaseException):
            return []
        if dataclasses.is_dataclass(value):
            return [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        if hasattr(value, "model_fields"):
            return list(value.model_fields)
        if hasattr(value, "_fields"):
            return list(value._fields)
        if value.__init__ is object.__init__ or getattr(value, "_is_protocol", False):
            return []
    named = inspect.signature(value).parameters.values()
    return [one.name for one in named if one.name != "self" and one.kind is not one.VAR_KEYWORD]


def undocumented(names: list[str], text: str | None) -> list[str]:
    return [name for name in names if not re.search(rf"^\s*\**{name}:", text or "", flags=re.MULTILINE)]


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_of_a_public_name_is_documented(name: str) -> None:
    value = PUBLIC[name]
    assert value.__doc__
    assert undocumented(parameters(value), inspect.getdoc(value)) == []


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if inspect.isclass(value)])
def test_every_public_method_is_documented(name: str) -> None:
    own = {key: value for key, value in vars(PUBLIC[name]).items() if inspect.isfunction(value)}
    for key, method in own.items():
        if not key.startswith("_"):
            text = inspect.getdoc(method)  # a method that keeps its parent's promise inherits the text
            assert text, f"{name}.{key} has no docstring"
            wanted = [one for one in parameters(method) if one not in SKLEARN]
            if method.__doc__:
                assert undocumented(wanted, text) == [], f"{name}.{key}"


def modules() -> list[str]:
    found = pkgutil.walk_packages(rankreg.__path__, "rankreg.")
    return ["rankreg", *(module.name for module in found if "__main__" not in module.name)]


WITH_EXAMPLES = [name for name in modules() if ">>> " in inspect.getsource(import_module(name))]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_print_what_they_say(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0
    assert found.failed == 0


CALLED = [
    name
    for name, value in PUBLIC.items()
    if inspect.isfunction(value)
    or not (issubclass(value, BaseException) or dataclasses.is_dataclass(value) or hasattr(value, "_fields"))
]


@pytest.mark.parametrize("name", CALLED)
def test_every_function_and_class_that_users_call_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(PUBLIC[name]) or "")
