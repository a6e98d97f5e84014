"""The page on this machine: a server that only one browser, which has the token, may use.

It listens on 127.0.0.1. Every path starts with a random token, and the Host header must name this
server, so that a page of another site cannot reach it under a name of its own (DNS rebinding). A
request with another origin, or with a body that is not JSON or larger than a megabyte, is refused.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import tempfile
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from .._files import needed
from .._report import asset, page_html
from ._explorer import ClusterExplorer, Conflict
from ._widget import script

LARGEST_BODY = 1_000_000
START = "startExplorer(document.body, requests(location.pathname));"
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Refused(Exception):
    """A request that gets an error as its answer."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def make_app(explorer: ClusterExplorer, token: str, hosts: set[str]) -> Any:
    """Return the ASGI application; paths start with the token, hosts are values of that header."""
    applications = needed("starlette.applications", "app")
    routing, responses = needed("starlette.routing", "app"), needed("starlette.responses", "app")
    threads = needed("starlette.concurrency", "app")
    page = page_html(
        explorer.title, [asset("page.js"), script("explore.js"), START], None, "'self'"
    )

    def answered(act: Callable) -> Callable:
        """Check a request, and tell in words what is wrong with it."""

        async def respond(request: Any) -> Any:
            try:
                _check(request, token, hosts)
                content, kind, name = await act(request)
                headers = dict(HEADERS)
                if name:
                    headers["Content-Disposition"] = f'attachment; filename="{name}"'
                return responses.Response(content, 200, headers, media_type=kind)
            except Refused as error:
                status, message = error.status, str(error)
            except Conflict as error:
                status, message = 409, str(error)
            except ValueError as error:
                status, message = 400, str(error)
            except Exception as error:  # a bug, or a full disk: the server goes on
                status, message = 500, f"{type(error).__name__}: {error}"
            return responses.JSONResponse({"error": message}, status, HEADERS)

        return respond

    async def show(request: Any) -> tuple:
        return page, "text/html", None

    async def view(request: Any) -> tuple:
        return explorer.view(), "application/json", None

    async def act(request: Any) -> tuple:
        body = await _body(request)
        action = request.path_params["action"]
        found = await threads.run_in_threadpool(explorer.handle, action, body)
        return json.dumps(found, allow_nan=False), "application/json", None

    async def download(request: Any) -> tuple:
        what = request.path_params["what"]
        content = await threads.run_in_threadpool(exported, explorer, what)
        return content, "application/octet-stream", what

    root = "/{token}"
    return applications.Starlette(
        routes=[
            routing.Route(f"{root}/", answered(show), methods=["GET"]),
            routing.Route(f"{root}/view", answered(view), methods=["GET"]),
            routing.Route(f"{root}/export/{{what}}", answered(download), methods=["GET"]),
            routing.Route(f"{root}/api/{{action}}", answered(act), methods=["POST"]),
        ]
    )


def _check(request: Any, token: str, hosts: set[str]) -> None:
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    if host not in hosts:
        raise Refused(421, f"This server is not called {host[:80]!r}.")
    if not hmac.compare_digest(request.path_params["token"].encode(), token.encode()):
        raise Refused(403, "The address has no valid token; use the one that was printed.")
    if origin is not None and origin not in {f"http://{name}" for name in hosts}:
        raise Refused(403, "Requests of other sites are refused.")


async def _body(request: Any) -> Any:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Refused(415, "A request must be JSON.")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST_BODY:
            raise Refused(413, f"A request may have at most {LARGEST_BODY:,} bytes.")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"The request is not valid JSON: {error}") from error


def exported(explorer: ClusterExplorer, what: str) -> bytes:
    """Return a file with the labels, the answers or the model."""
    from .._answers import text_of
    from .._data.csv_text import write_csv
    from ..persistence import save_model

    if what == "answers.csv":
        return text_of(explorer.rows.n, explorer.log.answers).encode()
    if explorer.labels is None:
        raise Conflict("There are no clusters yet; wait for the first fit.")
    if what == "labels.csv":
        text, names, ids = StringIO(), np.array(explorer.names), explorer.rows.ids
        rows = {"row": np.arange(len(explorer.labels))} if ids is None else {"id": np.array(ids)}
        columns = {"cluster": explorer.labels, "name": names[explorer.labels]}
        write_csv(text, rows | columns)
        return text.getvalue().encode()
    if what == "model.skops":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.skops")
            save_model(explorer.model, path)
            return path.read_bytes()
    raise Refused(404, f"There is no {what!r}; labels.csv, answers.csv and model.skops exist.")


def serve(explorer: ClusterExplorer, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until the program is interrupted; ``ready`` is called with its address."""
    uvicorn = needed("uvicorn", "app")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()  # a browser that is faster than the server waits for it
        port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
        hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        app = make_app(explorer, token, hosts)
        config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none")
        ready(f"http://127.0.0.1:{port}/{token}/")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
