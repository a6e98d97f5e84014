"""``docs/reproduction.md``: what was reproduced and what was not, written from the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import PAPERS
from .plan import LABEL_FREE, POST_HOC
from .scoreboard import Row
from .study import PaperReport, Study
from .words import number, share_line, summary_line, verdict

__all__ = ["reproduction"]

HEAD = """# The papers, table by table

This page is written by `python -m reproduction` from its results; do not edit it.

{summary}

*Label-free*: defaults; only the number of clusters and the balance are given. It is what users get.
*Post hoc*: the best over the paper's grid by the true classes, as the papers did. A row is (table,
data set, the paper's own method, one of accuracy, error and ARI); it is reached within one point of
accuracy or error, within .03 of ARI, or when ours is better.
"""


def reproduction(study: Study) -> str:
    """Write the document.

    Parameters
    ----------
    study : Study

    Returns
    -------
    str
        Markdown.
    """
    parts = [HEAD.format(summary=f"**{summary_line(study)}**"), _board(study)]
    for report in study.reports:
        parts += _paper(report)
    return "\n".join(parts) + "\n"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(c.replace('|', '/') for c in line)} |" for line in lines)


def _board(study: Study) -> str:
    rows = []
    for report in study.reports:
        share = report.share
        reached = [share_line(share, mode) if share.printed else "nothing printed as a number"
                   for mode in (POST_HOC, LABEL_FREE)]  # fmt: skip
        rows.append((PAPERS[report.name], str(share.printed), str(share.with_data), *reached))
    head = ("paper", "scored figures", "with data", "reached post hoc", "reached label-free")
    return _markdown(head, rows) + "\n"


def _paper(report: PaperReport) -> Iterator[str]:
    module = report.module
    yield f"## {module.TITLE}\n"
    yield f"{module.AUTHORS}, {module.YEAR}. {module.VENUE}.\n"
    yield "What the paper leaves out or gets wrong, and what we did:\n"
    yield "\n".join(f"- {note}" for note in module.NOTES) + "\n"
    scored = [row for row in report.rows if row.figure.scored]
    for table in dict.fromkeys(row.figure.table for row in scored):
        rows = [_line(row) for row in scored if row.figure.table == table]
        yield f"### {table.replace('-', ' ').capitalize()}\n"
        head = ("data", "method", "metric", "paper", "label-free", "post hoc", "", "picked at")
        yield _markdown(head, rows) + "\n"
    fitted = [
        (f"{curve.figure}: {curve.title}", line.label, number(line.exponent, "exponent"),
         curve.paper)
        for curve, lines in report.figures
        for line in lines
        if line.exponent is not None
    ]  # fmt: skip
    if fitted:
        yield "### Growth of time and steps: exponents of the fitted powers\n"
        yield _markdown(("figure", "line", "exponent", "the paper"), fitted) + "\n"
    yield from _links(report)


def _line(row: Row) -> tuple[str, ...]:
    figure = row.figure
    said = verdict(row)
    why = row.setting if row.post_hoc is not None else row.why
    return (
        figure.dataset, figure.method, figure.metric, f"{figure.value:g}",
        number(row.label_free, figure.metric), number(row.post_hoc, figure.metric),
        f"**{said}**" if said == "not reached" else said,
        " ".join(filter(None, (why, figure.note and f"({figure.note})"))),
    )  # fmt: skip


def _links(report: PaperReport) -> Iterator[str]:
    """Figures without a fitted power, at the last place of the horizontal axis."""
    rows = [
        (curve.title, f"{lines[0].x[-1]:g}",
         "; ".join(f"{line.label} {line.y[-1]:.3g}" for line in lines))
        for curve, lines in report.figures
        if not curve.log and curve.y_label != "CPU s"
    ]  # fmt: skip
    if rows:
        yield "### Figures, at their right end\n"
        yield _markdown(("figure", "at", "ours"), rows) + "\n"
