"""Ridge regressions on one factorisation, for many targets and strengths.

    min over w, b of   alpha/2 |w|^2 + sum_i share_i (y_i - w'z_i - b)^2

with centred features (of others the result is only a start) and shares that add up to one. The
spectrum of ``Z' diag(share) Z`` is computed once; it serves every alpha and labelling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .lapack import eigh
from .rows import Rows, weighted_gram, weighted_sum


@dataclass(frozen=True)
class Factor:
    """Centred rows, their shares and the spectrum of their covariance."""

    rows: Rows
    shares: np.ndarray
    eigenvalues: np.ndarray
    eigenvectors: np.ndarray

    @property
    def noise(self) -> float:
        """Precision to which the eigenvalues are known."""
        return float(np.finfo(self.rows.dtype).eps * self.eigenvalues.max(initial=0.0))

    def ridge(self, right_sides: np.ndarray, shrinkage: float | np.ndarray) -> np.ndarray:
        """``right_sides (Z' diag(share) Z + shrinkage I)^-1``, a row and a shrinkage each."""
        V, lam = self.eigenvectors, self.eigenvalues
        # A smaller shrinkage would amplify rounding errors of the eigenvalues.
        shrinkage = np.reshape(np.maximum(shrinkage, self.noise), (-1, 1))
        return np.asarray(((right_sides @ V) / (lam + shrinkage)) @ V.T)


def factorise(rows: Rows, weights: np.ndarray) -> Factor:
    """Spectrum of the weighted covariance of centred rows."""
    shares = weights / weights.sum()
    lam, V = eigh(weighted_gram(rows, shares))
    return Factor(rows, shares, np.maximum(lam, 0.0), V)


def fit_squared(factor: Factor, targets: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """LS-SVM with loss (f - y)^2 on each of m columns of targets: coefficients (m, r), biases (m,).

    Centred features keep the two apart.
    """
    codes = factor.shares[:, None] * targets
    return factor.ridge(weighted_sum(factor.rows, codes), 0.5 * alpha), codes.sum(axis=0)
