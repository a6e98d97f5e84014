"""Compiled active-set solver for the tiny quadratic programs of ``_core/qp.py``.

    maximise  q'x - x'Hx / 2     over  x >= 0,  E x = e

A primal method in the manner of Lawson, Hanson and Wolfe: the free variables solve the problem with
its equations alone; a step towards that solution ends where a variable meets zero and leaves; a
variable with a positive reduced gradient enters. H may be singular: a variable that depends on the
free ones moves along the direction that changes neither H x nor E x, until another one leaves.
"""

import numpy as np
from numba import njit

DEPENDENT = 1e-12  # a pivot below this share of its diagonal entry is rounding
STEP = 1e-14  # a free variable below this share of the largest one counts as zero


@njit(cache=True, nogil=True)
def _extend_factor(H, order, first, size, L):
    """Rows ``first:size`` of the Cholesky factor of H over the variables in ``order``.

    Returns the position of the first variable that depends on those before it, or ``size``.
    """
    for i in range(first, size):
        a = order[i]
        for j in range(i):
            total = H[a, order[j]]
            for t in range(j):
                total -= L[i, t] * L[j, t]
            L[i, j] = total / L[j, j]
        total = H[a, a]
        for t in range(i):
            total -= L[i, t] * L[i, t]
        if total <= DEPENDENT * H[a, a]:
            return i
        L[i, i] = np.sqrt(total)
    return size


@njit(cache=True, nogil=True)
def _forward(L, size, x):
    for i in range(size):
        total = x[i]
        for t in range(i):
            total -= L[i, t] * x[t]
        x[i] = total / L[i, i]


@njit(cache=True, nogil=True)
def _backward(L, size, x):
    for i in range(size - 1, -1, -1):
        total = x[i]
        for t in range(i + 1, size):
            total -= L[t, i] * x[t]
        x[i] = total / L[i, i]


@njit(cache=True, nogil=True)
def _free_solution(L, order, first, size, q, E, e, z, y, Z, S):
    """Solution z of the free variables and multipliers y of the equations, with their factors.

    Columns of Z before ``first`` are those of an earlier call.
    """
    m = E.shape[0]
    for r in range(m):
        for i in range(first, size):
            total = E[r, order[i]]
            for t in range(i):
                total -= L[i, t] * Z[r, t]
            Z[r, i] = total / L[i, i]
    largest = 0.0
    for r in range(m):
        for c in range(r + 1):
            total = 0.0
            for i in range(size):
                total += Z[r, i] * Z[c, i]
            S[r, c] = total
        largest = max(largest, S[r, r])
    # Equations that no free variable takes part in get the multiplier 0.
    tiny = max(1e-15 * largest, 1e-300)
    for r in range(m):
        for c in range(r):
            for t in range(c):
                S[r, c] -= S[r, t] * S[c, t]
            S[r, c] /= S[c, c]
        for t in range(r):
            S[r, r] -= S[r, t] * S[r, t]
        S[r, r] = np.sqrt(S[r, r]) if S[r, r] > tiny else np.inf
    for i in range(size):
        z[i] = q[order[i]]
    for r in range(m):
        y[r] = e[r]
    _solve_factored(L, size, Z, S, z, y)


@njit(cache=True, nogil=True)
def _solve_factored(L, size, Z, S, z, y):
    """Solve H z + E'y = z, E z = y in place, with the factors of :func:`_free_solution`."""
    m = len(y)
    _forward(L, size, z)
    for r in range(m):
        y[r] = -y[r]
        for i in range(size):
            y[r] += Z[r, i] * z[i]
    for r in range(m):
        for t in range(r):
            if S[t, t] < np.inf:
                y[r] -= S[r, t] * y[t]
        y[r] = y[r] / S[r, r] if S[r, r] < np.inf else 0.0
    for r in range(m - 1, -1, -1):
        for t in range(r + 1, m):
            if S[t, t] < np.inf:
                y[r] -= S[t, r] * y[t]
        y[r] = y[r] / S[r, r] if S[r, r] < np.inf else 0.0
    for i in range(size):
        for r in range(m):
            z[i] -= Z[r, i] * y[r]
    _backward(L, size, z)


@njit(cache=True, nogil=True)
def _refine(H, L, order, size, q, E, e, x, y, Z, S):
    """One step of iterative refinement of the free variables, where it leaves them positive.

    A slack near 1 costs a small multiplier beside it its last digits; this brings them back.
    """
    m = E.shape[0]
    z, dy = np.empty(size), np.empty(m)
    for i in range(size):
        z[i] = q[order[i]]
        for j in range(size):
            z[i] -= H[order[i], order[j]] * x[order[j]]
        for r in range(m):
            z[i] -= E[r, order[i]] * y[r]
    for r in range(m):
        dy[r] = e[r]
        for i in range(size):
            dy[r] -= E[r, order[i]] * x[order[i]]
    _solve_factored(L, size, Z, S, z, dy)
    for i in range(size):
        if x[order[i]] + z[i] <= 0.0:
            return
    for i in range(size):
        x[order[i]] += z[i]
    for r in range(m):
        y[r] += dy[r]


@njit(cache=True, nogil=True)
def _reduced_gradient(H, q, E, order, size, z, y, out):
    for j in range(len(q)):
        out[j] = q[j]
    for i in range(size):
        row = H[order[i]]
        for j in range(len(q)):
            out[j] -= row[j] * z[i]
    for r in range(len(y)):
        for j in range(len(q)):
            out[j] -= E[r, j] * y[r]


@njit(cache=True, nogil=True)
def _null_direction(H, q, x, L, order, at, z):
    """Direction of the variables up to position ``at`` along which H x stands still, uphill.

    Where the objective stands still too, the direction with a falling variable.
    """
    for i in range(at):
        z[i] = -L[at, i]
    _backward(L, at, z)
    z[at] = 1.0
    rate, size = 0.0, 0.0
    for i in range(at + 1):
        slope = q[order[i]]
        for j in range(len(x)):
            slope -= H[order[i], j] * x[j]
        rate += z[i] * slope
        size += abs(z[i] * slope)
    falls = False
    for i in range(at):
        falls = falls or z[i] < 0.0
    if rate < -1e-13 * size or not falls:
        for i in range(at + 1):
            z[i] = -z[i]


@njit(cache=True, nogil=True)
def _longest_step(x, order, count, direction, limit):
    """Step up to ``limit`` at which the first of ``count`` variables meets zero, and its place."""
    step, blocking = limit, -1
    for i in range(count):
        if direction[i] < 0.0 and x[order[i]] <= -step * direction[i]:
            step, blocking = x[order[i]] / -direction[i], i
    return step, blocking


@njit(cache=True, nogil=True)
def active_set(H, q, E, e, x, y, tolerance, max_iter):
    """Solve the program from the feasible ``x``; x and the multipliers y are overwritten.

    H must be positive definite on any set of variables whose columns of (H, E) are independent:
    adding a multiple of E'E, which changes no optimum, makes it so. Returns the number of
    iterations; ``max_iter`` means that it gave up.
    """
    n, m = len(q), len(e)
    L, Z, S = np.empty((n, n)), np.empty((m, n)), np.empty((m, m))
    z, direction, gradient = np.empty(n), np.empty(n), np.empty(n)
    order = np.empty(n, np.int64)
    free, barred = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    # Plain zeros have a type of their own, for which numba would compile all of the above again.
    size, valid, ready = np.int64(0), np.int64(0), np.int64(0)
    for i in range(n):
        if x[i] > 0.0:
            order[size] = i
            free[i] = True
            size += 1
    for iteration in range(max_iter):
        valid = _extend_factor(H, order, valid, size, L)
        count = size
        if valid < size:
            count = valid + 1
            _null_direction(H, q, x, L, order, valid, direction)
            step, blocking = _longest_step(x, order, count, direction, np.inf)
        else:
            _free_solution(L, order, ready, size, q, E, e, z, y, Z, S)
            ready = size
            top = 0.0
            for i in range(size):
                top = max(top, z[i])
            for i in range(size):
                direction[i] = z[i] - x[order[i]]
                if z[i] <= STEP * top:  # meets zero within the step
                    direction[i] = min(direction[i], -x[order[i]])
            step, blocking = _longest_step(x, order, size, direction, 1.0)
            for i in range(size):
                if blocking < 0 and z[i] <= STEP * top:
                    step, blocking = 0.0, i
        if blocking < 0:
            moved = False
            for i in range(size):
                moved = moved or x[order[i]] != z[i]
                x[order[i]] = z[i]
            if moved:
                barred[:] = False
            _reduced_gradient(H, q, E, order, size, z, y, gradient)
            entering, best = -1, tolerance
            for j in range(n):
                if not free[j] and not barred[j] and gradient[j] > best:
                    entering, best = j, gradient[j]
            if entering < 0:
                _refine(H, L, order, size, q, E, e, x, y, Z, S)
                return iteration + 1
            order[size] = entering
            free[entering] = True
            x[entering] = 0.0
            size += 1
            continue
        for i in range(count):
            x[order[i]] = max(x[order[i]] + step * direction[i], 0.0)
        if step > 0.0:
            barred[:] = False
        # After a step of length zero the variable stays away until there is progress.
        leaving = order[blocking]
        x[leaving] = 0.0
        free[leaving] = False
        barred[leaving] = step <= 0.0
        for i in range(blocking, size - 1):
            order[i] = order[i + 1]
        size -= 1
        valid, ready = min(valid, blocking), min(ready, blocking)
    return max_iter


@njit(cache=True, nogil=True)
def certified_active_set(H, q, E, e, true_e, x, y, cap, tol, noise, max_iter, report):
    """:func:`active_set` on a lifted H, and what the solution proves of the program itself.

    E x is given, so that adding a multiple of E'E to H changes no optimum, only y. The first
    ``cap`` variables share the first equation, whose multiplier may rise to make their conditions
    hold; the bound pays for it. ``report`` receives the value, the gap and the residual.
    """
    n, m = len(q), len(e)
    weight, largest, scale = 0.0, 0.0, 0.0
    for i in range(n):
        weight += H[i, i] / n
        largest = max(largest, H[i, i])
        scale = max(scale, abs(q[i]))
    weight = weight if weight > 0.0 else 1.0
    scale = scale if scale > 0.0 else 1.0
    lifted = H.copy()
    for r in range(m):
        for i in range(n):
            if E[r, i] != 0.0:
                for j in range(n):
                    lifted[i, j] += weight * E[r, i] * E[r, j]
    # Gradients are differences of numbers of the size of H: what rounding leaves counts as zero.
    n_iter = active_set(lifted, q, E, e, x, y, tol * scale + noise * largest, max_iter)
    linear, quadratic, worst, rise, dual = 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(m):
        y[r] += weight * e[r]
        dual += y[r] * true_e[r]
        miss = -true_e[r]
        for i in range(n):
            miss += E[r, i] * x[i]
        worst = max(worst, abs(miss))
    for i in range(n):
        product = 0.0
        for j in range(n):
            product += H[i, j] * x[j]
        slope = q[i] - product
        for r in range(m):
            slope -= E[r, i] * y[r]
        linear += q[i] * x[i]
        quadratic += x[i] * product
        if i < cap:
            rise = max(rise, slope)
        worst = max(worst, slope / scale, -slope * x[i] / scale)
    report[0] = linear - 0.5 * quadratic
    report[1] = 0.5 * quadratic + dual + rise - report[0]
    report[2] = worst
    return n_iter


@njit(cache=True, nogil=True)
def complete(x):
    """Make multipliers feasible; the last one, the slack of the cap, is what is left to 1."""
    total = 0.0
    for i in range(len(x) - 1):
        x[i] = max(x[i], 0.0)
        total += x[i]
    scale, total = max(1.0, total), 0.0
    for i in range(len(x) - 1):
        x[i] /= scale
        total += x[i]
    x[-1] = max(0.0, 1.0 - total)


@njit(cache=True, nogil=True)
def capped_active_set(gram, gains, x, tol, noise, report):
    """:func:`certified_active_set` over multipliers of at most 1 in all, started at ``x``.

    The slack of the cap is the last variable, a cut that says nothing.
    """
    m = len(gains)
    H, q, y = np.zeros((m + 1, m + 1)), np.zeros(m + 1), np.zeros(1)
    H[:m, :m] = gram
    q[:m] = gains
    complete(x)
    E, e, most = np.ones((1, m + 1)), np.ones(1), 50 + 20 * (m + 1)
    return certified_active_set(H, q, E, e, e, x, y, m + 1, tol, noise, most, report)
