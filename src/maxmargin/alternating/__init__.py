r"""Alternating maximum margin clustering with SVM, SVR or LS-SVM.

Zhang, Tsang & Kwok, "Maximum Margin Clustering Made Practical", IEEE Transactions on Neural
Networks 20(4), 2009. Two clusters, labels y in {-1, +1}:

.. math::
    \min_{y, w, b}\; \frac{\alpha}{2} |w|^2 + \frac{1}{n} \sum_i L(y_i, w'z_i + b)
    \quad\text{with at least ``balance * n / 2`` rows on either side.}

The method alternates between a regression on the labels (w, b given y) and the optimal balanced
labels and intercept (y, b given w). With the hinge loss the alternation stops too early, because
confidently classified rows have zero loss. Symmetric losses avoid this. ``_joint`` has the problem
of several clusters at once, which goes beyond the paper.

==============================================  ====================================================
in the paper                                    here
==============================================  ====================================================
(1) class balance                               ``_core.size_floor.size_floor``
(2) the margin problem                          ``Stage`` with ``loss="hinge"``
(8), (9), Propositions 1 and 2, section III-D   ``_core.size_floor.balanced_split``
Algorithm 1 (iterSVM)                           ``Stage.step``, ``loss="hinge"``
Algorithm 2 (iterSVR), Laplacian loss           ``Stage.step``, ``loss="laplacian"``
section III-B.2, nonzero epsilon                ``epsilon``
section III-C (iterLS-SVM)                      ``Stage.step``, ``loss="squared"``
SVM / SVR training (step 2)                     ``_regression.fit_piecewise``
LS-SVM training (step 2)                        ``_regression.fit_squared``
section III-B, "a sparse classification model"  ``AlternatingMarginClustering.to_svm``
section IV-C, recursive splits                  ``multi_class="recursive"``, ``_core.tree``
Appendix (CCCP)                                 ``loss="hinge", balance=0``
==============================================  ====================================================
"""

from ._estimator import AlternatingMarginClustering

__all__ = ["AlternatingMarginClustering"]
