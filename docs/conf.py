"""The site: `make docs` builds it, without network (docs/decisions/0007)."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from rankreg import __version__  # noqa: E402

project, author, copyright = "rankreg", "the authors of rankreg", "the authors of rankreg"  # noqa: A001
version = release = __version__

extensions = [
    "docs.markup",
    "docs.reference_pages",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["tutorials", "gallery/sg_execution_times.rst", "sg_execution_times.rst"]

# What stands under which page, in the order in which it is read: caption → pages. A star takes what is not named.
section_contents = {
    "index": {
        "": [
            "Quick start <quick-start>",
            "Tutorials <gallery/index>",
            "How-to <how-to/index>",
            "Guides <guide/index>",
            "Theory <theory/index>",
            "Results <results>",
            "Reference <reference/index>",
            "Project <project>",
        ],
    },
    "how-to/index": {
        "Questions": [
            "recall-floor",
            "few-positives",
            "threshold-per-class-or-group",
            "sensitivity-at-specificity",
            "loss-without-sampler",
            "drift",
            "larger-than-memory",
            "*",
        ],
        "Coming from": [
            "scikit-learn </coming-from/tuned-threshold>",
            "imbalanced-learn </coming-from/imbalanced-learn>",
            "MAPIE </coming-from/mapie>",
            "LibAUC </coming-from/libauc>",
            "/coming-from/*",
        ],
    },
    "guide/index": {"": ["pytorch", "own-data", "operating-point", "scikit-learn", "boosting", "lightning", "*"]},
    "theory/index": {"": ["rank-gradient", "thresholds", "by-heart", "*", "/how-many-positives"]},
    "results": {
        "Pages": ["more-results", "fit", "tabular", "guarantees", "speed"],
        "Tables of the bench": ["tables/*"],
    },
    "reference/index": {"Python": ["api/*"], "Commands": ["commands/*"]},
    "project": {"": ["architecture", "decisions/README", "changelog", "contributing"]},
    "decisions/README": {"": ["0*"]},
}

# Markdown
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
smartquotes = False  # "--tpr" stays as it is typed

# Docstrings
autodoc_default_options = {"members": True, "member-order": "bysource"}
napoleon_use_ivar = True
napoleon_attr_annotations = False  # types stand in the signature
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
default_role = "literal"

# Tutorials: scripts that are run, shown with their outputs and figures, and offered as notebooks
sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "within_subsection_order": "docs.markup.TutorialOrder",
    "min_reported_time": 1e9,  # how long a script took on this machine says little
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
}

# Warnings are errors
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!rankreg).*"), ("py:class", ".*")]  # other projects; types in signatures

# The look: everything is local, no script and no font comes from elsewhere
html_theme = "pydata_sphinx_theme"
html_title = "rankreg"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_sidebars = {"quick-start": []}  # it has no pages below it
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
