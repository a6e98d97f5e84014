"""Zeng & Cheung 2012, "Semi-Supervised Maximum Margin Clustering with Pairwise Constraints".

The paper prints no accuracy as a number, only curves, so that nothing here is scored: Figs. 4-8
are computed and drawn, with the standard deviation over draws of the links. Label-free the
regulariser is chosen by links held out, and for Hu et al. the weight of the unlabelled rows, too;
post hoc it is the best of three by the true classes, with the paper's linear kernel.
"""

from __future__ import annotations

from .plan import Curve, Entry, Series, Unit, grid

TITLE = "Semi-Supervised Maximum Margin Clustering with Pairwise Constraints"
AUTHORS, YEAR = "H. Zeng, Y.-M. Cheung", 2012
VENUE = "IEEE Transactions on Knowledge and Data Engineering 24(5), 926-939"
ACCURACY = "majority"
NOTES = (
    "Accuracies are only drawn, not printed: shown, not scored.",
    "The single start from an eigenvector is a lottery: its sign is arbitrary and the scatter is "
    "singular with few links. Ours tries several starts and keeps the best by objective.",
    "The first step of size 1/lambda erases the start; 'L + U = n' is wrong; lambda depends on the "
    "scale of the features.",
    "Three defaults of ours (kernel width, the strength from which starts are followed, repeated "
    "folds) were chosen with the classes of some of these sets in view.",
    "Hu et al. weighs must-links, cannot-links and rows without links: links of each kind weigh 1 "
    "in all; the regulariser and the weight of the rows (1, 10 or 100) are chosen by links held "
    "out, as our regulariser is.",
    "Three draws of the links instead of twenty; their standard deviation is drawn.",
    "pendigits 389, mfeat-fac and sports are not at hand.",
)
SETS = {  # with the largest number of links
    "letter-ijl": 100, "vehicle": 400, "ionosphere": 100, "sonar": 100, "bci": 100,
    "mnist-0689": 300, "coil-3": 100, "digits-odd-even": 300, "segment": 600, "usps-test": 800,
    "magic": 1000, "ohscal": 1000,
}  # fmt: skip
LARGE = ("magic", "ohscal")
SHARES = (0.4, 0.7, 1.0)
METHODS = {
    "k-means": "k-means", "cutting planes (CPMMC)": "cutting planes without links",
    "DCA + k-means": "DCA + k-means", "MPCKMeans": "MPCKMeans", "PCKMeans": "PCKMeans",
    "Hu et al., weights by held-out links": "Hu et al., chosen",
    "maxmargin, label-free": "pairwise",
}  # fmt: skip
NEW = {
    "letter-ijl-all": (227, 100),
    "digits-odd-even-all": (1797, 300),
    "mnist-0689-all": (800, 300),
}
STRENGTHS = (0.001, 0.01, 0.1)


def entries() -> list[Entry]:
    """Nothing is printed as a number."""
    return []


def curves() -> list[Curve]:
    """The figures."""
    found = []
    for slug in SETS:
        for figure, score, y_label in (
            ("figure-4", "majority", "accuracy %"), ("figure-5", "nmi", "NMI"),
            ("figure-6", "cpu_s", "CPU s"),
        ):  # fmt: skip
            found.append(_links_curve(slug, figure, score, y_label))
    found.append(_rows_curve())
    return found + [_new_rows_curve(slug) for slug in NEW]


def _links_curve(slug: str, figure: str, score: str, y_label: str) -> Curve:
    counts = tuple(round(SETS[slug] * share) for share in SHARES)
    seeds = 1 if slug in LARGE else 3
    lines = [
        Series(label, tuple(map(float, places)),
               tuple((_unit(slug, method, links, seeds),) for links in places), score)
        for label, method in METHODS.items()
        for places in [counts[-1:] if method == "Hu et al., chosen" else counts]  # it is slow
        if not (slug in LARGE and method in ("MPCKMeans", "PCKMeans", "Hu et al., chosen"))
    ]  # fmt: skip
    if slug not in LARGE:
        for label, method in (
            ("Hu et al., post hoc", "Hu et al."),
            ("paper, post hoc", "pairwise"),
        ):
            tried = tuple(
                grid(Unit(slug, method, {"kernel": "linear"}, seeds, links=links), alpha=STRENGTHS)
                for links in counts
            )
            lines.append(Series(label, tuple(map(float, counts)), tried, score))
    return Curve(figure, f"{slug}: {y_label} over the number of links", "links", y_label,
                 tuple(lines), paper="the proposed method is the best on most sets")  # fmt: skip


def _unit(slug: str, method: str, links: int, seeds: int) -> Unit:
    needs = method not in ("k-means", "cutting planes without links")
    return Unit(slug, method, seeds=seeds, links=links if needs else None)


def _rows_curve() -> Curve:
    sizes = (4000, 8000, 12000, 16000, 19020)
    params = {"alpha": 0.003, "n_init": 1, "n_components": 128}
    units = tuple((Unit("magic", "pairwise", params, rows=n, links=1000),) for n in sizes)
    line = Series("maxmargin, alpha given", tuple(map(float, sizes)), units)
    return Curve("figure-7", "magic, 1000 links, one start: time over rows", "rows", "CPU s",
                 (line,), True, "time grows linearly")  # fmt: skip


def _new_rows_curve(slug: str) -> Curve:
    fitted, most = NEW[slug]
    counts = tuple(round(most * share) for share in SHARES)
    units = tuple(
        (Unit(slug, "pairwise", seeds=3, links=links, fit_rows=fitted),) for links in counts
    )
    lines = tuple(
        Series(label, tuple(map(float, counts)), units, score)
        for label, score in (("rows of the fit", "seen_majority"), ("new rows", "new_majority"))
    )
    return Curve("figure-8", f"{slug}: accuracy on rows that the fit did not see", "links",
                 "accuracy %", lines, paper="as accurate as on the rows of the fit")  # fmt: skip


def peers() -> list[Unit]:
    """Ours where today's peers are run, too, on the same links."""
    sets = ("letter-ijl", "ionosphere", "vehicle")
    return [Unit(slug, "pairwise", seeds=3, links=SETS[slug]) for slug in sets]
