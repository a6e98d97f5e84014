"""Answers about pairs of rows in a file: a csv that can be read whole and appended line by line.

    # n_samples = 150
    row_a,row_b,relation,weight
    3,17,same,1.0
    3,42,different,1.0
    3,42,undo,1.0

An answer is in the file before it counts. What a kill leaves of a half-written line is no answer.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ._files import DataError, atomic_write, check_exists

__all__ = ["Answer", "AnswerLog", "read_answers", "write_answers"]

MUST = ("must-link", "must", "ml", "same", "1", "true", "yes")
CANNOT = ("cannot-link", "cannot", "cl", "different", "-1", "0", "false", "no")
DONT_KNOW, UNDO = "unknown", "undo"
COLUMNS = ["row_a", "row_b", "relation", "weight"]
HEAD = "# n_samples ="


class Answer(NamedTuple):
    """What was said about two rows."""

    row_a: int
    row_b: int
    relation: str
    weight: float = 1.0


def write_answers(path: str | os.PathLike[str], n_samples: int, answers: Iterable[Answer]) -> None:
    """Write a file of answers, whole or not at all."""
    with atomic_write(path) as partial:
        text = io.StringIO()
        text.write(f"{HEAD} {n_samples}\n")
        csv.writer(text, lineterminator="\n").writerow(COLUMNS)
        text.writelines(_line(answer) for answer in answers)
        partial.write_text(text.getvalue(), encoding="utf-8")


def read_answers(path: str | os.PathLike[str], everything: bool = False):
    """Read the number of rows and the answers that stand.

    Parameters
    ----------
    path : path
    everything : bool
        Also return answers "unknown" (not those that were taken back).

    Returns
    -------
    n_samples : int
    answers : list of Answer

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "links.csv")
    ...     answers = [Answer(0, 1, "same"), Answer(1, 2, "same"), Answer(1, 2, "undo")]
    ...     write_answers(path, 9, answers)
    ...     read_answers(path)
    (9, [Answer(row_a=0, row_b=1, relation='same', weight=1.0)])
    """
    check_exists(Path(path))
    head, *lines = Path(path).read_text(encoding="utf-8").splitlines() or [""]
    if not head.startswith(HEAD) or not lines or lines[0].split(",") != COLUMNS:
        raise DataError(
            f"{path} does not hold links",
            f"Its first lines must be '{HEAD} ...' and {','.join(COLUMNS)}",
        )
    answers: list[Answer] = []
    for number, cells in enumerate(csv.reader(lines[1:])):
        answer = _parsed(cells, number, path)
        if answer.relation == UNDO:
            if answers:
                answers.pop()
        else:
            answers.append(answer)
    if not everything:
        answers = [answer for answer in answers if answer.relation != DONT_KNOW]
    try:
        return int(head[len(HEAD) :]), answers
    except ValueError as error:
        raise DataError(f"{path}: {head!r} holds no number of rows") from error


def _parsed(cells: list[str], number: int, path) -> Answer:
    try:
        a, b, relation, weight = cells
        answer = Answer(int(a), int(b), relation.strip().lower(), float(weight))
    except ValueError as error:
        raise DataError(
            f"{path}: answer {number} is {','.join(cells)!r}",
            "It must be two row numbers, a relation and a weight",
        ) from error
    if answer.relation not in (*MUST, *CANNOT, DONT_KNOW, UNDO):
        raise DataError(
            f"{path}: relation {answer.relation!r} in line {number} is not known",
            f"Use {MUST[0]}, {CANNOT[0]}, {DONT_KNOW} or {UNDO}",
        )
    if not math.isfinite(answer.weight):
        raise DataError(f"{path}: the weight in line {number} is {weight}", "Give a number above 0")
    return answer


def _line(answer: Answer) -> str:
    return f"{answer.row_a},{answer.row_b},{answer.relation},{answer.weight!r}\n"


class AnswerLog:
    """A file of answers that grows line by line and survives a kill at any moment.

    Parameters
    ----------
    path : path
        Created where it does not exist; a half-written last line is cut off.
    n_samples : int
        Number of rows that answers are about.
    """

    def __init__(self, path: str | os.PathLike[str], n_samples: int):
        self.path = Path(path)
        if not self.path.exists():
            write_answers(self.path, n_samples, [])
        self._cut_torn_line()
        found, self.answers = read_answers(self.path, everything=True)
        if found != n_samples:
            raise DataError(
                f"{path} holds answers about {found} rows, but the data have {n_samples}",
                "Name another file for the answers",
            )

    def _cut_torn_line(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with open(self.path, "rb+") as file:
                file.truncate(whole)
                os.fsync(file.fileno())

    def append(self, answer: Answer) -> None:
        """Write an answer; when this returns it is on the disk."""
        with open(self.path, "ab") as file:
            file.write(_line(answer).encode())
            file.flush()
            os.fsync(file.fileno())
        self.answers.append(answer)

    def undo(self) -> Answer | None:
        """Take back the last answer and return it."""
        if not self.answers:
            return None
        last = self.answers[-1]
        self.append(last._replace(relation=UNDO))
        del self.answers[-2:]
        return last
