"""Figures and verdicts in words, and tables of them for the terminal, the pages and CSV files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pandas as pd

from . import PAPERS
from .plan import LABEL_FREE, POST_HOC
from .scoreboard import Row, Share
from .study import PaperReport, Study

__all__ = [
    "board", "document_tables", "markdown", "number", "results_table", "scored_tables",
    "share_line", "summary_line", "table_name", "table_text", "verdict",
]  # fmt: skip

COLUMNS = ["paper", "table", "dataset", "method", "metric", "paper_value", "paper_spread",
           "label_free", "post_hoc", "scored", "reached_label_free", "reached_post_hoc",
           "setting", "why", "note"]  # fmt: skip
INDICES = ("rand", "ari", "nmi")


def number(value: float | None, metric: str = "") -> str:
    """A figure as it is shown: indices with three decimals, times with two, percents with one.

    Examples
    --------
    >>> from reproduction.words import number
    >>> number(0.96, "ari"), number(3.375, "error"), number(None)
    ('0.960', '3.4', '-')
    """
    if value is None:
        return "-"
    if metric in INDICES:
        return f"{value:.3f}"
    return f"{value:.2f}" if metric in ("cpu_s", "exponent", "accuracy") else f"{value:.1f}"


def verdict(row: Row, mode: str = POST_HOC) -> str:
    """Say whether a row is reached."""
    found = row.reached(mode)
    if found is None:
        return "data not available" if "not available" in row.why else "-"
    return "reached" if found else "not reached"


def share_line(share: Share, mode: str) -> str:
    """Rows reached of those with data.

    Examples
    --------
    >>> from reproduction.scoreboard import Share
    >>> from reproduction.words import share_line
    >>> share_line(Share("all", 10, 8, {"post hoc": 6}, {"post hoc": 8}), "post hoc")
    '6 of 8 (75 %)'
    """
    if not share.with_data:
        return "no rows"
    done = share.reached[mode]
    return f"{done} of {share.with_data} ({100 * done / share.with_data:.0f} %)"


def summary_line(study: Study) -> str:
    """Say in one sentence how much of the papers is reached."""
    total = study.total()
    kind = "Quick look, on subsets of rows and grids: of" if study.quick else "Of"
    return (
        f"{kind} the {total.printed} figures that the papers print for their own methods, data are "
        f"at hand for {total.with_data}; post hoc {share_line(total, POST_HOC)} are reached, "
        f"label-free {share_line(total, LABEL_FREE)}."
    )


def results_table(study: Study) -> pd.DataFrame:
    """All rows of a study."""
    rows = [row for report in study.reports for row in report.rows]
    table = pd.DataFrame([asdict(row.figure) for row in rows])
    table = table.rename(columns={"value": "paper_value", "spread": "paper_spread"})
    return table.assign(
        label_free=pd.Series([row.label_free for row in rows], dtype=float),
        post_hoc=pd.Series([row.post_hoc for row in rows], dtype=float),
        reached_label_free=pd.Series([row.reached(LABEL_FREE) for row in rows], dtype="boolean"),
        reached_post_hoc=pd.Series([row.reached(POST_HOC) for row in rows], dtype="boolean"),
        setting=[row.setting for row in rows],
        why=[row.why for row in rows],
    )[COLUMNS]


def board(study: Study) -> pd.DataFrame:
    """The scoreboard: how many figures of each paper are reached."""
    return pd.DataFrame(
        {
            "paper": PAPERS[report.name],
            "scored figures": report.share.printed,
            "with data": report.share.with_data,
            **{f"reached {mode}": share_line(report.share, mode)
               if report.share.printed else "nothing printed as a number"
               for mode in (POST_HOC, LABEL_FREE)},
        }
        for report in study.reports
    )  # fmt: skip


def document_tables(report: PaperReport) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield what the document shows of a paper: scored rows, fitted powers, ends of figures."""
    for table, cells in scored_tables(report):
        yield table_name(table), cells.replace("not reached", "**not reached**")
    fitted = [
        {"figure": f"{curve.figure}: {curve.title}", "line": line.label,
         "exponent": number(line.exponent, "exponent"), "the paper": curve.paper}
        for curve, lines in report.figures
        for line in lines
        if line.exponent is not None
    ]  # fmt: skip
    if fitted:
        yield "Growth of time and steps: exponents of the fitted powers", pd.DataFrame(fitted)
    ends = [
        {"figure": curve.title, "at": f"{lines[0].x[-1]:g}",
         "ours": "; ".join(f"{line.label} {line.y[-1]:.3g}" for line in lines)}
        for curve, lines in report.figures
        if not curve.log and curve.y_label != "CPU s"
    ]  # fmt: skip
    if ends:
        yield "Figures, at their right end", pd.DataFrame(ends)


def scored_tables(report: PaperReport) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the paper's tables with their scored rows, as text."""
    scored = [row for row in report.rows if row.figure.scored]
    for table in dict.fromkeys(row.figure.table for row in scored):
        yield table, pd.DataFrame([_cells(row) for row in scored if row.figure.table == table])


def _cells(row: Row) -> dict[str, str]:
    figure = row.figure
    why = row.setting if row.post_hoc is not None else row.why
    return {
        "data": figure.dataset,
        "method": figure.method,
        "metric": figure.metric,
        "paper": f"{figure.value:g}",
        "label-free": number(row.label_free, figure.metric),
        "post hoc": number(row.post_hoc, figure.metric),
        "": verdict(row),
        "picked at": " ".join(filter(None, (why, figure.note and f"({figure.note})"))),
    }


def table_name(table: str) -> str:
    """Return the name of a table or figure as a heading.

    Examples
    --------
    >>> from reproduction.words import table_name
    >>> table_name("table-4")
    'Table 4'
    """
    return table.replace("-", " ").capitalize()


def markdown(cells: pd.DataFrame) -> str:
    """Return a table in Markdown."""
    lines = [cells.columns, ["---"] * cells.shape[1], *cells.astype(str).to_numpy()]
    return "\n".join(f"| {' | '.join(c.replace('|', '/') for c in line)} |" for line in lines)


def table_text(cells: pd.DataFrame) -> str:
    """Return a table of text for the terminal, aligned on the left."""
    padded = cells.apply(lambda column: column.str.ljust(column.str.len().max()))
    return padded.to_string(index=False, justify="left")
