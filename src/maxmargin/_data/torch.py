"""Rows on a device: torch tensors and cupy arrays.

Block functions run on blocks of the tensor through its array namespace. The columns that a pass
makes stay on the device; sums are copied to the host, where the small problems are solved. Rows are
copied only for samples. torch is imported when X is a tensor, not before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from .blocks import check_block
from .source import (
    LARGEST,
    LARGEST32,
    BlockFunc,
    Columns,
    MemoryRows,
    Pass,
    all_equal,
    check_magnitude,
)

BLOCK_BYTES = 2**30  # for intermediate results of a block
HOST_ROWS = 20_000  # samples of at most this many rows are processed on the host


def is_tensor(X: Any) -> bool:
    """Return whether X is a torch tensor or a cupy array, without importing either.

    Examples
    --------
    >>> is_tensor(np.zeros(3))
    False
    """
    return type(X).__module__.partition(".")[0] in ("torch", "cupy") and hasattr(X, "shape")


def as_tensor(X: Any) -> Any:
    """Return a torch tensor that shares the memory of X."""
    if type(X).__module__.partition(".")[0] == "torch":
        return X.detach()
    try:
        import torch
    except ImportError:
        raise ValueError(
            "X is a cupy array, which needs torch, and torch is not installed. Install "
            "maxmargin[gpu], or pass X.get() to use the host."
        ) from None
    if not torch.cuda.is_available():
        raise ValueError(
            f"X is a cupy array, but torch {torch.__version__} finds no GPU. Install a torch "
            "built for this device, or pass X.get() to use the host."
        )
    return torch.from_dlpack(X)


def to_host(X: Any) -> Any:
    """Return a tensor as a numpy array; return anything else unchanged."""
    return as_tensor(X).cpu().numpy() if is_tensor(X) else X


def tensor_rows(X: Any) -> Any:
    """Return the rows of a tensor, as an array if it is in the host's memory."""
    tensor = as_tensor(X)
    if tensor.layout != sys.modules["torch"].strided:
        raise ValueError(f"X is a tensor of layout {tensor.layout}; dense rows are needed.")
    if tensor.device.type != "cpu":
        return TensorRows(X)
    return HostTensorRows(tensor.numpy(), sys.modules["torch"].from_numpy)


class HostTensorRows(MemoryRows):
    """Rows of a tensor as an array in the host's memory; ``back`` makes tensors of results."""

    def __init__(self, X: np.ndarray, back: Callable[[np.ndarray], Any]) -> None:
        super().__init__(X)
        self.back = back

    def replaced(self, X: Any) -> MemoryRows:
        """Return other values with the same user's container."""
        return HostTensorRows(X, self.back)

    def like(self, column: Any, names: np.ndarray | None = None) -> Any:
        """Return a column as a tensor."""
        return self.back(np.ascontiguousarray(super().like(column, names)))

    def map(self, function: BlockFunc, view: Any, shared: Any, width: int | None = None) -> Any:
        """Return a tensor of what a block function gives for every row."""
        return self.like(super().map(function, view, shared, width))


class DeviceRows:
    """Rows of a dense array, float32 or float64, of any namespace of the array API standard."""

    in_memory = False
    local = False
    is_sparse = False
    name = "X"
    column_names: tuple[str, ...] | None = None

    def __init__(self, array: Any, xp: Any) -> None:
        self.array, self.xp = array, xp
        self.shape = tuple(int(length) for length in array.shape)
        self.dtype = np.dtype(np.float32 if array.dtype == xp.float32 else np.float64)

    def _with(self, array: Any) -> DeviceRows:
        return DeviceRows(array, self.xp)

    def host(self, array: Any) -> np.ndarray:
        """Return an array of the device as one of the host."""
        return np.asarray(array)

    def send(self, array: Any, dtype: Any = None) -> Any:
        """Return an array of the host on the device; None stays None."""
        if array is None:
            return None
        return self.xp.asarray(np.asarray(array), dtype=dtype, device=self.array.device)

    def working(self) -> Any:
        """Return the context in which a pass runs."""
        return nullcontext()

    def inverse(self, A: Any, complaint: str) -> Any:
        """Return the inverse of a positive definite matrix of the device."""
        inverse = self.xp.linalg.inv(A)
        if not bool(self.xp.all(self.xp.isfinite(inverse))):
            raise ValueError(complaint)
        return inverse

    def take(self, rows: Any) -> Any:
        """Return the chosen rows, on the host."""
        return self.host(self.array[rows, :] if isinstance(rows, slice) else self._picked(rows))

    def _picked(self, rows: Any) -> Any:
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        return self.xp.take(self.array, self.send(rows.astype(np.int64)), axis=0)

    def on_host(self) -> HostTensorRows:
        """Return a copy of all rows on the host, for methods that work there."""
        return HostTensorRows(self.take(slice(None)), self.like)

    def part(self, rows: Any) -> Any:
        """Return the chosen rows, on the device."""
        return self._with(self._picked(rows))

    def sample(self, rows: Any) -> Any:
        """Return the chosen rows: on the host if they are few."""
        return MemoryRows(self.take(rows)) if len(rows) <= HOST_ROWS else self.part(rows)

    def columns(self, chosen: Any) -> Any:
        """Return the same rows with some of the columns."""
        numbers = np.atleast_1d(np.arange(self.shape[1])[chosen])
        return self._with(self.xp.take(self.array, self.send(numbers), axis=1))

    def mapped(self, features: Any, n_jobs: int = 1) -> Any:
        """Return the features of all rows, kept on the device."""
        xp = self.xp
        with self.working():
            sent = features.sent(self.send, xp)
            parts = [sent.values(self.array[where, :], xp) for where in self._blocks(sent.rank)]
            return self._with(xp.concat(parts))

    def check(self) -> None:
        """Raise an error for values that are not finite or whose squares are not."""
        limit, xp = LARGEST if self.dtype == np.float64 else LARGEST32, self.xp
        largest = 0.0
        for where in self._blocks(0):
            part = self.array[where, :]
            low, high = float(xp.min(part)), float(xp.max(part))  # NaN shows in one of them
            if not (low >= -limit and high <= limit):
                bad = int(xp.argmax(xp.astype(xp.any(~(xp.abs(part) <= limit), axis=1), xp.int8)))
                row = self.host(part[bad : bad + 1, :])
                check_block(row, row.shape, False, self.name, where.start + bad)
            largest = max(largest, -low, high)
        check_magnitude(np.array([largest], self.dtype))

    def run(
        self, function: BlockFunc, view: Any, shared: Any = (), columns: Any = (), made: Any = ()
    ) -> Pass:
        """Call a block function on blocks of the device."""
        new: list[list[Any]] = [[] for _ in made]
        sums = []
        with self.working():
            for block, parts in self._each(view, columns):
                values, block_sums = function(block, parts, *shared)
                for column, part in zip(new, values):
                    column.append(part)
                sums.append(block_sums)
            found = tuple(self.xp.concat(column) for column in new)
            return found, iter([self._to_host(one) for one in sums])  # it waits for the device

    def map(self, function: BlockFunc, view: Any, shared: Any, width: int | None = None) -> Any:
        """Return what a block function gives for every row, on the device."""
        with self.working():
            parts = [function(block, (), *shared)[1] for block, _ in self._each(view, ())]
            return self.like(self.xp.concat(parts))

    def _each(self, view: Any, columns: Columns) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """Yield blocks of rows of Z, and the parts of the columns that belong to them."""
        xp, features = self.xp, view.features
        features = None if features is None else features.sent(self.send, xp)
        dtype = self.array.dtype if features is None else features.dtype
        view = replace(view, features=features, offset=self.send(view.offset, dtype), xp=xp)
        sent = [self._column(column) for column in columns]
        for where in self._blocks(0 if features is None else features.rank):
            size = where.stop - where.start
            parts = tuple(
                xp.broadcast_to(column[0], (size,))
                if isinstance(column, tuple)
                else column[where, ...]
                for column in sent
            )
            yield view.of(self.array[where, :]), parts

    def _column(self, column: Any) -> Any:
        """Return a column on the device; in a tuple, what a column repeats."""
        if not isinstance(column, np.ndarray):
            return column
        if all_equal(column):
            return (self.send(column[:1].copy()),)
        return self.send(column)

    def _blocks(self, width: int) -> Iterator[slice]:
        """Yield blocks of as many rows as the memory limit allows."""
        row_bytes = 4 * (self.shape[1] + width) * self.dtype.itemsize
        size = max(1024, BLOCK_BYTES // max(row_bytes, 1))
        return (slice(i, min(i + size, self.shape[0])) for i in range(0, self.shape[0], size))

    def _to_host(self, sums: Any) -> Any:
        if isinstance(sums, tuple):
            return tuple(self._to_host(part) for part in sums)
        plain = sums is None or isinstance(sums, (int, float, np.ndarray, np.generic))
        return sums if plain else self.host(sums)

    def like(self, column: Any, names: np.ndarray | None = None) -> Any:
        """Return a column on the device."""
        column = self.send(column) if isinstance(column, np.ndarray) else column
        return column if names is None else self.xp.take(self.send(names), column)


class TensorRows(DeviceRows):
    """The rows of a dense torch tensor, or of a cupy array."""

    def __init__(self, X: Any) -> None:
        import array_api_compat.torch as xp
        import torch

        self.given, tensor = X, as_tensor(X)
        if tensor.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {tensor.ndim}D array instead. Reshape your data: "
                "X.reshape(-1, 1) for one column."
            )
        if tensor.is_complex() or tensor.dtype == torch.bool:
            raise ValueError(f"X holds {tensor.dtype} values; real numbers were expected.")
        if tensor.dtype in (torch.float16, torch.bfloat16):
            tensor = tensor.float()
        elif tensor.dtype not in (torch.float32, torch.float64):
            tensor = tensor.double()
        super().__init__(tensor if tensor.stride(1) == 1 else tensor.contiguous(), xp)

    def _with(self, array: Any) -> DeviceRows:
        return TensorRows(array)

    def host(self, array: Any) -> np.ndarray:
        """Return a tensor as an array of the host."""
        return np.asarray(array.cpu().numpy())

    def inverse(self, A: Any, complaint: str) -> Any:
        """Return the inverse of a positive definite matrix, by its Cholesky factor."""
        import torch

        factor, failed = torch.linalg.cholesky_ex(A)
        if int(failed):
            raise ValueError(complaint)
        return torch.cholesky_inverse(factor)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Multiply float32 matrices in full precision; explain what to do if memory runs out."""
        import torch

        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            with torch.no_grad():
                yield
        except torch.cuda.OutOfMemoryError as error:
            raise MemoryError(
                f"The device ran out of memory: {str(error).split('. GPU')[0]}. Pass float32 rows, "
                "lower n_components, or use the host: X.cpu().numpy()."
            ) from error
        finally:
            torch.set_float32_matmul_precision(before)

    def like(self, column: Any, names: np.ndarray | None = None) -> Any:
        """Return a column in the user's container: a tensor or a cupy array."""
        tensor = super().like(column, names)
        if type(self.given).__module__.partition(".")[0] == "torch":
            return tensor
        return sys.modules["cupy"].from_dlpack(tensor)
