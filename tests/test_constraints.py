"""Links between rows: closure, contradictions, cuts, files."""

import pickle
from itertools import pairwise, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin import PairwiseConstraints
from maxmargin._files import DataError
from maxmargin.constraints import ContradictionError

N = 5
PAIRS = [(a, b) for a in range(N) for b in range(N) if a != b]
pairs = st.lists(st.sampled_from(PAIRS), max_size=7)


def kept(links, labels):
    """Literal reading of the links."""
    together = all(labels[a] == labels[b] for a, b in links.must_link)
    return together and all(labels[a] != labels[b] for a, b in links.cannot_link)


def feasible(links, k, known=None):
    for labels in product(range(k), repeat=links.n_samples):
        if known is not None and any(c >= 0 and labels[i] != c for i, c in enumerate(known)):
            continue
        if kept(links, labels):
            return True
    return False


@given(must=pairs, cannot=pairs)
def test_the_relation_of_two_rows_equals_the_literal_closure(must, cannot):
    links = PairwiseConstraints(N, must, cannot)
    reach = np.eye(N, dtype=bool)
    for a, b in must:
        reach[a, b] = reach[b, a] = True
    for via in range(N):
        reach |= np.outer(reach[:, via], reach[via])
    apart = np.zeros((N, N), bool)
    for a, b in cannot:
        apart |= np.outer(reach[a], reach[b]) | np.outer(reach[b], reach[a])
    assert (links.groups()[:, None] == links.groups()[None, :]).tolist() == reach.tolist()
    for a, b in PAIRS:
        assert links.relation(a, b) == (1 if reach[a, b] else -1 if apart[a, b] else 0)


@given(must=pairs, cannot=pairs)
def test_a_contradiction_is_reported_where_no_labelling_keeps_the_links(must, cannot):
    links = PairwiseConstraints(N, must, cannot)
    assert (links.contradiction() is None) == feasible(links, N)
    # Two clusters: exact, not only cliques.
    assert (links.contradiction(2) is None) == feasible(links, 2)
    if links.contradiction(3) is not None:
        assert not feasible(links, 3)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ([0, 1, -1], r"must have shape \(6,\)"),
        ([0, 1.5, -1, -1, -1, -1], "must be integers"),
        ([np.inf, 1, -1, -1, -1, -1], "must lie between 0"),
        ([-2, 1, -1, -1, -1, -1], "must lie between 0"),
    ],
)
def test_known_classes_that_are_none_are_refused(known, message):
    links = PairwiseConstraints(6, must_link=[(0, 1)], cannot_link=[(2, 3)])
    with pytest.raises(ValueError, match=f"partial_labels {message}"):
        links.contradiction(2, known)
    assert links.contradiction(2, np.full(6, -1)) is None


@given(must=pairs, cannot=pairs, known=st.lists(st.integers(-1, 1), min_size=N, max_size=N))
def test_known_classes_take_part_in_contradictions(must, cannot, known):
    links = PairwiseConstraints(N, must, cannot)
    assert (links.contradiction(2, known) is None) == feasible(links, 2, known)


@given(must=pairs, cannot=pairs)
def test_the_reported_rows_are_the_proof(must, cannot):
    links = PairwiseConstraints(N, must, cannot)
    found = links.contradiction(2)
    if found is None:
        return
    rows = found.rows
    steps = {frozenset(p) for p in links.must_link.tolist()}
    apart = {frozenset(p) for p in links.cannot_link.tolist()}
    if found.kind == "chain":
        assert all(frozenset(step) in steps for step in pairwise(rows))
        assert frozenset((rows[0], rows[-1])) in apart
        only = PairwiseConstraints(N, list(pairwise(rows)), [(rows[0], rows[-1])])
        assert not feasible(only, N)
    else:
        ring = list(zip(rows, rows[1:] + rows[:1]))
        assert all(frozenset(step) in steps | apart for step in ring)
        must_part = [s for s in ring if frozenset(s) in steps and frozenset(s) not in apart]
        cannot_part = [s for s in ring if s not in must_part]
        assert not feasible(PairwiseConstraints(N, must_part, cannot_part), 2)


def test_a_chain_of_a_hundred_thousand_links_is_named():
    n = 100_001
    chain = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    mixed = np.random.default_rng(0).permutation(chain)
    with pytest.raises(ContradictionError) as caught:
        PairwiseConstraints(n, mixed, [(n - 1, 0)]).check()
    assert caught.value.contradiction.rows == list(range(n))[::-1]
    message = str(caught.value)
    assert "the cannot-link between row 100000 and row 0" in message
    assert "a chain of 100,000 must-links: row 100000 - row 99999" in message
    assert len(message) < 400
    PairwiseConstraints(n, chain, []).check()


def test_too_few_clusters_for_a_clique():
    clique = [(a, b) for a in (2, 4, 5, 7) for b in (2, 4, 5, 7) if a < b]
    links = PairwiseConstraints(9, [(4, 8)], [*clique, (0, 1), (0, 2)])
    links.check(4)
    with pytest.raises(ValueError, match=r"n_clusters=3 is too few: .* all of these 4 rows"):
        links.check(3)
    assert links.contradiction(3).rows == [2, 4, 5, 7]
    with pytest.raises(ValueError, match=r"n_clusters=1 is too few: .* these 2 rows"):
        PairwiseConstraints(9, [], [(3, 1)]).check(1)


def test_a_clique_through_must_links_is_found():
    # 0-1, 2-3, 4-5 are groups; the groups are apart, no three rows are.
    links = PairwiseConstraints(6, [(0, 1), (2, 3), (4, 5)], [(1, 2), (3, 4), (5, 0)])
    assert links.contradiction(2) is not None
    assert links.contradiction(3) is None
    assert PairwiseConstraints(6, [], [(1, 2), (3, 4), (5, 0)]).contradiction(2) is None


def test_messages_name_rows_and_classes():
    both = PairwiseConstraints(4, [(1, 2)], [(2, 1)])
    assert "row 2 and row 1 contradicts a chain of 1 must-link: row 2 - row 1" in str(
        both.contradiction()
    )
    joined = PairwiseConstraints(4, [(1, 2)], [])
    assert "class 0 - row 1 - row 2 - class 1" in str(joined.contradiction(3, [-1, 0, 1, -1]))


# -- cuts -----------------------------------------------------------------------------------------


def random_links(n=30, m=40, seed=0):
    rng = np.random.default_rng(seed)
    drawn = [tuple(rng.choice(n, 2, replace=False)) for _ in range(2 * m)]
    w = rng.random(2 * m) + 0.5
    return PairwiseConstraints(n, drawn[:m], drawn[m:], must_weight=w[:m], cannot_weight=w[m:])


@pytest.mark.parametrize(
    "key",
    [
        np.array([3, 29, 4, 17, 0, 11, 12, 5, 8, 20, 21]),
        slice(5, 25),
        slice(None, None, -1),
        np.arange(30) % 3 > 0,
        [1, 2, 3, 9, 27, 26, 25],
        (np.array([7, 3, 28, 14, 2]), ...),
        np.array([4, 4, 17, 3, 3, 3, 29]),
        np.array([], int),
    ],
    ids=["numbers", "slice", "reversed", "mask", "list", "ellipsis", "repeated", "nothing"],
)
def test_a_cut_keeps_the_links_inside_and_numbers_them_anew(key):
    links = random_links()
    rows = np.arange(30)[key[0] if isinstance(key, tuple) else key]
    cut = links[key]
    assert len(cut) == len(rows) == cut.shape[0]
    for old, new, w_old, w_new in (
        (links.must_link, cut.must_link, links.must_weight, cut.must_weight),
        (links.cannot_link, cut.cannot_link, links.cannot_weight, cut.cannot_weight),
    ):
        want = sorted(
            (i, j, w)
            for (a, b), w in zip(old.tolist(), w_old)
            for i in np.flatnonzero(rows == a)
            for j in np.flatnonzero(rows == b)
        )
        assert sorted((*p, w) for p, w in zip(new.tolist(), w_new)) == want
        assert (rows[new][:, 0] != rows[new][:, 1]).all()


def test_violations_and_accuracy_against_a_literal_count():
    links = random_links()
    labels = np.random.default_rng(1).integers(0, 3, 30)
    broken = links.violations(labels)
    must = [p for p in links.must_link.tolist() if labels[p[0]] != labels[p[1]]]
    cannot = [p for p in links.cannot_link.tolist() if labels[p[0]] == labels[p[1]]]
    assert broken.must_link.tolist() == must and broken.cannot_link.tolist() == cannot
    lost = broken.must_weight.sum() + broken.cannot_weight.sum()
    total = links.must_weight.sum() + links.cannot_weight.sum()
    assert links.accuracy(labels) == pytest.approx(1 - lost / total)
    assert np.isnan(PairwiseConstraints(3).accuracy([0, 1, 2]))


# -- from elsewhere -------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "count"), [(5, 10), (40, 700), (3000, 500)])
def test_pairs_from_labels_are_distinct_and_true(n, count):
    y = np.random.default_rng(0).integers(0, 3, n)
    links = PairwiseConstraints.from_labels(y, n_pairs=count, random_state=1)
    drawn = np.concatenate([links.must_link, links.cannot_link])
    assert len({frozenset(p) for p in drawn.tolist()}) == count == links.n_links
    assert links.accuracy(y) == 1.0
    again = PairwiseConstraints.from_labels(y, n_pairs=count, random_state=1)
    assert again == links
    assert PairwiseConstraints.from_labels(y, n_pairs=5, random_state=2) != links


def test_pairs_are_drawn_evenly():
    y = np.zeros(12)
    counts = np.zeros((12, 12))
    for seed in range(600):
        a, b = PairwiseConstraints.from_labels(y, n_pairs=11, random_state=seed).must_link.T
        np.add.at(counts, (np.minimum(a, b), np.maximum(a, b)), 1)
    upper = counts[np.triu_indices(12, 1)]
    # 100 expected for each of 66 pairs, standard deviation 9.1.
    assert upper.sum() == 6600 and upper.min() > 60 and upper.max() < 140


def test_unknown_classes_are_left_out():
    links = PairwiseConstraints.from_labels([0, -1, 1, None, float("nan"), 0], n_pairs=3)
    assert sorted(map(sorted, links.must_link.tolist())) == [[0, 5]]
    assert sorted(map(sorted, links.cannot_link.tolist())) == [[0, 2], [2, 5]]
    with pytest.raises(ValueError, match="n_pairs=4: 3 rows with a known class have 3 pairs"):
        PairwiseConstraints.from_labels([0, -1, 1, 0], n_pairs=4)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict])
def test_from_frame(make):
    frame = make(
        {
            "left": ["b", "c", "a"],
            "right": ["a", "b", "d"],
            "answer": ["must_link", "Different", "same"],
            "sure": [0.5, 1.0, 2.0],
        }
    )
    links = PairwiseConstraints.from_frame(frame, row_ids=list("abcd"), weight="sure")
    assert links.must_link.tolist() == [[1, 0], [0, 3]]
    assert links.cannot_link.tolist() == [[2, 1]]
    assert links.must_weight.tolist() == [0.5, 2.0]


def test_from_frame_with_numbers():
    frame = pd.DataFrame({"w": [1.0, 2.0], "r": [1, -1], "a": [0, 1], "b": [2, 2]})
    links = PairwiseConstraints.from_frame(frame, n_samples=3, columns=["a", "b", "r"])
    assert links.must_link.tolist() == [[0, 2]] and links.cannot_link.tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="column 'a' names 'x', which is not among row_ids"):
        PairwiseConstraints.from_frame({"a": ["x"], "b": ["y"], "r": [1]}, row_ids=["y", "z"])
    with pytest.raises(ValueError, match="relation nan in line 0 is not known"):
        PairwiseConstraints.from_frame({"a": [0], "b": [1], "r": [np.nan]}, n_samples=3)
    with pytest.raises(ValueError, match="relation 'perhaps' in line 1 is not known"):
        PairwiseConstraints.from_frame(
            {"a": [0, 1], "b": [1, 2], "r": ["same", "perhaps"]}, n_samples=3
        )


def test_csv_and_pickle_keep_every_bit(tmp_path):
    links = random_links()
    links.save(tmp_path / "links.csv")
    assert PairwiseConstraints.load(tmp_path / "links.csv") == links
    assert pickle.loads(pickle.dumps(links)) == links
    empty = PairwiseConstraints(4)
    empty.save(tmp_path / "none.csv")
    assert PairwiseConstraints.load(tmp_path / "none.csv") == empty
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="does not hold links"):
        PairwiseConstraints.load(tmp_path / "other.csv")
    text = (tmp_path / "links.csv").read_text().replace("must-link", "friend", 1)
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(DataError, match="relation 'friend' of answer 0"):
        PairwiseConstraints.load(tmp_path / "bad.csv")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"must_link": [(0, 9)]}, r"must_link\[0\] = \(0, 9\): row numbers must lie between 0 and"),
        ({"cannot_link": [(0, 1), (-1, 2)]}, r"cannot_link\[1\] = \(-1, 2\)"),
        ({"must_link": [(3, 3)]}, r"must_link\[0\] links row 3 with itself"),
        ({"must_link": [(0.5, 1)]}, r"must_link must hold whole row numbers, got \[0.5, 1.0\]"),
        ({"must_link": [(np.nan, 1)]}, r"must hold whole row numbers, got \[nan, 1.0\]"),
        ({"must_link": [(np.inf, 1)]}, r"must hold whole row numbers, got \[inf, 1.0\]"),
        ({"must_link": [(1e300, 1)]}, r"must_link\[0\] = \(1e\+300, 1.0\)"),
        ({"must_link": [(0, 1, 2)]}, r"must_link must be pairs of row numbers"),
        ({"must_link": [("a", "b")]}, r"must_link must be pairs of row numbers"),
        ({"must_link": [(0, 1)], "must_weight": [0.0]}, "rows 0 and 1 has 0.0"),
        ({"cannot_link": [(2, 1)], "cannot_weight": [np.nan]}, "rows 2 and 1 has nan"),
        ({"cannot_link": [(2, 1)], "cannot_weight": [1, 2]}, "one entry for each of 1 links"),
    ],
)
def test_bad_links_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        PairwiseConstraints(9, **given)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_links_in_a_data_frame(frame):
    links = PairwiseConstraints(9, must_link=frame({"first": [1, 3], "second": [2, 4]}))
    assert links.must_link.tolist() == [[1, 2], [3, 4]]


def test_bad_sizes():
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        PairwiseConstraints(2.5)
    with pytest.raises(ValueError, match="labels must have one entry for each of the 9 rows"):
        PairwiseConstraints(9).violations([0, 1])
