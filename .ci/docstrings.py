"""Check the docstrings of all public names: the checks in pyproject.toml, by numpydoc.

Prints each violation and exits with status 1 if there are any.
"""

import inspect
import pkgutil
import sys
import tomllib
from importlib import import_module
from pathlib import Path

from numpydoc.validate import validate

import maxmargin

pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
checks = pyproject["tool"]["numpydoc_validation"]["checks"]


def ours(obj):
    """Whether a function, method, property or class is defined in maxmargin."""
    return (getattr(getattr(obj, "fget", obj), "__module__", None) or "").startswith("maxmargin")


def public_names():
    """Yield each public class, function, method and property with its full name."""
    modules = [maxmargin.__name__]
    for module in pkgutil.iter_modules(maxmargin.__path__, "maxmargin."):
        if not module.ispkg and not module.name.startswith("maxmargin._"):
            modules.append(module.name)
    for module in map(import_module, modules):
        for name in module.__all__:
            obj = getattr(module, name)
            if ours(obj):
                yield f"{module.__name__}.{name}", obj
            if ours(obj) and inspect.isclass(obj):
                for member, value in inspect.getmembers(obj):
                    if not member.startswith("_") and ours(value):
                        yield f"{module.__name__}.{name}.{member}", value


checked = {}
for name, obj in public_names():
    if obj in checked.values():
        continue
    checked[name] = obj
    if inspect.isfunction(obj) and not obj.__doc__:
        obj.__doc__ = inspect.getdoc(obj)  # an override has the docstring of what it overrides
violations = [
    f"{name}: {code} {what}"
    for name in checked
    for code, what in validate(name)["errors"]
    if code in checks
]
print(*violations, f"{len(checked)} public names, {len(violations)} violations", sep="\n")
sys.exit(bool(violations))
