"""Sphinx settings: ``.venv/bin/sphinx-build docs docs/_build``."""

from importlib.metadata import version as installed

project = "maxmargin"
author = "The maxmargin developers"
copyright = author
release = version = installed("maxmargin")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
numpydoc_show_class_members = False
autodoc_typehints = "none"
suppress_warnings = ["config.cache"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
}
html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
