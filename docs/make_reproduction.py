"""Copy what a full run of ``python -m reproduction`` found into docs/, its summary into the README.

python -m reproduction --jobs 16 --out papers && python docs/make_reproduction.py papers [NOTE]

NOTE is a sentence about where the results come from, for results of several versions or machines.

The scored rows take about 90 minutes of CPU time without the two MNIST sets; all figures and
baselines several hours. With ``--minutes M`` the run ends in time, rows that are left say "not
run", and the same command goes on from ``papers/cache``, which may come from another machine.
"""

import argparse
import re
import shutil
import sys
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).parents[1]


def main(folder, note=""):
    folder = Path(folder)
    text = (folder / "reproduction.md").read_text(encoding="utf-8")
    summary = re.search(r"\*\*(Of the .*?)\*\*", text, re.S)
    if summary is None:
        sys.exit(
            f"{folder}/reproduction.md is of a quick look; "
            "run python -m reproduction without --quick"
        )
    text = text.replace("**Of the", f"{note}\n\n**Of the", 1) if note else text
    (ROOT / "docs" / "reproduction.md").write_text(text, encoding="utf-8")
    target = ROOT / "docs" / "reproduction"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder / "reproduction", target)
    shutil.copy(folder / "results.csv", target)
    readme = ROOT / "README.md"
    page = readme.read_text(encoding="utf-8")
    page = between(page, "papers", fill(summary[1], 105, break_on_hyphens=False))
    readme.write_text(page, encoding="utf-8")


def between(page, name, text):
    """Return the page with the text between the marks of this name."""
    marked = f"<!-- {name}: begin -->\n{text}\n<!-- {name}: end -->"
    return re.sub(
        rf"<!-- {name}: begin -->.*?<!-- {name}: end -->", lambda _: marked, page, flags=re.S
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="what the run wrote")
    parser.add_argument("note", nargs="?", default="", help="where the results come from")
    main(**vars(parser.parse_args()))
