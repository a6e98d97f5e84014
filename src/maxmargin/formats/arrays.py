"""Readers of files that hold typed arrays: parquet, npy, npz, svmlight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..files import DataError
from .opening import GET_AGAIN, one_line, open_bytes
from .sheet import Sheet, TextColumn, Wish, number_columns, refuse_names, some


def read_parquet(path: Path, wish: Wish) -> Sheet:
    """Read a parquet file; the index that pandas stores is no column."""
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(
            "reading parquet needs pyarrow", 'Install it: pip install "maxmargin[io]"'
        ) from error
    schema = pq.read_schema(path)
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index or name in wish.kept]
    wanted = number_columns(names, wish)
    arrow = pq.read_table(path, columns=list(dict.fromkeys([*wanted, *wish.kept])))
    arrays = {name: arrow.column(name).to_numpy() for name in arrow.column_names}
    numeric = [name for name in wanted if arrays[name].dtype.kind in "biuf"]
    # float32 stays float32 where all columns are.
    single = bool(numeric) and all(arrays[name].dtype == np.float32 for name in numeric)
    X = np.empty((arrow.num_rows, len(numeric)), dtype=np.float32 if single else np.float64)
    for j, name in enumerate(numeric):
        X[:, j] = arrays[name]
    text = tuple(_text_of(name, arrays[name]) for name in wanted if name not in numeric)
    kept = {name: arrays[name] for name in wish.kept}
    return Sheet(X, tuple(numeric), True, text, kept, wish.id_column)


def _text_of(name: str, values: np.ndarray) -> TextColumn:
    given = [value for value in values if value is not None]
    return TextColumn(name, str(given[0]) if given else "", None, len(given))


def read_npy(path: Path, wish: Wish) -> Sheet:
    """Map a npy file, which may be larger than memory."""
    refuse_names(wish)
    npy_layout(path)  # refuses what is no rows of numbers
    return Sheet(np.load(path, mmap_mode="r", allow_pickle=False))


def npy_layout(path: Path) -> tuple[tuple[int, int], bool, np.dtype, int]:
    """Return shape, whether column by column, type and place of the numbers in a npy file.

    Refuses arrays that are no rows of numbers, and a file shorter than its header says.
    """
    with open(path, "rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                version, np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(file)
        except ValueError as error:
            raise _objects_or(error) from error
        offset = file.tell()
    if dtype.hasobject:
        raise _objects_or(ValueError("Object arrays"))
    _check_array(dtype, shape)
    n, width = shape
    needed, found = offset + n * width * dtype.itemsize, path.stat().st_size
    if min(n, width) < 0 or found < needed:
        raise DataError(
            f"its header says {n:,} rows of {width:,} columns, {needed:,} bytes, but it has "
            f"{found:,}: it is truncated or damaged",
            GET_AGAIN,
        )
    return (n, width), fortran, dtype, offset


def _objects_or(error: ValueError) -> ValueError:
    """NumPy's refusal to load pickled objects in our words; other errors as they are."""
    if "Python objects" in str(error) or "Object arrays" in str(error):
        return DataError("it holds Python objects", "Store numbers: X.astype(float)")
    return error


def _check_array(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    if dtype.kind == "c":
        raise DataError("it holds complex numbers", "Store real and imaginary part as two columns")
    if dtype.kind not in "biuf":
        raise DataError(f"it holds {dtype} values", "Turn them into numbers first")
    if len(shape) != 2:
        raise DataError(
            f"it holds a {len(shape)}-D array; rows and columns are needed",
            "One column: X.reshape(-1, 1); one row: X.reshape(1, -1)"
            if len(shape) < 2
            else "Flatten each row: X.reshape(len(X), -1)",
        )


def read_npz(path: Path, wish: Wish) -> Sheet:
    """Read an array ``X``, or a sparse matrix as `scipy.sparse.save_npz` writes it."""
    with np.load(path, allow_pickle=False) as archive:
        keys = archive.files
        refuse_names(wish, labels=wish.label_column if wish.label_column in keys else None)
        try:
            kept = {name: archive[name] for name in wish.kept}
            is_sparse = {"data", "indices", "indptr", "shape"} <= set(keys)
            X = _csr_of(path, archive) if is_sparse else archive[_key_of_rows(keys, kept)]
        except ValueError as error:
            raise _objects_or(error) from error
    _check_array(X.dtype, X.shape)
    return Sheet(X, kept=kept)


def _key_of_rows(keys: list[str], kept: dict[str, np.ndarray]) -> str:
    others = [key for key in keys if key not in kept]
    if "X" in others or len(others) == 1:
        return "X" if "X" in others else others[0]
    raise DataError(
        f"it holds {some(keys)} and no array called X",
        "Save the rows with np.savez(path, X=X), or a sparse matrix with scipy.sparse.save_npz",
    )


def _csr_of(path: Path, archive: Any) -> sparse.csr_matrix:
    """A sparse matrix, with every index checked: compiled code trusts them."""
    if "format" in archive.files:
        X = sparse.load_npz(path).tocsr()
    else:
        X = sparse.csr_matrix(
            (archive["data"], archive["indices"], archive["indptr"]), shape=tuple(archive["shape"])
        )
    X.check_format(full_check=True)
    X.sum_duplicates()
    return X


def read_svmlight(path: Path, wish: Wish) -> Sheet:
    """Read an svmlight file; its targets are the column ``"target"``."""
    from sklearn.datasets import load_svmlight_file

    refuse_names(wish, labels="target")
    try:
        with open_bytes(path) as file:
            X, y = load_svmlight_file(file, n_features=wish.n_features)
    except ValueError as error:
        raise DataError(
            f"it is not a valid svmlight file ({one_line(error)})",
            "Each line is: target index:value index:value ..., with rising indices",
        ) from error
    return Sheet(X.tocsr(), kept={"target": y})
