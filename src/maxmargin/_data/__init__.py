"""Storage of rows: memory, files, dask and torch; only :func:`row_source` tells them apart."""

from __future__ import annotations

from typing import Any

from .dask import DaskRows, LazyRows, is_dask
from .source import RowSource
from .torch import is_tensor, tensor_rows
from .torch import to_host as to_host


def row_source(X: Any, lazy: bool = False) -> Any:
    """Return the source of rows that are not a plain array; None for anything else.

    If ``lazy``, nothing of a dask array is computed.
    """
    if isinstance(X, RowSource):
        return X
    if is_tensor(X):
        return tensor_rows(X)
    if is_dask(X):
        return LazyRows(X) if lazy else DaskRows(X)
    return None
