"""A report of a fitted model: one html file that needs no network.

The drawing is ``page.js``, a canvas and a few SVG curves in 300 lines, because a file is to be kept
beside the data and opened offline. Plotting libraries would be part of every file: Plotly 7.1 has
4.8 MB, Bokeh 3.9 1.3 MB and Vega with Vega-Lite 0.9 MB, against 20 kB. The same script draws the
page of ``maxmargin explore`` and the notebook widget, where rows are clicked and circled, and it
runs under a Content-Security-Policy that permits this one script and no request.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from importlib.resources import files
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .._files import atomic_write, check_suffix
from ._rows import Rows
from ._view import fitted_view, number_view

__all__ = ["Report", "Rows", "make_report", "report"]

PAGE_SUFFIXES = (".html", ".htm")


class Report:
    """A report that :func:`maxmargin.report` made of a view; a notebook shows it."""

    def __init__(self, view: dict[str, Any]):
        self.view = view

    @property
    def html(self) -> str:
        """The page: one html document without references to other files."""
        start = 'new Page(document.body, JSON.parse(document.getElementById("view").textContent));'
        return page_html(self.view["title"], [asset("page.js"), start], self.view)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page.

        Parameters
        ----------
        path : path
            Name of the file, which ends in ``.html``.
        """
        check_suffix(path, PAGE_SUFFIXES)
        with atomic_write(path) as partial:
            partial.write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        frame = "width:100%;height:800px;border:0"
        document = html.escape(self.html, quote=True)
        return f'<iframe sandbox="allow-scripts" style="{frame}" srcdoc="{document}"></iframe>'


def report(
    model: Any, X: Any, *, feature_names: Any = None, images: Any = None, title: str | None = None
) -> Report:
    """Make a report of a model and its rows: a map, a card for each cluster, and how sure it is.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator, or a pipeline that ends in one.
    X : DataFrame, array-like or sparse matrix of shape (n_samples, n_features)
        Rows as ``model.predict`` accepts them. The sizes of clusters are those of all rows; at most
        about 4000 rows are drawn.
    feature_names : sequence of str, optional
        Names of the columns; by default those of the DataFrame.
    images : tuple of int, array-like or sequence of path, optional
        Pictures of the rows: the shape ``(height, width)`` or ``(height, width, channels)`` that
        the numbers of a row form, an array with the pictures of all rows, or their file names. By
        default, columns named ``pixel...`` and a column of picture files are found.
    title : str, optional
        Title of the page.

    Returns
    -------
    Report
        With ``save(path)``, which writes one html file below 10 MB; a notebook shows it.

    See Also
    --------
    describe_clusters : One sentence for each cluster.
    maxmargin.display.plot_clusters : A picture of the clusters.
    maxmargin.app.ClusterExplorer : A page on which clusters can be corrected.

    Examples
    --------
    >>> import maxmargin
    >>> from sklearn.datasets import load_wine
    >>> wine = load_wine(as_frame=True)
    >>> model = maxmargin.MaxMarginClustering(3, random_state=0).fit(wine.data)
    >>> page = maxmargin.report(model, wine.data)
    >>> [cluster["size"] for cluster in page.view["clusters"]] == model.cluster_sizes_.tolist()
    True
    """
    return make_report(model, Rows(X, feature_names, images), title)


def make_report(model: Any, rows: Rows, title: str | None) -> Report:
    """Make the report of rows with names and pictures."""
    check_is_fitted(model)
    view = fitted_view(model, rows) | {"number": number_view(model, rows)}
    k = view["n_clusters"]
    view["title"] = title or f"{rows.n:,} rows in {k} cluster{'s' * (k != 1)}"
    return Report(view)


def asset(name: str) -> str:
    """Return a file of the page."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def page_html(title: str, scripts: list[str], view: Any = None, connect: str = "'none'") -> str:
    """Return a page with its scripts and styles, which may run and request nothing else."""
    script, style = "\n".join(scripts), asset("page.css")
    policy = (
        f"default-src 'none'; img-src data:; connect-src {connect}; base-uri 'none'; "
        f"form-action 'none'; script-src {_hashed(script)}; style-src {_hashed(style)}"
    )
    data = ""
    if view is not None:
        # "<" is escaped: text that ends the element stays text.
        content = json.dumps(view, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        data = f'<script type="application/json" id="view">{content}</script>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head>"
        f'<body class="mm">{data}<noscript><p>This page is drawn by its own script: please allow '
        f'JavaScript.</p></noscript><script type="module">{script}</script></body></html>'
    )


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
