"""Cutting-plane maximum margin clustering, with one kernel or several."""

from ._estimator import CuttingPlaneMarginClustering
from ._multiple_kernel import MultipleKernelMarginClustering

__all__ = ["CuttingPlaneMarginClustering", "MultipleKernelMarginClustering"]
