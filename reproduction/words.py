"""Figures and verdicts in words, and tables of them for the terminal, the pages and CSV files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pandas as pd

from . import PAPERS
from .plan import K_MEANS, LABEL_FREE, POST_HOC
from .scoreboard import COUNTED, Row, Share
from .study import PaperReport, Study

__all__ = [
    "board", "document_tables", "markdown", "number", "own_tables", "results_table", "share_line",
    "summary_line", "table_name", "table_text", "verdict",
]  # fmt: skip

COLUMNS = ["paper", "table", "dataset", "method", "metric", "paper_value", "paper_spread",
           "label_free", "post_hoc", "k_means", "random_labels", "scored", "counted",
           "reached_label_free", "reached_post_hoc", "reached_k_means", "label_free_cpu_s",
           "setting", "why", "note"]  # fmt: skip
INDICES = ("rand", "ari", "nmi")
HOW = {LABEL_FREE: "label-free", POST_HOC: "post hoc", K_MEANS: "by k-means"}
NAMES = {LABEL_FREE: "label_free", POST_HOC: "post_hoc", K_MEANS: "k_means"}


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
    if row.figure.scored and not row.counted:
        return "not scored: random labels reach it"
    found = row.reached(mode)
    if found is None:
        return (
            row.why.partition(":")[0]
            if row.why.startswith("not run")
            else ("data not available" if "not available" in row.why else "-")
        )
    return "reached" if found else "not reached"


def share_line(share: Share, mode: str, strictly: bool = False) -> str:
    """Rows reached of those with data.

    Examples
    --------
    >>> from reproduction.scoreboard import Share
    >>> from reproduction.words import share_line
    >>> share_line(Share("all", 12, 10, 8, {"post hoc": 6}, {"post hoc": 2}, {}), "post hoc")
    '6 of 8 (75 %)'
    """
    if not share.with_data:
        return "no rows"
    done = (share.strictly if strictly else share.reached)[mode]
    return f"{done} of {share.with_data} ({100 * done / share.with_data:.0f} %)"


def summary_line(study: Study) -> str:
    """Say in one sentence how much of the papers is reached."""
    total = study.total()
    kind = "Quick look, on subsets of rows and grids: of" if study.quick else "Of"
    late = total.with_data - max(total.compared.values(), default=0)
    strict = ", ".join(f"{total.strictly.get(mode, 0)} {how}" for mode, how in HOW.items())
    return (
        f"{kind} the {total.figures} figures that the papers print for their own methods, "
        f"{total.printed} rows are counted (repetitions count once, and rows that random labels "
        f"reach do not count), and data are at hand for {total.with_data}: "
        f"{share_line(total, LABEL_FREE)} are reached label-free, "
        f"{share_line(total, POST_HOC)} post hoc, {share_line(total, K_MEANS)} by k-means; "
        f"within a tenth of the tolerance, {strict}."
        + (f" {late} rows were not run." if late else "")
    )


def results_table(study: Study) -> pd.DataFrame:
    """All rows of a study."""
    rows = [row for report in study.reports for row in report.rows]
    table = pd.DataFrame([asdict(row.figure) for row in rows])
    table = table.rename(columns={"value": "paper_value", "spread": "paper_spread"})
    numbers = {
        "label_free": [row.label_free for row in rows],
        "post_hoc": [row.post_hoc for row in rows],
        "k_means": [row.k_means for row in rows],
        "random_labels": [row.chance for row in rows],
        "label_free_cpu_s": [row.cpu_s for row in rows],
    }
    verdicts = {f"reached_{NAMES[mode]}": [row.reached(mode) for row in rows] for mode in COUNTED}
    return table.assign(
        counted=[row.counted for row in rows],
        **{name: pd.Series(values, dtype=float) for name, values in numbers.items()},
        **{name: pd.Series(values, dtype="boolean") for name, values in verdicts.items()},
        setting=[row.setting for row in rows],
        why=[row.why for row in rows],
    ).reindex(columns=COLUMNS)


def board(study: Study) -> pd.DataFrame:
    """The scoreboard: how many figures of each paper are reached."""
    return pd.DataFrame(
        {
            "paper": PAPERS[report.name],
            "scored figures": report.share.figures,
            "rows": report.share.printed,
            "with data": report.share.with_data,
            **{f"reached {how}": (
                   f"{share_line(report.share, mode)}; {report.share.strictly[mode]} strictly"
                   if report.share.printed else "nothing printed as a number")
               for mode, how in HOW.items()},
        }
        for report in study.reports
    )  # fmt: skip


def document_tables(report: PaperReport) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield what the document shows of a paper: its own rows, fitted powers, ends of figures."""
    for table, cells in own_tables(report):
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


def own_tables(report: PaperReport) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the paper's tables with all rows of its own methods, as text."""
    own = [row for row in report.rows if row.figure.ours]
    for table in dict.fromkeys(row.figure.table for row in own):
        yield table, pd.DataFrame([_cells(row) for row in own if row.figure.table == table])


def _cells(row: Row) -> dict[str, str]:
    figure = row.figure
    why = row.setting if row.post_hoc is not None else row.why
    spread = "" if figure.spread is None else f" +- {figure.spread:g}"
    return {
        "data": figure.dataset,
        "method": figure.method,
        "metric": figure.metric,
        "paper": f"{figure.value:g}{spread}",
        "label-free": number(row.label_free, figure.metric),
        "post hoc": number(row.post_hoc, figure.metric),
        "k-means": number(row.k_means, figure.metric),
        **{f"{mode}?": verdict(row, mode) if figure.scored else ""
           for mode in (LABEL_FREE, POST_HOC)},
        "picked at": " ".join(filter(None, (why, figure.note and f"({figure.note})"))),
    }  # fmt: skip


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
