"""What a study leaves in a folder: HTML pages, `results.csv`, `reproduction.md` and its pictures.

The pages fetch nothing: style and pictures are inside. Tables scroll sideways by themselves, so
that a page is readable on a phone. `reproduction.md` is what `docs/reproduction.md` shows.
"""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from . import METRICS, data, pictures, plan, scenes, scoreboard, study, words
from .study import Study

__all__ = ["write_report"]

WHETHER = ("scored", "counted", "reached")  # columns of 0, 1 or nothing
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters |= {
    "markdown": words.markdown,
    "number": words.number,
    "share_line": words.share_line,
    "short": "{:g}".format,
    "table_name": words.table_name,
    "verdict": words.verdict,
}
TEMPLATES.globals |= {
    "COUNTED": scoreboard.COUNTED,
    "LABEL_FREE": plan.LABEL_FREE,
    "METRICS": METRICS,
    "POST_HOC": plan.POST_HOC,
    "board": words.board,
    "can_draw": pictures.can_draw,
    "cards": data.cards,
    "curve_picture": pictures.curve_picture,
    "document_tables": words.document_tables,
    "missed": study.missed,
    "summary_line": words.summary_line,
    "table_picture": pictures.table_picture,
}


def write_report(study: Study, folder: Path) -> list[Path]:
    """Write the report of a study.

    Parameters
    ----------
    study : Study
    folder : Path

    Returns
    -------
    list of Path
        The files that were written.
    """
    drawn = _draw(study, folder / "reproduction")
    texts = {
        "index.html": TEMPLATES.get_template("index.html").render(study=study),
        "results.csv": words.results_table(study)
        .astype({name: "Int8" for name in words.COLUMNS if name.startswith(WHETHER)})
        .to_csv(index=False, float_format="%.6g"),
        "reproduction.md": TEMPLATES.get_template("reproduction.md").render(
            study=study, drawn=drawn
        ),
    }
    page = TEMPLATES.get_template("paper.html")
    for report in study.reports:
        texts[f"{report.name}.html"] = page.render(report=report, quick=study.quick)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts] + [path for path, *_ in drawn.values()]


def _draw(study: Study, folder: Path) -> dict[tuple[str, str], tuple[Path, str, str]]:
    """Draw the figures of the papers; return path, caption and what the paper says of each."""
    found: dict[tuple[str, str], tuple[Path, str, str]] = {}
    if not pictures.can_draw():
        return found
    folder.mkdir(exist_ok=True)
    for report in study.reports:
        for figure in dict.fromkeys(curve.figure for curve, _ in report.figures):
            panels = [(curve, lines) for curve, lines in report.figures if curve.figure == figure]
            path = folder / f"{report.name}-{figure}.png"
            path.write_bytes(pictures.figure_panels(panels))
            said = "; ".join(dict.fromkeys(curve.paper for curve, _ in panels if curve.paper))
            titles = "; ".join(curve.title for curve, _ in panels[:3])
            found[report.name, figure] = path, titles, said
        if not study.quick and not report.wanted.tables:
            for figure, title, image in scenes.scenes(report.name):
                path = folder / f"{report.name}-{figure}.png"
                path.write_bytes(image)
                found[report.name, figure] = path, title, ""
    return found
