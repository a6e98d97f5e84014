"""Draw docs/images/readme.png: what k-means and maxmargin make of two rings, and of digits."""

from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_circles

from maxmargin import AlternatingMarginClustering
from maxmargin.cli.demo import METHODS, compare, digit_pair
from maxmargin.display import plot_clusters, plot_comparison

TARGET = Path(__file__).parent / "images" / "readme.png"


def nearest_centre(kmeans):
    """K-means as scores to draw; scaled down, because it has no margin to draw."""
    return SimpleNamespace(decision_function=lambda X: -1e-3 * kmeans.transform(X))


def main():
    X, _ = make_circles(400, noise=0.06, factor=0.45, random_state=0)
    kmeans = KMeans(2, n_init=10, random_state=0).fit(X)
    margin = AlternatingMarginClustering(2, balance=0.94, random_state=0).fit(X)
    digits = load_digits()
    pairs = [compare(f"{a}-{b}", *digit_pair(digits, a, b)) for a, b in combinations(range(10), 2)]
    errors = [[1 - pair[method]["accuracy"] for pair in pairs] for method in METHODS]

    figure = Figure(figsize=(12, 4.3), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    plot_clusters(nearest_centre(kmeans), X, ax=left)
    plot_clusters(margin, X, ax=middle)
    for ax, title in ((left, "k-means"), (middle, "maxmargin")):
        ax.get_legend().remove()
        ax.set_title(title)
        ax.set_xlabel("")
        ax.set_ylabel("")
        ax.set_aspect("equal")
    plot_comparison(*errors, [pair["name"] for pair in pairs], right)
    right.set_title("error on 45 pairs of handwritten digits")
    figure.savefig(TARGET, dpi=110)


if __name__ == "__main__":
    main()
