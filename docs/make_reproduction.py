"""Copy the document of a full run of ``python -m reproduction`` here, its summary to the README.

python -m reproduction --out papers && python docs/make_reproduction.py papers
"""

import re
import sys
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).parents[1]


def main(folder):
    text = (Path(folder) / "reproduction.md").read_text(encoding="utf-8")
    summary = re.search(r"\*\*(Of the .*?)\*\*", text, re.S)
    if summary is None:
        sys.exit(
            f"{folder}/reproduction.md is of a quick look; "
            "run python -m reproduction without --quick"
        )
    (ROOT / "docs" / "reproduction.md").write_text(text, encoding="utf-8")
    readme = ROOT / "README.md"
    line = fill(summary[1], 105)
    marked = f"<!-- papers: begin -->\n{line}\n<!-- papers: end -->"
    page = readme.read_text(encoding="utf-8")
    page = re.sub(r"<!-- papers: begin -->.*?<!-- papers: end -->", marked, page, flags=re.S)
    readme.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
