"""Alternating maximum margin clustering with SVM, SVR or LS-SVM."""

from ._estimator import AlternatingMarginClustering

__all__ = ["AlternatingMarginClustering"]
