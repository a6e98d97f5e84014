"""Reading and writing files: what is read is what was written, and every bad file is explained."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import re
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin._files import DataError, atomic_write, atomic_writes, check_writable
from maxmargin._findings import inspect_rows
from maxmargin.io import open_rows, read_labels, read_rows, read_table, write_labels

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))


def put(tmp_path, name, text):
    path = tmp_path / name
    if isinstance(text, str):
        text = text.encode()
    path.write_bytes(text)
    return path


def csv_text(X, names=None, delimiter=","):
    lines = [] if names is None else [delimiter.join(names)]
    return "\n".join(lines + [delimiter.join(map(repr, row)) for row in X.tolist()]) + "\n"


# -- what is read is what was written --------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", "   "])
@pytest.mark.parametrize("names", [None, ("a", "b", "c")])
def test_csv_round_trip_for_every_delimiter(tmp_path, delimiter, names):
    table = read_rows(put(tmp_path, "d.csv", csv_text(X, names, delimiter)))
    np.testing.assert_array_equal(table.X, X)
    assert table.column_names == names and table.ids is None


@pytest.mark.parametrize("name", ["d.tsv", "d.csv.gz", "d.txt", "d.data"])
def test_other_names_of_csv(tmp_path, name):
    text = csv_text(X, "abc", "\t" if name == "d.tsv" else ",").encode()
    table = read_rows(
        put(tmp_path, name, gzip.compress(text, mtime=0) if name.endswith("gz") else text)
    )
    np.testing.assert_array_equal(table.X, X)


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    path = put(tmp_path, "d.csv", b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4\r\n")
    table = read_rows(path)
    assert table.column_names == ("a", "b")
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])


def test_quoted_cells_and_separator_at_line_end(tmp_path):
    path = put(tmp_path, "d.csv", 'who,"a, b",c\n"x, y",1,2,\n"z ""q""",3,4,\n')
    table = read_rows(path, id_column="who")
    assert table.ids.tolist() == ["x, y", 'z "q"'] and table.column_names == ("a, b", "c")


def test_numbers_of_every_size_are_read_exactly(tmp_path):
    rows = RNG.normal(size=(500, 4)) * 10.0 ** RNG.integers(-30, 30, size=(500, 4))
    path = put(tmp_path, "d.csv", csv_text(rows, "abcd"))
    np.testing.assert_array_equal(read_rows(path, drop=["c"]).X, rows[:, [0, 1, 3]])
    path = put(tmp_path, "e.csv", csv_text(rows[:, :2], ["age", "pay"]))
    for read in (read_rows, read_table):
        assert read(path, drop="age").column_names == ("pay",)


@pytest.mark.parametrize("delimiter", [",", "  "])
def test_plain_files_are_not_read_cell_by_cell(tmp_path, monkeypatch, delimiter):
    rows = RNG.normal(size=(30_000, 4))  # more than a block of pyarrow
    path = put(tmp_path, "d.csv", csv_text(rows, "abcd", delimiter))
    monkeypatch.setattr("maxmargin._data.csv_text._read_cells", None)
    table = read_rows(path, id_column="b")
    np.testing.assert_array_equal(table.X, rows[:, [0, 2, 3]])
    assert [float(cell) for cell in table.ids] == rows[:, 1].tolist()


@pytest.mark.parametrize("read", [read_rows, read_table])
@pytest.mark.parametrize(
    "name, encoding",
    [("d.csv", "utf-8"), ("d.csv.gz", "utf-8"), ("d.csv.bz2", "utf-8"), ("d.csv.xz", "utf-8"),
     ("spaces.txt", "utf-8"), ("mark.csv", "utf-8-sig"), ("wide.csv", "utf-16"),
     ("windows.csv", "cp1252"),
     pytest.param(os.fsdecode(b"gr\xf6\xdfe.csv"), "utf-8", marks=pytest.mark.skipif(
         sys.platform != "linux", reason="names of files must be UTF-8"))],
)  # fmt: skip
def test_threads_of_pyarrow_hold_no_python_object(tmp_path, monkeypatch, name, encoding, read):
    """An object that a thread of pyarrow gives up while the interpreter ends makes it abort."""
    from pyarrow import BufferReader, csv

    given = []

    def spy(function):
        def called(source, options, *more):
            given.append((source, options.encoding))
            return function(source, options, *more)

        return called

    monkeypatch.setattr(csv, "open_csv", spy(csv.open_csv))
    monkeypatch.setattr(csv, "read_csv", spy(csv.read_csv))
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    text = csv_text(np.tile(X, (500, 1)), ("größe", "b", "c"), " " * 2 if "sp" in name else ",")
    content = pack.get(Path(name).suffix, bytes)(text.encode(encoding))
    table = read(put(tmp_path, name, content))
    np.testing.assert_array_equal(table.X, np.tile(X, (500, 1)))
    assert table.column_names == ("größe", "b", "c")
    assert given
    for source, encoding_given in given:
        assert isinstance(source, str | BufferReader) and encoding_given == "utf8"


def test_odd_cells_are_the_same_numbers(tmp_path):
    table = read_rows(put(tmp_path, "d.csv", '\n\na, b\n+1, 2.50,\n\n 3,"4e0"\n'))
    assert table.column_names == ("a", "b") and table.X.tolist() == [[1.0, 2.5], [3.0, 4.0]]


def test_an_open_quote_among_the_ids_does_not_swallow_rows(tmp_path):
    path = put(tmp_path, "d.csv", 'a,who\n1,"x\n2,y\n')
    with pytest.raises(DataError, match=r"begins on line 2 .*not closed"):
        read_rows(path, id_column="who")
    path = put(tmp_path, "e.csv", 'a,who\n1,"x\nz"\n2,y\n')
    assert read_rows(path, id_column="who").ids.tolist() == ["x\nz", "y"]


def test_pandas_index_names_the_rows(tmp_path):
    table = read_rows(put(tmp_path, "d.csv", ",a,b\nx,1,2\ny,3,4\n"))
    assert table.ids.tolist() == ["x", "y"] and table.column_names == ("a", "b")


@pytest.mark.parametrize(
    "text, header",
    [("a,b\n1,2\n", True), ("1,2\n3,4\n", False), ("2019,x\n1,2\n", True), ("u,1\nv,2\n", False)],
)
def test_header_is_told_from_data(tmp_path, text, header):
    table = read_rows(put(tmp_path, "d.csv", text), drop=[] if header else ["1"])
    assert (table.column_names is not None) == header
    assert table.X.shape[0] == (1 if header else 2)


def test_header_can_be_forced(tmp_path):
    path = put(tmp_path, "d.csv", "2019,2020\n1,2\n")
    assert read_rows(path).X.shape == (2, 2)
    assert read_rows(path, header=True).column_names == ("2019", "2020")


def test_columns_come_by_name_in_the_order_asked_for(tmp_path):
    path = put(tmp_path, "d.csv", "b,town,a\n1,Oslo,2\n3,Rome,4\n")
    np.testing.assert_array_equal(read_rows(path, columns=["a", "b"]).X, [[2, 1], [4, 3]])
    bare = put(tmp_path, "bare.csv", "1,2\n3,4\n")
    np.testing.assert_array_equal(read_rows(bare, columns=["a", "b"]).X, [[1, 2], [3, 4]])


def test_parquet_round_trip_keeps_single_precision_and_hides_the_index(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abc"))
    frame["who"] = [f"r{i}" for i in range(len(X))]
    frame.index += 7
    frame.to_parquet(tmp_path / "d.parquet")
    frame.set_index("who").to_parquet(tmp_path / "e.parquet")
    for name in ("d.parquet", "e.parquet"):
        table = read_rows(tmp_path / name, id_column="who")
        assert table.X.dtype == np.float32 and table.column_names == ("a", "b", "c")
        np.testing.assert_array_equal(table.X, X.astype(np.float32))
        assert table.ids[3] == "r3"


def test_npy_is_mapped_and_not_copied(tmp_path):
    np.save(tmp_path / "d.npy", X)
    table = read_rows(tmp_path / "d.npy")
    assert isinstance(table.X, np.memmap)
    np.testing.assert_array_equal(table.X, X)


@pytest.mark.parametrize("how", ["X", "only", "parts", "save_npz", "csc"])
def test_npz_in_all_its_forms(tmp_path, how):
    path = tmp_path / "d.npz"
    S = sparse.random(20, 5, density=0.3, format="csr", random_state=0)
    if how == "X":
        np.savez(path, X=S.toarray(), y=np.arange(20))
    elif how == "only":
        np.savez(path, S.toarray())
    elif how == "parts":
        np.savez(path, data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape)
    else:
        sparse.save_npz(path, S.tocsc() if how == "csc" else S)
    got = read_rows(path).X
    assert sparse.issparse(got) == (how in {"parts", "save_npz", "csc"})
    np.testing.assert_array_equal(got.toarray() if sparse.issparse(got) else got, S.toarray())
    if how == "X":
        assert read_rows(path, label_column="y").labels.tolist() == list(range(20))


@pytest.mark.parametrize("name", ["d.svm", "d.txt", "d", "d.libsvm.gz"])
def test_svmlight_by_name_and_by_content(tmp_path, name):
    text = b"+1 1:0.5 3:2\n-1 2:1.5\n"
    path = put(tmp_path, name, gzip.compress(text, mtime=0) if name.endswith("gz") else text)
    table = read_rows(path, label_column="target")
    np.testing.assert_array_equal(table.X.toarray(), [[0.5, 0, 2], [0, 1.5, 0]])
    assert table.labels.tolist() == [1, -1]
    assert read_rows(path, n_features=6).X.shape == (2, 6)


# -- every bad file is explained -------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)


def npy_bytes(array, cut=0):
    import io

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    data = buffer.getvalue()
    return data[: len(data) - cut]


def npz_bytes(**arrays):
    import io

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


BAD_CSR = {"data": np.ones(1), "indices": np.array([9]), "indptr": np.array([0, 1])}
BAD_FILES = [
    ("d.csv", b"", "is empty"),
    ("d.csv", b"\n\n", "blank lines only"),
    ("d.csv", b"a,b\n", "no rows"),
    ("d.csv", PNG, "a PNG image"),
    ("d.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), "gzip-compressed.*add .gz"),
    ("d.csv", b"PK\x03\x04" + bytes(40), "spreadsheet \\(xlsx\\)"),
    ("d.csv", b"a,b\n1,2\n\n3\n", "line 4 has 1 fields where the first line has 2"),
    ("d.csv", b"a,b\n1,2\n3,4,5\n", "line 3 has 3 fields"),
    ("d.csv", b'a,b\n1,2\n3,"4\n5,6\n', "begins on line 3 .*quote that is not closed"),
    ("d.csv", b'a,b\n1,"2"3\n', "begins on line 2 .*quote that is not closed"),
    ("d.csv", b"a,b\n1,2\n3,\n", "1 value is missing: column 'b' \\(1, first on line 3\\)"),
    ("d.csv", b"a,b\n1,?\n3,NA\n", "2 values are missing: column 'b' \\(2, first on line 2\\)"),
    ("d.csv", b"1,2\n3,-inf\n", "1 value is infinite: column '2' \\(1, first on line 2\\)"),
    ("d.csv", b"a,b\n1,x\n3,y\n", "column 'b' holds text, for example 'x' on line 2.*--drop b"),
    ("d.csv", b"a,b\n1,2\n3,1_0\n", "column 'b' holds text in 1 of 2 rows, for example '1_0'"),
    ("d.csv", b"a;b\n1.234,5;2\n3,25;2\n", "'1.234,5'.*separators of thousands"),
    ("d.csv", b"a,a\n1,2\n", "two columns have the same name 'a'"),
    ("d.csv.gz", gzip.compress(csv_text(X).encode(), mtime=0)[:-40], "truncated or damaged"),
    ("d.csv.gz", b"a,b\n1,2\n", "truncated or damaged \\(Not a gzipped file"),
    ("d.npy", b"1,2\n3,4\n", "should be a NumPy array .npy. by its name but is text"),
    ("d.npy", npy_bytes(X, cut=100), "truncated or damaged"),
    ("d.npy", npy_bytes(X)[:20], "truncated or damaged"),
    ("d.npy", npy_bytes(X.astype(complex)), "complex numbers.*real and imaginary"),
    ("d.npy", npy_bytes(np.array([[1, "a"]], dtype=object)), "Python objects"),
    ("d.npy", npy_bytes(np.array([["a"]])), "holds <U1 values"),
    ("d.npy", npy_bytes(np.arange(4.0)), "1-D array.*reshape\\(-1, 1\\)"),
    ("d.npy", npy_bytes(np.zeros((2, 2, 2))), "3-D array.*Flatten"),
    ("d.npy", npy_bytes(np.zeros((0, 3))), "no rows"),
    ("d.npy", npy_bytes(np.zeros((3, 0))), "no columns"),
    ("d.npy", npy_bytes(np.diag([1.0, np.nan])), "column 1 .counting from 0. \\(1, first in row 1"),
    ("d.npz", npz_bytes(a=X, b=X), "holds a, b and no array called X"),
    ("d.npz", npz_bytes(X=X)[:-60], "truncated or damaged"),
    ("d.npz", npz_bytes(X=np.array([[None]], dtype=object)), "Python objects"),
    ("d.npz", npz_bytes(**BAD_CSR, shape=np.array([1, 3])), "truncated or damaged.*ind"),
    ("d.parquet", b"PAR1" + bytes(30), "truncated or damaged"),
    ("d.parquet", b"a,b\n", "should be a parquet file by its name but is text"),
    ("d.svm", b"1 1:2\n1 b:c\n", "not a valid svmlight file"),
    ("d.svm", b"1 1:nan\n", "1 value is missing"),
    ("d.xlsx", b"PK\x03\x04" + bytes(40), "is a spreadsheet. Open it in .* save it as csv"),
    ("d.rows", b"PK\x03\x04" + bytes(40), "cannot tell from the name.*--format"),
]


# The contents must not become ids: workers of pytest-xdist have to agree on these, and a zip or
# gzip file may hold the time.
@pytest.mark.parametrize(
    "name, content, message", BAD_FILES, ids=[f"{name}-{why}" for name, _, why in BAD_FILES]
)
def test_bad_files_are_explained(tmp_path, name, content, message):
    path = put(tmp_path, name, content)
    with pytest.raises(DataError, match=f"(?s){message}") as caught:
        read_rows(path)
    assert str(path) in str(caught.value) and caught.value.remedy
    # `check` tells the same instead of raising, unless `fit` can encode the column.
    found = inspect_rows(path)
    if name.endswith("csv") and re.search("holds text|missing: |infinite", str(caught.value)):
        assert found.usable
    else:
        assert not found.usable and caught.value.remedy in {f.remedy for f in found.findings}


def test_other_encodings_and_the_line_for_excel(tmp_path):
    for encoding in ("utf-16", "latin-1", "utf-8-sig"):
        table = read_rows(put(tmp_path, "d.csv", "a;ü\n1,5;2\n3,25;2\n".encode(encoding)))
        assert table.column_names == ("a", "ü") and table.X.tolist() == [[1.5, 2], [3.25, 2]]
    table = read_rows(put(tmp_path, "d.csv", "sep=;\na;b\n1;2\n"))
    assert table.column_names == ("a", "b") and table.X.tolist() == [[1.0, 2.0]]
    many = "a,who\n" + "1,x\n" * 40_000 + "2,ü\n"
    table = read_table(put(tmp_path, "d.csv", many.encode("latin-1")))
    assert table.X["who"].iloc[-1] == "ü"


def test_a_header_may_be_longer_than_a_field(tmp_path):
    names = [f"column{j:05}" for j in range(15_000)]
    row = ",".join(["1.5"] * len(names))
    table = read_rows(put(tmp_path, "d.csv", f"{','.join(names)}\n{row}\n{row}\n"))
    assert table.column_names == tuple(names) and (table.X == 1.5).all()


def npy_with(header):
    """A npy file of 3 x 2 numbers with another header of the same length."""
    content = npy_bytes(np.arange(6.0).reshape(3, 2))
    end = content.index(b"\n") + 1
    return content[:10] + header.ljust(end - 11).encode("latin1") + b"\n" + content[end:]


NPY_HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }"


BAD_HEADERS = {
    "many rows": NPY_HEADER % "1099511627776, 2",
    "many columns": NPY_HEADER % "3, 1099511627776",
    "more than 64 bits": NPY_HEADER % f"{2**70}, {2**70}",
    "negative": NPY_HEADER % "-3, 2",
    "bracket": NPY_HEADER % "3, 2L, (",
    "other bracket": NPY_HEADER % "[3, 2",
    "cut": "{'descr': '<f8', 'fortran",
    "type": "{'descr': '<q9', 'fortran_order': False, 'shape': (3, 2), }",
    "field": "{'descr': [('', 3)], 'fortran_order': False, 'shape': (3, 2), }",
    "empty": "",
    "brackets": "((((((((",
    "quotes": '"""',
    "backslash": "\\",
    "null": "\x00",
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_damaged_npy_headers_are_told(tmp_path, name):
    path = put(tmp_path, "d.npy", npy_with(BAD_HEADERS[name]))
    for read in (read_rows, open_rows):
        with pytest.raises(DataError, match=r"d\.npy.* damaged") as caught:
            read(path)
        assert caught.value.remedy


def test_what_is_no_plain_file_is_told(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.npy").symlink_to(tmp_path / "loop.npy")
    (tmp_path / "nowhere.npy").symlink_to(tmp_path / "none.npy")
    for read in (read_rows, open_rows):
        with pytest.raises(DataError, match=r"pipe\.csv is not a plain file"):
            read(tmp_path / "pipe.csv")
        with pytest.raises(DataError, match="symbolic link that leads to itself"):
            read(tmp_path / "loop.npy")
        with pytest.raises(DataError, match="does not exist"):
            read(tmp_path / "nowhere.npy")
        with pytest.raises(DataError, match=r"(?i)name too long"):
            read(tmp_path / f"{'x' * 300}.npy")


def test_missing_file_suggests_its_neighbour(tmp_path):
    put(tmp_path, "people.csv", "1\n")
    with pytest.raises(DataError, match=r"does not exist.*did you mean people\.csv"):
        read_rows(tmp_path / "poeple.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_rows(tmp_path)
    with pytest.raises(DataError, match="there is no folder"):
        read_rows(tmp_path / "none" / "people.csv")


@pytest.mark.parametrize(
    "text, message",
    [
        ("who,a\nx,1\ny,2\nx,3\n", "the id 'x' stands on line 2 and again on line 4"),
        ("who,a\nx,1\n,2\n", "the id is missing on line 3"),
    ],
)
def test_ids_must_name_each_row_once(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_rows(put(tmp_path, "d.csv", text), id_column="who")


@pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
def test_unknown_column_suggests_the_nearest(tmp_path, name):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"name": ["u", "v"], "age": [1, 2]})
    frame.to_csv(tmp_path / "d.csv", index=False)
    frame.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(DataError, match=f"{name}: there is no column 'nmae'. Did you mean 'name'"):
        read_rows(tmp_path / name, id_column="nmae")
    with pytest.raises(DataError, match="column 'name' holds text, for example 'u'"):
        read_rows(tmp_path / name)


def test_arrays_have_no_column_names(tmp_path):
    np.save(tmp_path / "d.npy", X)
    with pytest.raises(DataError, match="has no column names, so there is no column 'a'"):
        read_rows(tmp_path / "d.npy", drop=["a"])


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=300), name=st.sampled_from(["a.csv", "a.npy", "a.npz", "a.svm"]))
def test_any_bytes_give_rows_or_a_data_error(tmp_path, data, name):
    path = put(tmp_path, name, data)
    try:
        table = read_rows(path)
    except DataError:
        return
    values = table.X.data if sparse.issparse(table.X) else table.X
    assert np.isfinite(values).all() and min(table.X.shape) > 0


# -- inspect ---------------------------------------------------------------------------------------


def whats(path, **options):
    return " | ".join(f"{f.level}: {f.what}" for f in inspect_rows(path, **options).findings)


def test_inspection_lists_all_at_once(tmp_path):
    path = put(
        tmp_path, "d.csv", "id,a,b,c,class\n1,5,,x,0\n2,5,1e9,y,1\n3,5,2e9,x,0\n3,5,2e9,x,0\n"
    )
    told = whats(path)
    assert "warning: column 'class' looks like the answer" in told
    assert "note: rows that repeat an earlier one: 1 of 4" in told
    found = inspect_rows(path, n_clusters=4, id_column="id")
    assert [finding.level for finding in found.findings] == ["error", "error", "warning", "note"]
    assert [column.name for column in found.columns if not column.used] == ["a"]
    np.save(tmp_path / "e.npy", [[5, 1e9, 1], [5, 2e9, 2], [5, 1.5e9, 3]])
    told = whats(tmp_path / "e.npy")
    for part in ("same value in every row: column 0", "scales differ wildly", "like a row number"):
        assert part in told


@pytest.mark.parametrize("read", [read_rows, read_table])
def test_tables_can_be_pickled(read, tmp_path):
    table = read(put(tmp_path, "d.csv", "a,b\n1,2\n\n3,4\n"))
    again = pickle.loads(pickle.dumps(table))
    np.testing.assert_array_equal(again.X, table.X)
    assert again.lines() == [2, 4]


def test_lines_of_empty_cells_count_as_rows(tmp_path):
    with pytest.raises(DataError, match=r"'a' \(1, first on line 3\), .* \(2, first on line 3\)"):
        read_rows(put(tmp_path, "d.csv", "a,b\n1,2\n,\n3,\n"))
    with pytest.raises(DataError, match=r"'b' holds text in 1 of 3 rows, .*'x' on line 5"):
        read_rows(put(tmp_path, "d.csv", "a,b\n1,2\n\n,\n3,x\n,\n"))
    with pytest.raises(DataError, match=r"'a' holds text in 1 of 3 rows, .*'x' on line 4"):
        read_rows(put(tmp_path, "d.csv", "a\n1\n  \nx\n"))
    assert len(read_rows(put(tmp_path, "d.csv", "a,b\n1,2\n  \n3,4\n")).X) == 2


@pytest.mark.parametrize("read", [read_rows, read_table])
@pytest.mark.parametrize("quote", ["", '"'])  # quoted numbers with blanks are read cell by cell
def test_empty_lines_at_the_end_are_no_rows(tmp_path, read, quote):
    text = f"who,a\nU,1\nV,{quote} 3{quote}\n"
    table = read(put(tmp_path, "d.csv", f"{text},\n,NA\n,\n"), id_column="who")
    assert np.asarray(table.X).tolist() == [[1], [3]] and table.ids.tolist() == ["U", "V"]
    inside, named = put(tmp_path, "e.csv", f"{text},\nW,4\n,\n"), f"{text}W,\n,\n"
    if read is read_table:
        assert len(read(inside).X) == 4
        assert len(read(put(tmp_path, "f.csv", named), id_column="who").X) == 3
    else:
        with pytest.raises(DataError, match=r"'a' \(1, first on line 4\)"):
            read(inside, drop="who")
        with pytest.raises(DataError, match=r"'a' \(1, first on line 4\)"):
            read(put(tmp_path, "f.csv", named), id_column="who")
    with pytest.raises(DataError, match="it has no rows"):
        read(put(tmp_path, "g.csv", "a,b\n,\n,\n"), header=True)


def test_inspection_counts_lines_of_empty_cells(tmp_path):
    rows = "".join(f"{i % 7},{i % 5}.5\n" for i in range(40))
    told = whats(put(tmp_path, "d.csv", f"a,b\n1,2\n\n,\n{rows}3,?3\n;,5\n"))
    assert "column 'b': 1 cell that is no number ('?3' on line 45)" in told
    assert "column 'a': 1 cell that is no number (';' on line 46)" in told
    ids = whats(put(tmp_path, "d.csv", "who,a\nx,1\n\nx,2\n"), id_column="who")
    assert "error: the id 'x' stands on line 2 and again on line 4" in ids


def test_inspection_tells_values_far_out(tmp_path):
    table = np.round(np.tile(X, (2, 1)), 3)
    table[[3, 7], 1], table[40:, 2] = -99999, 500  # two codes; a group of rows is none
    told = whats(put(tmp_path, "d.csv", csv_text(table, "abc")))
    assert "warning: column 'b' has 2 values very far from the rest, such as -99999" in told
    assert told.count("very far") == 1


def test_dates_of_parquet_are_named(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "since": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    frame.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(DataError, match="column 'since' holds dates, for example '2020"):
        read_rows(tmp_path / "d.parquet")


def test_a_clean_file_has_no_findings(tmp_path):
    for path in (put(tmp_path, "d.csv", csv_text(X, "abc")), tmp_path / "s.npz"):
        if path.suffix == ".npz":
            sparse.save_npz(path, sparse.csr_matrix(X))
        assert inspect_rows(path).findings == ()


def test_inspection_of_sparse_rows(tmp_path):
    S = np.zeros((30, 3))
    S[:15, 0] = 1
    S[:, 1] = 4
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_matrix(S))
    told = whats(tmp_path / "s.npz", n_clusters=3)
    assert "error: 3 clusters are wanted but there are only 2 distinct rows" in told
    assert "column 1 (counting from 0), column 2 (counting from 0)" in told
    assert "repeat an earlier one: 28 of 30" in told


def test_huge_values_do_not_overflow(tmp_path):
    np.save(tmp_path / "d.npy", X * 1e160)
    assert "error: The largest absolute value in X is 2" in whats(tmp_path / "d.npy")


# -- labels and atomic writing ---------------------------------------------------------------------


def test_known_labels_of_any_kind():
    labels, classes = read_labels([1.0, "2", None, "?", np.nan, -1, "10", "1"])
    assert classes == ("1", "2", "10") and labels.tolist() == [0, 1, -1, -1, -1, -1, 2, 0]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
def test_labels_round_trip(tmp_path, suffix):
    path = tmp_path / f"labels.{suffix}"
    ids = np.array(["x,1", 'y"', "z"], dtype=object)
    write_labels(
        path, np.array([1, 0, 1]), margins=np.array([0.5, 0.1, 1 / 3]), ids=ids, id_name="w"
    )
    if suffix == "npy":
        assert np.load(path).tolist() == [1, 0, 1]
        return
    table = read_rows(path, id_column="w")
    assert table.column_names == ("cluster", "margin") and table.ids.tolist() == ids.tolist()
    np.testing.assert_array_equal(table.X, [[1, 0.5], [0, 0.1], [1, 1 / 3]])


def test_unknown_ending_is_refused_before_writing(tmp_path):
    with pytest.raises(DataError, match=r"write \.doc\. Use one of \.csv"):
        write_labels(tmp_path / "labels.doc", np.zeros(2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_a_broken_write_leaves_the_old_file(tmp_path, error):
    path = put(tmp_path, "a.txt", "old")
    with pytest.raises(error), atomic_write(path) as partial:
        partial.write_text("half")
        assert partial.parent == path.parent
        raise error
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_several_files_are_written_all_or_none(tmp_path, monkeypatch):
    old, new = put(tmp_path, "a.txt", "old"), tmp_path / "b.txt"
    with pytest.raises(OSError), atomic_writes([new, old]) as (first, second):
        first.write_text("new")
        second.write_text("new")
        raise OSError
    with pytest.raises(FileNotFoundError), atomic_writes([new, old]) as (first, second):
        first.write_text("new")  # the second is not written
    replace = os.replace

    def full(source, target):
        if Path(target) == old:
            raise OSError("no")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError), atomic_writes([new, old]) as (first, second):
        first.write_text("new")
        second.write_text("new")
    assert old.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    monkeypatch.undo()
    with atomic_writes([new, old]) as (first, second):
        first.write_text("one")
        second.write_text("two")
    assert (new.read_text(), old.read_text()) == ("one", "two")


def test_the_longest_name_can_be_written_and_a_longer_one_is_refused(tmp_path):
    longest = tmp_path / f"{'x' * 251}.csv"
    write_labels(longest, np.zeros(2, int))
    assert [p.name for p in tmp_path.iterdir()] == [longest.name]
    for path in (tmp_path / f"{'x' * 252}.csv", tmp_path.joinpath(*["x" * 250] * 20, "a.csv")):
        with pytest.raises(DataError, match=r"(?i)name too long"):
            check_writable(path)
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    with pytest.raises(DataError, match="leads to itself"):
        check_writable(tmp_path / "loop.csv")


def test_a_whole_write_replaces_the_file_and_keeps_its_mode_and_links(tmp_path):
    path = put(tmp_path, "a.txt", "old")
    path.chmod(0o640)
    (tmp_path / "link.txt").symlink_to(path)
    with atomic_write(tmp_path / "link.txt") as partial:
        partial.write_text("new")
    assert path.read_text() == "new" and (tmp_path / "link.txt").is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_new_files_get_the_usual_mode(tmp_path):
    before = os.umask(0o027)
    try:
        write_labels(tmp_path / "l.csv", np.zeros(2, int))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "l.csv").stat().st_mode) == 0o640


def test_devices_and_folders_are_not_replaced(tmp_path):
    for path in (tmp_path, "/dev/null"):
        with pytest.raises(DataError, match="not a plain file"), atomic_write(path):
            pass
