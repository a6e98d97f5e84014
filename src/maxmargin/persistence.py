"""Save and load fitted models.

A ``.skops`` file contains data only: loading it runs no code from the file, and only the types in
``TRUSTED`` and those that skops trusts (numpy, scipy, scikit-learn) are created. A ``.joblib`` or
``.pkl`` file is a pickle, which can run arbitrary code: load only files that you trust.
"""

from __future__ import annotations

import copy
import os
import pickle
import warnings
import zipfile
import zlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ._files import DataError, atomic_write, check_exists, check_suffix

__all__ = ["load_model", "save_model"]

MODEL_SUFFIXES = (".skops", ".joblib", ".pkl")
_VERSION = "_maxmargin_version"
# The types that saved models consist of. A file determines the arguments that they are called with
# and their state: neither may do more than store values. New estimators and classes of fitted
# attributes are added by name; no type is trusted because of its package.
TRUSTED = (
    "maxmargin._auto.MaxMarginClustering",
    "maxmargin._bisecting.BisectingMarginClustering",
    "maxmargin._bisecting.SplitModels",
    "maxmargin._column_steps.DateParts",
    "maxmargin._column_steps.Logarithms",
    "maxmargin._column_steps.Numbers",
    "maxmargin._column_steps.Strings",
    "maxmargin._column_steps.TextAxes",
    "maxmargin._column_steps.Words",
    "maxmargin._core.features.FeatureMap",
    "maxmargin.alternating._estimator.AlternatingMarginClustering",
    "maxmargin.constraints.PairwiseConstraints",
    "maxmargin.cutting_plane._estimator.CuttingPlaneMarginClustering",
    "maxmargin.cutting_plane._kernel_list.FeatureStack",
    "maxmargin.cutting_plane._kernel_list.KernelSpec",
    "maxmargin.cutting_plane._multiple_kernel.MultipleKernelMarginClustering",
    "maxmargin.least_squares._confidence.Alternative",
    "maxmargin.least_squares._confidence.Calibration",
    "maxmargin.least_squares._confidence.Outliers",
    "maxmargin.least_squares._confidence.Resamples",
    "maxmargin.least_squares._estimator.LeastSquaresMarginClustering",
    "maxmargin.least_squares._few_labels.LabelledMap",
    "maxmargin.least_squares._few_labels.Probabilities",
    "maxmargin.least_squares._graph.MixedMap",
    "maxmargin.pairwise._estimator.PairwiseMarginClustering",
    "maxmargin.semidefinite._estimator.SemidefiniteMarginClustering",
    "maxmargin.tables.TableColumns",
    # skops creates the first from the type of an empty array, the others by scipy.sparse.load_npz.
    "numpy.dtype",
    "scipy.sparse._csr.csr_matrix",
    "scipy.sparse._csr.csr_array",
)
_BROKEN = pickle.UnpicklingError, zlib.error, EOFError, ValueError, LookupError, OSError
_OTHER_VERSION = (
    "It may come from another version of maxmargin or scikit-learn; fit and save it again"
)
_NO_SKOPS = 'Install it (pip install "maxmargin[cli]"), or use a name that ends in .joblib'


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted model and the version of maxmargin, atomically.

    Parameters
    ----------
    model : estimator
        A fitted estimator or pipeline. Callbacks set on it are not saved, nor are
        ``confidence_``, ``outlier_score_`` and ``is_outlier_``: a file does not grow with the
        number of rows but for ``labels_``, and ``confidence(X)``, ``outlier_score(X)`` and
        ``is_outlier(X)`` compute them again.
    path : path
        ``.skops`` (recommended: safe to load), or ``.joblib`` or ``.pkl`` (a pickle).

    See Also
    --------
    maxmargin.persistence.load_model : Load the file.
    maxmargin.to_onnx : Export for programs in other languages.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.cluster import KMeans
    >>> from maxmargin.persistence import load_model, save_model
    >>> model = KMeans(2, n_init=1).fit([[0.0], [1.0], [9.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.skops")
    ...     save_model(model, path)
    ...     again = load_model(path)
    >>> bool((again.predict([[8.0]]) == model.predict([[8.0]])).all())
    True
    """
    from sklearn.utils.validation import check_is_fitted

    suffix = check_suffix(path, MODEL_SUFFIXES)
    check_is_fitted(model)
    stamped = _without_rows(model)
    if hasattr(stamped, "set_callbacks"):
        stamped.set_callbacks()
    setattr(stamped, _VERSION, package_version("maxmargin"))
    with atomic_write(path) as partial:
        if suffix == ".skops":
            _skops().dump(stamped, partial, compression=zipfile.ZIP_DEFLATED)
        else:
            import joblib

            joblib.dump(stamped, partial, compress=3)


def _without_rows(model: Any) -> Any:
    """Return a copy without what the model computes again for any rows."""
    left_out: tuple[str, ...] = getattr(model, "_of_rows", ())
    if left_out:
        _ = model.report_  # which needs them
    made = copy.copy(model)
    for name in left_out:
        vars(made).pop(name, None)
    if hasattr(made, "steps"):
        *others, (name, last) = made.steps
        made.steps = [*others, (name, _without_rows(last))]
    return made


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save_model` wrote.

    Parameters
    ----------
    path : path
        A ``.skops``, ``.joblib`` or ``.pkl`` file. The last two can run arbitrary code: load only
        files that you trust.

    Returns
    -------
    estimator
        The fitted model. A warning is raised if another version of maxmargin saved it.

    Raises
    ------
    DataError
        If the file is missing, truncated, not a model, or contains types that are not trusted.

    See Also
    --------
    maxmargin.persistence.save_model : Save a model.

    Examples
    --------
    >>> from maxmargin.persistence import load_model
    >>> load_model("no-such-model.skops")
    Traceback (most recent call last):
        ...
    maxmargin._files.DataError: no-such-model.skops does not exist. ...
    """
    path = Path(path)
    check_exists(path)
    if path.suffix.lower() not in MODEL_SUFFIXES:
        order = "on the command line, the model comes first, then the data"
        remedy = f"Model files end in {', '.join(MODEL_SUFFIXES)}; {order}"
        raise DataError(f"{path} does not have the suffix of a model", remedy)
    model = _load_skops(path) if path.suffix.lower() == ".skops" else _load_pickle(path)
    if not hasattr(model, "predict"):
        what = f"{path} contains a {type(model).__name__}, not a model"
        raise DataError(what, "Give a file saved by maxmargin")
    saved, here = model.__dict__.pop(_VERSION, None), package_version("maxmargin")
    if saved is not None and here is not None and saved != here:
        what = f"{path} was saved by maxmargin {saved}, this is {here}: results may differ"
        warnings.warn(f"{what}; fit it again if they look wrong", UserWarning, stacklevel=2)
    return model


def package_version(name: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise DataError("models in .skops files need skops", _NO_SKOPS) from error
    return skops.io


def _load_skops(path: Path) -> Any:
    skops = _skops()
    try:
        foreign = sorted(set(skops.get_untrusted_types(file=path)).difference(TRUSTED))
        if not foreign:
            return skops.load(path, trusted=list(TRUSTED))
    except zipfile.BadZipFile as error:
        what = f"{path} is truncated or not a skops file"
        raise DataError(what, "Save the model again") from error
    except Exception as error:
        what = f"{path} cannot be loaded ({type(error).__name__}: {error})"
        raise DataError(what, _OTHER_VERSION) from error
    what = f"{path} contains types that are not trusted: {', '.join(foreign)}"
    own = all(name.startswith("maxmargin.") for name in foreign)  # modules that have moved
    raise DataError(
        what, _OTHER_VERSION if own else "If you trust its source, load it with skops.io.load"
    )


def _load_pickle(path: Path) -> Any:
    import joblib

    what = f"{path} is a pickle, which can run arbitrary code: load only files that you trust"
    warnings.warn(f"{what} (.skops files are safe)", UserWarning, stacklevel=3)
    try:
        return joblib.load(path)
    except (ImportError, AttributeError) as error:
        raise DataError(f"{path} cannot be loaded ({error})", _OTHER_VERSION) from error
    except _BROKEN as error:
        what = f"{path} is truncated or not a saved model ({type(error).__name__})"
        raise DataError(what, "Save it again") from error
