"""Zhao, Kwok & Zhang 2009, "Multiple Kernel Clustering": tables 2 and 3, Figs. 1-3.

Post hoc the regulariser, the width of the Gaussian and the balance are the best of a grid by the
true classes; the paper does not print its settings.
"""

from __future__ import annotations

from .alternating import paper_units
from .data import cards
from .plan import LABEL_FREE, POST_HOC, Curve, Entry, Series, Unit, grid

TITLE = "Multiple Kernel Clustering"
AUTHORS, YEAR = "B. Zhao, J. T. Kwok, C. Zhang", 2009
VENUE = "SIAM International Conference on Data Mining (SDM), 638-649"
ACCURACY = "majority"
NOTES = (
    "The scale of the kernels decides their weights and is not said: raw kernels put nearly all "
    "weight on the polynomial. Ours are centred and have equal traces.",
    "With two clusters and a loose balance the trivial solution costs C (1 - l/n): it is what a "
    "small C returns. With many clusters the lowest objective often has an empty cluster; a size "
    "floor cures it.",
    "'ionosphere, 354 x 64' is a slip: the set has 351 rows and 33 columns that vary. Its 91.0 % "
    "was not reproduced.",
    "mnist01234 has 28,911 rows in the paper; no five classes have that many. Ours are the 30,596 "
    "training rows of 0 to 4, as means of 2 x 2 pixels.",
    "The widths .7 and 1.4 were added to our grid after ringnorm was missed without them (97.7); "
    "the other widths were chosen beforehand.",
    "Which 1000 rows of ringnorm and svmguide1-a, and which subsets in Table 3, is not published.",
)
SETS = {  # with balance
    "digits-1-7": 0.9, "digits-2-7": 0.9, "ionosphere": 0.5, "svmguide1-s": 0.9, "ringnorm-s": 0.9,
    "letter-ab": 0.9, "satellite-c1-c2": 0.5, "digits-0689": 0.9, "digits-1279": 0.9,
    "letter-abcd": 0.9, "mnist-01234": 0.9,
}  # fmt: skip
TABLES = ("table-2", "table-3")
SUBSETS = {"letter-ab": 500, "satellite-c1-c2": 500, "letter-abcd": 500, "mnist-01234": 1000}
KERNELS = {"K1": ["K1"], "K2": ["K2"], "K3": ["K3"], "MKC": ["K1", "K2", "K3"]}
WIDTHS: tuple[float, ...] = (0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
ALPHAS = ("auto", 0.003, 0.03)


def entries() -> list[Entry]:
    """What stands beside the tables."""
    found = []
    for slug, balance in SETS.items():
        for method in KERNELS:
            units = _grid(slug, method, balance)
            found.append(Entry(TABLES, slug, method, POST_HOC, units, "majority"))
        default = Unit(slug, "multiple-kernel", seeds=3)
        found.append(Entry(TABLES, slug, "MKC", LABEL_FREE, (default,), "majority"))
        means = Unit(slug, "k-means", {"n_init": 1}, seeds=10)
        found.append(Entry(("table-2",), slug, "KM", LABEL_FREE, (means,), "majority"))
        if not slug.startswith("mnist"):
            cuts = grid(Unit(slug, "normalized cut", {"unit": "largest"}), width=(0.1, 0.3, 1.0))
            found.append(Entry(("table-2",), slug, "NC", POST_HOC, cuts, "majority"))
    for slug in ("digits-1-7", "digits-2-7", "ionosphere", "svmguide1-s", "ringnorm-s",
                 "letter-ab", "satellite-c1-c2"):  # fmt: skip
        balance = 0.7 if slug in ("ionosphere", "satellite-c1-c2") else 0.94
        units = paper_units(slug, "laplacian", balance)
        found.append(Entry(("table-2",), slug, "IterSVR", POST_HOC, units, "majority"))
    return found + [entry for slug in SUBSETS for entry in _subset(slug)]


def _grid(slug: str, method: str, balance: float, **where) -> tuple[Unit, ...]:
    unit = Unit(slug, "multiple-kernel, paper", {"kernels": KERNELS[method]}, **where)
    widths = (1.0, 2.0) if slug.startswith("mnist") else WIDTHS
    if "K3" not in KERNELS[method]:
        widths = (1.0,)
    return grid(unit, width=widths, alpha=ALPHAS, balance=(balance,))


def _subset(slug: str) -> list[Entry]:
    """Table 3: fitted on some rows, all rows scored."""
    size, data = SUBSETS[slug], f"{slug}@subset={SUBSETS[slug]}"
    units = _grid(slug, "MKC", SETS[slug], fit_rows=size, seeds=3)
    default = Unit(slug, "multiple-kernel", fit_rows=size, seeds=3)
    return [
        Entry(("table-3",), data, "MKC", POST_HOC, units, "majority"),
        Entry(("table-3",), data, "MKC", LABEL_FREE, (default,), "majority"),
    ]


def curves() -> list[Curve]:
    """The figures."""
    sizes, counts, epsilons = (
        (1000, 2000, 4000, 8000, 16000, 30000),
        (1, 2, 5, 10),
        (0.1, 0.03, 0.01),
    )

    def line(slug, label, method, axis, values, score="cpu_s", **params):
        unit = Unit(slug, method, {"balance": SETS[slug]} | params)
        units = tuple((u,) for u in grid(unit, **{axis: values}))
        return Series(label, tuple(map(float, values)), units, score)

    rows = tuple((Unit("mnist-01234", "multiple-kernel", rows=n),) for n in sizes)
    kernels = [
        line(slug, slug, "multiple-kernel, gaussians", "count", counts, n_init=10)
        for slug in ("digits-0689", "letter-ab")
    ]
    tolerances = [
        line(slug, slug, "multiple-kernel", "tol", epsilons)
        for slug in ("digits-0689", "letter-ab")
    ]
    x = tuple(map(float, sizes))
    by_size = sorted(
        (slug for slug in SETS if "mnist" not in slug), key=lambda s: cards()[s].n or 0
    )

    def compared(label, methods):
        units = tuple(
            tuple(_grid(slug, method, SETS[slug])[0] for method in methods) for slug in by_size
        )
        sizes = tuple(float(cards()[slug].n or 0) for slug in by_size)
        return Series(label, sizes, units, "cpu_s", "total")

    return [
        Curve("figure-1", "Time of MKC and of its three kernels one by one", "rows of the set",
              "CPU s", (compared("MKC", ["MKC"]), compared("K1, K2 and K3", ["K1", "K2", "K3"])),
              paper="MKC is about as fast as the three together"),
        Curve("figure-2", "Time over rows: mnist 01234, label-free", "rows", "CPU s",
              (Series("MKC", x, rows),), True, "CPU time grows as O(n)"),
        Curve("figure-2", "Passes over the data: mnist 01234, label-free", "rows", "passes",
              (Series("MKC", x, rows, "iterations"),),
              paper="fewer than ten CCCP steps a round, whatever n is"),
        Curve("figure-3", "Time over the number of kernels", "kernels", "CPU s", tuple(kernels),
              True, "CPU time grows quadratically"),
        Curve("figure-3", "Time over epsilon", "epsilon", "CPU s", tuple(tolerances), True,
              "CPU time falls as epsilon^-.2"),
    ]  # fmt: skip


def peers() -> list[Unit]:
    """Ours where today's peers are run, too."""
    sets = ("digits-0689", "svmguide1-s", "ionosphere")
    return [Unit(slug, "multiple-kernel") for slug in sets]
