"""The reference of the site, from the code: a page per public module, and a page per command.

The pages are written when Sphinx starts, into folders that git ignores. Names come from `__all__`, commands and
options from the Typer app, so nothing is listed twice.
"""

import pkgutil
import re
from importlib import import_module
from importlib.metadata import entry_points
from inspect import cleandoc, isclass, isfunction, ismodule
from pathlib import Path
from typing import Any

import typer
from sphinx.application import Sphinx

import rankreg
from rankreg.cli import app as command_line


def public_modules() -> list[str]:
    """The package, and each module or room in it that states its public names."""
    inside = sorted(f"rankreg.{found.name}" for found in pkgutil.iter_modules(rankreg.__path__))
    return ["rankreg", *(name for name in inside if "._" not in name and hasattr(import_module(name), "__all__"))]


def public_names() -> dict[str, list[str]]:
    """Module → its public names. Modules that are public names of the package have a page of their own."""
    found = {}
    for module in public_modules():
        names = import_module(module).__all__
        found[module] = [name for name in names if not ismodule(getattr(import_module(module), name))]
    return found


def homes() -> dict[str, str]:
    """Full name → the full name under which it is described: a name that two modules export is described once."""
    first: dict[int, str] = {}
    found = {}
    for module, names in public_names().items():
        for name in names:
            full = f"{module}.{name}"
            found[full] = first.setdefault(id(getattr(import_module(module), name)), full)
    return found


def api_page(module: str) -> str:
    """The page of a public module, in reStructuredText."""
    value, names, home = import_module(module), public_names()[module], homes()
    text = [*_heading(module, "="), f".. automodule:: {module}", "   :no-members:", ""]
    elsewhere = [name for name in names if home[f"{module}.{name}"] != f"{module}.{name}"]
    for name in elsewhere:
        described = home[f"{module}.{name}"]
        text += [f"- ``{module}.{name}`` is :py:obj:`{described}`."]
    text += ["", *_heading("Names", "-")] if len(names) > len(elsewhere) else []
    for name in [name for name in names if name not in elsewhere]:
        text += [*_entry(f"{module}.{name}", getattr(value, name)), ""]
    return "\n".join(text) + "\n"


def _entry(full: str, value: Any) -> list[str]:
    """What autodoc shall describe; a table such as LOSSES has no docstring, so its keys are listed."""
    if isclass(value):
        fields = getattr(value, "_fields", ())  # of a named tuple: described under Attributes
        others = [name for name in dir(value) if re.fullmatch(r"set_\w+_request", name)]  # scikit-learn's
        kind = "exception" if issubclass(value, BaseException) else "class"
        return [f".. auto{kind}:: {full}", f"   :exclude-members: {', '.join([*fields, *others])}"]
    if isfunction(value):
        return [f".. autofunction:: {full}"]
    keys = ", ".join(f"``{key}``" for key in value)
    return [f".. py:data:: {full.rpartition('.')[2]}", "", f"   A table with an entry for each of: {keys}."]


def commands() -> dict[str, Any]:
    """What is typed, such as `rankreg data get` → the command, groups included, doors opened."""
    (door,) = entry_points(group="rankreg.commands", name="bench")
    main, bench = typer.main.get_command(command_line), typer.main.get_command(door.load())
    found: dict[str, Any] = {"rankreg": main}
    for name, command in sorted(main.commands.items()):  # type: ignore[attr-defined]
        if name == "bench":
            found |= _with_subcommands("rankreg bench", bench, without=("demo",))
        elif name == "demo":
            found |= _with_subcommands("rankreg demo", bench.commands["demo"])  # type: ignore[attr-defined]
        else:
            found |= _with_subcommands(f"rankreg {name}", command)
    return found


def _with_subcommands(typed: str, command: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {typed: command}
    for name, sub in getattr(command, "commands", {}).items():
        found |= {} if name in without else _with_subcommands(f"{typed} {name}", sub)
    return found


def command_page(typed: str) -> str:
    """The page of a command with its subcommands, in reStructuredText."""
    text: list[str] = []
    for name, command in commands().items():
        if name == typed or (typed != "rankreg" and name.startswith(f"{typed} ")):
            text += _described(name, command, "=" if name == typed else "-")
    return "\n".join(text) + "\n"


def _described(typed: str, command: Any, underline: str) -> list[str]:
    context = command.context_class(command, info_name=typed, help_option_names=["-h", "--help"])
    usage = " ".join([typed, *command.collect_usage_pieces(context)])
    text = [*_heading(typed, underline), f".. program:: {typed}", "", *_markup(command.help or ""), ""]
    text += [".. code-block:: text", "", f"   {usage}", ""]
    if command.epilog:
        heading, *examples = command.epilog.split("\n\n")
        text += [heading, "", ".. code-block:: console", "", *(f"   {example}" for example in examples), ""]
    for parameter in command.get_params(context):
        text += _parameter(parameter, context)
    return text


def _parameter(parameter: Any, context: Any) -> list[str]:
    """An argument or an option: how it is typed, what it means, and what it is when left out."""
    record = parameter.get_help_record(context)
    if getattr(parameter, "hidden", False) or record is None:
        return []
    spelled, meaning = record
    return [f".. option:: {spelled.lstrip(' /')}", "", *(f"   {line}" for line in _markup(meaning)), ""]


def _heading(text: str, underline: str) -> list[str]:
    return [text, underline * len(text), ""]


def _markup(text: str) -> list[str]:
    """Help as reStructuredText: indented lines are commands to type, options and code are set as code."""
    lines, code = [], False
    for line in cleandoc(text.replace("\b", "")).splitlines():
        indented = line.startswith("  ")
        if indented and not code:
            lines += ["", ".. code-block:: console", ""]
        lines.append(f"   {line.strip()}" if indented else _inline(line))
        code = indented or (code and not line)
    return lines


def _inline(line: str) -> str:
    spans = re.split(r"`([^`]*)`", line)
    for number in range(0, len(spans), 2):
        escaped = re.sub(r"([\\*|_])", r"\\\1", spans[number])
        spans[number] = re.sub(r"(?<![\w-])(--?[a-z][\w-]*)", r"``\1``", escaped)
    spans[1::2] = [f"``{code}``" for code in spans[1::2]]
    return "".join(spans)


def write_pages(app: Sphinx) -> None:
    """Write the pages that changed, and remove those of names that are gone."""
    folder = Path(app.srcdir) / "reference"
    pages = {folder / "api" / f"{module}.rst": api_page(module) for module in public_modules()}
    tops = [typed for typed in commands() if typed.count(" ") < 2]
    pages |= {folder / "commands" / f"{typed.replace(' ', '-')}.rst": command_page(typed) for typed in tops}
    for kind in ("api", "commands"):
        (folder / kind).mkdir(exist_ok=True)
        for old in set((folder / kind).glob("*.rst")) - pages.keys():
            old.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    for one in commands():
        print(command_page(one))
