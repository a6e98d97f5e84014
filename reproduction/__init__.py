"""What the five papers print, as data: every number of their tables, and the data sets behind them.

`read_figures` gives the numbers of one paper, in the order of its tables. The text of a figure's
fields is the paper's, shortened:

==========  ======================================================================================
field       meaning
==========  ======================================================================================
`table`     ``table-4``; ``figure-3`` for what the text says of a figure; ``text`` for prose
`dataset`   slug of a data card, shared by all papers; a setting follows an ``@``
            (``digits-3-9@C=0.01``, ``letter-ab@subset=500``, ``iris@max-of-10``); ``all`` is
            no one set
`method`    the paper's label; ``data`` for facts about the data set
`metric`    a key of `METRICS`, which says the unit
`value`     as printed: accuracies and errors are percents, Rand indices and ARI are not
`spread`    what is printed after the +-, or None
`ours`      it is the method that the paper proposes. Not so: its weaker variants (iterSVM,
            Stoc-RLS, Steep-RLS) and the single kernels of the multiple kernel paper
`scored`    a row of the scoreboard: `ours`, in a table, an accuracy, an error, a Rand index, an ARI
`note`      what is peculiar about it, such as a slip of the paper
==========  ======================================================================================

A dash in a printed table (it could not be run) has no row. `read_cards` gives the data cards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["METRICS", "PAPERS", "Card", "Figure", "read_cards", "read_figures"]

PAPERS = {
    "alternating": "Zhang, Tsang and Kwok, Maximum margin clustering made practical, 2009",
    "cutting_plane": "Zhao, Wang and Zhang, Efficient multiclass maximum margin clustering, 2008",
    "pairwise": "Zeng and Cheung, Semi-supervised maximum margin clustering with pairwise"
    " constraints, 2012",
    "least_squares": "Pahikkala, Airola, Gieseke and Kramer, On unsupervised training of"
    " multi-class regularized least-squares classifiers, 2014",
    "multiple_kernel": "Zhao, Kwok and Zhang, Multiple kernel clustering, 2009",
}
"""Name of a paper -> its reference."""

METRICS = {
    "accuracy": "percent of the rows, every cluster named after its largest class",
    "error": "percent of the rows, 100 - accuracy",
    "rand": "Rand index, 0 to 1",
    "ari": "adjusted Rand index, at most 1",
    "cpu_s": "seconds of CPU time on the paper's machine",
    "iterations": "iterations until convergence",
    "exponent": "p when CPU time grows as size to the power p",
    "speedup": "ratio of CPU times",
    "epsilon": "tolerance of the cutting planes",
    "times_best": "number of data sets on which the method is best",
    "n": "rows",
    "n_positive": "rows of the positive class",
    "n_negative": "rows of the negative class",
    "n_test": "rows that were not fitted",
    "d": "columns",
    "classes": "classes",
    "sparsity": "percent of the entries that are not zero",
    "balance_l": "the balance bound l, as a share of n",
    "links": "pairwise constraints that a share of the rows makes",
    "links_max": "the most pairwise constraints given",
    "width": "pixels",
    "height": "pixels",
}
"""Metric -> what it is, with its unit."""


@dataclass(frozen=True)
class Figure:
    """One printed number of a paper."""

    paper: str
    table: str
    dataset: str
    method: str
    metric: str
    value: float
    spread: float | None
    ours: bool
    scored: bool
    note: str

    @property
    def card(self) -> str:
        """Slug of the data card: the data set without its setting."""
        return self.dataset.partition("@")[0]

    @property
    def setting(self) -> str:
        """What follows the ``@`` in the data set; empty where the table has no setting."""
        return self.dataset.partition("@")[2]


@dataclass(frozen=True)
class Card:
    """A data set of the papers.

    `n`, `d` and `classes` are those of the rows that `file` describes, or the paper's where there
    is no file; None where they are not known. `file` names a file of the data folder (or of
    scikit-learn) and says which of its rows, and is empty where the data are not at hand.
    """

    slug: str
    title: str
    n: int | None
    d: int | None
    classes: int | None
    source: str
    licence: str
    papers: tuple[str, ...]
    file: str
    how_to_get: str


def read_figures(paper: str) -> list[Figure]:
    """The printed numbers of one paper.

    Parameters
    ----------
    paper : str
        A key of `PAPERS`.

    Returns
    -------
    list of Figure

    Examples
    --------
    >>> from reproduction import read_figures
    >>> own = [f for f in read_figures("least_squares") if f.scored and f.dataset == "iris"]
    >>> own[0].table, own[0].method, own[0].metric, own[0].value
    ('table-1', 'UMC-RLS', 'ari', 0.96)
    """
    if paper not in PAPERS:
        raise ValueError(f"paper={paper!r} is not known; the papers are {', '.join(PAPERS)}.")
    types = {"value": "float64", "spread": "float64", "ours": "boolean", "scored": "boolean"}
    return [Figure(paper=paper, **row) for row in _records(f"figures/{paper}.csv", types)]


def read_cards() -> dict[str, Card]:
    """The data cards of all papers, by slug.

    Examples
    --------
    >>> from reproduction import read_cards
    >>> card = read_cards()["digits-3-8"]
    >>> card.n, card.d, card.classes, card.papers
    (357, 64, 2, ('alternating', 'cutting_plane'))
    """
    rows = _records("datasets.csv", dict.fromkeys(("n", "d", "classes"), "Int64"))
    return {r["slug"]: Card(**r | {"papers": tuple(r["papers"].split())}) for r in rows}


def _records(name: str, types: dict[str, str]) -> list[dict[Any, Any]]:
    """Rows of a csv file; columns without a type are text, empty cells of the others are None."""
    table = pd.read_csv(
        Path(__file__).parent / name,
        dtype=defaultdict(lambda: "str", types),
        na_values={column: [""] for column in types},
        keep_default_na=False,
    ).astype(object)
    return table.where(table.notna(), None).to_dict("records")
