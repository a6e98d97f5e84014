"""Maximum margin clustering: find the labels for which the gap between classes is widest."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._compat import TimeLimit
    from .alternating import AlternatingMarginClustering
    from .bisecting import BisectingMarginClustering
    from .cluster_number import choose_n_clusters
    from .constraints import PairwiseConstraints
    from .cutting_plane import CuttingPlaneMarginClustering
    from .io import open_rows
    from .least_squares import LeastSquaresMarginClustering
    from .max_margin import MaxMarginClustering
    from .multiple_kernel import MultipleKernelMarginClustering
    from .pairwise import PairwiseMarginClustering
    from .segmentation import segment_image
    from .selection import select_parameters
    from .semidefinite import SemidefiniteMarginClustering

__version__ = "0.1.0"

__all__ = [
    "AlternatingMarginClustering",
    "BisectingMarginClustering",
    "CuttingPlaneMarginClustering",
    "LeastSquaresMarginClustering",
    "MaxMarginClustering",
    "MultipleKernelMarginClustering",
    "PairwiseConstraints",
    "PairwiseMarginClustering",
    "SemidefiniteMarginClustering",
    "TimeLimit",
    "__version__",
    "choose_n_clusters",
    "open_rows",
    "segment_image",
    "select_parameters",
]

# Loaded on first use: `maxmargin --help` must not wait for scikit-learn and numba.
_HOMES = {
    "AlternatingMarginClustering": ".alternating",
    "BisectingMarginClustering": ".bisecting",
    "CuttingPlaneMarginClustering": ".cutting_plane",
    "LeastSquaresMarginClustering": ".least_squares",
    "MaxMarginClustering": ".max_margin",
    "PairwiseConstraints": ".constraints",
    "PairwiseMarginClustering": ".pairwise",
    "MultipleKernelMarginClustering": ".multiple_kernel",
    "SemidefiniteMarginClustering": ".semidefinite",
    "TimeLimit": "._compat",
    "choose_n_clusters": ".cluster_number",
    "open_rows": ".io",
    "segment_image": ".segmentation",
    "select_parameters": ".selection",
}


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __name__), name)
    if name == "metrics":
        return import_module(".metrics", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "metrics"])
