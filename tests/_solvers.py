"""Generic solvers that tests compare with."""

import clarabel
import numpy as np
from scipy import sparse


def solve_with_clarabel(P, q, A, b, cones):
    """Minimise x'Px/2 + q'x with b - Ax in the cones; the optimum and its value."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    P, A = sparse.csc_matrix(np.triu(P)), sparse.csc_matrix(A)
    solution = clarabel.DefaultSolver(P, q, A, b, cones, settings).solve()
    return np.array(solution.x), solution.obj_val
