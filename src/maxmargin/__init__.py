"""Maximum margin clustering: find the labels for which the gap between classes is widest."""

from ._compat import TimeLimit
from .alternating import AlternatingMarginClustering
from .bisecting import BisectingMarginClustering

__version__ = "0.1.0"

__all__ = ["AlternatingMarginClustering", "BisectingMarginClustering", "TimeLimit", "__version__"]
