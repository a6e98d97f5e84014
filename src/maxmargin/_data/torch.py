"""Rows on a device: torch tensors and cupy arrays, worked on where they are.

:class:`DeviceBlocks` stands where an array stands. Every block kernel of the engine that such rows
need has a counterpart here, in plain torch; the pass of the cutting planes is one fused kernel
where it can be (``_data/triton.py``). What the passes make for every row stays on the device; sums
go to the host, where the small problems are solved. Single rows go there only where a sample of
them is asked for.

torch is imported when a tensor comes in, never before. A tensor in the host's memory is an array.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core.rows import Rows, all_equal, blocks_of
from .source import LARGEST, LARGEST32, RowBlocks, check_block

BLOCK_BYTES = 2**30  # of what is held at a time beside the rows
HOST_ROWS = 100_000  # samples of at most this many rows are worked on by the host
DEVICE_KERNELS = ("linear", "rbf", "poly", "sigmoid", "laplacian", "cosine")
KEPT_COLUMNS = 4  # weights and the like are sent once for all passes
KEEPS_COLUMNS = ("cut_block",)  # block kernels whose columns nobody changes between passes


def is_tensor(X) -> bool:
    """Whether X is a torch tensor or a cupy array; neither is imported for the question.

    Examples
    --------
    >>> is_tensor(np.zeros(3))
    False
    """
    return type(X).__module__.partition(".")[0] in ("torch", "cupy") and hasattr(X, "shape")


def as_tensor(X):
    """A torch tensor of the same memory."""
    if type(X).__module__.partition(".")[0] == "torch":
        return X.detach()
    try:
        import torch
    except ImportError:
        raise ValueError(
            "X is a cupy array, which is worked on through torch, and torch is not installed. "
            "Install maxmargin[gpu], or pass X.get() to work on the host."
        ) from None
    if not torch.cuda.is_available():
        raise ValueError(
            f"X is a cupy array, but torch {torch.__version__} finds no GPU. Install a torch "
            "built for this device, or pass X.get() to work on the host."
        )
    return torch.from_dlpack(X)


def to_host(X):
    """A numpy array of a tensor; anything else as it is."""
    return host(as_tensor(X)) if is_tensor(X) else X


def like(array: np.ndarray, X):
    """An array of the host as what X is: on its device, a tensor or a cupy array."""
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return returned(tensor.to(as_tensor(X).device), X)


def returned(tensor, X):
    """A tensor as what X is, without a copy."""
    if type(X).__module__.partition(".")[0] == "torch":
        return tensor
    return sys.modules["cupy"].from_dlpack(tensor)


def host(tensor) -> np.ndarray:
    """A tensor as an array of the host."""
    return tensor.cpu().numpy()


def place_of(X):
    """The device of a tensor; None for anything else, and for one in the host's memory."""
    if not is_tensor(X):
        return None
    device = as_tensor(X).device
    return None if device.type == "cpu" else device


def device_rows(X):
    """Rows of a tensor: an array where it is in the host's memory, else blocks on its device."""
    tensor = as_tensor(X)
    if tensor.layout != sys.modules["torch"].strided:
        raise ValueError(f"X is a tensor of layout {tensor.layout}; dense rows are needed.")
    return tensor.numpy() if tensor.device.type == "cpu" else DeviceBlocks(X)


class DeviceBlocks(RowBlocks):
    """The rows of a dense tensor.

    ``X[indices]`` brings chosen rows to the host, :meth:`part` leaves them on the device.
    """

    is_remote = True

    def __init__(self, X, name: str = "X"):
        import torch

        self.array, tensor = X, as_tensor(X)
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
        self.tensor = tensor if tensor.stride(1) == 1 else tensor.contiguous()
        dtype = np.dtype(np.float32 if tensor.dtype == torch.float32 else np.float64)
        super().__init__(self._rows, [tensor.shape[0]], tensor.shape[1], dtype, name=name)
        self._sent: OrderedDict[int, tuple[Any, Any]] = OrderedDict()

    def _rows(self, _i: int) -> np.ndarray:
        return host(self.tensor)

    def __getitem__(self, rows):
        """Chosen rows, on the host."""
        if isinstance(rows, tuple):
            rows, columns = rows
            return self[rows][:, columns]
        if not isinstance(rows, slice):
            rows = self._index(np.asarray(rows))
        return host(self.tensor[rows])

    def _index(self, indices: np.ndarray):
        import torch

        indices = np.flatnonzero(indices) if indices.dtype == bool else indices
        return torch.from_numpy(indices.astype(np.int64)).to(self.tensor.device)

    def part(self, indices: np.ndarray) -> DeviceBlocks:
        """Some of the rows, on the device."""
        return DeviceBlocks(self.tensor[self._index(np.asarray(indices))], self.name)

    def sample(self, indices: np.ndarray):
        """Some of the rows: on the host where they are few."""
        return self[indices] if len(indices) <= HOST_ROWS else self.part(indices)

    def columns(self, chosen) -> DeviceBlocks:
        """The same rows with some of the columns."""
        if not isinstance(chosen, slice):
            chosen = self._index(np.asarray(chosen))
        return DeviceBlocks(self.tensor[:, chosen], self.name)

    def like(self, column: np.ndarray):
        """A column of the host on this device."""
        return like(column, self.array)

    def blocks(self) -> list[tuple[int, int]]:
        """Bounds of the blocks that a rule of the host works on."""
        return blocks_of(self.shape[0])

    def check(self) -> None:
        """Refuse values that are not finite, or whose squares are not."""
        limit = LARGEST if self.dtype == np.float64 else LARGEST32
        largest = 0.0
        for start, stop in bounds_of(self.shape[0], self.shape[1] * self.dtype.itemsize):
            part = self.tensor[start:stop]
            low, high = (float(end) for end in part.aminmax())  # NaN shows in both
            if not (low >= -limit and high <= limit):
                bad = int((~(part.abs() <= limit)).any(dim=1).nonzero()[0, 0])
                row = host(part[bad : bad + 1])
                check_block(row, row.shape, False, self.name, start + bad)
            largest = max(largest, -low, high)
        if 0.0 < largest < 1.0 / limit:
            raise ValueError(
                f"The largest absolute value in X is {largest:.3g}; squares in {self.dtype} need "
                f"it between {1.0 / limit:g} and {limit:g}. Divide X by a constant first."
            )

    def run(
        self, rows: Rows, kernel: Callable, shared: tuple, columns: tuple, n_made: int
    ) -> tuple[tuple, Iterator]:
        """The counterpart of a block kernel on all rows: see :func:`.rows.run`."""
        from .torch_passes import COUNTERPARTS

        counterpart = COUNTERPARTS.get(kernel.__name__)
        if counterpart is None:
            raise ValueError(
                "This method does not work on rows on a device. Pass them as an array: "
                "X.cpu().numpy(), or cupy.asnumpy(X)."
            )
        kept = kernel.__name__ in KEEPS_COLUMNS
        with device_work():
            made, sums = counterpart(
                OnDevice(rows, self), [self._column(c, kept) for c in columns], *shared
            )
        return made, iter(sums)

    def _column(self, column, kept: bool):
        """A column on the device, kept there for the next pass; a number where it repeats one."""
        if not isinstance(column, np.ndarray):
            return column
        if all_equal(column):
            return column[0]
        key = id(column)
        if key in self._sent and kept:
            return self._sent[key][1]
        import torch

        sent = torch.from_numpy(np.array(column)).to(self.tensor.device)
        if kept:
            self._sent[key] = column, sent  # the array along, so that no other takes its address
            while len(self._sent) > KEPT_COLUMNS:
                self._sent.popitem(last=False)
        return sent

    def mapped(self, features) -> DeviceBlocks:
        """Features of all rows, computed once and kept on the device."""
        import torch

        place = OnDevice(Rows(self, features=features), self)
        with device_work():
            Z = torch.empty((place.n, place.width), dtype=place.dtype, device=place.device)
            for where, part in place.blocks():
                Z[where] = part
        return DeviceBlocks(Z, self.name)


@contextmanager
def device_work():
    """Products of float32 matrices with all their digits, and an error that says what to do."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            yield
    except torch.cuda.OutOfMemoryError as error:
        raise MemoryError(
            f"The device ran out of memory: {str(error).split('. GPU')[0]}. Pass float32 rows, "
            "lower n_components, or work on the host: X.cpu().numpy()."
        ) from error
    finally:
        torch.set_float32_matmul_precision(before)


def bounds_of(n: int, row_bytes: int) -> list[tuple[int, int]]:
    """Blocks of as many rows as a budget of memory allows."""
    size = max(1024, BLOCK_BYTES // max(row_bytes, 1))
    return [(i, min(i + size, n)) for i in range(0, n, size)]


# -- rows of Z -------------------------------------------------------------------------------------


class OnDevice:
    """Rows of Z on a device: what ``Rows.tile`` is in memory, for blocks of a million rows."""

    def __init__(self, rows: Rows, blocks: DeviceBlocks):
        self.rows, self.X, self.n = rows, blocks.tensor, blocks.shape[0]
        self.device, self.width = self.X.device, rows.shape[1]
        self.map = None if rows.features is None else device_map(rows.features, self.device)
        self.dtype = self.X.dtype if self.map is None else self.map.dtype
        self.offset = None if rows.offset is None else self.send(rows.offset)

    def send(self, array, dtype=None):
        """An array of the host on this device."""
        import torch

        return torch.as_tensor(np.asarray(array)).to(self.device, dtype or self.dtype)

    def blocks(self, extra: int = 0) -> Iterator[tuple[slice, Any]]:
        """Blocks of rows of Z; ``extra`` numbers per row are needed beside them."""
        widest = self.width + extra + (0 if self.map is None else self.map.n_landmarks)
        for start, stop in bounds_of(self.n, widest * self.X.element_size()):
            yield slice(start, stop), self.values(self.X[start:stop])

    def values(self, X):
        """Rows of Z."""
        Z = X if self.map is None else self.map.values(X)
        Z = Z if self.offset is None else Z - self.offset
        return Z if self.rows.scale == 1.0 else Z * self.rows.scale


class DeviceMap:
    """A feature map whose landmarks and projection are on a device."""

    def __init__(self, fmap, device):
        import torch

        self.fmap, self.device = fmap, device
        self.dtype = torch.float32 if fmap.dtype == np.float32 else torch.float64
        self.landmarks = None if fmap.landmarks is None else self._sent(fmap.landmarks)
        self.input_offset, self.axes = self._sent(fmap.input_offset), self._sent(fmap.axes)
        self.projection, self.offset = self._sent(fmap.projection), self._sent(fmap.offset)

    @property
    def n_landmarks(self) -> int:
        """Kernel values of a row that are held on the way to its features."""
        return 0 if self.landmarks is None else len(self.landmarks)

    def _sent(self, array):
        import torch

        return None if array is None else torch.as_tensor(array).to(self.device, self.dtype)

    def values(self, X):
        """Z of raw rows: see ``FeatureMap.values``."""
        if self.landmarks is None:
            return (X.to(self.dtype) - self.offset) * self.fmap.scale
        K = self.kernel_values(X)
        if self.projection is None:
            return K
        return (K @ self.projection).sub_(self.offset).mul_(self.fmap.scale)

    def kernel_values(self, X):
        """Kernel between raw rows and the landmarks."""
        X = X.to(self.dtype)
        X = X if self.input_offset is None else X - self.input_offset
        return device_kernel(
            X if self.axes is None else X @ self.axes,
            self.landmarks,
            self.fmap.kernel,
            self.fmap.params,
        )


class DeviceStack:
    """Feature maps side by side on a device: ``cutting_plane._kernel_list.FeatureStack``."""

    def __init__(self, stack, device):
        self.maps = [DeviceMap(fmap, device) for fmap in stack.maps]
        self.columns = [
            slice(None) if source.columns is None else source.columns.tolist()
            for source in stack.sources
        ]
        self.dtype = self.maps[0].dtype

    @property
    def n_landmarks(self) -> int:
        """Kernel values of a row that are held on the way to its features."""
        return max(part.n_landmarks for part in self.maps)

    def values(self, X):
        """Features of raw rows."""
        import torch

        parts = [fmap.values(X[:, seen]) for fmap, seen in zip(self.maps, self.columns)]
        return torch.cat([part.to(self.dtype) for part in parts], dim=1)


def device_map(features, device):
    """A feature map, or a stack of them, on a device."""
    return (DeviceStack if hasattr(features, "maps") else DeviceMap)(features, device)


def device_kernel(X, Y, kernel, params: dict):
    """Kernel matrix between two sets of rows on a device: see ``features.evaluate_kernel``."""
    import torch

    if kernel not in DEVICE_KERNELS:
        raise ValueError(
            f"kernel={kernel!r} does not work on a device; choose a kernel by its name, or pass X "
            "as an array: X.cpu().numpy(), or cupy.asnumpy(X)."
        )
    if kernel == "laplacian":
        K = torch.cdist(X, Y, p=1.0).mul_(-params["gamma"]).exp_()
    elif kernel == "cosine":
        K = torch.nn.functional.normalize(X, dim=1) @ torch.nn.functional.normalize(Y, dim=1).T
    else:
        K = X @ Y.T
    if kernel == "rbf":
        K.mul_(2.0).sub_((X * X).sum(dim=1)[:, None]).sub_((Y * Y).sum(dim=1)[None, :])
        K.clamp_(max=0.0).mul_(params["gamma"]).exp_()
    elif kernel in ("poly", "sigmoid"):
        K.mul_(params["gamma"]).add_(params["coef0"])
        K = K.pow_(params["degree"]) if kernel == "poly" else K.tanh_()
    if not bool(K.isfinite().all()):
        raise ValueError(
            f"kernel={kernel!r} gave values that are not finite on these rows; scale X first or "
            "choose kernel='rbf'."
        )
    return K
