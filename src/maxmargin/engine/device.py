"""Rows on a device: torch tensors and cupy arrays, worked on where they are.

:class:`DeviceBlocks` stands where an array stands. Every block kernel of the engine that such rows
need has a counterpart here, in plain torch; the pass of the cutting planes is one fused kernel
where it can be (``kernels/gpu.py``). What the passes make for every row stays on the device; sums
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

from .blocks import LARGEST, LARGEST32, RowBlocks, check_block
from .rows import Rows, all_equal, blocks_of

BLOCK_BYTES = 2**30  # of what is held at a time beside the rows
HOST_ROWS = 100_000  # samples of at most this many rows are worked on by the host
KEPT_COLUMNS = 4  # weights and the like are sent once for all passes


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
    return _host(as_tensor(X)) if is_tensor(X) else X


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


def device_rows(X):
    """Rows of a tensor: an array where it is in the host's memory, else blocks on its device."""
    tensor = as_tensor(X)
    if tensor.layout != sys.modules["torch"].strided:
        raise ValueError(f"X is a tensor of layout {tensor.layout}; dense rows are needed.")
    return tensor.numpy() if tensor.device.type == "cpu" else DeviceBlocks(X)


class DeviceBlocks(RowBlocks):
    """The rows of a dense tensor.

    Examples
    --------
    >>> torch = __import__("pytest").importorskip("torch")
    >>> X = DeviceBlocks(torch.ones(3, 2))
    >>> X.shape, X[np.array([1])].tolist()
    ((3, 2), [[1.0, 1.0]])
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
        self.tensor = tensor
        dtype = np.dtype(np.float32 if tensor.dtype == torch.float32 else np.float64)
        super().__init__(self._rows, [tensor.shape[0]], tensor.shape[1], dtype, name=name)
        self._sent: OrderedDict[int, tuple[Any, Any]] = OrderedDict()

    def _rows(self, _i: int) -> np.ndarray:
        return _host(self.tensor)

    def __getitem__(self, rows):
        """Chosen rows, on the host."""
        if isinstance(rows, tuple):
            rows, columns = rows
            return self[rows][:, columns]
        if not isinstance(rows, slice):
            rows = self._index(np.asarray(rows))
        return _host(self.tensor[rows])

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
        for start, stop in _bounds(self.shape[0], self.shape[1] * self.dtype.itemsize):
            part = self.tensor[start:stop]
            low, high = (float(end) for end in part.aminmax())  # NaN shows in both
            if not (low >= -limit and high <= limit):
                bad = int((~(part.abs() <= limit)).any(dim=1).nonzero()[0, 0])
                row = _host(part[bad : bad + 1])
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
        counterpart = COUNTERPARTS.get(kernel.__name__)
        if counterpart is None:
            raise ValueError(
                "This method does not work on rows on a device. Pass them as an array: "
                "X.cpu().numpy(), or cupy.asnumpy(X)."
            )
        with full_precision():
            made, sums = counterpart(
                OnDevice(rows, self), [self._column(c) for c in columns], *shared
            )
        return made, iter(sums)

    def _column(self, column):
        """A column on the device; a number where it repeats one."""
        if not isinstance(column, np.ndarray):
            return column
        if all_equal(column):
            return column[0]
        key = id(column)
        if key not in self._sent:
            import torch

            # The array is kept along, so that no other takes its address.
            self._sent[key] = column, torch.from_numpy(np.array(column)).to(self.tensor.device)
            while len(self._sent) > KEPT_COLUMNS:
                self._sent.popitem(last=False)
        return self._sent[key][1]


@contextmanager
def full_precision():
    """Products of float32 matrices with all their digits, whatever the user has set."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def _bounds(n: int, row_bytes: int) -> list[tuple[int, int]]:
    """Blocks of as many rows as a budget of memory allows."""
    size = max(1024, BLOCK_BYTES // max(row_bytes, 1))
    return [(i, min(i + size, n)) for i in range(0, n, size)]


# -- rows of Z -------------------------------------------------------------------------------------


class OnDevice:
    """Rows of Z on a device: what ``Rows.tile`` is in memory, for blocks of a million rows."""

    def __init__(self, rows: Rows, blocks: DeviceBlocks):
        self.rows, self.X, self.n = rows, blocks.tensor, blocks.shape[0]
        self.device, self.width = self.X.device, rows.shape[1]
        self.map = None if rows.features is None else DeviceMap(rows.features, self.device)
        self.dtype = self.X.dtype if self.map is None else self.map.dtype
        self.offset = None if rows.offset is None else self.send(rows.offset)

    def send(self, array, dtype=None):
        """An array of the host on this device."""
        import torch

        return torch.as_tensor(np.asarray(array)).to(self.device, dtype or self.dtype)

    def blocks(self, extra: int = 0) -> Iterator[tuple[slice, Any]]:
        """Blocks of rows of Z; ``extra`` numbers per row are needed beside them."""
        widest = self.width + extra + (0 if self.map is None else self.map.n_landmarks)
        for start, stop in _bounds(self.n, widest * self.X.element_size()):
            yield slice(start, stop), self.values(self.X[start:stop])

    def values(self, X):
        """Rows of Z."""
        if self.map is not None:
            return self.map.values(X)
        Z = X if self.offset is None else X - self.offset
        return Z if self.rows.scale == 1.0 else Z * self.rows.scale


class DeviceMap:
    """A feature map whose landmarks and projection are on a device."""

    def __init__(self, fmap, device):
        import torch

        if not hasattr(fmap, "landmarks"):
            raise ValueError(
                "Features of several kernels are not mapped on a device. Pass the rows as an "
                "array: X.cpu().numpy(), or cupy.asnumpy(X)."
            )
        self.fmap, self.device = fmap, device
        self.dtype = torch.float32 if fmap.dtype == np.float32 else torch.float64
        self.landmarks = None if fmap.landmarks is None else self._sent(fmap.landmarks)
        self.input_offset, self.axes = self._sent(fmap.input_offset), self._sent(fmap.axes)
        self.projection, self.offset = self._sent(fmap.projection), self._sent(fmap.offset)

    @property
    def n_landmarks(self) -> int:
        return 0 if self.landmarks is None else len(self.landmarks)

    def _sent(self, array):
        import torch

        return None if array is None else torch.as_tensor(array).to(self.device, self.dtype)

    def values(self, X):
        """Z of raw rows: see ``FeatureMap.values``."""
        K = self.kernel_values(X)
        if self.projection is None:
            return K
        Z = K @ self.projection
        Z -= self.offset
        Z *= self.fmap.scale
        return Z

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


def device_kernel(X, Y, kernel, params: dict):
    """Kernel matrix between two sets of rows on a device: see ``features.evaluate_kernel``."""
    import torch

    if kernel == "laplacian":
        K = torch.cdist(X, Y, p=1.0).mul_(-params["gamma"]).exp_()
    elif kernel == "cosine":
        K = torch.nn.functional.normalize(X, dim=1) @ torch.nn.functional.normalize(Y, dim=1).T
    elif kernel in ("linear", "rbf", "poly", "sigmoid"):
        K = X @ Y.T
    else:
        raise ValueError(
            f"kernel={kernel!r} does not work on a device; choose a kernel by its name, or pass X "
            "as an array: X.cpu().numpy(), or cupy.asnumpy(X)."
        )
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


# -- block kernels ---------------------------------------------------------------------------------


def score_rows(place: OnDevice, _columns, weights):
    """Counterpart of ``rows.score_block``: to the host."""
    columns = place.send(weights.T)
    return (), [_host(Z @ columns) for _, Z in place.blocks(len(weights))]


def sum_rows(place: OnDevice, columns):
    """Counterpart of ``rows.sum_block``."""
    total = 0.0
    for where, Z in place.blocks():
        codes = columns[0]
        if isinstance(codes, np.generic | float):
            part = Z.sum(dim=0, keepdim=True, dtype=sys.modules["torch"].float64) * float(codes)
        else:
            codes = codes[where].to(Z.dtype)
            part = ((codes if codes.ndim == 2 else codes[:, None]).T @ Z).double()
        total = total + part
    return (), [_host(total)]


def member_rows(place: OnDevice, columns, k: int):
    """Counterpart of ``rows.member_block``."""
    import torch

    total, sizes = 0.0, 0.0
    for where, Z in place.blocks(k):
        member = torch.zeros((len(Z), k), dtype=Z.dtype, device=Z.device)
        member.scatter_(1, columns[0][where].long()[:, None], _weights(columns[1], where, Z)[:, None])
        total, sizes = total + (member.T @ Z).double(), sizes + member.sum(dim=0, dtype=torch.float64)
    return (), [(_host(total), _host(sizes))]


def gram_rows(place: OnDevice, columns):
    """Counterpart of ``rows.gram_block``."""
    total = 0.0
    for where, Z in place.blocks(place.width):
        total = total + ((Z * _weights(columns[0], where, Z)[:, None]).T @ Z).double()
    return (), [_host(total)]


def square_rows(place: OnDevice, columns, total: float, centre: np.ndarray):
    """Counterpart of ``features.square_block``."""
    mean, offset = 0.0, None if place.map is None else place.send(centre)
    for where, Z in place.blocks(place.width):
        Z = (Z if offset is None else Z - offset).double()
        mean = mean + (Z * Z).sum(dim=1) @ (_weights(columns[0], where, Z) / total)
    return (), [np.array([float(mean), 0.0])]


def decide_rows(place: OnDevice, columns, coef, levels, paths):
    """Counterpart of ``_base.decide_block``: labels and leads, or what they say of the clusters."""
    import torch

    k, n = len(paths), place.n
    labels = torch.zeros(n, dtype=torch.int32, device=place.device)
    lead = torch.zeros(n, dtype=torch.float64 if n < 10**5 else torch.float32, device=place.device)
    if len(coef):
        for where, margins in margins_of(place, coef, levels, paths):
            top = margins.topk(min(2, k), dim=1, sorted=True)
            labels[where] = margins.argmax(dim=1)
            lead[where] = top.values[:, 0] - (top.values[:, 1] if k > 1 else 0.0)
    if not columns:
        return (labels, lead), [None]
    weights, known = columns
    if not isinstance(known, np.generic):
        labels = torch.where(known >= 0, known.to(labels.dtype), labels)
    sizes, first, best = np.zeros(k), np.full(k, -1), np.full(k, -np.inf)
    for cluster in range(k):
        held = labels == cluster
        sizes[cluster] = float(
            held.sum() * float(weights)
            if isinstance(weights, np.generic)
            else weights[held].sum(dtype=torch.float64)
        )
        if bool(held.any()):
            certain = torch.where(held, lead, -torch.inf).max(dim=0)
            first[cluster], best[cluster] = int(certain.indices), float(certain.values)
    return (), [(n, sizes, first, best)]


def margins_of(place: OnDevice, coef, levels, paths) -> Iterator[tuple[slice, Any]]:
    """Scores of the clusters in float64, block by block: ``_base.cluster_scores``."""
    import torch

    columns, level = place.send(coef.T), place.send(levels, torch.float64)
    for where, Z in place.blocks(4 * len(paths)):
        scores = (Z @ columns).double() + level
        if paths.shape[0] == paths.shape[1]:  # one score per cluster, not a tree
            yield where, scores
            continue
        out = scores.new_zeros((len(Z), len(paths)))
        for cluster, path in enumerate(paths):
            used = np.flatnonzero(path)
            if used.size:
                sign = place.send(path[used], torch.float64)
                out[:, cluster] = (scores[:, used.tolist()] * sign).amin(dim=1)
        yield where, out


def cut_rows(place: OnDevice, columns, coef, levels, dtype):
    """Counterpart of ``cuts.cut_block``."""
    import torch

    k, rows = len(coef), place.rows
    kind = torch.int8 if np.dtype(dtype) == np.int8 else torch.int32
    labels = torch.empty(place.n, dtype=kind, device=place.device)
    codes = torch.empty_like(labels)
    weights, fixed, *before = columns
    plain = isinstance(weights, np.generic) and weights == 1.0
    whole = place.map is None and rows.is_near
    if whole:
        # Centred in the products: the rows are read as they are.
        offset = np.zeros(place.width) if rows.offset is None else rows.offset
        wide, shift = coef.T * rows.scale, -(offset @ (coef.T * rows.scale))
        parts: Any = [(slice(0, place.n), place.X)]
    else:
        offset, wide, shift = np.zeros(place.width), coef.T, 0.0
        parts = place.blocks(4 * k)
    given = place.send(wide), place.send(levels[0] + shift), place.send(levels[1])
    gathered, sums = 0.0, 0.0
    for where, Z in parts:
        held = None if plain else _weights(weights, where, Z)
        known = None if isinstance(fixed, np.generic) else fixed[where].to(kind)
        if isinstance(fixed, np.generic) and fixed >= 0:
            known = torch.full_like(labels[where], int(fixed))
        part, part_sums = cut_pass(Z, *given, held, known, labels[where], codes[where])
        gathered, sums = gathered + part, sums + part_sums
    gathered, sums = _host(gathered), _host(sums)
    if whole:
        gathered = (gathered - np.outer(sums[2 + k :], offset)) * rows.scale
    moves = _moves(place, weights, labels, before, k) if before else None
    return (labels, codes), [(gathered, sums, moves)]


def cut_pass(Z, columns, levels, prices, weights, fixed, labels, codes):
    """Scores, the rule of ``kernels.cuts.cut_rule`` and the weighted sum of rows.

    Writes labels and codes; returns the sums as float64 tensors.
    """
    from ..kernels.gpu import can_fuse, fused_cut_pass

    if can_fuse(Z, columns.shape[1]):
        return fused_cut_pass(Z, columns, levels, prices, weights, fixed, labels, codes)
    gathered, sums = 0.0, 0.0
    k = columns.shape[1]
    for start, stop in _bounds(len(Z), 6 * k * Z.element_size() + 16):
        where = slice(start, stop)
        part, part_sums = _plain_cut_pass(
            Z[where], columns, levels, prices,
            None if weights is None else weights[where], None if fixed is None else fixed[where],
            labels[where], codes[where],
        )  # fmt: skip
        gathered, sums = gathered + part, sums + part_sums
    return gathered, sums


def _plain_cut_pass(Z, columns, levels, prices, weights, fixed, labels, codes):
    import torch

    scores = Z @ columns
    scores += levels
    own = (scores + prices).max(dim=1).indices
    if fixed is not None:
        own = torch.where(fixed >= 0, fixed.long(), own)
    own = own[:, None]
    mine = scores.gather(1, own)
    scores.scatter_(1, own, -torch.inf)
    top, rival = scores.max(dim=1, keepdim=True)
    loss = 1.0 + (top - mine)
    says = loss > 0
    weight = torch.ones_like(loss) if weights is None else weights[:, None]
    share = torch.where(says, weight, 0.0)
    matrix = torch.zeros_like(scores).scatter_(1, own, share).scatter_(1, rival, -share)
    member = torch.zeros_like(scores).scatter_(1, own, weight)
    labels[:] = own[:, 0]
    codes[:] = torch.where(says, rival + 1, 0)[:, 0]
    sums = [
        torch.where(says, weight * loss, 0.0).sum(dim=0, dtype=torch.float64),
        share.sum(dim=0, dtype=torch.float64),
        member.sum(dim=0, dtype=torch.float64),
        matrix.sum(dim=0, dtype=torch.float64),
    ]
    return (matrix.T @ Z).double(), torch.cat(sums)


def _moves(place: OnDevice, weights, labels, before, k: int):
    """What rows that change cluster add to every cut: see ``cuts._moves``."""
    import torch

    old, codes = before[0], before[1:]
    if isinstance(old, np.generic):
        old = torch.full_like(labels, int(old))
    moved = (labels != old).nonzero()[:, 0]
    if not len(moved):
        return None
    cuts = len(codes)
    gathered, sums, gains = 0.0, 0.0, 0.0
    for start, stop in _bounds(len(moved), (3 * cuts * k + 2 * place.width) * 8):
        at = moved[start:stop]
        Z = place.values(place.X[at])
        weight = _weights(weights, at, Z)
        here, there = labels[at].long()[:, None], old[at].long()[:, None]
        step = torch.zeros((len(at), k), dtype=Z.dtype, device=Z.device)
        step.scatter_(1, here, weight[:, None]).scatter_(1, there, -weight[:, None])
        code = torch.stack([c[at] for c in codes], dim=1).long()
        coded = (code > 0).to(Z.dtype)
        matrix = (coded[:, :, None] * step[:, None, :]).reshape(len(at), cuts * k)
        gathered = gathered + (matrix.T @ Z).double()
        sums = sums + matrix.sum(dim=0, dtype=torch.float64)
        gain = (code - 1 != here).to(Z.dtype) - (code - 1 != there).to(Z.dtype)
        gains = gains + (weight[:, None] * coded * gain).sum(dim=0, dtype=torch.float64)
    return None, _host(gathered), _host(sums), _host(gains)


def _weights(column, where, Z):
    """Weights of some rows, in the type of Z."""
    if isinstance(column, np.generic | float):
        return Z.new_full((len(Z),), float(column))
    return column[where].to(Z.dtype)


def _host(tensor) -> np.ndarray:
    return tensor.cpu().numpy()


COUNTERPARTS: dict[str, Callable] = {
    "score_block": score_rows,
    "sum_block": sum_rows,
    "member_block": member_rows,
    "gram_block": gram_rows,
    "square_block": square_rows,
    "decide_block": decide_rows,
    "cut_block": cut_rows,
}
