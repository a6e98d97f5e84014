r"""Cutting-plane margin clustering: two or many clusters in few passes over the data.

Zhao, Wang & Zhang, "Efficient MultiClass Maximum Margin Clustering", ICML 2008. One weight vector
per cluster, the multi-class hinge loss of Crammer & Singer, unknown labels y:

.. math::
    \min_{y, W}\; \frac{\alpha}{2} |W|^2 + \frac{1}{n} \sum_i \max(0,\, 1 - (w_{y_i}'z_i -
    \max_{r \ne y_i} w_r'z_i)) + \tau \sum_h \pi_h \log(k \pi_h)

with the clusters' shares pi of the rows. The paper has tau = 0 and bounds the differences of the
clusters' mean scores. A least size of every cluster, ``balance``, also prevents empty clusters. By
default the vectors z have a constant entry, whose coefficients are the intercepts.

For given labels this is a convex problem with one slack variable and (k + 1)^n constraints, of
which a few dozen are enough. One pass over the rows finds the most violated one. A constraint stays
valid under other labels: when labels change, the cuts are kept and updated on the rows that change
cluster.

=========================================  =========================================================
in the paper                               here
=========================================  =========================================================
(1) given labels                           ``_search.Problem.solve``; mean loss instead of the sum
(2), (3) unknown labels                    ``_search.Problem.descend``, ``relabel_every_pass``; the
                                           objective is ``Problem._value``
(4), (10) labels                           ``_numba.cut_rule``; of rows on a device
                                           ``_cuts.device_pass``, ``_data.triton.fused_cut_pass``
(5) - (9), (12) hinge loss of a row        ``_numba.cut_rule``
(13) mean hinge loss                       ``_cuts.Evaluation.loss``
(11) one slack, (k + 1)^n constraints c    ``_cuts.LabelledCuts``; its codes are c
(14), Theorem 3, most violated constraint  ``_numba.cut_rule``, in ``LabelledCuts.evaluate``
(15), Theorem 4, precision epsilon         ``_search.Problem.solved``: with the paper's nesting,
                                           epsilon is ``tol``, and a gap of at most epsilon implies
                                           (15); otherwise ``tol`` is relative
(16) class balance                         ``score_balance`` with ``center=False``,
                                           ``_core.qp.ScoreBalance``
(17) problem of a working set Omega        the inner loop of ``follow_paper``; ``_core.qp.CutPool``
                                           and ``LabelledCuts`` hold Omega
(18), (19) linearised constraints          A_c and g_c of a new cut: ``_numba.cut_rule``, in
                                           ``LabelledCuts.evaluate``; their change under new labels:
                                           ``_numba.moved_rule``, ``csr_move_pass``, of rows on a
                                           device ``_cuts.device_moves``; applied by
                                           ``LabelledCuts.adopt``
(20)                                       ``_penalty.Ridge.solve``
dual of (20)                               ``_core.qp.CutPool.solve``, ``solve_qp``
Algorithm 1 (cuts outside)                 ``_search.Problem.follow_paper``, ``nesting="paper"``
Algorithm 2 (CCCP inside)                  the inner loop of ``follow_paper``
Theorems 1, 2                              equivalence of (2), (3) and (11): no code
Theorems 5 - 7, linear time                no code; ``n_passes_`` counts the passes
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

Three differences from Algorithm 1: its first constraint is that of the initial labels, constraints
with multiplier zero in ten successive solutions are dropped, and if it stalls, it continues from
the best model with ``descend``.

The dual of (20) has one variable per cut. The bound (16) adds two per cluster and one equation; for
two clusters two of these four are enough, which is the paper's count.

The paper starts from an empty set of constraints, whose solution W = 0 gives no labels; the model
of the first cut then replaces the initial labels, even good ones. By default the problem of the
initial labels is solved first, from their least-squares model (``_search.Problem.hold``,
``solve``), and labels change only if that lowers the objective (``descend``). The best
candidates go through ``relabel_every_pass`` before: it leaves local minima. Initial labels come
from ``_core.init``.

**Several kernels.** Zhao, Kwok & Zhang, "Multiple Kernel Clustering", SDM 2009. Kernels
K_1 .. K_M with features Phi_1 .. Phi_M, each centred and scaled to mean square one, and weights
beta:

.. math::
    \min_{y, \beta, V}\; \frac{\alpha}{2} \sum_k \frac{|V_k|^2}{\beta_k} + \frac{1}{n} \sum_i
    \max(0,\, 1 - (f_{y_i}(x_i) - \max_{r \ne y_i} f_r(x_i))), \qquad
    f(x) = \sum_k V_k \Phi_k(x), \quad \beta \ge 0, \quad \sum_k \beta_k^p \le 1

This is the problem above with another penalty. For given V the best weights, and the penalty at
them, have a closed form (``_penalty.KernelWeights.weights``, ``value``):

.. math::
    \beta_k \propto |V_k|^{2/(p+1)}, \qquad
    \frac{\alpha}{2} \Big( \sum_k |V_k|^{2p/(p+1)} \Big)^{(p+1)/p}

Initial labels are compared under equal weights. These are one choice of beta, so learning the
weights afterwards only lowers the objective.

For a pool of cuts the dual has one variable per cut and no cone,

.. math::
    \max_{a \ge 0,\, 1'a \le 1}\; g'a - \frac{1}{2\alpha} |q(a)|_{p/(p-1)}, \qquad q_k = a'G_k a

with the products G_k of the cuts in the features of kernel k. ``_penalty.solve_weights`` solves it
by a few tiny QPs: one for given beta, then beta follows q. The difference between the norm of q and
beta'q, divided by 2 alpha, is the duality gap. The products of the constant feature, if there is
one, are added with weight 1.

In this part k numbers the kernels, as in the paper, and V_k has a row for each cluster: the paper
writes v_k^p for the row of cluster p, m for the number of clusters and C for 1 / alpha from (4.29)
on; in section 2, whose form has one vector, C is 2 / alpha.

===========================================  =======================================================
in the paper                                 here
===========================================  =======================================================
(1.1) combined features                      ``transform``, with sqrt(beta_k) Phi_k instead: see
                                             the Notes of the estimator
(2.2), (2.3) two clusters                    k = 2: w'z + b is the difference of the two scores,
                                             w = w_1 - w_0
(2.2) balance of labels                      ``balance`` = 1 - l / n
(2.3), (2.4), (2.6) - (2.8), (2.13), (2.14)  ``score_balance`` = l / n, ``_core.qp.ScoreBalance``;
(4.31), (4.33) - (4.35) class balance        if not centred, ``_penalty.BlockBalance``
(2.4), (4.30) weights times w                not used: (2.5), (4.32) replace it by v = beta w
(2.6), (4.31), (4.33) penalty of v           ``_penalty.KernelWeights.value``
(2.7), (2.8), (4.34) one slack               ``_cuts.LabelledCuts``
(2.9) - (2.11), (2.17) loss                  ``_numba.cut_rule``; its mean ``_cuts.Evaluation.loss``
(2.12), (2.13), (4.35) linearised problem    ``_penalty.KernelWeights.solve``, ``solve_weights``
(2.14), (2.15) as a cone program             ``_penalty.solve_cone_program``, ``solver="socp"``;
                                             without b and class balance
(2.16), Theorems 2.2, 4.3                    ``_numba.cut_rule``
(2.18), Theorem 2.3, precision epsilon       ``_search.Problem.solved``
(3.19) - (3.28) proof of linear time         no code; (3.21) has sum beta for (2.7)'s sum beta^2
(4.29) given labels, one kernel              ``_search.Problem.solve``
Algorithms 1, 3 (cuts outside)               ``_search.Problem.follow_paper``, ``nesting="paper"``
Algorithms 2, 4 (CCCP inside)                the inner loop of ``follow_paper``
Theorems 2.1, 4.1, 4.2                       equivalence of (2.6), (2.7) and of (4.31), (4.33),
                                             (4.34): no code
Theorem 3.1, Lemmas 3.1, 3.2                 no code
section 5.2, K1 - K3                         ``kernels="paper"``; it gives no degree, no rank
section 5.5, fit on a subset                 ``max_samples``
===========================================  =======================================================
"""

from ._estimator import CuttingPlaneMarginClustering
from ._multiple_kernel import MultipleKernelMarginClustering

__all__ = ["CuttingPlaneMarginClustering", "MultipleKernelMarginClustering"]
