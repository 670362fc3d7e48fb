"""What makes pages of Markdown and docstrings: tables of contents, links, formulas.

The Markdown of docs/ stays readable where it is not built. What only the site needs is added here, when a page is
read.
"""

import re
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.matching import patfilter
from sphinx.writers.html5 import HTML5Translator

SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Example|Examples|Note|Notes|References?):$")
DECISION = re.compile(r"docs/decisions/(\d{4})\b")
TUTORIAL = re.compile(r"\]\((?P<up>(?:\.\./)*)tutorials/(?P<name>\w+)\.py(?P<anchor>#[^)]*)?\)")


def complete_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Add what only the site needs: the contents stated in conf.py, titles of tables, links to tutorials."""
    source[0] = TUTORIAL.sub(r"](\g<up>gallery/\g<name>.rst\g<anchor>)", source[0])
    if name.startswith("tables/"):
        source[0] = f"# {name.removeprefix('tables/')}\n\n" + re.sub("^### ", "## ", source[0], flags=re.MULTILINE)
    pages, options = app.config.section_contents.get(name, ((), ()))
    there = [page for page in pages if _matching(app, name, page)]
    if there:
        source[0] += "\n".join(["\n\n```{toctree}", ":glob:", *options, "", *there, "```", ""])


def _matching(app: Sphinx, name: str, entry: str) -> list[str]:
    """The pages that an entry of a table of contents stands for, seen from the page `name`."""
    path = re.sub(r".*<(.*)>", r"\1", entry)
    pattern = path[1:] if path.startswith("/") else (PurePosixPath(name).parent / path).as_posix()
    return [page for page in patfilter(app.env.found_docs, pattern) if page != name]


def docstring_to_rest(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings as we write them: indented lines are formulas, `name` is code, a decision is a link."""
    found: list[str] = []
    code, after = False, ""  # within indented lines; the last line of text before them
    for number, line in enumerate(lines):
        indented, blank_before = line.startswith("    "), number > 0 and not lines[number - 1].strip()
        if indented and blank_before and not code and not after.startswith("    ") and not SECTION.match(after):
            found += [".. code-block:: text", ""]
            code = True
        elif line.strip() and not indented:
            code = False
        found.append(line if code else _links(line, app))
        after = line if line.strip() and not code else after
    lines[:] = found


def _links(line: str, app: Sphinx) -> str:
    if line.lstrip().startswith((">>>", "...")):
        return line

    def link(match: re.Match[str]) -> str:
        (page,) = (Path(app.srcdir) / "decisions").glob(f"{match[1]}-*.md")
        return f":doc:`decision {match[1]} </decisions/{page.stem}>`"

    return DECISION.sub(link, line)


def visit_math(writer: HTML5Translator, node: nodes.math) -> None:
    """A formula in a line, as MathML: browsers draw it without any script."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_math_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own, as MathML."""
    formula = tex2mathml(node.astext(), as_block=True)
    writer.body.append(f'<div class="math" title="{escape(node.astext())}">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_config_value("section_contents", {}, "env")
    app.connect("source-read", complete_page)
    app.connect("autodoc-process-docstring", docstring_to_rest, priority=400)  # before napoleon
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
