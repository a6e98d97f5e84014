"""ONNX graphs give the labels and scores of the models."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    AlternatingMarginClustering,
    BisectingMarginClustering,
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    MultipleKernelMarginClustering,
    PairwiseMarginClustering,
    SemidefiniteMarginClustering,
    table_pipeline,
    to_onnx,
)

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)
CENTRES = np.array([[0, 0, 0], [5, 0, 0], [0, 5, 0]])
X = np.concatenate([RNG.normal(size=(20 - 3 * j, 3)) + CENTRES[j] for j in range(3)])
NEW = np.concatenate([X, RNG.normal(size=(10_000, 3)) * 4 + 1])
TWO = {"n_clusters": 2, "random_state": 0}
THREE = {"n_clusters": 3, "random_state": 0}
ESTIMATORS = {
    "alternating": AlternatingMarginClustering(**THREE),
    "recursive": AlternatingMarginClustering(**THREE, multi_class="recursive"),
    "bisecting": BisectingMarginClustering(**THREE),
    "cutting planes": CuttingPlaneMarginClustering(**THREE),
    "least squares": LeastSquaresMarginClustering(**THREE),
    "front door": MaxMarginClustering(**THREE, n_resamples=0),
    "pairwise": PairwiseMarginClustering(**TWO),
    "semidefinite": SemidefiniteMarginClustering(**TWO),
}


def check(model, rows=NEW):
    graph = to_onnx(model)
    session = runtime.InferenceSession(graph.SerializeToString())
    label, scores = session.run(["label", "scores"], {"X": rows})
    expected = model.decision_function(rows)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5 * abs(expected).max())
    np.testing.assert_array_equal(label, model.predict(rows))


@pytest.mark.filterwarnings("ignore:No constraints", "ignore:Clusters are probably not")
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_labels_and_scores_are_those_of_the_model(name, kernel):
    model = ESTIMATORS[name]
    inner = {"estimator": AlternatingMarginClustering(kernel=kernel)}
    model.set_params(**(inner if name == "bisecting" else {"kernel": kernel}))
    check(model.fit(X))


@pytest.mark.parametrize("kernel", ["poly", "sigmoid", "cosine"])
def test_other_kernels(kernel):
    rows = NEW[:500]
    check(AlternatingMarginClustering(**TWO, kernel=kernel, gamma=0.1).fit(X), rows)


def test_several_kernels_on_some_columns_and_a_scaler():
    model = MultipleKernelMarginClustering(2, kernels=["linear", "rbf"], random_state=0)
    check(make_pipeline(StandardScaler(), model).fit(X), NEW[:500])


def test_one_cluster_and_written_files(tmp_path):
    model = CuttingPlaneMarginClustering(1).fit(X)
    check(model, NEW[:50])
    graph = to_onnx(model, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == graph.SerializeToString()


def test_what_cannot_be_exported_says_so():
    pd = pytest.importorskip("pandas")
    known = np.full(len(X), -1)
    known[[0, 20, 37]] = [0, 1, 2]
    frame = pd.DataFrame(X, columns=list("abc"))
    quick = MaxMarginClustering(3, n_resamples=0, random_state=0)
    for model, message in (
        (
            AlternatingMarginClustering(kernel="laplacian", **TWO).fit(X),
            "kernel='laplacian'; it can",
        ),
        (AlternatingMarginClustering(kernel="precomputed", **TWO).fit(X @ X.T), "precomputed"),
        (quick.fit(X, partial_labels=known), "known labels of every cluster"),
        (
            table_pipeline(frame, clone(quick)).fit(frame),
            "the step TableColumns: export",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            to_onnx(model)
