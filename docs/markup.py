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
from numpy.typing import ArrayLike
from sphinx.application import Sphinx
from sphinx.util.matching import patfilter
from sphinx.util.typing import stringify_annotation
from sphinx.writers.html5 import HTML5Translator

SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Example|Examples|Note|Notes|References?):$")
ARRAY_LIKE = [
    stringify_annotation(ArrayLike, mode) for mode in ("smart", "fully-qualified", "fully-qualified-except-typing")
]
ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[~?(?:typing\.)?tuple\[~?(?:typing\.)?Any, \.\.\.\],"
    r" ~?(?:numpy\.)?dtype(\[[^\[\]]*\])\]"
)
DECISION = re.compile(r"docs/decisions/(\d{4})\b")
PERCENT = re.compile(r"(?<=\d) (?=[%×])")  # no line ends between a number and its unit
TUTORIALS = ("pytorch_loop.py", "own_table.py", "own_images.py", "operating_point.py")  # as they are listed
TUTORIAL = re.compile(r"\]\((?P<up>(?:\.\./)*)tutorials/(?P<name>\w+)\.py(?P<anchor>#[^)]*)?\)")
TABLES = {  # file in docs/tables → its title on the site
    "buffer-policy": "Buffer policies",
    "buffer-size": "Buffer sizes",
    "cifar10-100": "CIFAR-10 1:100",
    "cifar10-200": "CIFAR-10 1:200",
    "cifar100-100": "CIFAR-100 1:100",
    "cifar100-200": "CIFAR-100 1:200",
    "controls": "Controls",
    "default-against-buffer": "Default term − buffer",
    "elpv": "Solar cells",
    "ham10000": "HAM10000",
    "label-noise": "Label noise",
    "larger-batches": "Larger batches",
    "last-epoch": "Last epoch",
    "methods": "Long runs",
    "more-positives": "More positives",
    "multiclass": "Several classes",
    "oversampled-ranking": "Term with oversampling",
    "passing-each-other": "Positives that pass each other",
    "rank-penalty": "Rank penalties",
    "ranking-settings": "Settings of the term",
    "rankreg-against-buffer": "RankReg − buffer",
    "rankreg-against-buffer-by-loss": "RankReg − buffer, by loss",
    "smaller-buffers": "Smaller buffers",
    "tuning": "Learning rate and epochs",
}


class TutorialOrder:
    """Sorts tutorials as `TUTORIALS` does; Sphinx-Gallery would sort them by their length."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file: str) -> int:
        return TUTORIALS.index(Path(file).name)


def complete_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Add what only the site needs: the contents stated in conf.py, titles of tables, links to tutorials."""
    source[0] = TUTORIAL.sub(r"](\g<up>gallery/\g<name>.rst\g<anchor>)", source[0])
    if name.startswith("tables/"):
        title = TABLES[name.removeprefix("tables/")]
        source[0] = f"# {title}\n\n" + re.sub("^### ", "## ", source[0], flags=re.MULTILINE)
    for caption, pages in app.config.section_contents.get(name, {}).items():
        named = {found for page in pages if "*" not in page for found in _matching(app, name, page)}
        there = [page for page in pages if set(_matching(app, name, page)) - (named if "*" in page else set())]
        if there:
            options = [":glob:", ":hidden:", *([f":caption: {caption}"] if caption else [])]
            source[0] += "\n".join(["\n\n```{toctree}", *options, "", *there, "```", ""])


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


def short_signature(
    app: Sphinx, kind: str, name: str, value: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """numpy's ArrayLike and NDArray by their names, and defaults that are Python."""

    def short(text: str | None) -> str | None:
        for spelled in ARRAY_LIKE:
            text = text and text.replace(spelled, "ArrayLike")
        return text and re.sub(r"<\w[^<>]*>", "...", ARRAY.sub(r"NDArray\1", text))  # "<factory>" is no Python

    return short(signature), short(returned)


def _links(line: str, app: Sphinx) -> str:
    if line.lstrip().startswith((">>>", "...")):
        return line

    def link(match: re.Match[str]) -> str:
        (page,) = (Path(app.srcdir) / "decisions").glob(f"{match[1]}-*.md")
        return f":doc:`decision {match[1]} </decisions/{page.stem}>`"

    return DECISION.sub(link, line)


def set_text(app: Sphinx, document: nodes.document) -> None:
    """Typography: "95 %" stays on one line, and a dash between words is a dash."""
    for text in list(document.findall(nodes.Text)):
        if not isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.math | nodes.raw):
            written = PERCENT.sub("\N{NO-BREAK SPACE}", text.astext()).replace(" -- ", " – ")
            if written != text.astext():
                text.parent.replace(text, nodes.Text(written))


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
    app.connect("doctree-read", set_text)
    app.connect("autodoc-process-signature", short_signature)
    app.connect("autodoc-process-docstring", docstring_to_rest, priority=400)  # before napoleon
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
