r"""Margin clustering with must-links, cannot-links and known classes.

Zeng & Cheung, "Semi-Supervised Maximum Margin Clustering with Pairwise Constraints", IEEE
Transactions on Knowledge and Data Engineering 24(5), 2012. One score s_z(x) = w_z'x for each
cluster z:

.. math::
    \min_W\; \frac{\alpha}{2} |W|^2 + \frac{1}{L} \sum_{j=1}^L \eta_j
    + \frac{\delta}{U k} \sum_{i \in \mathcal{U}} \sum_z
      \{1 - [\max_y s_y(x_i) - s_z(x_i)]\}_+

The best clusters that satisfy link j must beat the best that violate it by a margin of one:

.. math::
    \eta_j = \{1 - [\max_{\text{satisfied}} (s_y(x_{j1}) + s_z(x_{j2}))
    - \max_{\text{violated}} (s_y(x_{j1}) + s_z(x_{j2}))]\}_+

A must-link is satisfied by y = z, a cannot-link by y != z. A known class c has the loss
{1 - [s_c(x) - max_{z != c} s_z(x)]}_+ and is one of the L terms. The inner maxima make the problem
non-convex; fixing their clusters at the current W leaves a convex problem (CCCP).

=======================================  =========================================================
in the paper                             here
=======================================  =========================================================
(2), (3) Hu et al.                       ``loss="hu"``, ``_numba.hu_losses``
(4)-(7) losses of links                  ``_numba.link_losses``
(6) the objective                        ``_problem.PairProblem.objective``
(10)-(16) linearisation                  ``PairProblem.linearise``, ``_numba``
(17), (21) the convex problem            ``PairProblem.risk``
(18)-(20) initialisation                 ``_search.eigenvector_axes``
Algorithm 1 (CCCP)                       ``_search.Stage``, ``Search``
Theorem 1, (22)                          ``_problem.ball_radius``
(23)-(25), Algorithm 2                   ``_problem.solve_subgradient``
=======================================  =========================================================

The paper's initialisation is arbitrary: the signs of eigenvectors are undetermined, and S_m is
singular if there are few links. Here several initialisations are run with the links only, and the
one with the lowest objective is continued with all rows. The bundle method needs at most an eighth
of the passes of the paper's subgradient method and computes its optimality gap.
"""

from ._estimator import PairwiseMarginClustering

__all__ = ["PairwiseMarginClustering"]
