"""Sphinx settings: ``.venv/bin/sphinx-build -W -j 2 docs docs/_build``."""

import re
from pathlib import Path

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import maxmargin

project = "maxmargin"
author = "The maxmargin developers"
copyright = author
release = version = maxmargin.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
suppress_warnings = ["config.cache"]

# Examples that take long or need a download: shown with their code, run by hand.
LONG = ("mnist",)
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": rf"/plot_(?!{'|'.join(LONG)})",
    "subsection_order": [f"../examples/{n}" for n in ("basics", "knowledge", "data", "methods")],
    "backreferences_dir": "reference/backreferences",
    "doc_module": ("maxmargin",),
    "parallel": 2,
    "min_reported_time": 3,
    "capture_repr": ("_repr_html_",),  # not what a plotting function returns
    "default_thumb_file": str(Path(__file__).parent / "images" / "readme.png"),
    "remove_config_comments": True,
    "show_signature": False,
}

html_math_renderer = "mathml"  # needs no network, as MathJax does
html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
html_static_path = ["_static"]
html_css_files = ["maxmargin.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "benchmarks": []},  # its tables are wide
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "tutorial": [], "benchmarks": []}  # they have no pages below


def skip_inherited(app, what, name, obj, skip, options):
    """Leave out what scikit-learn documents itself: get_params, set_output and the like."""
    return skip or (getattr(obj, "__module__", None) or "").startswith("sklearn")


def gallery_links(app, docname, source):
    """Turn links to the file of an example, as in the repository, into links to its page."""
    source[0] = re.sub(r"\]\(\.\./examples/(\w+/\w+)\.py\)", r"](auto_examples/\1.rst)", source[0])


def mathml(display):
    """Return a visitor that writes a formula as MathML."""

    def visit(self, node):
        # What TeX does by itself: space around a logarithm, and limits below these operators.
        text = node.astext().replace(r"\log", r"\,\log\,")
        text = re.sub(r"\\(min|max)_", r"\\\1\\limits_", text)
        self.body.append(convert(text, display=display))
        raise SkipNode

    return visit


def setup(app):
    app.add_html_math_renderer("mathml", (mathml("inline"), None), (mathml("block"), None))
    app.connect("source-read", gallery_links)
    app.connect("autodoc-skip-member", skip_inherited)
