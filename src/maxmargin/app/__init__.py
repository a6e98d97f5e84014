"""A page where a person looks at clusters, names and corrects them, and has the model follow.

``maxmargin explore`` serves it to a browser on the same machine (``_server.py``); in a notebook,
:class:`ClusterExplorer` shows it as a widget (``_widget.py``). Both call `ClusterExplorer.handle`.
"""

from __future__ import annotations

from ._explorer import ClusterExplorer, Conflict

__all__ = ["ClusterExplorer", "Conflict"]
