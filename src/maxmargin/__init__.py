"""Maximum margin clustering: find the labels for which the gap between classes is widest."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._auto import MaxMarginClustering
    from ._bisecting import BisectingMarginClustering
    from ._callbacks import TimeLimit
    from ._report import report
    from .active import LabelQueries, PairQueries
    from .alternating._estimator import AlternatingMarginClustering
    from .constraints import PairwiseConstraints
    from .cutting_plane._estimator import CuttingPlaneMarginClustering
    from .cutting_plane._multiple_kernel import MultipleKernelMarginClustering
    from .export import to_onnx
    from .inspection import describe_clusters, explain_clusters
    from .io import open_rows
    from .least_squares._estimator import LeastSquaresMarginClustering
    from .model_selection import choose_n_clusters, select_parameters
    from .pairwise._estimator import PairwiseMarginClustering
    from .segmentation import segment_image
    from .semidefinite._estimator import SemidefiniteMarginClustering
    from .tables import table_pipeline

__version__ = "0.2.0.dev0"

__all__ = [
    "AlternatingMarginClustering",
    "BisectingMarginClustering",
    "CuttingPlaneMarginClustering",
    "LabelQueries",
    "LeastSquaresMarginClustering",
    "MaxMarginClustering",
    "MultipleKernelMarginClustering",
    "PairQueries",
    "PairwiseConstraints",
    "PairwiseMarginClustering",
    "SemidefiniteMarginClustering",
    "TimeLimit",
    "__version__",
    "choose_n_clusters",
    "describe_clusters",
    "explain_clusters",
    "open_rows",
    "report",
    "segment_image",
    "select_parameters",
    "table_pipeline",
    "to_onnx",
]

# Loaded on first use: `maxmargin --help` must not wait for scikit-learn and numba.
_HOMES = {
    "AlternatingMarginClustering": ".alternating",
    "BisectingMarginClustering": "._bisecting",
    "CuttingPlaneMarginClustering": ".cutting_plane",
    "LabelQueries": ".active",
    "LeastSquaresMarginClustering": ".least_squares",
    "MaxMarginClustering": "._auto",
    "PairQueries": ".active",
    "PairwiseConstraints": ".constraints",
    "PairwiseMarginClustering": ".pairwise",
    "MultipleKernelMarginClustering": ".cutting_plane",
    "SemidefiniteMarginClustering": ".semidefinite",
    "TimeLimit": "._callbacks",
    "choose_n_clusters": ".model_selection",
    "describe_clusters": ".inspection",
    "explain_clusters": ".inspection",
    "open_rows": ".io",
    "report": "._report",
    "segment_image": ".segmentation",
    "select_parameters": ".model_selection",
    "table_pipeline": ".tables",
    "to_onnx": ".export",
}


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __name__), name)
    if name == "metrics":
        return import_module(".metrics", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "metrics"])
