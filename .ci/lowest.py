"""Print the lowest versions that pyproject.toml admits, as pip requirements.

python .ci/lowest.py            # dependencies and everything that the tests need
python .ci/lowest.py plot cli   # dependencies and these extras
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def lowest(requirements):
    """Yield ``name==bound`` for each ``name>=bound``; our own extras are expanded."""
    for requirement in requirements:
        if inner := re.fullmatch(rf"{project['name']}\[(.+)\]", requirement):
            for extra in inner[1].split(","):
                yield from lowest(project["optional-dependencies"][extra])
        elif re.fullmatch(r"[\w.-]+(\[.+\])?>=[\d.]+", requirement):
            yield requirement.replace(">=", "==")
        else:
            sys.exit(f"{requirement} in pyproject.toml has no lower bound of the form name>=1.2")


extras = sys.argv[1:] or ["test"]
wanted = [*project["dependencies"], *(f"{project['name']}[{extra}]" for extra in extras)]
print(*sorted(set(lowest(wanted))), sep="\n")
