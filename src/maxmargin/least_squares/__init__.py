r"""Least-squares margin clustering: local search over labels with constant-time updates.

Pahikkala, Airola, Gieseke & Kramer, "On Unsupervised Training of Multi-Class RLS Classifiers",
Journal of Computer Science and Technology, 2014. Labels c in {1..k}^n, one regularised
least-squares classifier per cluster:

.. math::
    \min_{c, f_1..f_k}\; \sum_h \Big( \sum_i (p_h(c_i) - f_h(x_i))^2 + \lambda |f_h|^2 \Big),
    \qquad p_h(c) = \pm 1

For given labels the classifiers have a closed form, and with 0/1 indicators y_h

.. math::
    Q(c) = nk + (4 - k)\, 1'R1 - 4 \sum_h y_h' R y_h, \qquad R = K (K + \lambda I)^{-1}

so the method maximises the within-cluster sums of R. By default K is centred, so that the
classifiers have an intercept; otherwise a single cluster is optimal.

Extensions: R can be the mean over several kernels and a nearest-neighbour graph (``_graph``), and
with ``size_prior`` = p, which weakens the preference for equal sizes, the search maximises

.. math::
    J_p = \sum_h y_h' R y_h / n_h^p = n^{1-p} \sum_h \pi_h^{1-p} (1 - \pi_h) R^2_h

where the second form, with the shares pi_h and the R^2 of the classifiers, holds for a centred R.
p = 0 is the paper's objective and prefers equal sizes; p = 1 is discriminative k-means.

=====================================  =========================================================
in the paper                           here
=====================================  =========================================================
(5), (16) G and R                      ``_similarity.similarity_of`` (no eigendecomposition)
(7), (13), Lemma 1 (constant n)        ``paper_objective``
(9) prediction                         ``Similarity.coefficients``, ``decision_function``
Lemma 2, (17) constant-time test       ``_numba``: gain 2 (T_dj - T_aj + R_jj)
Lemma 3, update of the caches          ``_numba._move``
Algorithm 1, stochastic                ``search="stochastic"``, ``_numba.stochastic_round``
Algorithm 2, steepest                  ``search="steepest"``, ``_numba.steepest_steps``
Algorithm 3, (14), shaking             ``search="shaking"``, ``_numba.shake_round``
balancing constraint b_c               ``balance = 1 - b_c``
section 5, known labels                ``partial_labels``, ``partial_start``
=====================================  =========================================================

A fit, step by step: ``_settings`` (parameters), ``_fit`` (metric, search, model), ``_similarity``
and ``_graph`` with ``_numba_kernel`` (R), ``_starts`` (initial labels, size priors), ``_connected``
(groups that are apart), ``_label_search`` (one search) with ``_numba``, and ``_confidence``
(subsamples, outliers). ``_links`` and ``_link_weights`` add constraints, ``_few_labels`` and
``_label_models`` known labels of every cluster, ``_unlabelled`` clusters that have none.
"""

from ._estimator import LeastSquaresMarginClustering

__all__ = ["LeastSquaresMarginClustering"]
