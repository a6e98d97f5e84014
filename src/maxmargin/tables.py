"""Ordinary tables as rows of numbers: what becomes of each column.

`table_columns` decides by the values of a column, `table_pipeline` turns the decisions into a
scikit-learn Pipeline of a ColumnTransformer and an estimator:

=========  =====================================================================================
kind       what is done
=========  =====================================================================================
number     median for missing values, with an indicator column; unit variance
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ._files import needed

__all__ = ["Column", "table_columns", "table_pipeline"]

KINDS = ("number", "category", "date", "text", "drop")
MAX_LEVELS = 20  # of a category; rarer ones are pooled
MOST = 0.95  # share of the cells that must be numbers or dates
TEXT_WORDS = 5  # words per cell, on average, of free text; names have fewer
TEXT_AXES = 10
LOOKED_AT = 10_000  # cells of which formats are guessed
ID_NAME = re.compile(r"(?:^|[^a-z])(?:id|uid|uuid|key|index|row|nr)$")
# Decimal separator, separator of thousands, and what such numbers look like.
NUMBERS = {
    (".", ""): r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf(?:inity)?",
    (".", ","): r"[-+]?\d{1,3}(?:,\d{3})*(?:\.\d+)?",
    (",", ""): r"[-+]?(?:\d+,?\d*|,\d+)(?:[eE][-+]?\d+)?",
    (",", "."): r"[-+]?\d{1,3}(?:\.\d{3})*(?:,\d+)?",
}
SIGNS = r"[\s%€$£]+"  # left out of numbers, like spaces between thousands
DATES = tuple(
    f"{day}{time}"
    for day in ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y",
                "%m/%d/%y", "%d %b %Y", "%b %d, %Y", "%Y-%m-%dT")
    for time in ("", " %H:%M", " %H:%M:%S")
)  # fmt: skip


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

    Examples
    --------
    >>> from maxmargin.tables import Column
    >>> Column("age", "number").used
    True
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
        Columns whose kind is given: "number", "category", "date", "text" or "drop".

    Returns
    -------
    list of Column
        One decision for each column, in order.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxmargin.tables import table_columns
    >>> frame = pd.DataFrame({"age": [31, None, 50, 28], "town": ["Oslo", "Rome"] * 2})
    >>> [(column.name, column.kind, column.note) for column in table_columns(frame)]
    [('age', 'number', '1 missing value'), ('town', 'category', '2 levels')]
    """
    frame = _as_frame(frame)
    kinds = dict(kinds or {})
    for name, kind in kinds.items():
        if name not in frame.columns:
            raise ValueError(f"kinds names {name!r}, which is none of {list(frame.columns)}.")
        if kind not in KINDS:
            raise ValueError(f"kinds[{name!r}] must be one of {KINDS}, got {kind!r}.")
    return [_decided(str(name), frame[name], kinds.get(name)) for name in frame.columns]


def table_pipeline(frame: Any, estimator: Any, kinds: Mapping[str, str] | None = None) -> Pipeline:
    """Return a pipeline that prepares the columns of a table and clusters the rows.

    Parameters
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
        The table, or rows like those that the pipeline will be fitted on.
    estimator : estimator
        What clusters the prepared rows. ``MaxMarginClustering(spreads=False)`` is advised for
        tables with categories or missing values, because 0/1 columns leave gaps between rows that
        are not those between clusters.
    kinds : dict, optional
        Columns whose kind is given: "number", "category", "date", "text" or "drop"; the kinds of
        the others are found, see :func:`maxmargin.tables.table_columns`.

    Returns
    -------
    Pipeline
        Steps "columns" (a ColumnTransformer) and "cluster" (the estimator), not fitted. New rows
        may have missing values, levels that were not seen, and other columns.

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
    columns = table_columns(frame, kinds)
    return Pipeline([("columns", column_transformer(columns)), ("cluster", estimator)])


def column_transformer(columns: list[Column]) -> ColumnTransformer:
    """Return what turns the columns of a table into features."""
    used = [column for column in columns if column.used]
    if not used:
        raise ValueError("no column can be clustered: all are empty, constant, ids or left out.")
    steps: list[tuple[str, Any, Any]] = []
    styles = {_style(column) for column in used if column.kind == "number"}
    for i, style in enumerate(sorted(styles)):
        same = [c for c in used if c.kind == "number" and _style(c) == style]
        names = [column.name for column in same]
        scaled = make_pipeline(Numbers(*style), SimpleImputer(strategy="median"), StandardScaler())
        steps.append((f"number {i}", scaled, names))
        missing = [column.name for column in same if column.options.get("missing")]
        if missing:
            marks = make_pipeline(Numbers(*style), MissingIndicator(error_on_new=False))
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
    return ColumnTransformer(steps, sparse_threshold=1.0 if len(texts) == len(used) else 0.0)


def unread_cells(prepare: ColumnTransformer, frame: Any) -> Iterator[str]:
    """Yield what is done with cells of new rows that a fitted transformer cannot read."""
    for _, step, names in prepare.transformers_:
        first, last = (step[0], step[-1]) if isinstance(step, Pipeline) else (step, step)
        if not isinstance(last, StandardScaler | OneHotEncoder | DateParts):
            continue  # text has no cells that cannot be read
        for j, name in enumerate(names):
            values, done = frame[name], "they are treated as missing"
            if isinstance(step, DateParts):
                bad, what = step._dates(values).isna().to_numpy(), "no date that can be read"
            elif isinstance(first, Numbers):
                bad, what = np.isnan(first.parsed(values)), "no number"
            elif isinstance(first, Strings):
                bad = ~np.isin(first.written(values).astype(str), last.categories_[j].astype(str))
                what, pooled = "a level not seen in the fit", last.infrequent_categories_[j]
                done = f"they count as {'no level' if pooled is None else 'rare levels'}"
            else:
                continue
            bad = bad & values.notna().to_numpy()
            if bad.any():
                cells = f"{_count(bad.sum(), 'cell')} with {what}"
                yield f"column {name!r}: {cells}, such as {str(values[bad].iloc[0])!r}; {done}"


def tf_idf() -> TfidfVectorizer:
    """Return the weights of words: those in two or more texts, but not in nearly all."""
    return Words(
        min_df=2, max_df=0.8, max_features=20_000, sublinear_tf=True, token_pattern=r"[^\W\d_]{2,}"
    )


def _style(column: Column) -> tuple[str, str]:
    return column.options.get("decimal", "."), column.options.get("thousands", "")


def _as_frame(frame: Any) -> Any:
    if hasattr(frame, "to_pandas"):  # polars, pyarrow
        frame = frame.to_pandas()
    if not isinstance(frame, needed("pandas").DataFrame):
        raise ValueError(f"frame must be a DataFrame, got {type(frame).__name__}.")
    return frame


# -- the kind of a column --------------------------------------------------------------------------


def typed_column(values: Any, kind: str | None = None) -> tuple[str, Any]:
    """Return the kind of a Series, and its values: numbers, dates, or as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> typed_column(pd.Series(["1.234,5", "2,25"]))
    ('number', array([1234.5 ,    2.25]))
    """
    column = _decided("", values, kind)
    if column.kind == "number":
        return column.kind, Numbers(*_style(column)).parsed(values)
    if column.kind == "date":
        return column.kind, DateParts(column.options.get("format"))._dates(values)
    return column.kind, values


def _decided(name: str, values: Any, given: str | None) -> Column:
    types = needed("pandas.api.types")
    present = values.dropna()
    n_missing = len(values) - len(present)
    if given == "drop" or len(present) == 0:
        why = "left out as asked" if given == "drop" else "empty"
        return Column(name, "category", False, why)
    if types.is_bool_dtype(present) or set(map(type, present[:100])) <= {bool, np.bool_}:
        kind, options = "category", {}
    elif types.is_datetime64_any_dtype(present):
        kind, options = "date", {"format": None}
    elif types.is_numeric_dtype(present):
        kind, options = "number", {}
    else:
        kind, options = _kind_of_strings(present.astype(str).str.strip())
    if given is not None and given != kind:
        kind, options = given, _options_of(given, present.astype(str).str.strip())
    return _noted(name, values, present, kind, options, n_missing, given is not None)


def _kind_of_strings(strings: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of text, and the options with which it is read."""
    some = strings[:LOOKED_AT]
    if some.str.contains(r"\d").mean() >= MOST:
        for kind, options in (("number", _number_format(some)), ("date", _date_format(some))):
            if options["share"] >= MOST:
                return kind, {key: value for key, value in options.items() if key != "share"}
    if some.str.split().str.len().mean() >= TEXT_WORDS and strings.nunique() > MAX_LEVELS:
        return "text", {}
    return "category", {}


def _options_of(kind: str, strings: Any) -> dict[str, Any]:
    if kind in ("number", "date"):
        found = (_number_format if kind == "number" else _date_format)(strings[:LOOKED_AT])
        return {key: value for key, value in found.items() if key != "share"}
    return {}


def _number_format(strings: Any) -> dict[str, Any]:
    bare = strings.str.replace(SIGNS, "", regex=True)
    shares = {style: float(bare.str.fullmatch(form).mean()) for style, form in NUMBERS.items()}
    decimal, thousands = max(shares, key=lambda style: shares[style])  # the first of equal ones
    return {"decimal": decimal, "thousands": thousands, "share": shares[decimal, thousands]}


def _date_format(strings: Any) -> dict[str, Any]:
    pd = needed("pandas")
    few = strings.drop_duplicates()[:1000]
    shares = {
        form: float(pd.to_datetime(few, format=form, errors="coerce").notna().mean())
        for form in DATES
    }
    best = max(shares, key=lambda form: shares[form])
    return {"format": best, "share": shares[best]}


def _noted(
    name: str, values: Any, present: Any, kind: str, options: dict, n_missing: int, asked: bool
) -> Column:
    """Return the decision about a column of this kind."""
    if kind == "number":
        numbers = Numbers(*_style(Column(name, kind, options=options))).parsed(values)
        return _about_numbers(name, numbers, n_missing, options, asked)
    n_levels = int(present.nunique())
    if n_levels == 1 and n_missing == 0 and not asked:
        return Column(name, kind, False, "the same value in every row")
    missing = f", {_count(n_missing, 'missing value')}" if n_missing else ""
    if kind == "date":
        parts = DateParts(options["format"]).fit(values)
        n_lost = int(parts._dates(values).isna().sum()) - n_missing
        options = {**options, "missing": n_missing + n_lost > 0}
        missing += f", {_count(n_lost, 'cell')} that cannot be read" if n_lost else ""
        told = "days" + ", month" * parts.has_months_ + ", time of day" * parts.has_hours_
        form = f" ({options['format']})" if options["format"] else ""
        return Column(name, kind, True, f"{told}{form}{missing}", options)
    if kind == "text":
        texts = Strings("").transform(values)
        try:
            count = len(tf_idf().fit(texts).vocabulary_)
        except ValueError:  # no word is left
            count = 0
        if count < 2:
            return Column(name, kind, False, "hardly any word occurs in two texts")
        return Column(name, kind, True, f"{count:,} words{missing}", {"n_words": count})
    is_id = n_levels == len(values) > 2
    # Codes that are often missing are used as well: whether there is one can matter.
    codes = n_levels > max(MAX_LEVELS, len(present) / 2) and n_missing < 0.05 * len(values)
    if not asked and (is_id or codes):
        why = "names the rows" if is_id else f"names or codes: {n_levels:,} different values"
        return Column(name, kind, False, why, is_id=is_id)
    counts = present.astype(str).value_counts()
    kept = min(int((counts > 1).sum()), MAX_LEVELS - 1 if n_levels > MAX_LEVELS else MAX_LEVELS)
    rare = f", the rarest {n_levels - kept:,} pooled" if kept < n_levels else ""
    return Column(name, kind, True, f"{_count(n_levels, 'level')}{rare}{missing}")


def _about_numbers(
    name: str, numbers: np.ndarray, n_missing: int, options: dict, asked: bool
) -> Column:
    given = numbers[np.isfinite(numbers)]
    n_lost = len(numbers) - len(given) - n_missing
    if len(given) == 0:
        return Column(name, "number", False, "no cell is a number")
    if given.min() == given.max() and not asked:
        return Column(name, "number", False, "the same value in every row")
    if not asked and _is_id(name, numbers):
        return Column(name, "number", False, "names or counts the rows", is_id=True)
    notes = []
    if options.get("decimal") == "," or options.get("thousands"):
        notes.append("decimal comma" if options["decimal"] == "," else "commas between thousands")
    if n_missing:
        notes.append(_count(n_missing, "missing value"))
    if n_lost:
        notes.append(f"{_count(n_lost, 'cell')} that {'is' if n_lost == 1 else 'are'} no number")
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


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


# -- the steps -------------------------------------------------------------------------------------


class _Step(TransformerMixin, BaseEstimator):
    """A step without fitted state, unless it says otherwise."""

    def fit(self, X: Any, y: Any = None) -> Self:
        self.n_features_in_ = 1 if X.ndim == 1 else X.shape[1]
        return self


class Numbers(_Step):
    """Numbers of columns of any type; what is no finite number is missing."""

    def __init__(self, decimal: str = ".", thousands: str = ""):
        self.decimal = decimal
        self.thousands = thousands

    def transform(self, X: Any) -> np.ndarray:
        pd = needed("pandas")
        X = pd.DataFrame(X)
        return np.column_stack([self.parsed(X.iloc[:, j]) for j in range(X.shape[1])])

    def parsed(self, values: Any) -> np.ndarray:
        """Return one column as floats."""
        pd = needed("pandas")
        if not pd.api.types.is_numeric_dtype(values):
            strings = values.astype(object).where(values.notna(), None).astype("string")
            strings = strings.str.replace(SIGNS, "", regex=True)
            if self.thousands:
                strings = strings.str.replace(self.thousands, "", regex=False)
            if self.decimal != ".":
                strings = strings.str.replace(self.decimal, ".", regex=False)
            values = pd.to_numeric(strings, errors="coerce")
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isfinite(numbers), numbers, np.nan)


class Strings(_Step):
    """Text of columns of any type; whole numbers have no decimal point."""

    def __init__(self, missing: str = "missing"):
        self.missing = missing

    def transform(self, X: Any) -> np.ndarray:
        pd = needed("pandas")
        if getattr(X, "ndim", 2) == 1:
            return self.written(pd.Series(X))
        X = pd.DataFrame(X)
        return np.column_stack([self.written(X.iloc[:, j]) for j in range(X.shape[1])])

    def written(self, values: Any) -> np.ndarray:
        """Return one column as text."""
        pd = needed("pandas")
        if pd.api.types.is_float_dtype(values) and (values.dropna() % 1 == 0).all():
            values = values.astype("Int64")
        codes, levels = pd.factorize(values)
        names = np.array([*(str(level).strip() for level in levels), self.missing], dtype=object)
        return names[codes]  # the last one for missing values, whose code is -1


class Words(TfidfVectorizer):
    """Weights of words, with the same bits for fitted rows as for new ones.

    A model knows its fitted rows by their bits, and judges them by leave-one-out scores.
    """

    def fit_transform(self, raw_documents: Any, y: Any = None) -> Any:
        """Learn the words and return their weights."""
        return self.fit(raw_documents, y).transform(raw_documents)


class TextAxes(TruncatedSVD):
    """Leading axes of texts, with the same bits for fitted rows as for new ones."""

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit the axes and return the coordinates of the texts."""
        super().fit_transform(X, y)
        return self.transform(X)


class DateParts(_Step):
    """Days in unit variance; month and time of day on a circle, if they vary."""

    def __init__(self, format: str | None = None, missing: bool = False):
        self.format = format
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> Self:
        self.n_features_in_ = 1
        dates = self._dates(X)
        days = self._days(dates)
        self.center_, spread = float(np.nanmean(days)), float(np.nanstd(days))
        self.scale_ = spread or 1.0
        self.has_months_ = bool(np.nanmax(days) - np.nanmin(days) > 366)
        self.has_hours_ = bool((dates.dt.normalize() != dates)[dates.notna()].any())
        return self

    def transform(self, X: Any) -> np.ndarray:
        dates = self._dates(X)
        days = self._days(dates)
        parts = [(days - self.center_) / self.scale_]
        circles = []
        if self.has_months_:
            circles.append(dates.dt.day_of_year.to_numpy(np.float64, na_value=np.nan) / 365.25)
        if self.has_hours_:
            circles.append(np.mod(days, 1.0))
        for turn in circles:
            parts += [np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)]
        if self.missing:
            parts.append(np.isnan(days).astype(np.float64))
        return np.nan_to_num(np.column_stack(parts))

    def _dates(self, X: Any) -> Any:
        pd = needed("pandas")
        values = pd.DataFrame(X).iloc[:, 0]
        if not pd.api.types.is_datetime64_any_dtype(values):
            form = self.format or "ISO8601"
            strings = values.astype(object).where(values.notna(), None)
            strings = strings.map(lambda value: value if value is None else str(value).strip())
            values = pd.to_datetime(strings, format=form, errors="coerce")
        return values.dt.tz_convert(None) if values.dt.tz is not None else values

    @staticmethod
    def _days(dates: Any) -> np.ndarray:
        pd = needed("pandas")
        since = (dates - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
        return since.to_numpy(dtype=np.float64, na_value=np.nan)
