"""Export of fitted models to ONNX, for prediction in other languages and runtimes."""

from __future__ import annotations

import os
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from ._bisecting import SplitModels
from ._core.features import FeatureMap
from ._core.model import Model
from ._files import atomic_write, needed
from .cutting_plane._kernel_list import FeatureStack
from .least_squares._graph import MixedMap

__all__ = ["to_onnx"]

OPSET, IR_VERSION = 17, 8  # known to runtimes since 2022
KERNELS = ("linear", "rbf", "poly", "sigmoid", "cosine")
SAME = 1e-11  # squared distance, relative to the largest, of rows that count as equal


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """Return a fitted model as an ONNX graph.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator with a kernel "linear", "rbf", "poly", "sigmoid" or "cosine", or a
        pipeline of StandardScaler steps and one.
    path : path, optional
        File to write the graph to.

    Returns
    -------
    onnx.ModelProto
        Input ``X`` (float64, of any number of rows); outputs ``label`` (int64), as of ``predict``,
        and ``scores`` (float64), as of ``decision_function``. It needs the memory of one number for
        each row and landmark: pass many rows in parts.

    Raises
    ------
    ValueError
        If the model cannot be exported: other kernels, fits with known labels, and pipelines with
        other steps, such as those of :func:`table_pipeline`.

    See Also
    --------
    maxmargin.persistence.save_model : Save a model for Python.

    Examples
    --------
    >>> from maxmargin import AlternatingMarginClustering, to_onnx
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(60, centers=2, random_state=0)
    >>> graph = to_onnx(AlternatingMarginClustering(2, random_state=0).fit(X))
    >>> [output.name for output in graph.graph.output]
    ['label', 'scores']
    """
    onnx = needed("onnx", "onnx")
    steps = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    check_is_fitted(steps[-1])
    graph = _Graph()
    rows = "X"
    for step in steps[:-1]:
        if not isinstance(step, StandardScaler):
            raise ValueError(
                f"to_onnx cannot export the step {type(step).__name__}: export model[-1], and "
                "prepare rows with model[:-1]."
            )
        shift = np.zeros(step.n_features_in_) if step.mean_ is None else step.mean_
        scale = np.ones(step.n_features_in_) if step.scale_ is None else step.scale_
        rows = graph.add("Div", graph.add("Sub", rows, shift), scale)
    scores = _scores(graph, steps[-1], rows)
    graph.add("Identity", scores, output="scores")
    graph.add("ArgMax", scores, output="label", axis=1, keepdims=0)
    helper, kinds = onnx.helper, onnx.TensorProto
    info = helper.make_tensor_value_info
    inputs = [info("X", kinds.DOUBLE, [None, steps[0].n_features_in_])]
    scores_info = info("scores", kinds.DOUBLE, [None, len(steps[-1]._paths)])
    outputs = [info("label", kinds.INT64, [None]), scores_info]
    whole = helper.make_graph(graph.nodes, "maxmargin", inputs, outputs, graph.constants)
    opset = {"opset_imports": [helper.make_opsetid("", OPSET)], "ir_version": IR_VERSION}
    made = helper.make_model(whole, producer_name="maxmargin", **opset)
    onnx.checker.check_model(made)
    if path is not None:
        with atomic_write(path) as partial:
            partial.write_bytes(made.SerializeToString())
    return made


class _Graph:
    """Nodes and constants of a graph; arrays among the inputs of a node become constants."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operation: str, *inputs: Any, output: str | None = None, **options: Any) -> str:
        """Add a node and return the name of its result."""
        onnx = needed("onnx", "onnx")
        output = output or f"v{len(self.nodes)}"
        names = [name if isinstance(name, str) else self._constant(name) for name in inputs]
        self.nodes.append(onnx.helper.make_node(operation, names, [output], **options))
        return output

    def total(self, parts: list[str]) -> str:
        """Add the sum of results."""
        return reduce(lambda a, b: self.add("Add", a, b), parts)

    def beside(self, parts: list[str]) -> str:
        """Add the columns of results beside each other."""
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)

    def zero(self, rows: str) -> str:
        """Add a column of zeros."""
        return self.add("Mul", self.add("ReduceSum", rows, np.array([1]), keepdims=1), 0.0)

    def top(self, values: str, count: int) -> tuple[str, str]:
        """Add the largest values of every row, and their places."""
        found = f"top{len(self.nodes)}", f"places{len(self.nodes)}"
        inputs = [values, self._constant(np.array([count]))]
        self.nodes.append(needed("onnx", "onnx").helper.make_node("TopK", inputs, found, axis=1))
        return found

    def _constant(self, value: Any) -> str:
        onnx = needed("onnx", "onnx")
        array = np.asarray(value.toarray() if sparse.issparse(value) else value)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(array.copy(order="C"), name))
        return name


def _scores(graph: _Graph, model: Any, rows: str) -> str:
    """Add the scores of the clusters."""
    features = model.feature_map_
    coef, levels, paths = Model(features, model.coef_, model.intercept_, model._paths).shared()
    if not len(coef):  # one cluster
        return graph.add("MatMul", graph.zero(rows), np.zeros((1, len(paths))))
    if isinstance(features, MixedMap):
        found = _mixed(graph, features, coef.T, rows)
    else:
        found = graph.add("MatMul", _values(graph, features, rows), coef.T)
    found = graph.add("Add", found, levels)
    if paths.shape[0] == paths.shape[1]:
        return found
    columns = []
    for path in paths:  # the score of a leaf is the least of the signed scores on its path
        used = np.flatnonzero(path)
        own = graph.add("Gather", found, used if len(used) else np.array([0]), axis=1)
        signed = graph.add("Mul", own, path[used] if len(used) else np.zeros(1))
        columns.append(graph.add("ReduceMin", signed, axes=[1], keepdims=1))
    return graph.add("Concat", *columns, axis=1)


def _values(graph: _Graph, features: Any, rows: str) -> str:
    """Add the features of a map."""
    if isinstance(features, SplitModels):
        if features.pairwise:
            raise ValueError("to_onnx cannot export kernel='precomputed'.")
        return graph.beside([_lead(graph, model, rows) for model in features.models])
    if isinstance(features, FeatureStack):
        parts = []
        for spec, one in zip(features.specs, features.maps):
            own = rows
            if spec.columns is not None:
                own = graph.add("Gather", rows, np.asarray(spec.columns), axis=1)
            parts.append(_values(graph, one, own))
        return graph.beside(parts)
    if not isinstance(features, FeatureMap):
        raise ValueError(
            "to_onnx cannot export a model that was fitted with known labels of every cluster; fit "
            "without partial_labels."
        )
    if features.landmarks is not None:
        rows = _kernel(graph, features, _points(graph, features, rows))
        if features.projection is None:
            return rows
        rows = graph.add("MatMul", rows, features.projection)
    return graph.add("Mul", graph.add("Sub", rows, features.offset), float(features.scale))


def _lead(graph: _Graph, model: Any, rows: str) -> str:
    """Add half the lead of side 1 of a two-way model; -1 if it has none."""
    if model is None:
        return graph.add("Sub", graph.zero(rows), 1.0)
    return graph.add("MatMul", _scores(graph, model, rows), np.array([[-0.5], [0.5]]))


def _mixed(graph: _Graph, features: MixedMap, columns: np.ndarray, rows: str) -> str:
    """Add the scores of kernels and of the nearest landmarks."""
    m, parts = len(features.places), []
    for number, kernel in enumerate(features.kernels):
        points = _points(graph, kernel, rows)
        K = _kernel(graph, kernel, points)
        parts.append(graph.add("MatMul", K, columns[number * m : (number + 1) * m]))
        if number == 0 and features.n_neighbors:
            values = columns[len(features.kernels) * m :]
            parts.append(_neighbours(graph, features, points, K, values))
    return graph.total(parts)


def _neighbours(graph: _Graph, features: MixedMap, points: str, K: str, values: np.ndarray) -> str:
    """Add the mean of the values of the nearest landmarks; a landmark has its own value."""
    kernel = features.kernels[0]
    if kernel.kernel == "rbf":
        near = _negative_squares(graph, points, kernel.landmarks)
        largest = float(np.einsum("ij,ij->i", kernel.landmarks, kernel.landmarks).max())
    else:
        near = graph.add("Sub", graph.add("Mul", K, 2.0), features.diagonal)
        near = graph.add("Sub", near, _self_kernel(graph, kernel, points))
        largest = float(np.abs(features.diagonal).max())
    top, places = graph.top(near, features.n_neighbors)
    nearest = graph.add("Gather", values, places, axis=0)
    mean = graph.add("ReduceMean", nearest, axes=[1], keepdims=0)
    first = graph.add("Gather", places, np.array(0), axis=1)
    own = graph.add("Gather", values, first, axis=0)
    is_own = graph.add("Greater", graph.add("Gather", top, np.array([0]), axis=1), -SAME * largest)
    return graph.add("Where", is_own, own, mean)


def _points(graph: _Graph, features: FeatureMap, rows: str) -> str:
    """Add rows as the kernel sees them: shifted and projected."""
    if features.kernel not in KERNELS:
        name = features.kernel if isinstance(features.kernel, str) else "a function"
        raise ValueError(f"to_onnx cannot export kernel={name!r}; it can {', '.join(KERNELS)}.")
    if features.input_offset is not None:
        rows = graph.add("Sub", rows, features.input_offset)
    return rows if features.axes is None else graph.add("MatMul", rows, features.axes)


def _kernel(graph: _Graph, features: FeatureMap, points: str) -> str:
    """Add the kernel between points and the landmarks."""
    landmarks, params = features.landmarks, features.params
    landmarks = landmarks.toarray() if sparse.issparse(landmarks) else np.asarray(landmarks, float)
    if features.kernel == "rbf":
        D = _negative_squares(graph, points, landmarks)
        gammas = params["gamma"] if isinstance(params["gamma"], tuple) else (params["gamma"],)
        values = [graph.add("Exp", graph.add("Mul", D, float(gamma))) for gamma in gammas]
        return graph.add("Mul", graph.total(values), 1.0 / len(values))
    if features.kernel == "cosine":
        norms = graph.add("Sqrt", _squares(graph, points))
        points = graph.add("Div", points, graph.add("Max", norms, 1e-300))
        squares = np.sqrt((landmarks**2).sum(axis=1, keepdims=True))
        landmarks = landmarks / np.where(squares > 0, squares, 1.0)
    return _of_products(graph, features, graph.add("MatMul", points, landmarks.T))


def _of_products(graph: _Graph, features: FeatureMap, products: str) -> str:
    params = features.params
    if features.kernel not in ("poly", "sigmoid"):
        return products
    inner = graph.add("Add", graph.add("Mul", products, params["gamma"]), params["coef0"])
    if features.kernel == "sigmoid":
        return graph.add("Tanh", inner)
    return graph.add("Pow", inner, float(params["degree"]))


def _self_kernel(graph: _Graph, features: FeatureMap, points: str) -> str:
    """Add the kernel of every point with itself."""
    squares = _squares(graph, points)
    if features.kernel == "cosine":
        return graph.add("Add", graph.add("Mul", squares, 0.0), 1.0)
    return _of_products(graph, features, squares)


def _squares(graph: _Graph, points: str) -> str:
    return graph.add("ReduceSum", graph.add("Mul", points, points), np.array([1]), keepdims=1)


def _negative_squares(graph: _Graph, points: str, landmarks: np.ndarray) -> str:
    """Add minus the squared distances between points and landmarks."""
    landmarks = np.asarray(landmarks, float)
    twice = graph.add("MatMul", points, 2.0 * landmarks.T)
    found = graph.add("Sub", twice, _squares(graph, points))
    found = graph.add("Sub", found, np.einsum("ij,ij->i", landmarks, landmarks))
    return graph.add("Min", found, 0.0)
