"""Features of a column of texts: weights of its words, and their leading axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer


def tf_idf() -> TfidfVectorizer:
    """Return the weights of words: those in two or more texts, but not in nearly all."""
    return Words(
        min_df=2, max_df=0.8, max_features=20_000, sublinear_tf=True, token_pattern=r"[^\W\d_]{2,}"
    )


class Words(TfidfVectorizer):
    """Weights of words, with the same bits for fitted rows as for new ones.

    A model knows its fitted rows by their bits, and judges them by leave-one-out scores.
    """

    def fit_transform(self, raw_documents: Any, y: Any = None) -> Any:
        """Learn the words and return their weights."""
        return self.fit(raw_documents, y).transform(raw_documents)


class TextAxes(TruncatedSVD):
    """Leading axes of texts, with the same bits for fitted rows as for new ones."""

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit the axes and return the coordinates of the texts."""
        super().fit_transform(X, y)
        return self.transform(X)
