"""Models that may be pipelines, and rows in any container."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError


def last_step(model: Any) -> Any:
    """Return the estimator at the end of a pipeline."""
    return model[-1] if hasattr(model, "steps") else model


def prepared(model: Any, X: Any) -> Any:
    """Return rows as the last step of a pipeline takes them."""
    return model[:-1].transform(X) if hasattr(model, "steps") else X


def quietly(method: Callable[..., Any], *rows: Any) -> Any:
    """Call a fitted method, or a function of a model, without warnings of columns and cells.

    If it fails on a table, the error says that a pipeline prepares tables.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
            warnings.filterwarnings("ignore", message="column .* (is empty|cells? with)")
            return method(*rows)
    except NotFittedError:
        raise
    except (ValueError, TypeError) as error:
        models = getattr(method, "__self__", None), *rows
        if not hasattr(rows[-1], "iloc") or any(hasattr(model, "steps") for model in models):
            raise
        hint = "If the model is a step of a pipeline, pass the pipeline itself instead of this step"
        raise ValueError(f"{error} {hint}: it prepares the table.") from error


def as_rows(X: Any) -> Any:
    """Return a table, a sparse matrix or an array of rows and columns."""
    X = X if sparse.issparse(X) or hasattr(X, "iloc") else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns, got an array of {X.ndim} dimension(s).")
    return X


def all_numbers(X: Any) -> bool:
    """Return whether a table or an array has finite numbers only."""
    kinds = X.dtypes if hasattr(X, "dtypes") else [X.dtype]
    numeric = all(getattr(dtype, "kind", "O") in "biuf" for dtype in kinds)
    return numeric and bool(np.isfinite(np.asarray(X, dtype=float)).all())


def column_names(X: Any, given: Any = None) -> list[str]:
    """Return the names of the columns: given ones, or those of a table, or numbers."""
    if given is None:
        given = getattr(X, "columns", [f"column {j}" for j in range(X.shape[1])])
    names = [str(name) for name in given]
    if len(names) != X.shape[1]:
        raise ValueError(f"feature_names has {len(names)} names; X has {X.shape[1]} columns.")
    return names
