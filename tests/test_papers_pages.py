"""The pages of the papers in a real browser: no console error, no request, readable on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from maxmargin.cli import main as cli

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
PROBE = """<script>
addEventListener("load", () => {
  const images = [...document.images].map(image => image.naturalWidth);
  const fetched = performance.getEntriesByType("resource").map(entry => entry.name);
  const sideways = document.documentElement.scrollWidth - innerWidth;
  const found = document.createElement("pre");
  found.id = "probe";
  found.textContent = JSON.stringify({images, fetched, sideways});
  document.body.append(found);
});
</script></body>"""


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A quick study of one table with nothing but what scikit-learn ships, as pages."""
    folder = tmp_path_factory.mktemp("papers")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MAXMARGIN_DATA", raising=False)
        line = ["papers", "least_squares:table-1", "least_squares:figure-3", "--quick", "--offline"]
        assert cli.main([*line, "--out", str(folder)]) == 0
    return folder


def opened(page: Path, folder: Path) -> tuple[dict, list[str]]:
    """What a browser of a phone's width makes of a page, and what its console says."""
    text = page.read_text().replace(
        "default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'"
    )
    copy = folder / page.name
    copy.write_text(text.replace("</body>", PROBE))
    done = subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--window-size=500,900", f"--user-data-dir={folder}", "--enable-logging=stderr",
         "--no-first-run", "--disable-background-networking", "--virtual-time-budget=5000",
         "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    probe = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    return json.loads(probe[1]), console


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("name", ["index", "least_squares"])
def test_pages_open_without_errors_or_requests(quick, tmp_path, name):
    found, console = opened(quick / f"{name}.html", tmp_path)
    assert console == []
    assert found["fetched"] == []
    assert all(width > 0 for width in found["images"])
    assert found["sideways"] <= 0
    if name != "index":
        assert len(found["images"]) >= 1


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_browser_test_sees_a_request_and_a_broken_picture(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text(
        "<html><head><meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; "
        'img-src data:"></head><body><img src="http://192.0.2.1/a.png"></body></html>'
    )
    (tmp_path / "copy").mkdir()
    found, console = opened(page, tmp_path / "copy")
    assert found["images"] == [0]
    assert any("192.0.2.1" in line for line in console)


def test_pages_hold_everything_themselves(quick):
    for page in quick.glob("*.html"):
        text = page.read_text()
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text), page.name
        assert 'name="viewport"' in text and "Content-Security-Policy" in text
    assert "data:image/png;base64," in (quick / "least_squares.html").read_text()


def test_pages_do_without_pictures_where_there_is_no_matplotlib(
    quick, tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv("MAXMARGIN_DATA", raising=False)
    monkeypatch.setattr("maxmargin.papers.pictures.find_spec", lambda name: None)
    shutil.copytree(quick / "cache", tmp_path / "cache")
    line = ["papers", "least_squares:table-1", "--quick", "--offline", "--out", str(tmp_path)]
    assert cli.main(line) == 0
    assert "<img" not in (tmp_path / "least_squares.html").read_text()
    assert "no pictures: pip install" in capsys.readouterr().out
