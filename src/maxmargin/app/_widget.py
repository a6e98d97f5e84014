"""The page as a widget of a notebook: requests are messages of the kernel's connection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .._files import needed
from .._report import asset

RENDER = """
export default { render({ model, el }) {
  let count = 0;
  const waiting = new Map();
  model.on("msg:custom", ({ id, content, error }) => {
    const [done, failed] = waiting.get(id) ?? [];
    waiting.delete(id);
    if (error) failed?.(new Error(error)); else done?.(content);
  });
  const ask = (action, body = {}) => new Promise((done, failed) => {
    waiting.set(++count, [done, failed]);
    model.send({ id: count, action, body });
  });
  startExplorer(el, { ask, view: () => ask("view"), exports: null });
} };
"""


def script(name: str) -> str:
    """Return a script of this package."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def widget_of(explorer: Any) -> Any:
    """Return a widget that shows an explorer."""
    script_text = "\n".join([asset("page.js"), script("explore.js"), RENDER])

    class Page(needed("anywidget", "app").AnyWidget):  # type: ignore[misc]
        _esm = script_text
        _css = asset("page.css")

    page = Page()
    page.on_msg(lambda widget, message, buffers: widget.send(reply(explorer, message)))
    return page


def reply(explorer: Any, message: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a message of the widget."""
    try:
        if message.get("action") == "view":
            content = json.loads(explorer.view())
        else:
            content = explorer.handle(message.get("action"), message.get("body"))
        return {"id": message.get("id"), "content": content}
    except ValueError as error:
        return {"id": message.get("id"), "error": str(error)}
