"""The papers' numbers as data: they parse, have cards, and agree with what the papers say.

The papers say the same thing twice in many places (class sizes and totals, accuracy and Rand index,
means and maxima, tables and prose), so a wrong digit in the files breaks an agreement here.
"""

from __future__ import annotations

import csv
from collections import Counter
from importlib.resources import files

import pytest

from reproduction import METRICS, PAPERS, read_cards, read_figures

ALL = {paper: read_figures(paper) for paper in PAPERS}
EVERY = [f for figures in ALL.values() for f in figures]
CARDS = read_cards()
ROWS = {
    "alternating": (475, 46),
    "cutting_plane": (296, 46),
    "pairwise": (57, 0),
    "least_squares": (128, 16),
    "multiple_kernel": (197, 38),
}
"""Paper -> (numbers, scored numbers), counted by hand in the printed tables."""


def lookup(paper, table, metric, *, by="method"):
    """{data set: {method: value}} of one table, or {data set: value} with ``by=None``."""
    chosen = [f for f in ALL[paper] if f.table == table and f.metric == metric]
    if by is None:
        return {f.dataset: f.value for f in chosen}
    result: dict[str, dict[str, float]] = {}
    for f in chosen:
        result.setdefault(f.dataset, {})[f.method] = f.value
    return result


@pytest.mark.parametrize("paper", PAPERS)
def test_no_number_is_lost_or_there_twice(paper):
    keys = Counter((f.table, f.dataset, f.method, f.metric) for f in ALL[paper])
    assert max(keys.values()) == 1
    assert (len(ALL[paper]), sum(f.scored for f in ALL[paper])) == ROWS[paper]


def test_every_figure_has_a_known_metric_and_a_card():
    assert {f.metric for f in EVERY} == set(METRICS)
    used = {f.card for f in EVERY}
    assert used - {"all"} == set(CARDS)
    assert not any(f.scored for f in EVERY if f.card == "all")


def test_values_are_in_the_range_of_their_unit():
    for f in EVERY:
        low, high = {
            "accuracy": (20, 100),
            "error": (0, 50),
            "rand": (0.3, 1),
            "ari": (0, 1),
            "sparsity": (0, 100),
            "balance_l": (0.03, 0.15),
            "exponent": (-1, 4),
        }.get(f.metric, (0, 1e6))
        assert low <= f.value <= high, f
        assert f.spread is None or 0 <= f.spread <= 50, f


def test_only_the_papers_own_accuracies_errors_and_indices_in_tables_are_scored():
    for f in EVERY:
        table_score = f.table.startswith("table-") and f.metric in {
            "accuracy",
            "error",
            "ari",
            "rand",
        }
        assert f.scored == (f.ours and table_score), f
    own = {paper: {f.method for f in figures if f.scored} for paper, figures in ALL.items()}
    assert own == {
        "alternating": {"iterSVR", "iterLS-SVM", "random+iterSVR", "KM+iterSVR", "NC+iterSVR"},
        "cutting_plane": {"CPM3C"},
        "pairwise": set(),
        "least_squares": {"UMC-RLS"},
        "multiple_kernel": {"MKC"},
    }


def test_cards_name_the_papers_that_use_them_and_are_complete():
    for slug, card in CARDS.items():
        assert set(card.papers) == {f.paper for f in EVERY if f.card == slug}, slug
        assert card.title and card.source and card.licence and card.how_to_get, slug
        assert card.n and card.d and (card.classes or slug.startswith("photo-")), slug
        assert not card.file or card.file.startswith("scikit-learn: ") or ".npz: " in card.file


def test_cards_are_as_large_as_the_papers_say():
    other_version = {slug for slug, card in CARDS.items() if "another version" in card.file}
    for f in EVERY:
        if f.metric in {"n", "d", "classes"} and not f.setting and f.card not in other_version:
            size = getattr(CARDS[f.card], f.metric)
            slip = f.card == "mnist-01234" or (f.card, f.paper) == ("ionosphere", "multiple_kernel")
            without_the_constant_column = (f.card, f.metric, f.value) == ("ionosphere", "d", 33)
            assert size == f.value or slip or without_the_constant_column, f


def test_an_unknown_paper_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"paper='svm' is not known; the papers are alternating, "):
        read_figures("svm")


def test_every_file_is_a_paper_and_every_line_is_whole():
    package = files("reproduction")
    names = {path.name for path in package.joinpath("figures").iterdir()}
    assert names == {f"{paper}.csv" for paper in PAPERS}
    for path in (package / "datasets.csv", *package.joinpath("figures").iterdir()):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
        assert {len(row) for row in rows} == {len(rows[0])}


# What the papers say twice


def test_class_sizes_add_up():
    sizes = {m: lookup("alternating", "table-3", m, by=None) for m in ("n", "n_positive")}
    negative = lookup("alternating", "table-3", "n_negative", by=None)
    assert len(sizes["n"]) == 18
    assert sizes["n"] == {s: sizes["n_positive"][s] + negative[s] for s in negative}
    adult = {f.metric: f.value for f in ALL["alternating"] if f.dataset == "adult"}
    assert adult["n"] == adult["n_positive"] + adult["n_negative"]


def test_pictures_have_width_times_height_pixels():
    sides = [lookup("alternating", "table-9", m, by=None) for m in ("width", "height")]
    pixels = lookup("alternating", "table-9", "n", by=None)
    assert pixels == {s: sides[0][s] * sides[1][s] for s in sides[0]}


def test_the_best_methods_are_as_often_best_as_printed():
    errors = lookup("alternating", "table-4", "error")
    best = Counter(m for e in errors.values() for m in e if e[m] == min(e.values()))
    printed = [f for f in ALL["alternating"] if f.metric == "times_best"]
    assert len(printed) == 8
    for f in printed:
        assert best[f.method] == f.value + ("one more" in f.note), f


def test_speed_ratios_of_the_prose_follow_from_the_tables():
    seconds = lookup("alternating", "table-5", "cpu_s")
    satellite = seconds["satellite-c1-c2"]
    assert satellite["GMMC"] / satellite["iterSVR"] == pytest.approx(500, rel=0.1)
    over_mmc = [s["MMC"] / s["iterSVR"] for s in seconds.values() if "MMC" in s]
    assert 8_000 < min(over_mmc) <= max(over_mmc) < 18_000
    seconds = lookup("cutting_plane", "table-4", "cpu_s")
    for rival, ratio in {"SVR": 18, "GMC": 200}.items():
        least = min(s[rival] / s["CPM3C"] for s in seconds.values() if rival in s)
        assert least > ratio * 0.99


def test_accuracies_of_the_proposed_methods_are_whole_numbers_of_rows():
    same = {slug: card.n for slug, card in CARDS.items() if "another version" not in card.file}
    n = {(paper, slug): rows for paper in PAPERS for slug, rows in same.items()}
    n |= {(f.paper, f.card): f.value for f in EVERY if f.metric == "n" and not f.setting}
    misfits, checked = set(), 0
    for f in EVERY:
        rounding = 0.05 if (f.paper, f.table) == ("alternating", "table-4") else 0.005
        rows = n.get((f.paper, f.card), float("inf"))
        one_outcome = (
            f.scored
            and f.metric in ("accuracy", "error")
            and not f.spread
            and "subset" not in f.setting
        )
        if not one_outcome or f.card.endswith("-mean") or 100 / rows < 2 * rounding:
            continue  # a mean of several outcomes, or rows too many for the printed digits
        checked += 1
        if abs(100 * round(f.value * rows / 100) / rows - f.value) > rounding:
            misfits.add((f.paper, f.card))
    assert checked == 29 + 18 + 13
    assert misfits == {
        ("cutting_plane", "cora-ds"),
        ("cutting_plane", "cora-os"),
        ("cutting_plane", "cora-pl"),
        ("multiple_kernel", "ionosphere"),
        ("multiple_kernel", "digits-0689"),
        ("multiple_kernel", "letter-abcd"),
    }


def two_cluster_pairs():
    """(Figure of an accuracy, Figure of the Rand index) wherever there are two clusters."""
    rand = {(f.paper, f.table, f.dataset, f.method): f for f in EVERY if f.metric == "rand"}
    for f in EVERY:
        if f.metric == "accuracy" and CARDS[f.card].classes == 2 and not f.card.endswith("-mean"):
            table = "table-3" if f.paper == "cutting_plane" else f.table
            yield f, rand[f.paper, table, f.dataset, f.method]


def test_accuracy_and_rand_index_of_two_clusters_agree_or_the_note_says_so():
    pairs = list(two_cluster_pairs())
    assert len(pairs) == 40 + 49 + 4
    for accuracy, rand in pairs:
        share = accuracy.value / 100
        apart = abs(1 - 2 * share * (1 - share) - rand.value) > 0.0065
        assert apart == ("disagree" in accuracy.note), accuracy
        assert apart == ("disagree" in rand.note), rand


def test_two_papers_with_the_same_baselines_print_the_same_numbers():
    first = lookup("cutting_plane", "table-2", "accuracy")
    second = lookup("multiple_kernel", "table-2", "accuracy")
    shared = first.keys() & second.keys()
    assert len(shared) == 6
    names = {"KM": "KM", "NC": "NC", "SVR": "IterSVR"}
    differ = {
        (s, m): (first[s][m], second[s][names[m]])
        for s in shared
        for m in names
        if m in first[s] and first[s][m] != second[s][names[m]]
    }
    assert differ == {("digits-1-7", "KM"): (94.45, 99.45), ("digits-0689", "KM"): (42.23, 42.33)}
    assert all(second[s]["K1"] == first[s]["CPM3C"] for s in shared - {"letter-ab"})


def test_the_generalisation_table_repeats_the_accuracies():
    for metric in ("accuracy", "rand"):
        whole = lookup("multiple_kernel", "table-2", metric)
        again = lookup("multiple_kernel", "table-3", metric)
        repeated = {s: v["MKC"] for s, v in again.items() if "@" not in s}
        assert len(repeated) == 4
        assert repeated == {s: whole[s]["MKC"] for s in repeated}


def test_the_highest_ari_fits_mean_and_spread():
    # n numbers with standard deviation s lie within s (n-1)/sqrt(n) of their mean; .005 is rounding
    highest = lookup("least_squares", "table-2", "ari")
    means = [f for f in ALL["least_squares"] if f.table == "table-1" and f.metric == "ari"]
    assert len(means) == 55
    for f in means:
        top = highest[f"{f.dataset}@max-of-10"][f.method]
        slip = (f.dataset, f.method) == ("iris", "K-means")
        assert (top >= f.value - 0.01) != slip, f
        if f.spread is not None:
            assert top <= f.value + 0.01 + (f.spread + 0.005) * 9 / 10**0.5, f


def test_the_proposed_method_is_best_where_the_prose_says():
    ari = lookup("least_squares", "table-1", "ari")
    assert [s for s in ari if ari[s]["UMC-RLS"] < max(ari[s].values())] == ["usps-5-8"]
    most = lookup("least_squares", "table-2", "ari")
    assert [s for s in most if most[s]["UMC-RLS"] < max(most[s].values())] == ["usps-1-4@max-of-10"]
    accuracy = lookup("cutting_plane", "table-2", "accuracy")
    beaten = [s for s in accuracy if accuracy[s]["CPM3C"] < max(accuracy[s].values())]
    assert beaten == ["news-autos-motorcycles"]


def test_the_ranges_of_the_pairwise_papers_prose_hold():
    by_metric = {m: lookup("pairwise", "table-1", m, by=None) for m in ("n", "d", "classes")}
    assert all(len(sizes) == 15 for sizes in by_metric.values())
    n, d, classes = (sorted(by_metric[m].values()) for m in ("n", "d", "classes"))
    assert (n[0], n[1], n[-1]) == (208, 216, 19020)  # the prose forgets sonar's 208 rows
    assert (d[0], d[-1], classes[0], classes[-1]) == (10, 1024, 2, 10)


def test_iterative_methods_take_few_iterations_on_average():
    iterations = lookup("alternating", "table-6", "iterations")
    assert len(iterations) == 18
    for values in iterations.values():
        assert len(values) == 3 and all(2 <= v <= 15 for v in values.values())
    slow = sum(v >= 10 for values in iterations.values() for v in values.values())
    assert slow == 5  # "usually in fewer than ten"
