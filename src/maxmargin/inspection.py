"""What makes a cluster: its columns compared with all other rows, as a table and in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtr
from sklearn.compose import ColumnTransformer
from sklearn.utils import _safe_indexing

from ._column_kinds import KINDS
from ._data.sheet import absent_columns
from ._files import DataError, listed, needed, plural
from ._steps import as_rows, column_names, quietly
from ._threads import one_thread
from .tables import typed_column

__all__ = ["describe_clusters", "explain_clusters"]

SHIFTS = 2  # permutations of each column
PREDICTIONS = 100_000  # rows that are predicted to find the importance, about
FEW, MANY = 200, 2000  # rows that are permuted
WIDE, TOP = 100, 10  # of more columns, the importance of the top ones of each cluster is found
NOTABLE = 0.5  # standardised difference that is worth a word
DECISIVE = 0.1  # importance that is worth a word
N_WORDS = 5
OUTSIDE, RARE = 3.0, 0.05  # of outliers: interquartile ranges, largest share at each end


def explain_clusters(model: Any, X: Any, feature_names: Any = None, *, labels: Any = None) -> Any:
    """Compare every cluster with the other rows, column by column.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator with ``predict``, or a pipeline that ends in one.
    X : DataFrame, array-like or sparse matrix of shape (n_samples, n_features)
        Rows as ``model.predict`` accepts them: for a pipeline, the columns of the original table.
    feature_names : sequence of str, optional
        Names of the columns; by default those of the DataFrame, or "column 0", "column 1", ...
    labels : array-like of shape (n_samples,), optional
        Clusters of the rows; by default ``model.predict(X)``. Pass ``labels_`` if constraints or
        known labels changed predictions.

    Returns
    -------
    DataFrame
        One row for each cluster and column, with the columns

        - ``cluster``: the number of the cluster,
        - ``feature``: the name of the column,
        - ``difference``: mean of the cluster minus mean of the other rows, divided by the standard
          deviation within the two, after a few values far from all others were moved to the end of
          the usual range. For a category it is that of the level whose share rises most, for text
          that of the most typical word.
        - ``importance``: share of the cluster's rows that change their label if the values of the
          column are permuted; 0 if other columns carry the same information, or if the model does
          not use the column. Only computed for the ten largest differences of each cluster if
          there are more than 100 columns; NaN otherwise.
        - ``typical``, ``rest``: median of the cluster and of the other rows (mean if X is sparse);
          for a category the level whose share rises most, with its shares; for text the most
          typical words of the cluster and of the other rows.
        - ``kind``: "number", "date", "category" or "text".

        In each cluster the columns are in descending order of the larger of two shares: the
        importance, and ``2 Phi(|difference| / 2) - 1``, the total variation distance of two normal
        distributions with that difference (.38 for 1, .68 for 2, .87 for 3). The result
        does not depend on the order of the rows.

    See Also
    --------
    describe_clusters : The same in one sentence for each cluster.

    Examples
    --------
    >>> from maxmargin import MaxMarginClustering
    >>> from maxmargin.inspection import explain_clusters
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs([40, 20], 1, centers=[[0.0], [9.0]], random_state=0)
    >>> model = MaxMarginClustering(2, random_state=0).fit(X)
    >>> table = explain_clusters(model, X, ["height"])
    >>> table[["cluster", "feature", "difference"]].round(0).values.tolist()
    [[0, 'height', -8.0], [1, 'height', 8.0]]
    """
    pd = needed("pandas")
    X = as_rows(X)
    names = column_names(X, feature_names)
    used, kinds = _used_columns(model, X)
    labels = np.asarray(quietly(model.predict, X) if labels is None else labels)
    if labels.shape != (X.shape[0],):
        raise ValueError(f"labels must have one value for each of the {X.shape[0]} rows of X.")
    clusters = np.unique(labels[labels >= 0]).tolist()
    records = [
        {"cluster": cluster, "feature": names[j], **profile}
        for j in used
        for cluster, profile in zip(clusters, _profiles(X, j, kinds[j], labels, clusters))
    ]
    order = ["cluster", "feature", "difference", "importance", "typical", "rest", "kind"]
    table = pd.DataFrame(records, columns=order).astype({"difference": float})
    strength = 2 * ndtr(table["difference"].abs() / 2) - 1
    chosen = np.array(used)
    if len(used) > WIDE:
        best = strength.groupby(table["cluster"]).nlargest(TOP).index.get_level_values(-1)
        chosen = chosen[np.unique(best // len(clusters))]
    with one_thread():  # setting and restoring the limit in every prediction takes a third of it
        shares = _importance(model, X, labels, clusters, chosen)
    table["importance"] = shares[:, used].T.ravel()
    rank = np.fmax(strength, table["importance"])
    in_order = np.lexsort((np.arange(len(table)), -rank, table["cluster"]))
    return table.iloc[in_order].reset_index(drop=True)


def describe_clusters(
    model: Any,
    X: Any,
    feature_names: Any = None,
    *,
    labels: Any = None,
    n_features: int = 3,
    table: Any = None,
) -> list[str]:
    """Describe every cluster in one sentence.

    Parameters
    ----------
    model, X, feature_names, labels
        As in :func:`explain_clusters`.
    n_features : int, default=3
        Largest number of columns in a sentence.
    table : DataFrame, optional
        Result of :func:`explain_clusters`, if it is known.

    Returns
    -------
    list of str
        One sentence for each cluster that has rows. It has the first ``n_features`` columns of
        :func:`explain_clusters` that differ from the other rows by at least half a standard
        deviation, and those whose importance is at least 0.1: they "matter", though the average
        of the cluster differs little, for example because it lies between the others.

    See Also
    --------
    explain_clusters : The figures behind the sentences.
    report : A page about the clusters.

    Examples
    --------
    >>> from maxmargin import MaxMarginClustering
    >>> from maxmargin.inspection import describe_clusters
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris(as_frame=True)
    >>> model = MaxMarginClustering(3, random_state=0).fit(iris.data)
    >>> describe_clusters(model, iris.data, n_features=1)[1]
    'cluster 1: low petal length (cm); 50 rows'
    """
    labels = np.asarray(quietly(model.predict, as_rows(X)) if labels is None else labels)
    if table is None:
        table = explain_clusters(model, X, feature_names, labels=labels)
    sentences = []
    for cluster, part in table.groupby("cluster"):
        rows = part.to_dict("records")
        differs = {row["feature"]: abs(row["difference"]) >= NOTABLE for row in rows}
        top = [r for r in rows if differs[r["feature"]] or r["importance"] >= DECISIVE][:n_features]
        told = [_phrase(row) for row in top if differs[row["feature"]]]
        parts = [", ".join(told)] if told else []
        if matter := [row["feature"] for row in top if not differs[row["feature"]]]:
            verb = "matters" if len(matter) == 1 else "matter"
            parts.append(f"{listed(matter, 'and')} {verb}, though the average differs little")
        parts = parts or ["no column is high or low"]
        size = plural(int(np.count_nonzero(labels == cluster)), "row")
        sentences.append(f"cluster {cluster}: {'; '.join([*parts, size])}")
    return sentences


def _phrase(row: dict[str, Any]) -> str:
    """Return a column of the table in a few words."""
    if row["kind"] == "category":
        return f"{row['feature']} {row['typical']}"
    if row["kind"] == "text":
        return f'{row["feature"]} "{" ".join(row["typical"].split(", ")[:3])}"'
    high, low = ("late", "early") if row["kind"] == "date" else ("high", "low")
    return f"{high if row['difference'] > 0 else low} {row['feature']}"


def _used_columns(model: Any, X: Any) -> tuple[list[int], list[str | None]]:
    """Return the columns that a pipeline does not leave out, and the kinds of all, if it says."""
    kinds: list[str | None] = [None if hasattr(X, "iloc") else "number"] * X.shape[1]
    first = model[0] if hasattr(model, "steps") else None
    if not isinstance(first, ColumnTransformer) or not hasattr(X, "iloc"):
        return list(range(X.shape[1])), kinds
    names = list(X.columns)
    steps: dict[str, str] = {}  # of each column
    for step, transformer, _ in first.transformers_:
        if transformer != "drop":
            places = first._transformer_to_input_indices[step]
            steps |= dict.fromkeys(first.feature_names_in_[places].tolist(), step)
    if lost := absent_columns(list(steps), names):
        raise DataError(*lost)
    for name, step in steps.items():
        kind = step.partition(" ")[0]  # of a pipeline of table_pipeline
        if kind in KINDS:
            kinds[names.index(name)] = kind
    return sorted(map(names.index, steps)), kinds


# -- one column of all clusters --------------------------------------------------------------------


def _profiles(
    X: Any, j: int, kind: str | None, labels: np.ndarray, clusters: list
) -> Iterator[dict[str, Any]]:
    """Yield difference, typical value and that of the other rows for each cluster."""
    if hasattr(X, "iloc"):
        kind, values = typed_column(X.iloc[:, j], kind)
    else:
        values = X[:, [j]].toarray().ravel() if sparse.issparse(X) else X[:, j]
    about = {"text": _about_text, "category": _about_category, "date": _about_dates}
    found = about.get(str(kind), _about_numbers)(values, labels, clusters)
    for difference, typical, rest in found:
        yield {"difference": difference, "typical": typical, "rest": rest, "kind": kind}


def _about_numbers(values: Any, labels: np.ndarray, clusters: list) -> Any:
    numbers = needed("pandas").Series(values).to_numpy(dtype=np.float64, na_value=np.nan)
    given = np.isfinite(numbers)
    usual = np.clip(numbers, *usual_range(numbers[given])) if given.any() else numbers
    for cluster in clusters:
        own, rest = given & (labels == cluster), given & (labels != cluster)
        difference = standardised_difference(usual[own], usual[rest])
        yield difference, _middle(numbers[own]), _middle(numbers[rest])


def _about_dates(values: Any, labels: np.ndarray, clusters: list) -> Any:
    pd, origin = needed("pandas"), values.min()
    seconds = (values - origin).dt.total_seconds()
    for difference, *middle in _about_numbers(seconds, labels, clusters):
        days = (origin + pd.Timedelta(seconds=m) if m == m else None for m in middle)
        yield difference, *(day and day.strftime("%Y-%m-%d") for day in days)


def _middle(values: np.ndarray) -> float:
    """Return the median; the mean of values that are mostly zero."""
    if len(values) == 0:
        return np.nan
    middle = float(np.median(values))
    return middle if middle or np.count_nonzero(values) == 0 else float(values.mean())


def usual_range(values: np.ndarray) -> tuple[float, float]:
    """Return the range without outliers, which would inflate the standard deviation.

    Outliers are more than three interquartile ranges beyond a quartile, and at most 5% of the
    values at each end, so that a group of rows is none. If most values are equal, for example zero,
    quartiles are those of the other values: a value is no outlier because it is rare.

    Examples
    --------
    >>> usual_range(np.array([*range(101), 1e9]))[1]
    227.25
    >>> usual_range(np.array([0.0] * 98 + [1.0, 1.0]))
    (0.0, 1.0)
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    others = values if high > low else values[values != middle]
    if len(others) == 0:
        return middle, middle
    rare, low, high, common = np.quantile(others, [RARE, 0.25, 0.75, 1 - RARE])
    reach = OUTSIDE * (high - low)
    return float(min(middle, rare, low - reach)), float(max(middle, common, high + reach))


def standardised_difference(own: np.ndarray, rest: np.ndarray) -> float:
    """Return the difference of two means, divided by the standard deviation within both.

    Examples
    --------
    >>> standardised_difference(np.array([3.0, 5.0]), np.array([0.0, 2.0]))
    3.0
    """
    if len(own) == 0 or len(rest) == 0:
        return 0.0
    own, rest = np.sort(own), np.sort(rest)  # sums that do not depend on the order of the rows
    difference = float(own.mean() - rest.mean())
    n = len(own) + len(rest)
    within = (len(own) * own.var() + len(rest) * rest.var()) / n
    return _in_deviations(difference, within)


def _in_deviations(difference: float, variance: float) -> float:
    """Return a difference in standard deviations: ten if there is no variance."""
    return difference / max(float(np.sqrt(variance)), abs(difference) / 10) if difference else 0.0


def _about_category(values: Any, labels: np.ndarray, clusters: list) -> Any:
    pd = needed("pandas")
    codes, levels = pd.factorize(pd.Series(values).astype(object), sort=False)
    names = np.array([str(level) for level in levels] + ["missing"])
    codes = np.where(codes < 0, len(levels), codes)
    counts = np.array([np.bincount(codes[labels == c], minlength=len(names)) for c in clusters])
    total = counts.sum(axis=0)
    for own in counts:
        rest = total - own
        a, b = own / max(own.sum(), 1), rest / max(rest.sum(), 1)
        # Levels of equal rise by name, whatever the order of the rows.
        best = np.lexsort((names, -np.round(a - b, 12)))[0]
        within = (own.sum() * a * (1 - a) + rest.sum() * b * (1 - b))[best] / total.sum()
        rise = float(a[best] - b[best]) if rest.sum() else 0.0
        yield (
            _in_deviations(rise, within),
            f"{names[best]} ({a[best]:.0%})",
            f"{names[best]} ({b[best]:.0%})",
        )


def _about_text(values: Any, labels: np.ndarray, clusters: list) -> Any:
    texts = [words_of(text) for text in values]
    counts = {c: Counter[str]() for c in clusters}
    for words, label in zip(texts, labels.tolist()):
        if label in counts:
            counts[label].update(words)
    total = sum(counts.values(), Counter[str]())
    for cluster in clusters:
        n_own = int((labels == cluster).sum())
        n_rest = len(labels) - n_own
        risen = {}
        for word, count in total.items():
            a = counts[cluster][word] / max(n_own, 1)
            b = (count - counts[cluster][word]) / max(n_rest, 1)
            # Within-group deviation of "has the word", kept off zero for rare words.
            within = (n_own * a * (1 - a) + n_rest * b * (1 - b) + 1) / len(labels)
            risen[word] = (a - b) / np.sqrt(within)
        order = sorted(risen, key=lambda word: (-round(risen[word], 12), word))
        typical = [word for word in order[:N_WORDS] if risen[word] > 0]
        others = [word for word in order[: -N_WORDS - 1 : -1] if risen[word] < 0]
        difference = float(risen[order[0]]) if order and n_rest else 0.0
        yield difference, ", ".join(typical), ", ".join(others)


def words_of(text: Any) -> set[str]:
    """Return the words of a text: letters only, three or more, none of English's commonest.

    Examples
    --------
    >>> sorted(words_of("The engine of a Car"))
    ['car', 'engine']
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    if not isinstance(text, str):
        return set()
    return set(re.findall(r"[^\W\d_]{3,}", text.lower())) - ENGLISH_STOP_WORDS


# -- what the model makes of a column --------------------------------------------------------------


def _importance(
    model: Any, X: Any, labels: np.ndarray, clusters: list, chosen: np.ndarray
) -> np.ndarray:
    """Return the share of labels that permuting a column changes, of shape (k, n_columns)."""
    shares = np.full((len(clusters), X.shape[1]), np.nan)
    order = _random_order(X)
    n = min(len(order), int(np.clip(PREDICTIONS / (SHIFTS * len(chosen)), FEW, MANY)))
    rows = order[:n]
    sample = _safe_indexing(X, rows)
    before, of_sample = quietly(model.predict, sample), labels[rows]
    for j in chosen:
        changed = np.zeros(n)
        for shift in range(1, SHIFTS + 1):
            moved = (np.arange(n) + shift * n // (SHIFTS + 1)) % n
            changed += quietly(model.predict, _replaced(sample, j, moved)) != before
        for i, cluster in enumerate(clusters):
            own = of_sample == cluster
            shares[i, j] = changed[own].mean() / SHIFTS if own.any() else np.nan
    return shares


def _random_order(X: Any) -> np.ndarray:
    """Return the rows in an order that depends on their values alone, not on their positions."""
    pd = needed("pandas")
    if sparse.issparse(X):
        weights = np.random.default_rng(0).normal(size=X.shape[1])
        hashes = pd.util.hash_array(np.asarray(X @ weights))
    else:
        frame = X if hasattr(X, "iloc") else pd.DataFrame(X)
        hashes = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    return np.argsort(hashes, kind="stable")


def _replaced(X: Any, j: int, rows: np.ndarray) -> Any:
    """Return X with column j taken from other rows."""
    if hasattr(X, "iloc"):
        X = X.copy()
        X.isetitem(j, X.iloc[rows, j].array)
        return X
    if sparse.issparse(X):
        X = X.tolil()
        X[:, [j]] = X[rows][:, [j]]
        return X.tocsr()
    X = X.copy()
    X[:, j] = X[rows, j]
    return X
