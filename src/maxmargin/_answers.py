"""What a person says about rows, in a file: a csv that can be appended line by line.

    # n_samples = 150
    row_a,row_b,relation,weight
    3,17,same,1.0
    3,42,different,1.0
    3,42,undo,1.0
    17,17,name=Setosa,1.0
    17,60,merge,1.0
    0,0,k=4,1.0

``undo`` takes back the last line about the same rows. ``name`` names the cluster of a row; rows
with different names are in different clusters, unless ``merge`` says otherwise. ``merge`` and
``split`` are links that also change the number of clusters by one; ``split`` gives the second row a
name. ``k`` sets the number of clusters. Text is percent-encoded.

If the rows have ids, each line ends in those of its two rows (``3,17,same,1.0,Ann,Bob``), in the
columns ``id_a,id_b``: they are found again by their ids, whatever their order. Otherwise the first
line may have a checksum of the data (``# n_samples = 150, file = 5d41402a``), by which a changed
file is noticed.

An answer is in the file before it counts. What a kill leaves of a half-written line is no answer: a
last line without its end is ignored.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote, unquote

try:
    import fcntl
except ImportError:  # no POSIX: two programs are not kept apart
    fcntl = None  # type: ignore[assignment]

from ._files import DataError, atomic_write, check_exists, check_writable

MERGE, SPLIT = "merge", "split"
MUST = ("must-link", "must", "ml", "same", "1", "true", "yes", MERGE)
CANNOT = ("cannot-link", "cannot", "cl", "different", "-1", "0", "false", "no", SPLIT)
DONT_KNOW, UNDO = "unknown", "undo"
NAME, NUMBER = "name=", "k="
MARK = ", file = "
HEAD, COLUMNS = "# n_samples =", "row_a,row_b,relation,weight"
ALL_COLUMNS = f"{COLUMNS},id_a,id_b"


class Answer(NamedTuple):
    """What was said about two rows."""

    row_a: int
    row_b: int
    relation: str
    weight: float = 1.0

    @classmethod
    def name(cls, row: int, name: str) -> Answer:
        """The cluster of a row has this name."""
        return cls(row, row, NAME + quote(name, safe=" "))

    @property
    def about_pair(self) -> bool:
        """Whether it is about two rows, not a name or a number."""
        return "=" not in self.relation

    @property
    def code(self) -> int:
        """1 for same, -1 for different, 0 for neither, however a file names them."""
        return 1 if self.relation in MUST else -1 if self.relation in CANNOT else 0


def names_of(answers: Iterable[Answer]) -> dict[int, str]:
    """Return the names of clusters by a row of each.

    Examples
    --------
    >>> names_of([Answer.name(3, "a, b"), Answer.name(5, "c"), Answer(3, 5, "merge")])
    {3: 'a, b'}
    """
    names: dict[int, str] = {}
    for answer in answers:
        if answer.relation.startswith(NAME):
            names[answer.row_a] = unquote(answer.relation[len(NAME) :])
        elif answer.relation == MERGE:
            names.pop(answer.row_b, None)
        elif answer.relation == SPLIT:
            names[answer.row_b] = f"{names.get(answer.row_a, 'cluster')} (2)"
    return names


def number_of(answers: Iterable[Answer], n_clusters: int | None) -> int | None:
    """Return the number of clusters after all that was said.

    Examples
    --------
    >>> number_of([Answer(0, 0, "k=5"), Answer(3, 4, "merge"), Answer(1, 2, "merge")], 2)
    3
    """
    for answer in answers:
        if answer.relation.startswith(NUMBER):
            n_clusters = int(answer.relation[len(NUMBER) :])
        elif n_clusters is not None and answer.relation in (MERGE, SPLIT):
            n_clusters += 1 if answer.relation == SPLIT else -1
    return n_clusters


def pairs_of(answers: Iterable[Answer]) -> list[Answer]:
    """Return the answers about pairs, also those that names imply: other names, other clusters."""
    answers = list(answers)
    pairs = [answer for answer in answers if answer.about_pair]
    return pairs + [Answer(a, b, "different") for a, b in combinations(names_of(answers), 2)]


def write_answers(path: str | os.PathLike[str], n_samples: int, answers: Iterable[Answer]) -> None:
    """Write a file of answers, whole or not at all."""
    with atomic_write(path) as partial:
        partial.write_text(text_of(n_samples, answers), encoding="utf-8")


def text_of(n_samples: int, answers: Iterable[Answer]) -> str:
    """Return the content of a file of answers."""
    return _first_lines(n_samples) + "".join(map(_line, answers))


def _first_lines(n_samples: int, mark: str | None = None, columns: str = COLUMNS) -> str:
    return f"{HEAD} {n_samples}{'' if mark is None else f'{MARK}{mark}'}\n{columns}\n"


def _line(answer: Answer, ids: Sequence[Any] | None = None) -> str:
    rows = answer.row_a, answer.row_b
    names = "" if ids is None else "".join(f",{quote(str(ids[i]), safe=' ')}" for i in rows)
    return f"{answer.row_a},{answer.row_b},{answer.relation},{answer.weight!r}{names}\n"


def read_answers(path: Any, everything: bool = False, ids: Any = None, mark: str | None = None):
    """Read the number of rows and the links that stand, or with ``everything`` all answers.

    Rows are found by their ids, if they are given here and in the file; answers about rows that
    are gone are left out, with a warning. Otherwise a checksum other than ``mark`` is an error.
    """
    check_exists(Path(path))
    *whole, torn = Path(path).read_text(encoding="utf-8").split("\n")
    head, *lines = whole or [torn]
    if not head.startswith(HEAD) or lines[:1] not in ([COLUMNS], [ALL_COLUMNS]):
        remedy = f"Its first lines must be '{HEAD} ...' and {COLUMNS}"
        raise DataError(f"{path} does not hold links", remedy)
    if torn:
        message = f"{path}: the last line {torn!r} has no line end and is ignored"
        warnings.warn(message, UserWarning, stacklevel=3)
    answers: list[Answer] = []
    places = {} if ids is None else {str(name): i for i, name in enumerate(ids)}
    n_samples, _, found = head[len(HEAD) :].partition(MARK)
    gone = []
    for number, line in enumerate(lines[1:]):
        answer, names = _parsed(line, number, path)
        if names and ids is not None:
            missing = [name for name in names if name not in places]
            gone += missing[:1]
            if missing:
                continue
            answer = answer._replace(row_a=places[names[0]], row_b=places[names[1]])
        elif mark is not None and found not in ("", mark):
            what = f"{path}: the data have changed since these answers were given by row number"
            remedy = "Name the rows (--id-column), or another file for the answers; if the rows are"
            line = f"delete {MARK.strip(', ')} ... from its first line"
            raise DataError(what, f"{remedy} the same, {line}")
        if answer.relation != UNDO:
            answers.append(answer)
        elif (place := _last_about(answers, answer.row_a, answer.row_b)) is not None:
            del answers[place]
    if gone:
        what = f"answers about rows that are gone: {len(gone)}, the first about {gone[0]!r}"
        warnings.warn(f"{path}: {what}", UserWarning, stacklevel=3)
    if not everything:
        answers = [answer for answer in pairs_of(answers) if answer.code]
    try:
        return int(n_samples) if not places else len(places), answers
    except ValueError as error:
        raise DataError(f"{path}: {head!r} holds no number of rows") from error


def _last_about(answers: list[Answer], a: int, b: int) -> int | None:
    return max((i for i, answer in enumerate(answers) if answer[:2] == (a, b)), default=None)


def _parsed(line: str, number: int, path) -> tuple[Answer, list[str]]:
    """Return an answer, and the ids of its rows if the line has them."""
    try:
        a, b, relation, weight, *names = line.split(",")
        if len(names) not in (0, 2):
            raise ValueError
        what = relation.strip() if "=" in relation else relation.strip().lower()
        answer = Answer(int(a), int(b), what, float(weight))
        if what.startswith(NUMBER):
            int(what[len(NUMBER) :])
    except ValueError as error:
        remedy = "It must be two row numbers, a relation and a weight"
        raise DataError(f"{path}: answer {number} is {line!r}", remedy) from error
    known = (*MUST, *CANNOT, DONT_KNOW, UNDO)
    if answer.relation not in known and not answer.relation.startswith((NAME, NUMBER)):
        what = f"{path}: relation {answer.relation!r} of answer {number} is not known"
        raise DataError(what, f"Use {MUST[0]}, {CANNOT[0]}, {DONT_KNOW} or {UNDO}")
    if not 0 < answer.weight < math.inf:
        what = f"{path}: the weight of answer {number} is {weight}"
        raise DataError(what, "Give a number above 0")
    return answer, [unquote(name) for name in names]


class AnswerLog:
    """A file of answers, open for appending, that survives a kill at any moment.

    Without a file, answers are in memory only.
    """

    def __init__(
        self, file: BinaryIO | None, answers: list[Answer], ids: Sequence[Any] | None = None
    ):
        self.file, self.answers, self.ids = file, answers, ids

    @classmethod
    def open(cls, path: Any, n_samples: int, ids: Any = None, mark: str | None = None) -> AnswerLog:
        """Open a file of answers for this program alone.

        Rows are known by their ids, if they have any; ``mark`` is a checksum of the data. The file
        is created if it does not exist, and locked until the log is closed or the program ends;
        a half-written last line is cut off.
        """
        path = Path(path)
        if path.exists():
            check_exists(path)
        check_writable(path)
        file = open(path, "ab")  # noqa: SIM115 - it stays open, and locked, while answers come
        try:
            _lock(file, path)
            columns = COLUMNS if ids is None else ALL_COLUMNS
            content, first = path.read_bytes(), _first_lines(n_samples, mark, columns).encode()
            if content != first and first.startswith(content):  # new, or its maker was killed
                _write_through(file, first[len(content) :])
                content = first
            found, answers = read_answers(path, everything=True, ids=ids, mark=mark)
            if found != n_samples:
                what = f"{path} holds answers about {found} rows, but the data have {n_samples}"
                raise DataError(what, "Name another file for the answers")
            file.truncate(content.rfind(b"\n") + 1)
            named = content.replace(f"\n{COLUMNS}\n".encode(), f"\n{columns}\n".encode(), 1)
            if named != content:  # written without ids, or by an earlier version
                file.close()
                with atomic_write(path) as partial:
                    partial.write_bytes(named[: named.rfind(b"\n") + 1])
                file = open(path, "ab")  # noqa: SIM115
                _lock(file, path)
        except BaseException:
            file.close()
            raise
        return cls(file, answers, ids)

    def __enter__(self) -> AnswerLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, so that others can use it."""
        if self.file is not None:
            self.file.close()

    def append(self, *answers: Answer) -> None:
        """Write answers; when this returns they are on the disk."""
        if self.file is not None:
            lines = "".join(_line(answer, self.ids) for answer in answers)
            _write_through(self.file, lines.encode())
        self.answers.extend(answers)

    def undo(self, rows: tuple[int, int] | None = None) -> Answer | None:
        """Take back the last answer, or the last one about two rows, and return it."""
        last = self.answers[-1][:2] if self.answers else (-1, -1)
        place = _last_about(self.answers, *(rows or last))
        if place is None:
            return None
        taken = self.answers[place]
        self.append(taken._replace(relation=UNDO))
        del self.answers[-1], self.answers[place]
        return taken


def _write_through(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep the file for this program; the lock ends when the file is closed."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        what = f"{path} is in use by another program that asks for answers"
        remedy = "End that one first, or name another file with --answers"
        raise DataError(what, remedy) from error


def places_of(row_ids: list[Any], ids: list[Any], name: str) -> list[int]:
    """Return the place among row_ids of every id of a column."""
    place = {value: i for i, value in enumerate(row_ids)}
    if len(place) < len(row_ids):
        raise ValueError("row_ids must be unique.")
    missing = [value for value in ids if value not in place]
    if missing:
        raise ValueError(f"column {name!r} names {missing[0]!r}, which is not among row_ids.")
    return [place[value] for value in ids]


def relations_of(given: list[Any]) -> list[bool]:
    """Return which words of a column mean a must-link; the others must mean a cannot-link."""
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in given)
    words = [str(v).strip().lower().replace("_", "-") for v in whole]
    unknown = [i for i, word in enumerate(words) if word not in MUST and word not in CANNOT]
    if unknown:
        raise ValueError(
            f"relation {given[unknown[0]]!r} in line {unknown[0]} is not known; use one "
            f"of {', '.join(MUST)} for a must-link and {', '.join(CANNOT)} for a cannot-link."
        )
    return [word in MUST for word in words]
