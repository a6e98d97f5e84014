"""Pahikkala et al. 2014, "Unsupervised Multi-Class RLS": tables 1-2, Figs. 3-5.

Post hoc (sigma, lambda) is the best of half of the paper's grid by the true classes, each point
the mean of ten runs (on COIL-20 a third of the grid); the kernel is not centred and each run has
one start, as in the paper.
"""

from __future__ import annotations

from .plan import LABEL_FREE, POST_HOC, Curve, Entry, Series, Unit, grid

TITLE = "On Unsupervised Training of Multi-Class Regularized Least-Squares Classifiers"
AUTHORS, YEAR = "T. Pahikkala, A. Airola, F. Gieseke, O. Kramer", 2014
VENUE = "Journal of Computer Science and Technology 29(1), 90-104"
ACCURACY = "accuracy"
NOTES = (
    "Lemma 1's constant is n, not 1; lambda |f|^2 does not belong inside the sum over rows; the "
    "O(1) formula is wrong where the new cluster is the old one.",
    "The kernel is not centred and there is no bias, so that on iris all rows in one cluster have "
    "a lower objective than the true classes. Ours is centred unless told otherwise.",
    "Algorithm 3 can end with empty clusters (COIL, 20 clusters); ours repairs them.",
    "lambda = 1/2, the edge of the paper's grid, is the best on most sets.",
    "On COIL-20 only a third of the grid was tried, which may be why its mean is missed narrowly; "
    "a perfect run (1.00, the highest of ten) was never seen.",
    "Which 500 rows of Letter and USPS were drawn is not published. USPS 1-4 are the digits 0 to 3 "
    "and 5-8 the digits 4 to 7: with those the paper's k-means and spectral figures return "
    "(.63 and .65 for .61 and .66; the digits 1 to 4 give .79 and .75).",
)
SEARCHES = {"Stoc-RLS": "stochastic", "Steep-RLS": "steepest", "UMC-RLS": "shaking"}
SETS = ("coil-20", "coil-1-4", "coil-5-8", "iris", "letter-abcd-500", "moons", "usps-1-4",
        "usps-5-8")  # fmt: skip
WIDTHS = tuple(round(0.1 * i, 1) for i in range(1, 11))
RIDGES = tuple(2.0**p for p in (-10, -7, -4, -2, -1))
RIVALS = {"SC": "spectral, 10-NN", "GMM": "Gaussian mixture", "K-means": "k-means"}


def entries() -> list[Entry]:
    """What stands beside the tables: the mean of ten runs, and the best of the same ten."""
    found = []
    for slug in SETS:
        for table, data, over in (
            ("table-1", slug, "mean"), ("table-2", f"{slug}@max-of-10", "best"),
        ):  # fmt: skip
            for method, search in SEARCHES.items():
                units = _grid(slug, search)
                found.append(Entry((table,), data, method, POST_HOC, units, "ari", over))
            cuts = Unit(slug, "cutting planes, Gaussian", seeds=10)
            if slug != "coil-20":  # not run in the paper either
                units = grid(cuts, width=WIDTHS[::3], alpha=(0.001, 0.01, 0.1))
                found.append(Entry((table,), data, "CPMMC", POST_HOC, units, "ari", over))
            default = Unit(slug, "least-squares", seeds=10)
            found.append(Entry((table,), data, "UMC-RLS", LABEL_FREE, (default,), "ari", over))
            for method, name in RIVALS.items():
                unit = Unit(slug, name, seeds=10)
                found.append(Entry((table,), data, method, LABEL_FREE, (unit,), "ari", over))
    return found


def _grid(slug: str, search: str) -> tuple[Unit, ...]:
    unit = Unit(slug, "least-squares, paper", {"search": search}, seeds=10)
    if search != "shaking":
        return grid(unit, width=WIDTHS[::3], ridge=RIDGES[1::2])
    if slug == "coil-20":  # the most rows and clusters: the part of the grid that is not hopeless
        return grid(unit, width=WIDTHS[2:], ridge=[2.0**p for p in range(-4, 0)])
    return grid(unit, width=WIDTHS, ridge=RIDGES)


def curves() -> list[Curve]:
    """The figures."""
    at = {"width": 0.4, "ridge": 0.5}
    timed = {"UMC-RLS": ("least-squares, paper", at), "K-means": ("k-means", {}),
             "SC": ("spectral, 10-NN", {}), "GMM": ("Gaussian mixture", {})}  # fmt: skip

    def line(label, slug, sizes, method, params, score="cpu_s"):
        units = tuple((Unit(slug, method, params, rows=n),) for n in sizes)
        return Series(label, tuple(map(float, sizes)), units, score)

    def times(slug, sizes):
        return tuple(line(name, slug, sizes, *timed[name]) for name in timed)

    coil, mnist = (200, 400, 600, 800, 1000, 1200, 1440), (500, 1000, 2000, 4000)
    return [
        Curve("figure-3", "Steps of the search over rows: COIL, 20 clusters", "rows", "steps",
              (line("UMC-RLS", "coil-20", coil, "least-squares, steps", at, "iterations"),), True,
              "the number of steps grows linearly"),
        Curve("figure-4", "Time over rows: COIL, 20 clusters", "rows", "CPU s",
              times("coil-20", coil), True, "UMC-RLS is faster than the baselines"),
        Curve("figure-5", "Time over rows: MNIST, 10 clusters", "rows", "CPU s",
              times("mnist", mnist), True, "UMC-RLS takes five minutes for 8000 rows"),
    ]  # fmt: skip


def peers() -> list[Unit]:
    """Ours where today's peers are run, too."""
    sets = ("iris", "moons", "letter-abcd-500", "usps-1-4", "coil-5-8")
    return [Unit(slug, "least-squares") for slug in sets]
