"""Convex relaxations of maximum margin clustering."""

from ._estimator import SemidefiniteMarginClustering

__all__ = ["SemidefiniteMarginClustering"]
