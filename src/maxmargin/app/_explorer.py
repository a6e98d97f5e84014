"""What a person says about clusters, and the model that follows.

Everything said is a line of the answer log (``_answers.py``) before it counts. Questions come from
the scores of the last fit, so that none of them waits for a fit; fits run in a thread.
"""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from .._answers import (
    DONT_KNOW,
    MERGE,
    NUMBER,
    SPLIT,
    Answer,
    AnswerLog,
    names_of,
    number_of,
    pairs_of,
)  # fmt: skip
from .._report._rows import Rows
from .._report._view import fitted_view, number_view, row_content
from .._steps import last_step
from ..active import PairQueries, suggested_pairs
from ..constraints import PairwiseConstraints
from ..display import scored_rows
from ..metrics import clustering_accuracy

ACTIONS = (
    "state", "question", "rows", "answer", "assign", "name", "merge", "split", "number", "undo",
    "refit",
)  # fmt: skip
RELATIONS = ("same", "different", DONT_KNOW)
LISTED = 200  # answers in the list on the page
MOVED_ROWS = 12  # rows that moved, as examples
CANDIDATES = 10_000  # random rows among which the next question is chosen
NUMBER_ROWS = 2000  # for the number of clusters, whose distances would take most of the memory
FIRST = 4  # known rows for each cluster that are random: uncertain ones alone mislead a fit
SECONDS = 10.0  # of the first fit, as long as none is known


class Conflict(ValueError):
    """What was said does not fit what is known; nothing was recorded."""


class ClusterExplorer:
    """Clusters that a person names and corrects, in a notebook or a browser.

    Parameters
    ----------
    model : MaxMarginClustering, PairwiseMarginClustering or Pipeline
        The model to start from, fitted or not; it is not changed. A pipeline must end in one of
        these estimators. Its preparation of the rows is fitted once.
    X : DataFrame, array-like or sparse matrix of shape (n_samples, n_features)
        Rows as ``model.fit`` accepts them.
    feature_names : sequence of str, optional
        Names of the columns; by default those of the DataFrame.
    images : tuple of int, array-like or sequence of path, optional
        Pictures of the rows, see :func:`maxmargin.report`.
    ids : sequence, optional
        Names of the rows.
    answers : path, optional
        File that everything said is appended to, and that earlier answers come from: the one that
        ``maxmargin label`` and ``maxmargin explore`` write. By default answers are kept in memory.
    refit_every : int, default=10
        Fit again after this number of answers; 0 fits on request only.
    title : str, optional
        Title of the page.
    random_state : int, default=0
        Seed of the questions.

    Attributes
    ----------
    model : estimator or Pipeline
        The last fitted model.
    labels : ndarray of shape (n_samples,)
        The clusters of the last fit; they respect what was said before it.

    See Also
    --------
    maxmargin.report : A page that needs no server.
    maxmargin.PairQueries : The questions without a page.

    Examples
    --------
    >>> from maxmargin import MaxMarginClustering
    >>> from maxmargin.app import ClusterExplorer
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(60, centers=3, random_state=0)
    >>> explorer = ClusterExplorer(MaxMarginClustering(3, random_state=0), X)
    >>> explorer.refit(wait=True)
    >>> _ = explorer.handle("name", {"fit": 1, "cluster": 0, "name": "left"})
    >>> explorer.names
    ['left', '', '']
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        *,
        feature_names: Any = None,
        images: Any = None,
        ids: Any = None,
        answers: str | os.PathLike[str] | AnswerLog | None = None,
        refit_every: int = 10,
        title: str | None = None,
        random_state: int = 0,
    ):
        last = last_step(model)
        if not has_fit_parameter(last, "constraints"):
            raise ValueError(
                "model must be a MaxMarginClustering or PairwiseMarginClustering, or a pipeline "
                f"that ends in one, because it is fitted with constraints; got {model!r}."
            )
        self.rows = Rows(X, feature_names, images, ids)
        self.title = title or f"{self.rows.n:,} rows"
        if answers is None:
            self.log = AnswerLog(None, [])
        elif isinstance(answers, AnswerLog):  # of a program that knows the file of the rows
            self.log = answers
        else:
            self.log = AnswerLog.open(answers, self.rows.n, self.rows.ids)
        self.refit_every, self._random = refit_every, np.random.RandomState(random_state)
        self._start, self._prepared = model, None
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self.model: Any = None
        self.labels: Any = None
        self.scores: Any = None
        self.fit_number = 0  # counts fits; a request about clusters names the one it saw
        self.error: str | None = None
        self._view, self._number_view = b"null", None  # type: tuple[bytes, dict | None]
        self._moved: dict[str, Any] | None = None
        self._columns: list[int] = []
        some = self._random.choice(self.rows.n, min(self.rows.n, CANDIDATES), replace=False)
        self._candidates = np.sort(some)
        self._began, self._seconds = 0.0, SECONDS
        self._said = self._fitted_said = 0  # what was said or taken back, and what the fit knew
        self._again = False  # whether another fit follows the running one
        if hasattr(last, "labels_") and len(last.labels_) == self.rows.n and not self.log.answers:
            self._publish(model, np.asarray(last.labels_))

    # -- what is known ----------------------------------------------------------------------------

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters of the next fit; None if the fit chooses it."""
        return number_of(self.log.answers, last_step(self._start).n_clusters)

    @property
    def constraints(self) -> PairwiseConstraints:
        """The links that were said, and those between clusters with different names."""
        return self._links(self.log.answers)

    def _links(self, answers: list[Answer]) -> PairwiseConstraints:
        """Return the links that answers are, or imply."""
        links = [a for a in pairs_of(answers) if a.code and a.row_a != a.row_b]
        return PairwiseConstraints._of_answers(self.rows.n, links)

    @property
    def names(self) -> list[str]:
        """The names of the clusters of the last fit; "" for a cluster without a name."""
        found: list[list[str]] = [[] for _ in range(self._k)]
        for row, name in names_of(self.log.answers).items() if found else ():
            found[int(self.labels[row])].append(name)
        return [" + ".join(names) for names in found]

    @property
    def _k(self) -> int:
        return 0 if self.scores is None else self.scores.shape[1]

    # -- requests ---------------------------------------------------------------------------------

    def handle(self, action: str, body: Any) -> dict[str, Any]:
        """Do what a front end asks for.

        Parameters
        ----------
        action : str
            "state", "question", "rows", "answer", "assign", "name", "merge", "split", "number",
            "undo" or "refit".
        body : dict
            What the action needs.

        Returns
        -------
        dict
            The state, and what was asked for. A ValueError says what is wrong with the body, a
            `Conflict` what it contradicts.
        """
        if action not in ACTIONS:
            raise ValueError(f"unknown action {action!r}; known are {', '.join(ACTIONS)}.")
        if not isinstance(body, dict):
            raise ValueError("a request must be a JSON object.")
        with self._lock:
            found = getattr(self, f"_do_{action}")(body)
            return self._state() | (found or {})

    def view(self) -> bytes:
        """Return what the page shows of the last fit, as JSON; "null" before the first."""
        return self._view

    def _state(self) -> dict[str, Any]:
        running = self._thread is not None
        passed = time.monotonic() - self._began
        answers = self.log.answers
        return {
            "fit": self.fit_number,
            "said": self._said,
            "names": self.names,
            "n_clusters": self.n_clusters or self._k,
            "running": running,
            # The time of a fit is about that of the last one.
            "progress": round(1 - 0.5 ** (2 * passed / self._seconds), 3) if running else None,
            "error": self.error,
            "moved": self._moved,
            "pending": self._said - self._fitted_said,
            "n_answers": len(answers),
            "answers": [[*a[:2], a.relation] for a in answers[-LISTED:]][::-1],
        }

    def _do_state(self, body: dict) -> None:
        """Nothing: every answer has the state."""

    def _do_refit(self, body: dict) -> None:
        self.refit()

    def _do_question(self, body: dict) -> dict[str, Any]:
        if self.scores is None:
            return {"question": None}
        known = [*self.log.answers, *self._provisional()]
        told = np.array([a[:2] for a in known]).reshape(-1, 2)
        one, free = [], np.setdiff1d(self._candidates, told)
        if len(free) and sum(a.code == 1 for a in self.log.answers) < FIRST * self._k:
            one = [self._random.choice(free, 1)]
        for some in (*one, self._candidates):
            rows = np.union1d(some, told)
            links, asked = self._links(known)[rows], np.searchsorted(rows, told).tolist()
            pairs = suggested_pairs(self.scores[rows], 1, links, self._random, asked)
            if len(pairs):
                break
        else:
            return {"question": None}
        a, b = rows[pairs[0]].tolist()
        question = {"rows": [a, b], "cluster": int(self.labels[b])}
        return {"question": question} | row_content(self.rows, self._columns, [a, b])

    def _provisional(self) -> list[Answer]:
        """Take the clusters without names as different, to choose questions only."""
        named = {int(self.labels[row]) for row in names_of(self.log.answers)}
        others = set(np.unique(self.labels).tolist()) - named
        return [Answer.name(self._anchor(c), "") for c in sorted(others)]

    def _do_rows(self, body: dict) -> dict[str, Any]:
        return row_content(self.rows, self._columns, self._checked_rows(body, most=100))

    # -- what a person says -----------------------------------------------------------------------

    def _do_answer(self, body: dict) -> dict[str, Any] | None:
        a, b = self._checked_rows(body, exactly=2)
        relation = body.get("relation")
        if relation not in RELATIONS:
            raise ValueError(f"relation must be one of {', '.join(RELATIONS)}, got {relation!r}.")
        if a == b:
            raise ValueError(f"a pair needs two different rows, got row {a} twice.")
        for answer in reversed(self.log.answers):
            if answer.about_pair and set(answer[:2]) == {a, b} and answer.relation != DONT_KNOW:
                if answer.code == Answer(a, b, relation).code:
                    return {"message": f"Rows {a} and {b} were answered already, in the same way."}
                raise Conflict(
                    f"Rows {a} and {b} were answered already: {answer.relation}. Take that answer "
                    "back first."
                )
        self._say(Answer(a, b, relation))
        return None

    def _do_assign(self, body: dict) -> None:
        rows, cluster = self._checked_rows(body, most=1000), self._checked_cluster(body)
        anchor = self._anchored(cluster)
        said = {answer[:2] for answer in self.log.answers if answer.code == 1}
        new = (row for row in dict.fromkeys(rows) if row != anchor and (row, anchor) not in said)
        self._say(*(Answer(row, anchor, "same") for row in new))

    def _do_name(self, body: dict) -> None:
        name = body.get("name")
        if not isinstance(name, str) or not 0 < len(name.strip()) <= 100:
            raise ValueError("name must be a text of 1 to 100 characters.")
        self._say(Answer.name(self._anchor(self._checked_cluster(body)), name.strip()))

    def _do_merge(self, body: dict) -> None:
        first, second = self._checked_cluster(body), self._checked_cluster(body, "other")
        if first == second:
            raise ValueError("merge needs two different clusters.")
        self._fix_number()
        self._say(Answer(self._anchor(first), self._anchor(second), MERGE))

    def _do_split(self, body: dict) -> None:
        cluster = self._checked_cluster(body)
        other = self._far_row(cluster, self._anchor(cluster))
        self._fix_number()
        # The second row counts as a cluster of its own: the limit must rise with the same line.
        self._say(Answer(self._anchored(cluster), other, SPLIT))

    def _fix_number(self) -> None:
        """Record the number of clusters that the fit chose, so that it can change by one."""
        if self.n_clusters is None:
            self._say(Answer(0, 0, f"{NUMBER}{self._k}"))

    def _do_number(self, body: dict) -> None:
        k = body.get("n_clusters")
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= self.rows.n:
            raise ValueError(f"n_clusters must be a whole number from 1 to {self.rows.n}.")
        self._say(Answer(0, 0, f"{NUMBER}{k}"))
        self.refit()

    def _do_undo(self, body: dict) -> dict[str, Any]:
        pair = None if body.get("rows") is None else self._checked_rows(body, exactly=2)
        taken = self.log.undo(None if pair is None else (pair[0], pair[1]))
        if taken is None:
            raise Conflict("There is no answer to take back.")
        self._said += 1
        return {"taken": [*taken[:2], taken.relation]}

    def _say(self, *answers: Answer) -> None:
        """Record answers, unless they contradict what is known."""
        before, after = self.log.answers, [*self.log.answers, *answers]
        k = number_of(after, last_step(self._start).n_clusters)
        if self._contradictory(after, k) and not self._contradictory(before, self.n_clusters):
            found = self._links(after).contradiction(k)
            raise Conflict(
                f"This contradicts what was said: {found}. Nothing was recorded; take an earlier "
                "answer back, or change the number of clusters."
            )
        self.log.append(*answers)
        self._said += len(answers)
        if 0 < self.refit_every <= self._said - self._fitted_said and self._thread is None:
            self.refit()

    def _contradictory(self, answers: list[Answer], k: int | None) -> bool:
        links = self._links(answers)
        rows = np.unique(np.concatenate([links.must_link, links.cannot_link]))
        # Rows without links cannot contradict anything, and the search costs time for each row.
        return len(rows) > 0 and links[rows].contradiction(k) is not None

    def _anchor(self, cluster: int) -> int:
        """Return the row that stands for a cluster: a named one, or the most certain one."""
        for row in names_of(self.log.answers):
            if self.labels[row] == cluster:
                return row
        mine = np.flatnonzero(self.labels == cluster)
        return int(mine[self.scores[mine, cluster].argmax()])

    def _anchored(self, cluster: int) -> int:
        """Return the row of a cluster with a name, which it gets if it has none."""
        row = self._anchor(cluster)
        if row not in names_of(self.log.answers):
            self._say(Answer.name(row, f"cluster {cluster}"))
        return row

    def _far_row(self, cluster: int, row: int) -> int:
        """Return a row of a cluster that is far from another one, but not the farthest."""
        mine = np.flatnonzero(self.labels == cluster)
        mine = self._random.choice(mine, min(len(mine), 1000), replace=False)
        mine = mine[mine != row]
        if len(mine) == 0:
            raise ValueError(f"cluster {cluster} has one row; it cannot be split.")
        gaps = self._numbers(mine) - self._numbers([row])
        order = np.argsort((gaps**2).sum(axis=1), kind="stable")
        return int(mine[order[int(0.9 * (len(order) - 1))]])

    def _numbers(self, rows: Any) -> np.ndarray:
        part = _safe_indexing(self._prepared_rows(), rows)
        return np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=float)

    # -- checks -----------------------------------------------------------------------------------

    def _checked_rows(self, body: dict, exactly: int | None = None, most: int = 2) -> list[int]:
        rows = body.get("rows")
        whole = isinstance(rows, list) and all(type(row) is int for row in rows)
        if not whole or not rows or len(rows) > most or (exactly and len(rows) != exactly):
            count = exactly or f"1 to {most}"
            raise ValueError(f"rows must be a list of {count} row numbers, got {str(rows)[:80]}.")
        for row in rows:
            if not 0 <= row < self.rows.n:
                last = self.rows.n - 1
                raise ValueError(f"there is no row {row}; rows are numbered 0 to {last}.")
        return rows

    def _checked_cluster(self, body: dict, key: str = "cluster") -> int:
        if self.scores is None:
            raise Conflict("There are no clusters yet; wait for the first fit.")
        if body.get("fit") != self.fit_number:
            raise Conflict("The clusters were fitted again since; look at the new ones first.")
        cluster = body.get(key)
        if type(cluster) is not int or not 0 <= cluster < self._k:
            raise ValueError(f"{key} must be a number from 0 to {self._k - 1}, got {cluster!r}.")
        if not np.any(self.labels == cluster):
            raise ValueError(f"cluster {cluster} has no rows.")
        return cluster

    # -- fits -------------------------------------------------------------------------------------

    def refit(self, wait: bool = False) -> None:
        """Fit with everything that was said, in the background; after a fit that is running.

        Parameters
        ----------
        wait : bool, default=False
            Whether to return only when the fit is done.
        """
        with self._lock:
            if self._thread is not None:
                self._again = True
            else:
                self._began, self.error, self._again = time.monotonic(), None, False
                self._fitted_said, known = self._said, (list(self.log.answers), self.n_clusters)
                self._thread = threading.Thread(target=self._fit, args=known, daemon=True)
                self._thread.start()
        if wait:
            self._wait()
            if self.error is not None:
                raise ValueError(self.error)

    def _wait(self) -> None:
        while (thread := self._thread) is not None:
            thread.join()

    def _prepared_rows(self) -> Any:
        """Return the rows as the estimator takes them: a pipeline's preparation is fitted once."""
        if self._prepared is None:
            self._prepared = self.rows.X
            if last_step(self._start) is not self._start:
                self._steps = clone(self._start[:-1])
                self._prepared = self._steps.fit_transform(self.rows.X)
        return self._prepared

    def _fit(self, answers: list[Answer], k: int | None) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                Z = self._prepared_rows()
                estimator = clone(last_step(self._start)).set_params(n_clusters=k)
                fitted = PairQueries(estimator, Z, constraints=self._links(answers)).fit()
                model = fitted
                if last_step(self._start) is not self._start:
                    model = Pipeline([*self._steps.steps, (self._start.steps[-1][0], fitted)])
                self._publish(model, np.asarray(fitted.labels_))
        except Exception as error:  # whatever it is, the page says so and the server goes on
            self.error = f"The fit failed: {error}"
        finally:
            with self._lock:
                self._seconds = max(time.monotonic() - self._began, 0.1)
                self._thread = None
                if self._again:
                    self.refit()

    def _publish(self, model: Any, labels: np.ndarray) -> None:
        """Put a new fit in the place of the last one, whole."""
        last = last_step(model)
        Z = self.rows.X if last is model else self._prepared_rows()
        scored = scored_rows(last, Z)
        view = fitted_view(model, self.rows, labels, scored, explain=self.rows.has_cells)
        if self._number_view is None:
            self._number_view = number_view(model, self.rows, NUMBER_ROWS) or {}
        view |= {"title": self.title, "number": self._number_view or None}
        view["fit"] = self.fit_number + 1
        at = {name: j for j, name in enumerate(self.rows.names)}
        columns = [at[name] for name in view["columns"] if name in at]
        moved = None if self.labels is None else self._difference(self.labels, labels)
        encoded = json.dumps(view, allow_nan=False, separators=(",", ":")).encode()
        with self._lock:
            self.model, self.labels, self.scores = model, labels, scored[0]
            self._view, self._columns, self._moved = encoded, columns, moved
            self.fit_number += 1

    def _difference(self, old: np.ndarray, new: np.ndarray) -> dict[str, Any]:
        """Return how many rows changed their cluster, whatever its number, and some of them."""
        counts = confusion_matrix(old, new, labels=np.arange(max(old.max(), new.max()) + 1))
        # A row stayed if most rows of its old and of its new cluster are the same ones.
        stayed = counts[old, new] == np.maximum(counts.max(axis=1)[old], counts.max(axis=0)[new])
        count = round((1.0 - clustering_accuracy(old, new)) * len(old))
        rows = np.flatnonzero(~stayed)[:MOVED_ROWS]
        return {"count": count, "rows": rows.tolist()}

    # -- results ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for a running fit, and close the file of answers."""
        self._wait()
        self.log.close()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        from ._widget import widget_of

        if self.fit_number == 0 and self._thread is None:
            self.refit()
        return widget_of(self)._repr_mimebundle_(**options)
