"""Chromium, driven through the pipe of its DevTools protocol: no driver has to be installed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-extensions", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page, with what it requested and what its console said."""

    def __init__(self, width: int = 1280, height: int = 900, dark: bool = False):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._out = os.pipe()
        self._in, answers = os.pipe()
        # The protocol is spoken on the file descriptors 3 and 4.
        line = f'exec "$0" "$@" 3<&{theirs} 4>&{answers}'
        flags = (*FLAGS, f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}")
        self.process = subprocess.Popen(
            ["bash", "-c", line, CHROMIUM, *flags, "about:blank"],
            pass_fds=(theirs, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        os.close(answers)
        self._count, self._rest, self.session = 0, b"", None
        self.requests: list[str] = []
        self.console: list[str] = []
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._attach(page["targetId"])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._out)
        os.close(self._in)
        self.folder.cleanup()

    def _attach(self, target: str) -> None:
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def new_tab(self) -> str:
        """Open another tab and go on there; what is returned, set as `session`, goes back."""
        first, self.session = self.session, None
        self._attach(self.call("Target.createTarget", url="about:blank")["targetId"])
        return first

    def call(self, method: str, **params: Any) -> Any:
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.console.append(json.dumps(params["exceptionDetails"])[:500])
        elif event.get("method") == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.console.append(json.dumps(params["args"])[:500])

    def run(self, script: str) -> Any:
        """The value of an expression, which may be a promise."""
        done = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in done:
            raise RuntimeError(json.dumps(done["exceptionDetails"])[:800])
        return done["result"].get("value")

    def open(self, address: str, ready: str = "document.querySelector('.card')") -> None:
        self.call("Page.navigate", url=address)
        self.wait(ready)

    def wait(self, script: str, seconds: float = 60.0) -> Any:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if value := self.run(
                    f"(() => {{ const v = {script}; return v ? v.toString() : null }})()"
                ):
                    return value
            except RuntimeError:  # the page is being replaced
                pass
            time.sleep(0.05)
        text = self.run("document.body.innerText")
        raise AssertionError(
            f"{script} never came true; the page has: {text[:1500]} {self.console}"
        )

    def click(self, selector: str) -> None:
        self.wait(f"document.querySelector({selector!r})")
        self.run(f"document.querySelector({selector!r}).click()")

    def screenshot(self, path: Any, full: bool = False) -> None:
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))
