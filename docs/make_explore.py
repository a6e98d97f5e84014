"""Make the pictures of docs/explore.md: python -m docs.make_explore (needs Chromium)."""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import scipy.signal
import scipy.sparse.linalg
import scipy.special
import scipy.stats
from sklearn.datasets import load_digits, load_wine
from sklearn.feature_extraction.text import TfidfVectorizer

from maxmargin import MaxMarginClustering, report
from maxmargin.app import ClusterExplorer
from maxmargin.app._server import serve
from tests._browser import Browser

DOCS = Path(__file__).parent
HOVER = "document.querySelector('.chip').dispatchEvent(new MouseEvent('mouseenter'))"


MODULES = (scipy.stats, scipy.signal, scipy.sparse.linalg, scipy.special)


def wine() -> tuple:
    X = load_wine(as_frame=True).data
    return MaxMarginClustering(3, random_state=0).fit(X), X, {"title": "wine.csv"}


def digits() -> tuple:
    X = load_digits(as_frame=True).data
    return MaxMarginClustering(10, random_state=0).fit(X), X, {"title": "digits.csv"}


def docstrings() -> tuple:
    """Texts that every machine has: what functions of some modules say about themselves."""
    about = {f: getattr(module, f).__doc__ or "" for module in MODULES for f in module.__all__}
    words = TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=5, max_df=0.3)
    X = words.fit_transform([text for text in about.values() if len(text) > 500])
    model = MaxMarginClustering(len(MODULES), random_state=0).fit(X)
    return model, X, {"title": "docstrings", "feature_names": words.get_feature_names_out()}


def report_picture(model: object, X: object, options: dict, path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        report(model, X, **options).save(page)
        with Browser(1200, 1000) as browser:
            browser.open(page.as_uri())
            browser.run(HOVER)
            browser.screenshot(path)


def page_pictures(question: Path, moved: Path) -> None:
    digits = load_digits(as_frame=True)
    rows, truth = digits.data[:600], digits.target[:600].to_numpy()
    model = MaxMarginClustering(10, n_resamples=3, random_state=0)
    explorer = ClusterExplorer(model, rows, title="digits.csv", refit_every=0)
    explorer.refit(wait=True)
    addresses: list[str] = []
    arguments = (explorer, 0, addresses.append)
    threading.Thread(target=serve, args=arguments, daemon=True).start()
    while not addresses:
        time.sleep(0.05)
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    with Browser(1200, 1000) as browser:
        browser.open(addresses[0], "document.querySelector('.question[data-rows]')")
        for c in range(10):
            view = explorer.handle("state", {})
            seen = truth[explorer.labels == c]
            name = names[int(np.bincount(seen).argmax())]
            if name not in view["names"]:
                explorer.handle("name", {"fit": 1, "cluster": c, "name": name})
        time.sleep(4)  # the page looks for news
        browser.screenshot(question)
        for _ in range(20):
            a = explorer.handle("question", {})["question"]["rows"][0]
            state = explorer.handle("state", {})
            if names[truth[a]] in state["names"]:
                cluster = state["names"].index(names[truth[a]])
                explorer.handle("assign", {"fit": 1, "rows": [a], "cluster": cluster})
        browser.click("#refit")
        browser.wait("document.body.innerText.includes('The last fit moved')", 300)
        time.sleep(1)
        browser.screenshot(moved)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    images = DOCS / "images"
    report_picture(*wine(), images / "report.png")
    report_picture(*digits(), images / "report-digits.png")
    report_picture(*docstrings(), images / "report-text.png")
    page_pictures(images / "explore-question.png", images / "explore-moved.png")
