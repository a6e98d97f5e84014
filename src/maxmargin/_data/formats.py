"""Read a file of any format as a `Sheet`.

Each format has a reader ``(path, wish) -> Sheet`` whose errors do not name the file; `open_sheet`
adds the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._files import DataError, needed
from .csv_text import read_csv, read_csv_frame
from .opening import GET_AGAIN, explained, format_of, one_line, open_bytes
from .sheet import Sheet, TextColumn, Wish, number_columns, refuse_names, rows_of, some, table_sheet


def open_sheet(path: Path, format: str | None, wish: Wish) -> tuple[str, Sheet]:
    """Return the format of a file and its content, or raise a `DataError`."""
    format = format_of(path, format)
    readers = {"csv": read_csv, "parquet": read_parquet, "npy": read_npy, "npz": read_npz}
    with explained(path):
        return format, readers.get(format, read_svmlight)(path, wish)


def open_frame(path: Path, format: str | None, wish: Wish) -> tuple[str, Sheet | None]:
    """Return the format of a file, and its columns as a DataFrame; None if it has numbers only."""
    format = format_of(path, format)
    reader = {"csv": read_csv_frame, "parquet": read_parquet_frame}.get(format)
    with explained(path):
        return format, reader(path, wish) if reader else None


def float_for(dtypes: Sequence[np.dtype]) -> np.dtype:
    """Return float32 if all columns have that type, else float64."""
    single = bool(dtypes) and all(dtype == np.float32 for dtype in dtypes)
    return np.dtype(np.float32 if single else np.float64)


# -- parquet ---------------------------------------------------------------------------------------


def read_parquet(path: Path, wish: Wish) -> Sheet:
    """Read a parquet file; the index that pandas stores is not a column."""
    pq = needed("pyarrow.parquet")
    wanted, types = parquet_columns(pq.read_schema(path), wish)
    table = pq.read_table(path, columns=list(dict.fromkeys([*wanted, *wish.kept])))
    text = tuple(_text_of(name, table.column(name)) for name in wanted if name not in types)
    kept = {name: table.column(name).to_numpy() for name in wish.kept}
    X = rows_of(table, list(types), float_for(list(types.values())))
    return Sheet(X, tuple(types), True, text, kept, wish.id_column)


def read_parquet_frame(path: Path, wish: Wish) -> Sheet:
    """Return the columns of a parquet file as a DataFrame."""
    pq = needed("pyarrow.parquet")
    wanted, _ = parquet_columns(pq.read_schema(path), wish)
    names = list(dict.fromkeys([*wanted, *wish.kept]))
    frame = pq.read_table(path, columns=names).to_pandas(date_as_object=False, ignore_metadata=True)
    return table_sheet(frame, wish)


def parquet_columns(schema: Any, wish: Wish) -> tuple[list[str], dict[str, np.dtype]]:
    """Return the requested columns, and the types of those with numbers."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index or name in wish.kept]
    types, wanted = {}, number_columns(names, wish)
    for name in wanted:
        try:
            dtype = np.dtype(schema.field(name).type.to_pandas_dtype())
        except (NotImplementedError, TypeError):  # dictionaries, structs
            continue
        if dtype.kind in "biuf":
            types[name] = dtype
    return wanted, types


def _text_of(name: str, column: Any) -> TextColumn:
    given = column.drop_null()
    what = "dates" if needed("pyarrow").types.is_temporal(column.type) else "text"
    return TextColumn(name, str(given[0]) if len(given) else "", 0, len(given), what)


# -- npy and npz -----------------------------------------------------------------------------------


def read_npy(path: Path, wish: Wish) -> Sheet:
    """Map a npy file, which may be larger than memory."""
    refuse_names(wish)
    npy_layout(path)  # raises an error for other arrays than rows of numbers
    return Sheet(np.load(path, mmap_mode="r", allow_pickle=False))


def npy_layout(path: Path) -> tuple[tuple[int, int], bool, np.dtype, int]:
    """Return shape, whether in Fortran order, type and offset; other arrays are errors."""
    header = np.lib.format
    with open(path, "rb") as file:
        first = header.read_magic(file) == (1, 0)
        read = header.read_array_header_1_0 if first else header.read_array_header_2_0
        shape, fortran, dtype = read(file)
        offset = file.tell()
    check_array(dtype, shape)
    n, width = shape
    least, found = offset + n * width * dtype.itemsize, path.stat().st_size
    if min(n, width) < 0 or found < least:
        what = f"its header says {n:,} rows of {width:,} columns, {least:,} bytes"
        raise DataError(f"{what}, but it has {found:,}: it is truncated or damaged", GET_AGAIN)
    return (n, width), fortran, dtype, offset


def check_array(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Raise an error for arrays that are not rows of numbers."""
    if dtype.hasobject:
        raise DataError("it holds Python objects", "Store numbers: X.astype(float)")
    if dtype.kind == "c":
        raise DataError("it holds complex numbers", "Store real and imaginary part as two columns")
    if dtype.kind not in "biuf":
        raise DataError(f"it holds {dtype} values", "Turn them into numbers first")
    if len(shape) != 2:
        remedy = "One column: X.reshape(-1, 1); one row: X.reshape(1, -1)"
        remedy = remedy if len(shape) < 2 else "Flatten each row: X.reshape(len(X), -1)"
        raise DataError(f"it holds a {len(shape)}-D array; rows and columns are needed", remedy)


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
            if "Object arrays" in str(error):
                check_array(np.dtype(object), ())
            raise
    check_array(X.dtype, X.shape)
    return Sheet(X, kept=kept)


def _key_of_rows(keys: list[str], kept: dict[str, np.ndarray]) -> str:
    others = [key for key in keys if key not in kept]
    if "X" in others or len(others) == 1:
        return "X" if "X" in others else others[0]
    remedy = "np.savez(path, X=X), or a sparse matrix with scipy.sparse.save_npz"
    raise DataError(f"it holds {some(keys)} and no array called X", f"Save the rows with {remedy}")


def _csr_of(path: Path, archive: Any) -> sparse.csr_matrix:
    """Return a sparse matrix with all indices checked, because compiled code relies on them."""
    if "format" in archive.files:
        X = sparse.load_npz(path).tocsr()
    else:
        parts = archive["data"], archive["indices"], archive["indptr"]
        X = sparse.csr_matrix(parts, shape=tuple(archive["shape"]))
    X.check_format(full_check=True)
    X.sum_duplicates()
    return X


# -- svmlight --------------------------------------------------------------------------------------


def read_svmlight(path: Path, wish: Wish) -> Sheet:
    """Read an svmlight file; its targets are the column ``"target"``."""
    from sklearn.datasets import load_svmlight_file

    refuse_names(wish, labels="target")
    try:
        with open_bytes(path) as file:
            X, y = load_svmlight_file(file, n_features=wish.n_features)
    except ValueError as error:
        what = f"it is not a valid svmlight file ({one_line(error)})"
        remedy = "Each line is: target index:value index:value ..., with rising indices"
        raise DataError(what, remedy) from error
    return Sheet(X.tocsr(), kept={"target": y})
