"""Steps that read columns of tables: numbers, dates, levels, and the words of texts."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from ._column_kinds import SIGNS
from ._files import needed


class _Columns(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """A step without fitted state that reads one column after the other."""

    def fit(self, X: Any, y: Any = None) -> Self:
        self.n_features_in_ = 1 if X.ndim == 1 else X.shape[1]
        return self

    def transform(self, X: Any) -> np.ndarray:
        pd = needed("pandas")
        if getattr(X, "ndim", 2) == 1:
            return self.read(pd.Series(X))
        X = pd.DataFrame(X)
        return np.column_stack([self.read(X.iloc[:, j]) for j in range(X.shape[1])])

    def read(self, values: Any) -> np.ndarray:
        raise NotImplementedError


class Numbers(_Columns):
    """Numbers of columns of any type; what is no finite number is missing."""

    unit = "number"

    def __init__(self, decimal: str = ".", thousands: str = ""):
        self.decimal = decimal
        self.thousands = thousands

    def read(self, values: Any) -> np.ndarray:
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


class Logarithms(Numbers):
    """Logarithms of the positive numbers of columns; other cells are missing."""

    unit = "positive number"

    def read(self, values: Any) -> np.ndarray:
        """Return the logarithms of one column."""
        numbers = super().read(values)
        return np.log(np.where(numbers > 0, numbers, np.nan))


class Strings(_Columns):
    """Text of columns of any type; whole numbers have no decimal point."""

    def __init__(self, missing: str = "missing"):
        self.missing = missing

    def read(self, values: Any) -> np.ndarray:
        """Return one column as text."""
        pd = needed("pandas")
        if pd.api.types.is_float_dtype(values) and (values.dropna() % 1 == 0).all():
            values = values.astype("Int64")
        codes, levels = pd.factorize(values)
        names = np.array([*(str(level).strip() for level in levels), self.missing], dtype=object)
        return names[codes]  # the last one for missing values, whose code is -1


class DateParts(TransformerMixin, BaseEstimator):
    """Days in unit variance; month and time of day on a circle, if they vary."""

    unit = "date that can be read"

    def __init__(self, format: str | None = None, missing: bool = False):
        self.format = format
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> Self:
        self.n_features_in_ = 1
        dates, days = self._dates(X), self.read(X)
        self.center_, spread = float(np.nanmean(days)), float(np.nanstd(days))
        self.scale_ = spread or 1.0
        self.has_months_ = bool(np.nanmax(days) - np.nanmin(days) > 366)
        self.has_hours_ = bool((dates.dt.normalize() != dates)[dates.notna()].any())
        return self

    def transform(self, X: Any) -> np.ndarray:
        dates, days = self._dates(X), self.read(X)
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

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features: that of the column, and what of the date it is."""
        (name,) = ["x0"] if input_features is None else input_features
        parts = ["days"]
        parts += ["cos_month", "sin_month"] if self.has_months_ else []
        parts += ["cos_time", "sin_time"] if self.has_hours_ else []
        parts += ["missing"] if self.missing else []
        return np.array([f"{name}_{part}" for part in parts], dtype=object)

    def _dates(self, X: Any) -> Any:
        pd = needed("pandas")
        values = pd.DataFrame(X).iloc[:, 0]
        if not pd.api.types.is_datetime64_any_dtype(values):
            form = self.format or "ISO8601"
            strings = values.astype(object).where(values.notna(), None)
            strings = strings.map(lambda value: value if value is None else str(value).strip())
            values = pd.to_datetime(strings, format=form, errors="coerce")
        return values.dt.tz_convert(None) if values.dt.tz is not None else values

    def read(self, values: Any) -> np.ndarray:
        """Return days; what is no date is missing."""
        pd = needed("pandas")
        since = (self._dates(values) - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
        return since.to_numpy(dtype=np.float64, na_value=np.nan)


def tf_idf() -> TfidfVectorizer:
    """Return the weights of words: those in two or more texts, but not in nearly all."""
    return Words(
        min_df=2, max_df=0.8, max_features=20_000, sublinear_tf=True, token_pattern=r"[^\W\d_]{2,}"
    )


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
