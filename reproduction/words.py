"""The same words for figures on the terminal, in pages, in CSV files and in the document."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from .plan import LABEL_FREE, MODES, POST_HOC
from .scoreboard import Row, Share
from .study import Study

__all__ = ["csv_text", "number", "share_line", "summary_line", "table_lines", "verdict"]

COLUMNS = ("paper", "table", "dataset", "method", "metric", "paper_value", "paper_spread",
           "label_free", "post_hoc", "scored", "reached_label_free", "reached_post_hoc",
           "setting", "why", "note")  # fmt: skip
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


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table for the terminal."""
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, ["-" * w for w in widths], *rows]:
        yield "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip()


def csv_text(study: Study) -> str:
    """All rows of a study as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for report in study.reports:
        for row in report.rows:
            figure = row.figure
            writer.writerow(
                [report.name, figure.table, figure.dataset, figure.method, figure.metric,
                 figure.value, _cell(figure.spread), _cell(row.label_free), _cell(row.post_hoc),
                 int(figure.scored), *(_cell(row.reached(mode)) for mode in MODES), row.setting,
                 row.why, figure.note]
            )  # fmt: skip
    return out.getvalue()


def _cell(value: float | bool | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else f"{value:.6g}"
