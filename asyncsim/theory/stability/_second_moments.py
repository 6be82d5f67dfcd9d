"""Second moments of a linear rule on a quadratic, closed under any number of phase-type workers.

Workers in one phase are exchangeable, so four kinds of moments are enough, for every configuration of phases:
P = E zz', Q_φ = E Σ_w z s_w', C_φ = E Σ_w s_w s_w' over the workers w in phase φ, and D_φψ = E Σ s_v s_w' over
ordered pairs of different workers in φ and ψ. Together they obey a linear differential equation.
"""

from typing import NamedTuple

import numpy as np

from asyncsim.delays import FloatArray


class LinearRule(NamedTuple):
    """One commit by worker w."""

    F: FloatArray  # matrices of shape (p, p), (p, q), (q, p), (q, q)
    G: FloatArray  # matrices of shape (p, p), (p, q), (q, p), (q, q)
    J: FloatArray  # matrices of shape (p, p), (p, q), (q, p), (q, q)
    K: FloatArray  # matrices of shape (p, p), (p, q), (q, p), (q, q)
    e: FloatArray  # vectors of shape (p,), (q,)
    f: FloatArray  # vectors of shape (p,), (q,)


def linear_rule(kappa: float, momentum: float, where: str) -> LinearRule:
    """Asynchronous SGD on a one-dimensional quadratic, in terms of κ = step size times curvature."""
    one = np.ones(1)
    if where == "worker":
        return LinearRule(
            F=np.eye(1),
            G=np.array([[-kappa, momentum]]),
            J=np.array([[1.0], [0.0]]),
            K=np.array([[-kappa, momentum], [-kappa, momentum]]),
            e=one,
            f=np.ones(2),
        )
    if where == "server":
        return LinearRule(
            F=np.array([[1.0, momentum], [0.0, momentum]]),
            G=np.array([[-kappa], [-kappa]]),
            J=np.array([[1.0, momentum]]),
            K=np.array([[-kappa]]),
            e=np.ones(2),
            f=one,
        )
    return LinearRule(F=np.eye(1), G=np.array([[-kappa]]), J=np.eye(1), K=np.array([[-kappa]]), e=one, f=one)


class Moments(NamedTuple):
    """Moments with a leading axis (of configurations, or of basis vectors)."""

    P: FloatArray  # (…, p, p)
    Q: FloatArray  # (…, m, p, q)
    C: FloatArray  # (…, m, q, q)
    D: FloatArray  # (…, m, m, q, q)


def size(p: int, q: int, phases: int) -> int:
    """How many numbers describe the moments of one configuration, each symmetric pair counted once."""
    order = p + phases * q
    return order * (order + 1) // 2 + phases * (q * (q + 1) // 2)


def pack(moments: Moments) -> FloatArray:
    """The moments as an array of shape (rows, size): the upper triangles of [[P, Q], [Q', D]] and of C."""
    upper, own = joined(moments), moments.C
    parts = upper[(slice(None), *np.triu_indices(upper.shape[-1]))], own[(..., *np.triu_indices(own.shape[-1]))]
    return np.concatenate([part.reshape(len(upper), -1) for part in parts], axis=1)


def unpack(flat: FloatArray, p: int, q: int, phases: int) -> Moments:
    """The inverse of `pack`."""
    rows, order = len(flat), p + phases * q
    cut = order * (order + 1) // 2
    whole = _symmetric(flat[:, :cut], order)
    C = _symmetric(flat[:, cut:].reshape(rows, phases, -1), q)
    Q = np.moveaxis(whole[:, :p, p:].reshape(rows, p, phases, q), 2, 1)
    D = np.moveaxis(whole[:, p:, p:].reshape(rows, phases, q, phases, q), 3, 2)
    return Moments(whole[:, :p, :p], Q, C, D)


def joined(moments: Moments) -> FloatArray:
    """[[P, Q], [Q', D]] of shape (rows, p + m·q, p + m·q)."""
    P, Q, _, D = moments
    rows, phases, p, q = Q.shape
    cross = np.moveaxis(Q, 1, 2).reshape(rows, p, phases * q)
    return np.block([[P, cross], [transpose(cross), np.moveaxis(D, 2, 3).reshape(rows, phases * q, phases * q)]])


def _symmetric(upper: FloatArray, order: int) -> FloatArray:
    whole = np.zeros((*upper.shape[:-1], order, order))
    row, column = np.triu_indices(order)
    whole[..., column, row] = upper
    whole[..., row, column] = upper
    return whole


def after_event(
    moments: Moments, source: int, target: int, among: int, rule: LinearRule | None
) -> tuple[Moments, Moments]:
    """One of `among` equal workers goes from phase `source` to `target`, and commits if a rule is given."""
    P, Q, C, D = (part.copy() for part in moments)
    own_q, own_c, others = Q[:, source] / among, C[:, source] / among, D[:, source] / among
    mover = Moments(P, own_q[:, None], own_c[:, None], others[:, None])
    Q[:, source] -= own_q
    C[:, source] -= own_c
    D[:, source] -= others
    D[:, :, source] -= transpose(others)
    if rule is not None:
        F, G, J, K = rule.F, rule.G, rule.J, rule.K
        with_server = F @ P + G @ transpose(own_q), F @ own_q + G @ own_c  # E z⁺z', E z⁺s_w'
        with_worker = J @ P + K @ transpose(own_q), J @ own_q + K @ own_c  # E s⁺z', E s⁺s_w'
        others = J @ Q + K @ others
        Q = F @ Q + G @ mover.D[:, 0]
        P = with_server[0] @ F.T + with_server[1] @ G.T
        own_q = with_server[0] @ J.T + with_server[1] @ K.T
        own_c = with_worker[0] @ J.T + with_worker[1] @ K.T
    Q[:, target] += own_q
    C[:, target] += own_c
    D[:, target] += others
    D[:, :, target] += transpose(others)
    return Moments(P, Q, C, D), mover


def event_matrix(
    source: int, target: int, among: int, rule: LinearRule | None, shape: tuple[int, int, int]
) -> FloatArray:
    """`after_event` as a matrix on packed moments, for (p, q, phases) = shape."""
    basis = unpack(np.eye(size(*shape)), *shape)
    return pack(after_event(basis, source, target, among, rule)[0]).T


def noise_of_commit(target: int, rule: LinearRule, shape: tuple[int, int, int]) -> FloatArray:
    """What the noise of one commit adds to the packed moments, for noise of unit variance."""
    added = unpack(np.zeros((1, size(*shape))), *shape)
    added.P[0] = np.outer(rule.e, rule.e)
    added.Q[0, target] = np.outer(rule.e, rule.f)
    added.C[0, target] = np.outer(rule.f, rule.f)
    return pack(added)[0]


def transpose(matrices: FloatArray) -> FloatArray:
    """Every matrix of a stack transposed."""
    return np.swapaxes(matrices, -1, -2)


def possible(moments: Moments, counts: FloatArray, tolerance: float = 1e-9) -> bool:
    """Whether these can be moments at all: every covariance that they imply is positive semi-definite."""
    phases = np.arange(counts.shape[1])
    sums, own = moments.D.copy(), moments.D[:, phases, phases]
    sums[:, phases, phases] += moments.C
    whole = joined(moments._replace(D=sums))
    pairs = counts[:, :, None, None] - 1
    deviations = np.where(pairs > 0, moments.C - own / np.where(pairs > 0, pairs, 1), 0.0)
    scale = np.abs(whole).max()
    return bool(
        np.isfinite(scale) and all(np.linalg.eigvalsh(m).min() >= -tolerance * scale for m in (whole, deviations))
    )
