r"""Convex relaxations of maximum margin clustering, solved to a certificate.

Valizadegan & Jin, "Generalized Maximum Margin Clustering and Unsupervised Kernel Learning", NIPS
2006 (``relaxation="generalized"``), and Xu, Neufeld, Larson & Schuurmans, "Maximum Margin
Clustering", NIPS 2004 (``"full"``), both as given in section II of Zhang, Tsang & Kwok, "Maximum
Margin Clustering Made Practical", IEEE Transactions on Neural Networks 20(4), 2009.

``"generalized"`` relaxes, over scores f of the rows (centred features Z, shares s, no labels),

.. math::
    \min_{w, b, f}\; \frac{\alpha}{2} |w|^2 + \frac{\alpha}{2\rho} \sum_i s_i (f_i - w'z_i - b)^2
    + p \Big(\sum_i s_i f_i\Big)^2 + \sum_i s_i (1 - f_i^2)_+

The first three terms are f'Af, and ff' becomes any positive semi-definite matrix F:

.. math::
    \min_{F \succeq 0}\; \langle A, F\rangle + \sum_i s_i (1 - F_{ii})_+ \;=\;
    \max_\gamma \sum_i \gamma_i \quad\text{with}\quad A - \mathrm{diag}(\gamma) \succeq 0,\;
    0 \le \gamma \le s

A labelling y has F = yy' and the objective y'Ay, an upper bound on every dual objective. So has a
partition into more clusters with its relation matrix F, 1 between rows of the same cluster and
-1 / (k - 1) between others: the same bound holds for <A, F>. Labels start from the leading
eigenvectors of F and descend in this objective: :mod:`maxmargin.semidefinite._labels`. ``"full"``
relaxes the SVM itself, without intercept, and replaces yy' by a label relation matrix M: see
:mod:`maxmargin.semidefinite._relation`.

=================================================  ================================================
in the paper                                       here
=================================================  ================================================
(1) class balance, -l e <= M e <= l e              ``balance``, ``_relation.RelationProblem``
(5), (6), (11) - (15) the full relaxation          ``_relation.solve_relation``
leading eigenvector of M                           ``leading_scores``
(7), (16), b eliminated by a Schur complement      ``score_penalty`` (the matrix A)
(7), (17) the box, C_e in one and C in the other   1 after scaling; C = 2 s^2 / (n alpha)
(7) C_e e e'                                       ``size_penalty`` = p = n^2 alpha C_e / (2 s^2)
K^-1 of a singular K                               ``ridge``, rho = ridge / n
section III-E, O(n^6.5) and O(n^4.5)               ``_interior_point``: O(n^3) per iteration
section IV-C, recursive splits (full form)         ``_core.tree.recursive_splits``
=================================================  ================================================

(s is ``feature_scale_``.) The multi-class relaxation of Xu & Schuurmans (AAAI 2005) is not
implemented: an interior point method needs O(n^7) operations for it, 1e14 for 100 rows.
"""

from ._estimator import SemidefiniteMarginClustering

__all__ = ["SemidefiniteMarginClustering"]
