"""Reading rows of numbers from files, and reading and writing labels.

`read_rows` raises an error for the first problem of a file; `maxmargin._findings.inspect_rows`
lists all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ._data.blocks import RowBlocks
from ._data.csv_text import MISSING, number, write_csv
from ._data.formats import open_frame, open_sheet
from ._data.problems import Finding, errors, table_errors
from ._data.sheet import Lines, Sheet, Wish
from ._files import DataError, atomic_write, check_suffix, needed

__all__ = [
    "DataError",
    "Table",
    "open_rows",
    "read_labels",
    "read_rows",
    "read_table",
    "write_labels",
]

LABEL_SUFFIXES = (".csv", ".parquet", ".npy")


@dataclass(frozen=True)
class Table:
    """The rows of a file.

    Parameters
    ----------
    X : ndarray, memmap, csr_matrix or DataFrame of shape (n_rows, n_columns)
        The numbers, or the columns of any type.
    ids : ndarray or None
        The name of every row, if the file has an id column.
    column_names : tuple of str or None
        The names of the columns of `X`, if the file has any.
    labels : ndarray or None
        The values of the label column, if one was requested.
    source : str
        The file's name.
    lines : callable or None
        Finds the line of each row, if the file is text.

    See Also
    --------
    maxmargin.io.read_rows : Read numbers.
    maxmargin.io.read_table : Read columns of any type.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import read_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "sizes.csv")
    ...     _ = path.write_text("name,width\\nA,1.5\\nB,2\\n")
    ...     table = read_rows(path, id_column="name")
    >>> table.X.tolist(), table.ids.tolist(), table.column_names
    ([[1.5], [2.0]], ['A', 'B'], ('width',))
    """

    X: Any
    ids: np.ndarray | None
    column_names: tuple[str, ...] | None
    labels: np.ndarray | None
    source: str
    lines: Lines | None = None


def read_rows(
    path: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    n_features: int | None = None,
    format: str | None = None,
) -> Table:
    """Read a csv, parquet, npy, npz or svmlight file as rows of numbers.

    Parameters
    ----------
    path : path
        Name of the file. csv and parquet need the extra ``cli`` (pyarrow). Text may be compressed
        (``.gz``, ``.bz2``, ``.xz``); empty lines at its end are ignored. A ``.npy`` file is
        memory-mapped, so it may be larger than memory. An ``.npz`` file contains a dense array
        ``X`` or a sparse matrix (``scipy.sparse.save_npz``). Pickles are never loaded.
    id_column : str, default=None
        Column with the names of the rows. By default the unnamed first column of a csv file (the
        index that pandas writes), if there is one.
    label_column : str, default=None
        Column to return as `labels`, not as numbers; ``"target"`` in an svmlight file, an
        array's name in an npz file.
    drop : sequence of str, default=()
        Columns to omit.
    columns : sequence of str, default=None
        The columns to read, in this order; ignored if the file has no column names.
    header : bool, default=None
        Whether the first line of a csv file contains names; None detects it. Without names the
        columns are called ``"1"``, ``"2"`` and so on.
    n_features : int, default=None
        Number of columns of an svmlight file, which does not store it.
    format : {"csv", "parquet", "npy", "npz", "svmlight"}, default=None
        Format of the file; None derives it from the name.

    Returns
    -------
    Table
        The numbers, and ids, column names and labels if the file has them.

    Raises
    ------
    DataError
        If the file cannot be used; the message contains the reason and a remedy.

    See Also
    --------
    maxmargin.io.read_table : Columns of any type.
    maxmargin.open_rows : Rows of a file larger than memory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import read_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,age,height\\nAnn,31,1.7\\nBob,45,1.8\\n")
    ...     table = read_rows(path, id_column="name")
    >>> table.X.shape, table.column_names, [str(i) for i in table.ids]
    ((2, 2), ('age', 'height'), ['Ann', 'Bob'])
    """
    wish = Wish(id_column, label_column, _names(drop), _names(columns), header, n_features)
    _, sheet = open_sheet(Path(path), format, wish)
    return _as_table(path, sheet, errors(sheet), label_column)


def _names(given: Any) -> Any:
    """Return names of columns as a tuple, also a single one."""
    return (given,) if isinstance(given, str) else given if given is None else tuple(given)


def _as_table(
    path: Any, sheet: Sheet, problems: Iterable[Finding], label_column: str | None
) -> Table:
    for problem in problems:
        raise DataError(f"{path}: {problem.what}", problem.remedy)
    ids, labels = sheet.kept.get(sheet.id_column), sheet.kept.get(label_column)
    names = sheet.names if sheet.named else None
    return Table(sheet.X, ids, names, labels, str(path), sheet.lines)


def read_table(
    path: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    format: str | None = None,
) -> Table:
    """Read a csv or parquet file with columns of any type.

    Parameters
    ----------
    path : path
        Name of the file. Separator, decimal point or comma, encoding (UTF-8, UTF-16, Windows-1252),
        header and types of columns are detected; ``NA``, ``#N/A``, ``?`` and empty cells are
        missing. Files of other formats are read by :func:`read_rows`.
    id_column, label_column, drop, columns, header, format
        As in :func:`read_rows`.

    Returns
    -------
    Table
        Its `X` is a DataFrame with numbers, dates, truth values and text, for
        :func:`~maxmargin.table_pipeline`; an array if the format has no columns of other types. If
        the file has no names, columns are called ``"1"``, ``"2"`` and so on, and `column_names` is
        None.

    See Also
    --------
    maxmargin.table_pipeline : Prepare the columns and cluster.
    maxmargin.io.read_rows : Numbers only.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("age;town;since\\n31,5;Oslo;2020-02-01\\n;Rome;2021-03-01\\n")
    ...     table = read_table(path)
    >>> table.X["age"].tolist(), table.X["since"].dt.year.tolist()
    ([31.5, nan], [2020, 2021])
    """
    wish = Wish(id_column, label_column, _names(drop), _names(columns), header)
    kind, table = open_frame(Path(path), format, wish)
    if table is not None:
        return _as_table(path, table, table_errors(table), label_column)
    _, sheet = open_sheet(Path(path), kind, wish)
    return _as_table(path, sheet, errors(sheet), label_column)


def open_rows(
    path: str | os.PathLike[str], *, drop: Sequence[str] = (), format: str | None = None
) -> RowBlocks:
    """Open a file whose rows are read block by block; it may be larger than memory.

    Parameters
    ----------
    path : path
        A parquet file (a block is a row group), a npy file or a zarr array.
    drop : sequence of str, default=()
        Columns to omit.
    format : {"parquet", "npy", "zarr"}, default=None
        Format of the file; None derives it from the name.

    Returns
    -------
    RowBlocks
        Rows that ``fit`` and ``predict`` accept in place of an array; ``to_dask()`` returns them
        as a dask array, for a cluster.

    See Also
    --------
    maxmargin.io.read_rows : Read a file into memory.
    CuttingPlaneMarginClustering : Fits such rows in a few passes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from maxmargin import CuttingPlaneMarginClustering, open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.npy")
    ...     np.save(path, np.repeat(np.eye(2), 10_000, axis=0))
    ...     model = CuttingPlaneMarginClustering(2, random_state=0).fit(open_rows(path))
    >>> model.cluster_sizes_.tolist()
    [10000, 10000]
    """
    from ._data.files import open_blocks

    return open_blocks(Path(path), Wish(drop=_names(drop)), format)


def read_labels(values: Iterable[Any]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Convert known labels of any type to numbers for `partial_labels`.

    Parameters
    ----------
    values : iterable
        One value for each row. Empty cells, NaN, None, ``NA``, ``?`` and ``-1`` mean unknown.

    Returns
    -------
    labels : ndarray of int
        0, 1, ... in the order of `classes`, -1 where unknown.
    classes : tuple of str
        The names found, sorted; by value if all of them are numbers.

    See Also
    --------
    maxmargin.io.read_table : Read the column with the labels.
    maxmargin.io.write_labels : Write labels.

    Examples
    --------
    >>> from maxmargin.io import read_labels
    >>> labels, classes = read_labels(["spam", "", "ham", "spam"])
    >>> labels.tolist(), classes
    ([1, -1, 0, 1], ('ham', 'spam'))
    """
    names = ["" if value is None else _label_name(str(value).strip()) for value in values]
    known = {name for name in names if name.lower() not in MISSING and name != "-1"}
    numeric = all(number(name) is not None for name in known)
    classes = tuple(sorted(known, key=float) if numeric else sorted(known))
    code = {name: i for i, name in enumerate(classes)}
    return np.array([code.get(name, -1) for name in names], dtype=np.int64), classes


def _label_name(name: str) -> str:
    """Return whole numbers in one notation: 1, 1.0 and +1 are the same class."""
    value = number(name)
    return f"{value:.0f}" if value is not None and value == value // 1 else name


def write_labels(
    path: str | os.PathLike[str] | TextIO,
    labels: np.ndarray,
    *,
    classes: np.ndarray | None = None,
    margins: np.ndarray | None = None,
    confidence: np.ndarray | None = None,
    outliers: np.ndarray | None = None,
    ids: np.ndarray | None = None,
    id_name: str = "id",
) -> None:
    """Write one line for each row: its id or number (from 0), its cluster and what is known of it.

    Parameters
    ----------
    path : path or text file
        ``.csv`` or ``.parquet``, or ``.npy`` for the cluster numbers alone; csv for a text file.
    labels : ndarray of shape (n_rows,)
        The cluster of each row.
    classes : ndarray of shape (n_rows,), default=None
        The name of the cluster of each row.
    margins : ndarray of shape (n_rows,), default=None
        How far each row is from changing its cluster.
    confidence : ndarray of shape (n_rows,), default=None
        Confidence in the cluster of each row.
    outliers : ndarray of shape (n_rows,), default=None
        Whether each row is an outlier; written as 0 or 1.
    ids : ndarray of shape (n_rows,), default=None
        The name of each row.
    id_name : str, default="id"
        The header above the ids.

    See Also
    --------
    maxmargin.io.read_table : Read the file again.

    Examples
    --------
    >>> import sys
    >>> import numpy as np
    >>> from maxmargin.io import write_labels
    >>> write_labels(sys.stdout, np.array([0, 1]), margins=np.array([1.5, 0.25]))
    row,cluster,margin
    0,0,1.5
    1,1,0.25
    """
    columns = {"row": np.arange(len(labels))} if ids is None else {id_name: np.asarray(ids)}
    outliers = None if outliers is None else np.asarray(outliers).astype(np.int8)
    given = {"cluster": labels, "class": classes, "margin": margins, "confidence": confidence}
    given["outlier"] = outliers
    columns |= {name: np.asarray(kept) for name, kept in given.items() if kept is not None}
    if not isinstance(path, str | os.PathLike):
        write_csv(path, columns)
        return
    suffix = check_suffix(path, LABEL_SUFFIXES)
    with atomic_write(path) as partial:
        if suffix == ".npy":
            np.save(partial, columns["cluster"])
        elif suffix == ".parquet":
            needed("pyarrow.parquet").write_table(needed("pyarrow").table(columns), partial)
        else:
            with open(partial, "w", encoding="utf-8", newline="") as file:
                write_csv(file, columns)
