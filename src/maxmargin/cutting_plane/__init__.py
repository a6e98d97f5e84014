r"""Cutting-plane margin clustering: two or many clusters in a handful of passes over the data.

Zhao, Wang & Zhang, "Efficient MultiClass Maximum Margin Clustering", ICML 2008. One weight vector
per cluster, the margin of Crammer & Singer, labels free:

.. math::
    \min_{y, W}\; \frac{\alpha}{2} |W|^2 + \frac{1}{n} \sum_i \max(0,\, 1 - (w_{y_i}'z_i -
    \max_{r \ne y_i} w_r'z_i)) + \tau \sum_h \pi_h \log(k \pi_h)

with the clusters' shares pi of the rows. The paper has tau = 0 and a bound on the clusters' mean
scores; a floor on the sizes, ``balance``, is the other way to keep clusters from vanishing. The
vectors z have a constant entry, so that every cluster has an intercept.

For given labels this is a convex problem with one slack variable and (k + 1)^n constraints, of
which a few dozen matter; each costs one pass over the data. A constraint stays valid when labels
change, so the cuts are kept and corrected on the rows that change cluster.

=========================================  =========================================================
in the paper                               here
=========================================  =========================================================
(1) labels given, a sum for the mean       ``_search.Problem.solve``
(2), (3) labels free                       ``_search.Problem.descend``; F is ``Problem._value``
(4), (10) labels                           ``_numba.cut_rule``, of device rows ``_device``
(5) - (9), (12) hinge loss of a row        ``_numba.cut_rule``
(11) one slack, (k + 1)^n constraints c    ``_cuts.LabelledCuts``; its codes are c
(13), (14) most violated constraint        ``_numba.cut_rule``, in ``LabelledCuts.evaluate``
(15) all constraints hold up to epsilon    ``_search.Problem.solved``: epsilon is ``tol``
(16) class balance                         ``score_balance``, ``_core.qp.ScoreBalance``
(17) problem of a working set Omega        ``_core.qp.CutPool`` holds Omega
(18), (19) linearised constraints          ``LabelledCuts.adopt``: A_c and g_c under new labels
(20) and its dual                          ``_penalty.Ridge.solve``, ``_core.qp.solve_qp``
Algorithm 1 (cuts outside)                 ``_search.Problem.follow_paper``, ``nesting="paper"``
Algorithm 2 (CCCP inside)                  the inner loop of ``follow_paper``
Theorems 1, 2                              equivalence of (2), (3) and (11): no code
Theorem 3                                  (14)
Theorems 4 - 7, linear time                no code; ``n_passes_`` counts the passes
=========================================  =========================================================

==============  ==================================================================================
paper's symbol  here
==============  ==================================================================================
x_i, w_p        a row z_i of features, a row of ``coef``
beta, l         ``alpha``, ``score_balance`` times n (in other units: Notes of the estimator)
xi, xi_i        the mean loss, the loss of a row
z_ip            1 if p is the label of row i; (18) is printed with p for r
c_i             the code of row i: 0, or 1 + its rival cluster r*
alpha %         ``_search.CCCP_STOP``
==============  ==================================================================================

The dual of (20) has a multiplier for every cut and, with a bound on mean scores, two for every
cluster; the paper's |Omega| + 2 is for two clusters.

The paper starts from an empty set of constraints, whose solution W = 0 has no labels, and labels
the rows by the model of the first cut: good initial labels are lost. By default the problem of the
initial labels is solved first (``_search.Problem.solve``), and labels change only if that lowers
the objective (``descend``). Initial labels come from ``_core.init``.

**Several kernels.** Zhao, Kwok & Zhang, "Multiple Kernel Clustering", SDM 2009. Kernels
K_1 .. K_M with features Phi_1 .. Phi_M, each centred and scaled to mean square one, and weights
beta:

.. math::
    \min_{y, \beta, V}\; \frac{\alpha}{2} \sum_k \frac{|V_k|^2}{\beta_k} + \frac{1}{n} \sum_i
    \max(0,\, 1 - (f_{y_i}(x_i) - \max_{r \ne y_i} f_r(x_i))), \qquad
    f(x) = \sum_k V_k \Phi_k(x), \quad \beta \ge 0, \quad \sum_k \beta_k^p \le 1

This is the problem above with another penalty. For given V the best weights, and the penalty at
them, have a closed form:

.. math::
    \beta_k \propto |V_k|^{2/(p+1)}, \qquad
    \frac{\alpha}{2} \Big( \sum_k |V_k|^{2p/(p+1)} \Big)^{(p+1)/p}

The search compares initial labels under equal weights, which are one choice of beta: learning the
weights afterwards only lowers the objective.

For a pool of cuts the dual has one variable per cut and no cone,

.. math::
    \max_{a \ge 0,\, 1'a \le 1}\; g'a - \frac{1}{2\alpha} |q(a)|_{p/(p-1)}, \qquad q_k = a'G_k a

with the products G_k of the cuts in the features of kernel k. It is solved by a few tiny QPs: one
for given beta, then beta follows q. The difference between the norm of q and beta'q, divided by
2 alpha, is the duality gap.

In this part k numbers the kernels, as in the paper, and V_k has a row for each cluster: the paper
writes v_k^p for the row of cluster p, m for the number of clusters and C for 1 / alpha.

===========================================  =======================================================
in the paper                                 here
===========================================  =======================================================
(1.1) combined features                      ``transform``: sqrt(beta_k) Phi_k; see its docstring
(2.2), (2.3) two clusters                    k = 2: w = w_1 - w_0, |w'z + b| is the label's lead
(2.3), (2.4), (4.31) class balance           ``score_balance``, ``_penalty.BlockBalance``
(2.4), (4.30) weights times w                not used: (2.5), (4.32) replace it by v = beta w
(2.6), (4.31), (4.33) penalty of v           ``_penalty.KernelWeights.value``
(2.7), (2.8), (4.34) one slack               ``_cuts.LabelledCuts``
(2.9) - (2.11), (2.17) loss                  ``_numba.cut_rule``
(2.12), (2.13), (4.35) the subproblem        ``KernelWeights.solve`` through ``solve_weights``
(2.14), (2.15) as a cone program             ``_penalty.solve_cone_program``
(2.16), Theorem 4.3                          ``_numba.cut_rule``
(2.18) stop                                  ``_search.Problem.solved``
(3.19) - (3.28) proof of linear time         no code; (3.21) has sum beta for (2.7)'s sum beta^2
(4.29) labels given                          ``_search.Problem.solve``
Algorithms 1, 3 (cuts outside)               ``_search.Problem.follow_paper``, ``nesting="paper"``
Algorithms 2, 4 (CCCP inside)                the inner loop of ``follow_paper``
Theorems 2.1, 4.1, 4.2                       equivalences of (2.6), (2.7); (4.31), (4.33), (4.34)
section 5.2, K1 - K3                         ``kernels="paper", n_components=100``
section 5.5, fit on a subset                 ``max_samples``
===========================================  =======================================================
"""

from ._estimator import CuttingPlaneMarginClustering
from ._multiple_kernel import MultipleKernelMarginClustering

__all__ = ["CuttingPlaneMarginClustering", "MultipleKernelMarginClustering"]
