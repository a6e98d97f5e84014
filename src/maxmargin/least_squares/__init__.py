"""Least-squares margin clustering: a search over labels."""

from ._estimator import LeastSquaresMarginClustering

__all__ = ["LeastSquaresMarginClustering"]
