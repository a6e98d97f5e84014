"""Plots of a report as PNG bytes; without matplotlib there are none."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from importlib.util import find_spec

from .plan import Curve
from .scoreboard import Line, Row

__all__ = ["can_draw", "curve_picture", "figure_panels", "table_picture"]

MARKERS = "osD^vP*X"


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def _encoded(figure) -> str:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return base64.b64encode(out.getvalue()).decode("ascii")


def curve_picture(curve: Curve, lines: Sequence[Line]) -> str:
    """Draw a figure and return it as base64."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    _draw(figure.subplots(), curve, lines)
    return _encoded(figure)


def figure_panels(curves: Sequence[tuple[Curve, Sequence[Line]]]) -> bytes:
    """Draw the curves that a paper shows as one figure side by side, as PNG."""
    from matplotlib.figure import Figure

    columns = min(len(curves), 3)
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(4.8 * columns, 3.6 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, (curve, lines) in zip(panels, curves):
        _draw(panel, curve, lines)
        panel.set_title(curve.title, fontsize="small", wrap=True)
    for panel in panels[len(curves) :]:
        panel.set_axis_off()
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=75)
    return out.getvalue()


def _draw(ax, curve: Curve, lines: Sequence[Line]) -> None:
    for i, line in enumerate(lines):
        fitted = "" if line.exponent is None else f" ($\\propto x^{{{line.exponent:.2f}}}$)"
        ax.errorbar(
            line.x, line.y, line.spread or None, capsize=2,
            marker=MARKERS[i % len(MARKERS)], label=line.label + fitted,
        )  # fmt: skip
    if curve.log:
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.set_xlabel(curve.x_label)
    ax.set_ylabel(curve.y_label)
    ax.grid(alpha=0.3)
    ax.legend(fontsize="x-small")


def table_picture(rows: Sequence[Row]) -> str:
    """Draw the scored rows of a table: the paper's figure, ours label-free and ours post hoc."""
    from matplotlib.figure import Figure

    names = [f"{row.figure.dataset}, {row.figure.method}" for row in rows]
    figure = Figure(figsize=(5.6, 1.2 + 0.24 * len(rows)), layout="constrained")
    ax = figure.subplots()
    places = list(range(len(rows)))
    for label, values, marker in (
        ("paper", [row.figure.value for row in rows], "|"),
        ("ours, label-free", [row.label_free for row in rows], "o"),
        ("ours, post hoc", [row.post_hoc for row in rows], "D"),
        ("k-means", [row.k_means for row in rows], "x"),
    ):
        given = [(value, place) for value, place in zip(values, places) if value is not None]
        size = 14 if marker == "|" else 5
        ax.plot([v for v, _ in given], [p for _, p in given], marker, label=label, markersize=size)
    ax.set_yticks(places, names, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel(rows[0].figure.metric + (" %" if rows[0].figure.metric != "ari" else ""))
    ax.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, fontsize="small")
    return _encoded(figure)
