"""Self-contained HTML pages: one for every paper, and an index with the scoreboard.

Nothing is fetched: style and pictures are inside the page. Tables scroll sideways by themselves,
so that a page is readable on a phone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from . import METRICS, PAPERS
from .data import cards
from .pictures import can_draw, curve_picture, table_picture
from .plan import LABEL_FREE, POST_HOC
from .scoreboard import Row
from .study import PaperReport, Study, missed
from .words import number, share_line, summary_line, verdict

__all__ = ["index_page", "paper_page"]

STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #8886;
  white-space: nowrap; }
td:first-child, th:first-child, td:nth-child(2), th:nth-child(2) { text-align: left; }
td:first-child { white-space: normal; min-width: 7rem; }
td.why { white-space: normal; text-align: left; min-width: 14rem; font-size: .8rem; }
tr.scored td:nth-child(2) { font-weight: 600; }
.yes { color: #18794e; } .no { color: #c62a2f; }
@media (prefers-color-scheme: dark) { .yes { color: #4cc38a; } .no { color: #ff9592; } }
img { max-width: 100%; height: auto; background: #fff; }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; }
details { margin: .5rem 0; }
@media (max-width: 40rem) { table { font-size: .8rem; } th, td { padding: .2rem .35rem; } }
"""
# The browser itself refuses whatever would go to the network.
NOTHING_FETCHED = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
WHAT = (
    "Label-free: defaults; only the number of clusters and the balance are given. Post hoc: the "
    "best over the paper's grid by the true classes, as the paper did. A row is reached within one "
    "point of accuracy or error, within .03 of ARI, or when ours is better. Bold rows are scored."
)


def _page(title: str, body: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{NOTHING_FETCHED}">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _table(head: Sequence[str], rows: Iterable[str]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (
        f'<div class="wide"><table><thead><tr>{cells}</tr></thead>\n<tbody>'
        + "\n".join(rows)
        + "</tbody></table></div>"
    )


def _cells(*values: str) -> str:
    return "".join(f"<td>{escape(value)}</td>" for value in values)


def _verdict(row: Row, mode: str) -> str:
    said = verdict(row, mode)
    kind = {"reached": "yes", "not reached": "no"}.get(said, "")
    return f'<td class="{kind}">{said}</td>'


# -- a paper --------------------------------------------------------------------------------------


def paper_page(report: PaperReport, quick: bool) -> str:
    """Write the page of a paper.

    Parameters
    ----------
    report : PaperReport
    quick : bool

    Returns
    -------
    str
    """
    module = report.module
    body = [
        '<p><a href="index.html">all papers</a></p>',
        f"<h1>{escape(module.TITLE)}</h1>",
        f"<p>{escape(module.AUTHORS)}, {module.YEAR}. {escape(module.VENUE)}.</p>",
        f"<p>{escape(WHAT)}</p>",
    ]
    if quick:
        body.append("<p><strong>Quick look on subsets of rows and grids: not a reproduction."
                    "</strong></p>")  # fmt: skip
    if report.share.printed:
        body.append(
            f"<p>{report.share.printed} scored figures, data at hand for {report.share.with_data}. "
            f"Reached post hoc: <strong>{share_line(report.share, POST_HOC)}</strong>; label-free: "
            f"<strong>{share_line(report.share, LABEL_FREE)}</strong>.</p>"
        )
    notes = "".join(f"<li>{escape(note)}</li>" for note in module.NOTES)
    body.append(f"<h2>What the paper leaves out or gets wrong</h2><ul>{notes}</ul>")
    for table in dict.fromkeys(row.figure.table for row in report.rows):
        body += _table_part(table, [row for row in report.rows if row.figure.table == table])
    body += _figure_part(report) + _peer_part(report) + _card_part(report.name)
    return _page(f"maxmargin: {module.TITLE}", body)


def _name(table: str) -> str:
    kind, _, which = table.partition("-")
    return f"{kind.capitalize()} {which}".strip()


def _table_part(table: str, rows: list[Row]) -> list[str]:
    part = [f'<h2 id="{table}">{_name(table)}</h2>']
    scored = [row for row in rows if row.figure.scored and row.post_hoc is not None]
    if scored and can_draw():
        part.append(
            f'<figure><img alt="{_name(table)}: the paper beside ours" '
            f'src="data:image/png;base64,{table_picture(scored)}"></figure>'
        )
    for metric in dict.fromkeys(row.figure.metric for row in rows):
        chosen = [row for row in rows if row.figure.metric == metric]
        part.append(f"<h3>{escape(metric)}: {escape(METRICS.get(metric, ''))}</h3>")
        lines = [_row_line(row) for row in sorted(chosen, key=lambda r: not r.figure.ours)]
        head = ["data", "method", "paper", "ours, label-free", "ours, post hoc", "post hoc",
                "label-free", "picked at, or why not"]  # fmt: skip
        part.append(_table(head, lines))
    return part


def _row_line(row: Row) -> str:
    figure, metric = row.figure, row.figure.metric
    spread = "" if figure.spread is None else f" &plusmn; {figure.spread:g}"
    note = " ".join(filter(None, (row.why or row.setting, figure.note)))
    kind = ' class="scored"' if figure.scored else ""
    verdicts = _verdict(row, POST_HOC) + _verdict(row, LABEL_FREE)
    return (
        f"<tr{kind}>{_cells(figure.dataset, figure.method)}<td>{figure.value:g}{spread}</td>"
        f"{_cells(number(row.label_free, metric), number(row.post_hoc, metric))}"
        f"{verdicts if figure.scored else '<td></td><td></td>'}"
        f'<td class="why">{escape(note)}</td></tr>'
    )


def _figure_part(report: PaperReport) -> list[str]:
    part = ["<h2>Figures</h2>"] if report.figures or report.unseen else []
    for curve, lines in report.figures:
        title = f"{_name(curve.figure)}. {curve.title}"
        if can_draw():
            part.append(
                f'<figure><img alt="{escape(title)}" src="data:image/png;base64,'
                f'{curve_picture(curve, lines)}"><figcaption>{escape(title)}. '
                f"The paper: {escape(curve.paper)}.</figcaption></figure>"
            )
        places = sorted({x for line in lines for x in line.x})
        head = [curve.x_label, *(f"{x:g}" for x in places), "exponent"]
        rows = [
            f"<tr>{_cells(line.label, *(_at(line, x) for x in places))}"
            f"<td>{number(line.exponent, 'exponent')}</td></tr>"
            for line in lines
        ]
        part.append(f"<details><summary>{escape(title)}: {escape(curve.y_label)}</summary>"
                    f"{_table(head, rows)}</details>")  # fmt: skip
    part += [
        f"<p>{_name(curve.figure)}. {escape(curve.title)}: {escape(why)}.</p>"
        for curve, why in report.unseen
    ]
    return part


def _at(line, x: float) -> str:
    return f"{line.y[line.x.index(x)]:.3g}" if x in line.x else "-"


def _peer_part(report: PaperReport) -> list[str]:
    if not report.peers:
        return []
    rows = [
        f"<tr>{_cells(row.data, row.method)}"
        + _cells(*(number(value, name) for name, value in row.scores.items()))
        + f'<td class="why">{escape(row.why)}</td></tr>'
        for row in report.peers
    ]
    head = ["data", "method", "accuracy %", "ARI", "NMI", "CPU s", ""]
    intro = (
        "<h2>What users would pick today</h2><p>Each with nothing but the number of clusters.</p>"
    )
    return [intro, _table(head, rows)]


def _card_part(paper: str) -> list[str]:
    chosen = [card for card in cards().values() if paper in card.papers]
    rows = [
        f"<tr>{_cells(card.slug, card.title, _count(card.n), _count(card.d), _count(card.classes))}"
        f"{_cells(card.source, card.licence)}"
        f'<td class="why">{escape(card.file)}. {escape(card.how_to_get)}</td></tr>'
        for card in chosen
    ]
    head = ["data", "title", "n", "d", "classes", "source", "licence", "file, and how to get it"]
    return ["<h2>Data cards</h2>", _table(head, rows)]


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


# -- the index ------------------------------------------------------------------------------------


def index_page(study: Study) -> str:
    """Write the index with the scoreboard.

    Parameters
    ----------
    study : Study

    Returns
    -------
    str
    """
    rows = []
    for report in study.reports:
        share = report.share
        link = f'<td><a href="{report.name}.html">{escape(PAPERS[report.name])}</a></td>'
        given = (str(share.printed), str(share.with_data))
        reached = [share_line(share, mode) if share.printed else "nothing printed as a number"
                   for mode in (POST_HOC, LABEL_FREE)]  # fmt: skip
        rows.append(f"<tr>{link}{_cells(*given, *reached)}</tr>")
    head = ["paper", "scored figures", "with data", "reached post hoc", "reached label-free"]
    body = [
        "<h1>The papers, table by table</h1>",
        f"<p><strong>{escape(summary_line(study))}</strong></p>",
        f"<p>{escape(WHAT)}</p>",
        _table(head, rows),
    ]
    for mode in (POST_HOC, LABEL_FREE):
        lines = [
            f"<tr>{_cells(f'{r.figure.paper} {r.figure.table}', r.figure.dataset, r.figure.method)}"
            f"{_cells(r.figure.metric, f'{r.figure.value:g}', _mode_number(r, mode))}</tr>"
            for r in missed(study, mode)
        ]
        head = ["row", "data", "method", "metric", "paper", f"ours, {mode}"]
        body.append(f"<h2>Not reached {mode}</h2>")
        body.append(_table(head, lines) if lines else "<p>None.</p>")
    absent = [f"<li>{escape(why)}</li>" for why in study.results.absent.values()]
    if absent:
        body.append(f"<h2>Data not available</h2><ul>{''.join(absent)}</ul>")
    skipped = [f"<li>{escape(why)}</li>" for why in sorted(set(study.results.skipped.values()))]
    if skipped:
        body.append(f"<h2>Not run</h2><ul>{''.join(skipped)}</ul>")
    body.append('<p><a href="results.csv">All figures as CSV</a></p>')
    return _page("maxmargin: the papers, table by table", body)


def _mode_number(row: Row, mode: str) -> str:
    value = row.post_hoc if mode == POST_HOC else row.label_free
    return number(value, row.figure.metric)
