"""Ordinary tables as rows of numbers: what becomes of each column.

`table_columns` decides by the values of a column, `table_pipeline` turns the decisions into a
scikit-learn Pipeline of a ColumnTransformer and an estimator:

=========  =====================================================================================
kind       what is done
=========  =====================================================================================
number     median for missing values, with an indicator column; unit variance
log        the same with logarithms, if asked for; what is not above 0 is missing
category   a 0/1 column for each of the most frequent levels; rarer levels share one
date       days, in unit variance; month and time of day as points on a circle, if they vary
text       tf-idf of the words; its leading axes if the table has other columns, too
=========  =====================================================================================

The mean squared distance between two rows is then about 2 in each column, whatever its kind.
Constants, ids and names are left out. Steps read text as well as numbers and dates, so that rows
that a file or another library typed differently give the same features.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from ._column_kinds import KINDS, MAX_LEVELS, kind_of
from ._column_steps import DateParts, Logarithms, Numbers, Strings, TextAxes, tf_idf
from ._data.sheet import refuse_absent
from ._files import nearest, needed, plural

__all__ = ["Column", "table_columns", "table_pipeline"]

TEXT_AXES = 10
ID_NAME = re.compile(r"(?:^|[^a-z])(?:id|uid|uuid|key|index|row|nr)$")


@dataclass(frozen=True)
class Column:
    """What becomes of a column.

    Parameters
    ----------
    name : str
        The column's name.
    kind : {"number", "category", "date", "text"}
        The kind of its values.
    used : bool
        Whether it is clustered; otherwise it is left out.
    note : str
        What is done with it, or why it is left out.
    options : dict
        How its values are read: format of numbers or dates, number of words.
    is_id : bool
        Whether it names the rows.

    See Also
    --------
    maxmargin.tables.table_columns : What becomes of each column.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxmargin.tables import table_columns
    >>> column = table_columns(pd.DataFrame({"town": ["Oslo", "Rome"] * 4}))[0]
    >>> column.name, column.kind, column.used
    ('town', 'category', True)
    """

    name: str
    kind: str
    used: bool = True
    note: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    is_id: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the column is numbers that need no preparation."""
        return self.kind == "number" and self.used and not self.note


def table_columns(frame: Any, kinds: Mapping[str, str] | None = None) -> list[Column]:
    """Decide what becomes of each column of a table.

    Parameters
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
        The table.
    kinds : dict, optional
        Columns whose kind is given: "number", "log" (the logarithm of positive numbers),
        "category", "date", "text" or "drop".

    Returns
    -------
    list of Column
        One decision for each column, in order.

    See Also
    --------
    maxmargin.table_pipeline : Prepare the columns and cluster.
    maxmargin.tables.Column : What is said of a column.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxmargin.tables import table_columns
    >>> frame = pd.DataFrame({"age": [31, None, 50, 28], "town": ["Oslo", "Rome"] * 2})
    >>> [(column.name, column.kind, column.note) for column in table_columns(frame)]
    [('age', 'number', '1 missing value'), ('town', 'category', '2 levels')]
    """
    frame = _frame_of(frame, "frame must be a DataFrame")
    _check_names(frame)
    kinds = dict(kinds or {})
    for name, kind in kinds.items():
        if name not in frame.columns:
            near = nearest(str(name), map(str, frame.columns))
            hint = f" Did you mean {near!r}?" if near else ""
            what = f"kinds names {name!r}, which is none of {list(frame.columns)}."
            raise ValueError(what + hint)
        if kind not in KINDS:
            raise ValueError(f"kinds[{name!r}] must be one of {KINDS}, got {kind!r}.")
    return [_decided(name, frame[name], kinds.get(name)) for name in frame.columns]


def _check_names(frame: Any) -> None:
    """Raise an error for columns that steps of a pipeline could not find, or cannot count."""
    other = [name for name in frame.columns if not isinstance(name, str)]
    if other:
        raise ValueError(
            f"The names of columns must be strings, got {other[0]!r}. Set frame.columns = "
            "[str(name) for name in frame.columns]."
        )
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"Several columns are named {twice!r}. Rename them or leave them out.")
    for name in frame.columns[[dtype.kind == "O" for dtype in frame.dtypes]]:
        if any(isinstance(cell, list | dict | set | np.ndarray) for cell in frame[name]):
            raise ValueError(
                f"Column {name!r} has lists, dicts or arrays as cells. Make columns of their "
                "values, or leave it out."
            )


def table_pipeline(frame: Any, estimator: Any, kinds: Mapping[str, str] | None = None) -> Pipeline:
    """Return a pipeline that prepares the columns of a table and clusters the rows.

    Parameters
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
        The table, or rows like those that the pipeline will be fitted on.
    estimator : estimator
        What clusters the prepared rows: an instance, such as ``MaxMarginClustering(3)``.
    kinds : dict, optional
        Columns whose kind is given: "number", "log" (the logarithm of positive numbers),
        "category", "date", "text" or "drop"; the kinds of the others are found, see
        :func:`maxmargin.tables.table_columns`.

    Returns
    -------
    Pipeline
        Steps "columns" (a ColumnTransformer) and "cluster" (the estimator), not fitted. New rows
        may have missing values, levels that were not seen, and other columns. Fitted attributes
        are those of the last step, ``pipe[-1].labels_``; known labels and constraints are passed
        on as ``pipe.fit(frame, cluster__partial_labels=known)``.

    See Also
    --------
    maxmargin.tables.table_columns : What becomes of each column.
    maxmargin.describe_clusters : What makes each cluster, by the columns of the table.
    maxmargin.io.read_table : Read a table from a file.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxmargin import MaxMarginClustering, table_pipeline
    >>> frame = pd.DataFrame({"age": [20, 21, None, 70, 72], "town": list("OOORR")})
    >>> model = table_pipeline(frame, MaxMarginClustering(2, random_state=0)).fit(frame)
    >>> model[-1].labels_.tolist()
    [0, 0, 0, 1, 1]
    >>> model.predict(pd.DataFrame({"age": [None, 75], "town": ["O", "Paris"]})).tolist()
    [0, 1]
    """
    if hasattr(frame, "fit"):
        raise TypeError("The frame comes first: table_pipeline(frame, estimator).")
    if isinstance(estimator, type):
        raise TypeError(f"estimator must be an instance: {estimator.__name__}(), not the class.")
    if estimator is not None and not hasattr(estimator, "fit"):
        such = "a clusterer such as MaxMarginClustering(3)"
        raise TypeError(f"estimator must be {such}, got {estimator!r}.")
    columns = table_columns(frame, kinds)
    return Pipeline([("columns", column_transformer(columns)), ("cluster", estimator)])


def column_transformer(columns: list[Column]) -> ColumnTransformer:
    """Return what turns the columns of a table into features."""
    used = [column for column in columns if column.used]
    if not used:
        raise ValueError("no column can be clustered: all are empty, constant, ids or left out.")
    steps: list[tuple[str, Any, Any]] = []
    styles = {_style(column.options) for column in used if column.kind == "number"}
    for i, style in enumerate(sorted(styles)):
        same = [c for c in used if c.kind == "number" and _style(c.options) == style]
        names = [column.name for column in same]
        read = number_reader(same[0].options)
        scaled = make_pipeline(read, SimpleImputer(strategy="median"), StandardScaler())
        steps.append((f"number {i}", scaled, names))
        missing = [column.name for column in same if column.options.get("missing")]
        if missing:
            marks = make_pipeline(read, MissingIndicator(error_on_new=False))
            steps.append((f"missing {i}", marks, missing))
    for column in used:
        if column.kind == "date":
            steps.append((f"date {column.name}", DateParts(**column.options), [column.name]))
    categories = [column.name for column in used if column.kind == "category"]
    if categories:
        levels = OneHotEncoder(
            max_categories=MAX_LEVELS,
            min_frequency=2,
            handle_unknown="infrequent_if_exist",
            sparse_output=False,
        )
        steps.append(("category", make_pipeline(Strings("missing"), levels), categories))
    texts = [column for column in used if column.kind == "text"]
    for column in texts:
        words = make_pipeline(Strings(""), tf_idf())
        if len(texts) < len(used):
            rank = min(TEXT_AXES, column.options["n_words"] - 1)
            words.steps.append(("axes", TextAxes(rank, random_state=0)))
        steps.append((f"text {column.name}", words, column.name))
    return TableColumns(steps, sparse_threshold=1.0 if len(texts) == len(used) else 0.0)


class TableColumns(ColumnTransformer):
    """Features of the columns of a table, with a warning of cells that cannot be read."""

    def set_output(self, *, transform: Any = None) -> Self:
        """Set the container of the features; inside, words are found in arrays and stay there."""
        return super(ColumnTransformer, self).set_output(transform=transform)

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit on a table and return its features."""
        frame = _frame_of(X)
        with config_context(transform_output="default"):
            features = super().fit_transform(X, y, **params)
        _warn_of_unread(self, frame, new=False)
        return features

    def transform(self, X: Any, **params: Any) -> Any:
        """Return the features of a table."""
        check_is_fitted(self)
        frame = _frame_of(X)
        wanted = dict.fromkeys(name for _, names in _read_by(self) for name in names)
        refuse_absent(wanted, frame.columns, "the table", mixed=True)
        with config_context(transform_output="default"):
            features = super().transform(X, **params)
        _warn_of_unread(self, frame, new=True)
        return features


def _frame_of(X: Any, rule: str = "X must be a DataFrame with the columns of the fit") -> Any:
    """Return a table, also one of polars or pyarrow, as a DataFrame."""
    frame = X.to_pandas() if hasattr(X, "to_pandas") else X
    if not isinstance(frame, needed("pandas").DataFrame):
        raise ValueError(f"{rule}, got {type(X).__name__}.")
    return frame


def _read_by(prepare: ColumnTransformer) -> Iterator[tuple[Any, list[str]]]:
    """Yield the steps of a fitted transformer, and the columns that each takes."""
    for _, step, names in prepare.transformers_:
        if step != "drop":
            yield step, [names] if isinstance(names, str) else names


def _warn_of_unread(prepare: ColumnTransformer, frame: Any, new: bool) -> None:
    """Warn of cells that a fitted transformer cannot read, in new rows or in those of the fit."""
    for step, names in _read_by(prepare):
        for j, name in enumerate(names):
            values = frame[name]
            told = _unread(step, j, values)
            if new and len(values) > 1 and values.isna().all():
                told = " is empty, although the model was fitted with its values"
            if told:
                warnings.warn(f"column {name!r}{told}", UserWarning, stacklevel=3)


def _unread(step: Any, j: int, values: Any) -> str:
    """Return what is done with cells that a step cannot read, "" if it reads them all."""
    first, last = (step[0], step[-1]) if isinstance(step, Pipeline) else (step, step)
    done = "they are treated as missing"
    if isinstance(last, StandardScaler | DateParts):
        bad, what = np.isnan(first.read(values)), f"no {first.unit}"
    elif isinstance(last, OneHotEncoder):
        bad = ~np.isin(first.read(values).astype(str), last.categories_[j].astype(str))
        what, pooled = "a level not seen in the fit", last.infrequent_categories_[j]
        done = f"they count as {'no level' if pooled is None else 'rare levels'}"
    else:  # text can be read, and marks of missing values are of columns that are read above
        return ""
    bad &= values.notna().to_numpy()
    if not bad.any():
        return ""
    cells = f"{plural(bad.sum(), 'cell')} with {what}"
    return f": {cells}, such as {str(values[bad].iloc[0])!r}; {done}"


def _style(options: dict[str, Any]) -> tuple[str, str, bool]:
    return options.get("decimal", "."), options.get("thousands", ""), options.get("log", False)


def number_reader(options: dict[str, Any]) -> Numbers:
    """Return the step that reads a column of numbers with these options."""
    decimal, thousands, log = _style(options)
    return (Logarithms if log else Numbers)(decimal, thousands)


# -- the kind of a column --------------------------------------------------------------------------


def typed_column(values: Any, kind: str | None = None) -> tuple[str, Any]:
    """Return the kind of a Series, and its values: numbers, dates, or as they are."""
    present = values.dropna()
    if kind == "drop" or len(present) == 0:
        return "category", values
    kind, options = kind_of(present, kind)
    if kind == "number":
        return kind, number_reader(options).read(values)
    if kind == "date":
        return kind, DateParts(options["format"])._dates(values)
    return kind, values


def _decided(name: str, values: Any, given: str | None) -> Column:
    present, asked = values.dropna(), given is not None
    if given == "drop" or len(present) == 0:
        why = "left out as asked" if asked else "empty"
        return Column(name, "category", False, why)
    kind, options = kind_of(present, given)
    if kind == "number":
        return _about_numbers(name, values, options, asked)
    if len(present) == len(values) and present.nunique() == 1 and not asked:
        return Column(name, kind, False, "the same value in every row")
    if kind == "date":
        return _about_dates(name, values, options["format"], asked)
    return _about_text(name, values) if kind == "text" else _about_levels(name, values, asked)


def _missing(values: Any) -> str:
    n_missing = int(values.isna().sum())
    return f", {plural(n_missing, 'missing value')}" if n_missing else ""


def _about_dates(name: str, values: Any, form: str | None, asked: bool) -> Column:
    lost = np.isnan(DateParts(form).read(values))
    if asked and lost.all():
        raise ValueError(f"column {name!r} is to be used as date, but no cell is a date.")
    n_lost = int((lost & values.notna().to_numpy()).sum())
    unread = f", {plural(n_lost, 'cell')} that cannot be read" if n_lost else ""
    parts = DateParts(form).fit(values)
    told = "days" + ", month" * parts.has_months_ + ", time of day" * parts.has_hours_
    note = f"{told}{f' ({form})' if form else ''}{_missing(values)}{unread}"
    return Column(name, "date", True, note, {"format": form, "missing": bool(lost.any())})


def _about_text(name: str, values: Any) -> Column:
    try:
        count = len(tf_idf().fit(Strings("").read(values)).vocabulary_)
    except ValueError:  # no word is left
        count = 0
    if count < 2:
        return Column(name, "text", False, "hardly any word occurs in two texts")
    return Column(name, "text", True, f"{count:,} words{_missing(values)}", {"n_words": count})


def _about_levels(name: str, values: Any, asked: bool) -> Column:
    counts = values.dropna().astype(str).value_counts()
    n_levels, n_missing = int(values.nunique()), values.isna().sum()
    is_id = n_levels == len(values) > 2
    # Codes that are often missing are used as well: whether there is one can matter.
    codes = n_levels > max(MAX_LEVELS, counts.sum() / 2) and n_missing < 0.05 * len(values)
    if not asked and (is_id or codes):
        why = "names the rows" if is_id else f"names or codes: {n_levels:,} different values"
        return Column(name, "category", False, why, is_id=is_id)
    kept = min(int((counts > 1).sum()), MAX_LEVELS - 1 if n_levels > MAX_LEVELS else MAX_LEVELS)
    rare = f", the rarest {n_levels - kept:,} pooled" if kept < n_levels else ""
    return Column(name, "category", True, f"{plural(n_levels, 'level')}{rare}{_missing(values)}")


def _about_numbers(name: str, values: Any, options: dict, asked: bool) -> Column:
    reader = number_reader(options)
    numbers, n_missing = reader.read(values), int(values.isna().sum())
    given = numbers[np.isfinite(numbers)]
    n_lost = len(numbers) - len(given) - n_missing
    if len(given) == 0 and asked:
        kind = "log" if options.get("log") else "number"
        what = f"column {name!r} is to be used as {kind}, but no cell is a {reader.unit}."
        raise ValueError(what)
    if len(given) == 0:
        return Column(name, "number", False, "no cell is a number")
    if given.min() == given.max() and not asked:
        return Column(name, "number", False, "the same value in every row")
    if not asked and _is_id(name, numbers):
        return Column(name, "number", False, "names or counts the rows", is_id=True)
    notes = []
    if options.get("decimal") == "," or options.get("thousands"):
        notes.append("decimal comma" if options["decimal"] == "," else "commas between thousands")
    if options.get("log"):
        notes.append("logarithm")
    if n_missing:
        notes.append(plural(n_missing, "missing value"))
    if n_lost:
        notes.append(
            f"{plural(n_lost, 'cell')} that {'is' if n_lost == 1 else 'are'} no {reader.unit}"
        )
    if options and not notes:
        notes.append("read from text")
    missing = {"missing": len(given) < len(numbers)}
    return Column(name, "number", True, ", ".join(notes), {**options, **missing})


def _is_id(name: str, numbers: np.ndarray) -> bool:
    """Whether whole numbers count the rows, or differ and are called an id."""
    if len(numbers) < 3 or not np.array_equal(numbers, np.round(numbers)):
        return False
    if np.all(np.diff(numbers) == 1):
        return True
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return bool(ID_NAME.search(words)) and len(np.unique(numbers)) == len(numbers)
