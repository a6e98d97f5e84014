"""``maxmargin info``: versions, extras, threads, GPU."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from importlib.metadata import requires
from typing import Any

from . import with_this_python

SUMMARY = "versions, extras, threads, GPU: what a bug report needs"
EXAMPLE = "maxmargin info --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: there are none."""


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Collect what a bug report needs."""
    import platform

    import numba
    from threadpoolctl import threadpool_info

    from maxmargin.persistence import package_version

    numba_config: Any = numba.config
    libraries = ("numpy", "scipy", "scikit-learn", "numba")
    return {
        "maxmargin": package_version("maxmargin"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: package_version(name) for name in libraries},
        "extras": _extras(),
        "processors": os.cpu_count(),
        "blas_threads": {i["internal_api"]: i["num_threads"] for i in threadpool_info()},
        "numba_cache": numba_config.CACHE_DIR or "in __pycache__ beside the package",
        "gpu": _gpu(),
    }


def _extras() -> dict[str, dict[str, str | None]]:
    """The optional packages by extra, as the package's own metadata names them."""
    from maxmargin.persistence import package_version

    extras: dict[str, dict[str, str | None]] = {}
    for line in requires("maxmargin") or ():
        match = re.match(r"([\w.-]+).*extra == ['\"](\w+)['\"]", line)
        if match and match[2] not in {"docs", "test", "lint"} and match[1] != "maxmargin":
            extras.setdefault(match[2], {})[match[1]] = package_version(match[1])
    return extras


def _gpu() -> str | None:
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def tell(result: dict[str, Any]) -> Iterator[str]:
    """Say what was collected."""
    yield f"maxmargin {result['maxmargin']}, Python {result['python']}"
    yield result["platform"]
    yield ", ".join(f"{name} {version}" for name, version in result["libraries"].items())
    for extra, packages in result["extras"].items():
        told = ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())
        hint = "" if all(packages.values()) else f'  (pip install "maxmargin[{extra}]")'
        yield with_this_python(f"  {extra}: {told}{hint}")
    blas = ", ".join(f"{name} {count}" for name, count in result["blas_threads"].items())
    yield f"{result['processors']} processors; threads: {blas}"
    yield f"numba cache: {result['numba_cache']}"
    yield f"GPU: {result['gpu'] or 'none in use (no torch with CUDA)'}"
