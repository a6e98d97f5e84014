"""The papers' data sets: where they come from, and which of their rows a table uses.

Rows are looked for in the folder named by the environment variable MAXMARGIN_DATA (npz files with
``X`` and ``y``, or the parts of a CSR matrix and ``y``), then among the sets that come with
scikit-learn, then on OpenML. Nothing is scaled unless the paper says so: with raw features the
papers' k-means figures come back.
"""

from __future__ import annotations

import hashlib
import os
import socket
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin._files import DataError

from . import Card, read_cards

__all__ = ["DataError", "DataMissing", "DataSet", "cards", "data_file", "load_data", "read_file"]

DRAWS = 5  # of the papers' small random subsets, which are not published
OPENML = {  # numbers there; what comes is checked against the card
    "letter": 6, "satellite": 182, "ionosphere": 59, "sonar": 40, "vehicle": 54, "segment": 36,
    "magic": 1120, "mnist": 554, "usps": 41082, "ringnorm": 1496,
}  # fmt: skip


class DataMissing(DataError):
    """A data set is not at hand; the message says what would fetch it."""


@dataclass(frozen=True)
class DataSet:
    """Rows and classes, and the tasks made of them.

    Attributes
    ----------
    slug : str
    X, y : array or csr_matrix, array
    parts : tuple of index arrays
        The rows of every task: one task, all pairs of digits, or several draws.
    """

    slug: str
    X: Any
    y: np.ndarray
    parts: tuple[np.ndarray, ...]

    def task(self, i: int) -> tuple[Any, np.ndarray]:
        """Rows and classes of one task."""
        rows = self.parts[i]
        return self.X[rows], self.y[rows]

    def digest(self) -> str:
        """Return a digest of rows, classes and tasks."""
        X, digest = self.X, hashlib.sha256()
        rows = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        for array in (np.array(X.shape), *rows, self.y, *self.parts):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


@cache
def cards() -> dict[str, Card]:
    """Return the data cards, read once."""
    return read_cards()


def load_data(slug: str, *, online: bool = True) -> DataSet:
    """Load a data set by its slug, checked against its card.

    Parameters
    ----------
    slug : str
    online : bool, default=True
        Whether OpenML may be asked.

    Returns
    -------
    DataSet

    Raises
    ------
    DataMissing
        It is not at hand; the message says what would fetch it.
    DataError
        The file is not what it should be.

    Examples
    --------
    >>> from reproduction.data import load_data
    >>> load_data("iris", online=False).task(0)[0].shape
    (150, 4)
    """
    if slug not in READERS:
        card = cards().get(slug)
        known = f"Get it: {card.how_to_get}" if card else "There is no such data set"
        raise DataMissing(f"{slug}: data not available", known)
    X, y, *parts = READERS[slug](partial(read_file, online=online))
    found = DataSet(slug, X, y, tuple(parts[0]) if parts else (np.arange(len(y)),))
    _check_card(found)
    return found


def _check_card(found: DataSet) -> None:
    card = cards().get(found.slug)
    if card is None:
        return
    first = found.parts[0]  # the card counts all rows of a mean over pairs, and those of one draw
    rows = len(found.y) if len(found.y) == card.n else len(first)
    wanted = {
        "rows": (card.n, rows),
        "columns": (card.d, found.X.shape[1]),
        "classes": (card.classes, len(np.unique(found.y[first]))),
    }
    for what, (expected, given) in wanted.items():
        if expected is not None and given != expected:
            raise DataError(
                f"{_file_of(card) or found.slug}: {found.slug} should have {expected} {what} "
                f"(n = {card.n}, d = {card.d}, {card.classes} classes), found {given}",
                f"Get it again: {card.how_to_get}",
            )


def _file_of(card: Card) -> str:
    """Return the name of the file; the card goes on to say which of its rows."""
    return card.file.partition(":")[0]


# -- files ----------------------------------------------------------------------------------------


def data_file(name: str) -> Path | None:
    """Return the npz file in the folder named by MAXMARGIN_DATA; None if it is not there."""
    folder = os.environ.get("MAXMARGIN_DATA")
    path = Path(folder or ".") / f"{name}.npz"
    return path if folder and path.is_file() else None


def read_file(name: str, *, online: bool = True) -> tuple[Any, np.ndarray]:
    """Rows and classes of one file: from the folder, from scikit-learn, from OpenML."""
    path = data_file(name)
    if path is not None:
        return _read_npz(path)
    if name in SHIPPED:
        return SHIPPED[name]()
    if online and name in OPENML and _is_online():
        return _fetch(name)
    raise DataMissing(f"{name}: data not available", _remedy(name))


def _remedy(name: str) -> str:
    card = next((c for c in cards().values() if _file_of(c) == f"{name}.npz"), None)
    how = f"Get it: {card.how_to_get}" if card else "No public source is known"
    return f"{how}; then put {name}.npz into the folder named by MAXMARGIN_DATA"


@cache
def _read_npz(path: Path) -> tuple[Any, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if "y" not in file or not {"X", "indptr"} & set(file):
                held = ", ".join(file)
                raise DataError(
                    f"{path} holds {held}",
                    "Expected X (n x d), or the parts of a CSR matrix, and y",
                )
            if "indptr" in file:
                parts = (file["data"], file["indices"], file["indptr"])
                X = sparse.csr_matrix(parts, shape=tuple(file["shape"])).astype(np.float64)
            else:
                X = file["X"]
            y = file["y"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read ({error})", "Expected a npz file") from error
    if X.ndim != 2 or y.shape != (X.shape[0],):
        raise DataError(
            f"{path}: X has shape {X.shape} and y {y.shape}", "Expected n x d rows and n classes"
        )
    return X, y


@cache
def _is_online() -> bool:
    try:
        socket.create_connection(("api.openml.org", 443), timeout=3).close()
    except OSError:
        return False
    return True


@cache
def _fetch(name: str) -> tuple[Any, np.ndarray]:
    from sklearn.datasets import fetch_openml

    try:
        X, y = fetch_openml(data_id=OPENML[name], return_X_y=True, as_frame=False)
    except Exception as error:  # whatever the network does, the row is shown as not available
        raise DataMissing(f"{name}: OpenML did not answer ({error})", _remedy(name)) from error
    return np.asarray(X, np.float64), np.unique(y, return_inverse=True)[1]


def _load_digits() -> tuple[Any, np.ndarray]:
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def _load_iris() -> tuple[Any, np.ndarray]:
    from sklearn.datasets import load_iris

    return load_iris(return_X_y=True)


SHIPPED = {"optdigits_test": _load_digits, "iris": _load_iris}


# -- rows of the tables ---------------------------------------------------------------------------


def _whole(name, read):
    return read(name)


def _classes(name, wanted, read):
    X, y = read(name)
    keep = np.isin(y, wanted)
    return X[keep], y[keep]


def _all_pairs(name, read):
    X, y = read(name)
    pairs = combinations(np.unique(y), 2)
    return X, y, [np.flatnonzero((y == a) | (y == b)) for a, b in pairs]


def _per_class(y, count, seed):
    """The same number of random rows of every class."""
    rng = np.random.RandomState(seed)
    chosen = [rng.choice(np.flatnonzero(y == c), count, replace=False) for c in np.unique(y)]
    return np.concatenate(chosen)


def _draws(base, count, draws, read):
    X, y = base(read)
    return X, y, [_per_class(y, count, seed) for seed in range(draws)]


def _sampled(base, count, read):
    """One draw, which is then the data set."""
    X, y = base(read)
    rows = _per_class(y, count, 0)
    return X[rows], y[rows]


def _random_rows(base, count, read):
    X, y = base(read)
    rows = np.random.RandomState(0).choice(len(y), min(count, len(y)), replace=False)
    return X[rows], y[rows]


def _ionosphere(read):
    X, y = read("ionosphere")
    return X[:, X.std(axis=0) > 0], y  # one column is constant; the iterative paper's d is 33


def _adult(read):
    X, y = read("adult_a9a")
    return X.toarray(), y


def _unit_columns(name, read):
    X, y = read(name)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


def _moons(read):
    from sklearn.datasets import make_moons

    return make_moons(500, noise=0.05, random_state=0)


def _odd_even(read):
    X, y = read("optdigits_test")
    return X, y % 2


def _odd_even_all(read):
    (X, y), (new, more) = read("optdigits_test"), read("optdigits_train")
    return np.concatenate([X, new]), np.concatenate([y, more]) % 2


def _mnist_0689(count, read):
    X, y = _sampled(partial(_classes, "mnist", (0, 6, 8, 9)), count, read)
    return X / 255.0, y


def _mnist_five(read):
    """Digits 0 to 4 of the training part, means of 2 x 2 pixels."""
    X, y = read("mnist")
    keep = np.flatnonzero(y[:60_000] < 5)
    small = X[keep].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4), dtype=np.float32)
    return small.reshape(-1, 196), y[keep]


def _scaled_classes(name, wanted, scale, read):
    X, y = _classes(name, wanted, read)
    return X / scale, y


def _usps_test(read):
    X, y = read("usps")
    return X[7291:], y[7291:]


PAIRS = {"3-8": (3, 8), "1-7": (1, 7), "2-7": (2, 7), "8-9": (8, 9)}
STUDIED = {"4-9": (4, 9), "1-4": (1, 4), "1-9": (1, 9), "1-8": (1, 8)}  # Fig. 7
_IJL = partial(_classes, "letter", (8, 9, 11))
READERS: dict[str, Callable] = {
    **{f"digits-{a}": partial(_classes, "optdigits_test", p) for a, p in (PAIRS | STUDIED).items()},
    **{
        f"digits-{a}-s": partial(_draws, partial(_classes, "optdigits_test", p), 50, DRAWS)
        for a, p in PAIRS.items()
    },
    "digits-3-9": partial(_classes, "optdigits_train", (3, 9)),
    "digits-0689": partial(_classes, "optdigits_test", (0, 6, 8, 9)),
    "digits-1279": partial(_classes, "optdigits_test", (1, 2, 7, 9)),
    "digits": partial(_whole, "optdigits_test"),
    "digits-all-pairs-mean": partial(_all_pairs, "optdigits_test"),
    "digits-odd-even": _odd_even,
    "digits-odd-even-all": _odd_even_all,
    "ionosphere": partial(_whole, "ionosphere"),
    "ionosphere-s": partial(_draws, _ionosphere, 50, DRAWS),
    "image": partial(_whole, "image"),
    "letter-ab": partial(_classes, "letter", (0, 1)),
    "letter-abcd": partial(_classes, "letter", (0, 1, 2, 3)),
    "letter-abcd-500": partial(_random_rows, partial(_classes, "letter", (0, 1, 2, 3)), 500),
    "letter-ijl": partial(_random_rows, _IJL, 227),
    "letter-ijl-all": _IJL,
    "satellite-c1-c2": partial(_classes, "satellite", (0, 1)),
    "svmguide1": partial(_whole, "svmguide1"),
    "svmguide1-s": partial(_draws, partial(_whole, "svmguide1"), 500, DRAWS),
    "ringnorm": partial(_random_rows, partial(_whole, "ringnorm"), 7000),
    "ringnorm-s": partial(_draws, partial(_whole, "ringnorm"), 500, DRAWS),
    "adult": _adult,
    "mnist": partial(_whole, "mnist"),
    "mnist-all-pairs-mean": partial(_all_pairs, "mnist"),
    "mnist-01234": _mnist_five,
    "mnist-0689": partial(_mnist_0689, 200),
    "mnist-0689-all": partial(_mnist_0689, 400),
    "news-rec": partial(_whole, "news20_rec"),
    "news-autos-motorcycles": partial(_classes, "news20_rec", (0, 1)),
    "news-baseball-hockey": partial(_classes, "news20_rec", (2, 3)),
    "cora2708": partial(_whole, "cora2708"),
    "webkb-cornell": partial(_whole, "webkb_cornell"),
    "webkb-texas": partial(_whole, "webkb_texas"),
    "webkb-wisconsin": partial(_whole, "webkb_wisconsin"),
    "iris": partial(_whole, "iris"),
    "moons": _moons,
    "coil-20": partial(_whole, "coil20"),
    "coil-1-4": partial(_classes, "coil20", (0, 1, 2, 3)),
    "coil-5-8": partial(_classes, "coil20", (4, 5, 6, 7)),
    "coil-3": partial(_scaled_classes, "coil20", (2, 5, 18), 255.0),
    "usps-1-4": partial(_random_rows, partial(_classes, "usps", (0, 1, 2, 3)), 500),
    "usps-5-8": partial(_random_rows, partial(_classes, "usps", (4, 5, 6, 7)), 500),
    "usps-test": _usps_test,
    "bci": partial(_whole, "bci"),
    "sonar": partial(_whole, "sonar"),
    "vehicle": partial(_unit_columns, "vehicle"),
    "segment": partial(_unit_columns, "segment"),
    "magic": partial(_unit_columns, "magic"),
    "ohscal": partial(_whole, "ohscal_ig1000"),
}


def ringnorm(n_rows: int = 500, n_columns: int = 20, seed: int = 0) -> tuple[Any, Any]:
    """Return Breiman's ringnorm: a wide normal cloud around a narrow one, n_rows of each."""
    rng = np.random.default_rng(seed)
    wide = 2 * rng.normal(size=(n_rows, n_columns))
    narrow = rng.normal(size=(n_rows, n_columns)) + 2 / np.sqrt(n_columns)
    return np.concatenate([wide, narrow]), np.repeat([0, 1], n_rows)
