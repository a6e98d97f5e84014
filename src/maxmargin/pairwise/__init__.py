"""Margin clustering with must-links, cannot-links and known classes."""

from ._estimator import PairwiseMarginClustering

__all__ = ["PairwiseMarginClustering"]
