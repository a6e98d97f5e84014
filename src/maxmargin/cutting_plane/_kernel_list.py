"""The user's list of kernels, and their features Phi_1 .. Phi_M of (2.4) side by side."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from .._core.features import AUTO_RANK, MAX_LINEAR_WIDTH, FeatureMap, fit_features, mapped_rows
from .._core.kernels import KERNELS, check_precomputed, kernel_params
from .._core.rows import Rows, concat
from .._data.source import RowSource

Names = Sequence[str] | np.ndarray | None  # of the columns of X
PARAMETERS = ("gamma", "degree", "coef0", "width")


@dataclass(frozen=True)
class KernelSpec:
    """A kernel, and the columns of X that it is computed from."""

    name: str  # unique among the kernels of a model
    kernel: str | Callable[..., Any]
    # gamma, degree, coef0 and width, if given
    params: dict[str, Any] = field(default_factory=dict)
    columns: np.ndarray | None = None  # column numbers; None for all

    def of(self, X: Any, xp: Any = np) -> Any:
        """Return the columns of X that the kernel is computed from."""
        if self.columns is None:
            return X
        if xp is not np:
            return xp.take(X, self.columns, axis=1)
        return X.columns(self.columns) if isinstance(X, RowSource) else X[:, self.columns]


@dataclass(frozen=True)
class FeatureStack:
    """Fitted maps of several kernels; their features lie side by side.

    It has the interface of :class:`~maxmargin._core.features.FeatureMap`.
    """

    specs: tuple[KernelSpec, ...]
    maps: tuple[FeatureMap, ...]

    landmarks: tuple[()] = ()
    scale: float = 1.0
    kernel: str = "several"
    params: ClassVar[dict[str, Any]] = {}

    @property
    def dtype(self) -> np.dtype:
        """Type in which features are stored."""
        return self.maps[0].dtype

    @property
    def rank(self) -> int:
        """Number of features."""
        return sum(m.rank for m in self.maps)

    @property
    def offset(self) -> np.ndarray:
        """The features are centred already."""
        return np.zeros(self.rank)

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Columns of each kernel's features."""
        ends = np.cumsum([0, *(m.rank for m in self.maps)]).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    def rows(self, X: Any, n_jobs: int = 1) -> Rows:
        """Rows of features, mapped tile by tile as they are read."""
        return Rows(X, n_jobs=n_jobs, features=self)

    def values(self, X: Any, xp: Any = np) -> Any:
        """Return the features of a tile of raw rows."""
        parts = [m.values(s.of(X, xp), xp) for s, m in zip(self.specs, self.maps)]
        return concat([xp.asarray(part, dtype=self.dtype) for part in parts], xp, axis=1)

    def sent(self, send: Callable[[Any], Any], xp: Any) -> FeatureStack:
        """Return the stack with its arrays converted by ``send`` to another namespace."""
        specs = tuple(
            replace(s, columns=None if s.columns is None else send(s.columns)) for s in self.specs
        )
        return replace(self, specs=specs, maps=tuple(m.sent(send, xp) for m in self.maps))


def fit_stack(
    X: RowSource,
    weights: np.ndarray,
    specs: list[KernelSpec],
    *,
    n_components: int | str | None,
    rng: np.random.Generator,
    n_jobs: int,
    center: bool,
    normalize: bool,
) -> tuple[FeatureStack, Rows]:
    """Fit the map of every kernel; return the stack and the mapped rows."""
    maps = []
    for spec in specs:
        part = spec.of(X)
        given = {"gamma": "median", "degree": 3, "coef0": 1, "width": 1.0, **spec.params}
        named = given["gamma"], given["degree"], given["coef0"]
        params = kernel_params(part, spec.kernel, *named, rng)
        if "gamma" in params:
            scaled = params["gamma"] / given["width"]
            params["gamma"] = scaled if spec.kernel == "laplacian" else scaled / given["width"]
            if not 0.0 < params["gamma"] < np.inf:
                raise ValueError(
                    f"kernel {spec.name!r}: width={given['width']:g} is out of range for these "
                    "rows; widths count in median distances, and values near 1 are usual."
                )
        fmap, _ = fit_features(
            part,
            weights,
            kernel=spec.kernel,
            params=params,
            n_components=n_components,
            rng=rng,
            n_jobs=n_jobs,
            center=center,
            widest=AUTO_RANK if n_components == "auto" else MAX_LINEAR_WIDTH,
            truncated=True,
        )
        if fmap.scale == 0.0:
            warnings.warn(
                f"kernel {spec.name!r} is constant on these rows; its weight is 0.",
                UserWarning,
                stacklevel=2,
            )
        elif not normalize:
            fmap = replace(fmap, scale=1.0)
        maps.append(fmap)
    stack = FeatureStack(tuple(specs), tuple(maps))
    return stack, mapped_rows(stack, X, n_jobs)


def read_kernels(kernels: Any, X: RowSource, names: Names) -> list[KernelSpec]:
    """Return the specifications of a user's list of kernels.

    Each is a name, a callable, (name, parameters), or (columns, any of these).
    """
    if isinstance(kernels, str) or not hasattr(kernels, "__len__") or len(kernels) == 0:
        raise ValueError(
            "kernels must be 'default', 'paper', 'precomputed' or a list of kernels, got "
            f"{kernels!r}."
        )
    found: list[KernelSpec] = []
    for number, entry in enumerate(kernels):
        spec = _read(entry, f"kernels[{number}]", X.shape[1], names)
        taken = {other.name for other in found}
        name, copy = spec.name, 2
        while name in taken:
            name, copy = f"{spec.name} ({copy})", copy + 1
        if spec.kernel == "precomputed":
            try:
                check_precomputed(spec.of(X).take(slice(None)))
            except ValueError as error:
                raise ValueError(f"kernels[{number}]: {error}") from None
        found.append(replace(spec, name=name))
    return found


def kernel_of(spec: Any) -> Any:
    """Return the kernel of an entry of the user's list, without its columns and parameters.

    Examples
    --------
    >>> kernel_of((["a", "b"], ("rbf", {"gamma": 1.0})))
    'rbf'
    """
    while isinstance(spec, tuple) and len(spec) == 2:
        spec = spec[0] if isinstance(spec[1], dict) else spec[1]
    return spec


def _read(spec: Any, where: str, width: int, names: Names) -> KernelSpec:
    if isinstance(spec, tuple) and len(spec) == 2 and not isinstance(spec[1], dict):
        inner = _read(spec[1], where, width, names)
        columns = _column_numbers(spec[0], where, width, names)
        label = _column_label(spec[0])
        return replace(inner, columns=columns, name=f"{inner.name}{label}")
    params: dict[str, Any] = {}
    if isinstance(spec, tuple) and len(spec) == 2:
        spec, params = spec
        unknown = sorted(set(params) - set(PARAMETERS))
        if unknown:
            raise ValueError(f"{where} has the parameter {unknown[0]!r}; known are {PARAMETERS}.")
        _check_parameters(spec, params, where)
    if callable(spec):
        return KernelSpec(getattr(spec, "__name__", "callable"), spec, params)
    if isinstance(spec, str) and spec in KERNELS:
        shown = ", ".join(f"{key}={value}" for key, value in params.items())
        return KernelSpec(f"{spec}({shown})" if shown else spec, spec, params)
    raise ValueError(
        f"{where} must be a kernel's name ({', '.join(KERNELS)}), a callable, (name, parameters) "
        f"or (columns, kernel), got {spec!r}."
    )


def _check_parameters(kernel: Any, params: dict[str, Any], where: str) -> None:
    """Raise an error for parameters that are out of range or do not fit the kernel."""
    if "gamma" in params and "width" in params:
        raise ValueError(f"{where} has both gamma and width; give one.")
    if "width" in params and kernel not in ("rbf", "laplacian"):
        raise ValueError(f"{where}: width goes with rbf and laplacian, not with {kernel!r}.")
    for name, value in params.items():
        if name == "gamma" and (value == "median" or value is None):
            continue
        number = isinstance(value, Real) and abs(float(value)) < np.inf
        least = {"gamma": 0.0, "width": 0.0, "degree": 0.0}.get(name, -np.inf)
        low = number and (value < least or (value == least and name != "degree"))
        if not number or low:
            raise ValueError(f"{where}: {name} must be a number above {least:g}, got {value!r}.")


def _column_label(columns: Any) -> str:
    if isinstance(columns, slice):
        start = "" if columns.start is None else columns.start
        return f"[{start}:{'' if columns.stop is None else columns.stop}]"
    columns = np.atleast_1d(columns).tolist()
    return f"[{', '.join(map(str, columns))}]" if len(columns) <= 4 else f"[{len(columns)} columns]"


def _column_numbers(columns: Any, where: str, width: int, names: Names) -> np.ndarray:
    if isinstance(columns, slice):
        numbers = np.arange(width)[columns]
    else:
        columns = np.atleast_1d(columns)
        if columns.dtype.kind in "US" or columns.dtype == object:
            if names is None:
                raise ValueError(f"{where} names columns, but X has no column names.")
            missing = [c for c in columns.tolist() if c not in set(names)]
            if missing:
                raise ValueError(f"{where}: X has no column {missing[0]!r}.")
            numbers = np.array([list(names).index(c) for c in columns])
        elif columns.dtype == bool:
            if len(columns) != width:
                raise ValueError(f"{where}: a mask of {len(columns)} for {width} columns of X.")
            numbers = np.flatnonzero(columns)
        elif columns.dtype.kind in "iu" and columns.ndim == 1:
            numbers = columns.astype(np.int64)
        elif columns.size:
            raise ValueError(
                f"{where}: columns must be names, whole numbers, a mask or a slice, got "
                f"{columns!r}."
            )
        else:
            numbers = np.zeros(0, np.int64)
    if len(numbers) == 0:
        raise ValueError(f"{where} sees no column of X.")
    if numbers.min() < -width or numbers.max() >= width:
        raise ValueError(
            f"{where}: column {int(np.abs(numbers).max())} of an X with {width} columns."
        )
    return numbers % width
