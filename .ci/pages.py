"""Run the Python of the documentation's pages, each page from top to bottom as one script.

python .ci/pages.py [page ...]      # names without .md; all pages by default

Blocks whose first line is ``# not run`` and pages in NOT_RUN (which show fragments) are left out.
"""

import os
import re
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
NOT_RUN = {"explore", "front_door", "gpu", "methods", "scaling"}


def run(page):
    """Run the blocks of a page in one namespace; return whether it went well."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.S | re.M)
    code = "\n".join(block for block in blocks if not block.startswith("# not run"))
    start = time.process_time()
    try:
        exec(compile(code, str(page), "exec"), {"__name__": "page"})
    except Exception:
        traceback.print_exc()
        return False
    if code:
        print(f"{page.name}: {time.process_time() - start:.1f} s of CPU")
    return True


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    warnings.simplefilter("ignore")
    pages = [DOCS / f"{name}.md" for name in sys.argv[1:]]
    pages = pages or [p for p in sorted(DOCS.glob("*.md")) if p.stem not in NOT_RUN]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        failed = [page.name for page in pages if not run(page)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
