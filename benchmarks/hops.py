"""How many functions and modules of a package one fit enters.

    python benchmarks/hops.py [--list ESTIMATOR]

A reader who follows a fit has to open each of these functions. scikit-learn's KMeans and
GaussianMixture stand beside ours.
"""

import argparse
import sys
import warnings
from collections import Counter

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import maxmargin

LIMIT_FUNCTIONS, LIMIT_MODULES = 75, 12
ROWS = np.concatenate(
    [np.random.default_rng(0).normal(c, 0.3, size=(20, 3)) for c in (0.0, 2.0, 4.0)]
)


def fits():
    """Name and fit of every estimator, with three clusters of 60 x 3 rows."""
    links = maxmargin.PairwiseConstraints(60, must_link=[(0, 1)], cannot_link=[(0, 20), (20, 40)])
    for name in sorted(maxmargin.__all__):
        estimator = getattr(maxmargin, name)
        if not name.endswith("Clustering"):
            continue
        model = estimator(n_clusters=3, random_state=0)
        if name.startswith("Pairwise"):
            yield name, lambda model=model: model.fit(ROWS, constraints=links)
        else:
            yield name, lambda model=model: model.fit(ROWS)
    yield "KMeans", lambda: KMeans(3, n_init=10, random_state=0).fit(ROWS)
    yield "GaussianMixture", lambda: GaussianMixture(3, random_state=0).fit(ROWS)


def entered(fit, package):
    """Functions of a package that a fit enters, as (module, qualified name)."""
    found = set()

    def profile(frame, event, _arg):
        if event == "call":
            module = frame.f_globals.get("__name__", "")
            code = frame.f_code
            # A dataclass's constructor is generated: there is no function to open.
            written = not code.co_name.startswith("<") and code.co_filename != "<string>"
            if module.startswith(package) and written:
                found.add((module, code.co_qualname))

    fit()  # the first call compiles
    sys.setprofile(profile)
    try:
        fit()
    finally:
        sys.setprofile(None)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", help="print the functions that this estimator enters")
    wanted = parser.parse_args().list
    warnings.simplefilter("ignore")
    worst, every = False, []
    print(f"{'fit of 60 x 3 rows':36s} functions  modules")
    for name, fit in fits():
        if wanted and name != wanted:
            continue
        own = name.endswith("MarginClustering") or name == "MaxMarginClustering"
        package = (
            "maxmargin." if own else "sklearn." + ("cluster" if name == "KMeans" else "mixture")
        )
        found = entered(fit, package)
        modules = Counter(module for module, _ in found)
        over = own and (len(found) > LIMIT_FUNCTIONS or len(modules) > LIMIT_MODULES)
        worst |= over
        every += [found] if own else []
        print(f"{name:36s} {len(found):9d} {len(modules):8d}{'  over the limit' if over else ''}")
        if wanted:
            for module, function in sorted(found):
                print(f"    {module}: {function}")
    if not wanted:
        shared = set.intersection(*every)
        print(
            f"{'(of which by all of ours)':36s} {len(shared):9d} {len({m for m, _ in shared}):8d}"
        )
    sys.exit(worst)


if __name__ == "__main__":
    main()
