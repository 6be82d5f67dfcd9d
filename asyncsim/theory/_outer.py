"""Windows of local steps and the outer optimiser at the server: how far a window moves, and how large a step may be."""

import math
from functools import partial
from typing import Annotated, Any

import numpy as np

from asyncsim import _checks as checks
from asyncsim.components._checked import checked
from asyncsim.theory._constant_delay import DelayCount
from asyncsim.theory._numerics import require_finite, root_between
from asyncsim.theory._parameters import Momentum, require_count, require_scale_or_zero

KINDS = ("nesterov", "damped", "heavy_ball")  # of momentum at the server
_Kind = Annotated[str, partial(checks.require_one_of, choices=KINDS)]
Step = Annotated[float, require_scale_or_zero, "Give the step size of a local step times the curvature."]  # ηh
Window = Annotated[int, require_count, "Make one local step or more."]  # H
ANGLES = 4096  # between which a change of sign is looked for
SMALLEST_ANGLE = 1e-12  # as a share of the largest


@checked
def window_curvature(step: Step, window: Window) -> float:
    """Return c, the share of its distance from the minimum that a worker covers in a window of local steps (exact).

    H steps of SGD with the step size η on a curvature h leave (1 - ηh)^H of the distance, so the window acts as one
    step with c = 1 - (1 - ηh)^H in place of ηh. It lies between 0 and 2 for 0 ≤ ηh ≤ 2. Beyond that the local steps
    themselves grow, and for an even H c is negative.

    Args:
        step: ηh, the step size of a local step times the curvature, no unit, at least 0.
        window: H, local steps in a window.

    Example:
        >>> window_curvature(0.5, window=2), round(window_curvature(0.1, window=5), 5)
        (0.75, 0.40951)

    References:
        Charles and Konečný 2021, "Convergence and accuracy trade-offs in federated learning and meta-learning", who
        write local SGD on quadratics as one step with another curvature.
    """
    if step < 1:
        return -math.expm1(window * math.log1p(-step))
    with np.errstate(over="ignore"):
        covered = 1 - np.power(np.float64(1 - step), window)
    return float(require_finite(f"`step` = {step} with `window` = {window}", covered, "Use less of either."))


@checked
def outer_limit(momentum: Momentum, delay: DelayCount, kind: _Kind = "nesterov") -> float:
    """Return the largest stable αc: outer step size times the curvature of a window, with a constant delay (exact).

    A message Δ_t = -c·x_{t-τ} arrives τ commits, or rounds, late. With v ← μv + Δ, and with (1 - μ)Δ in place of Δ if
    "damped", the server makes the step

    - "nesterov" and "damped": x ← x + α(Δ + μv), which is that of `rules.SharedNesterov` and `rules.DampedNesterov`.
    - "heavy_ball": x ← x + αv, which is that of `rules.HeavyBall`.

    The limit is the least αc > 0 with a root of z^τ (z - 1)(z - μ) + αc(az - b) on |z| = 1, where (a, b) is (1 + μ, μ),
    (1 + μ(1 - μ), μ) and (1, 0). On the unit circle αc grows with the angle ω of z, so it is found at the first ω at
    which (τ + 1/2)ω - π/2 + arg(1/(1 - μ/z)) - arg(1/(1 - b/(az))) = 0. With τ = 0 it is 2(1 + μ)/(a + b), and without
    momentum 2 sin(π/(2(2τ + 1))), as `constant_delay_limit`.

    A gradient moves x by α/(1 - μ) of itself in the long run with "nesterov" and "heavy_ball" and by α(1 + μ) with
    "damped": compare limits at equal gain. Mean and mean-square limits are the same here, because nothing is random.

    Args:
        momentum: μ in [0, 1).
        delay: τ, in commits or in rounds.
        kind: "nesterov", "damped" or "heavy_ball".

    Example:
        DiLoCo's outer step 0.7 is stable when fresh. A delay of one commit allows it for windows with c < 0.3616:

        >>> [round(outer_limit(momentum=0.9, delay=delay), 4) for delay in (0, 1, 2)]
        [1.3571, 0.2531, 0.0807]
        >>> round(outer_limit(momentum=0.9, delay=1) / 0.7, 4)
        0.3616

    References:
        Levin and May 1976, "A note on difference-delay equations", for μ = 0. The limits with momentum are derived
        here.
    """
    slope, offset = {
        "nesterov": (1 + momentum, momentum),
        "damped": (1 + momentum * (1 - momentum), momentum),
        "heavy_ball": (1.0, 0.0),
    }[kind]
    if delay == 0:
        return 2 * (1 + momentum) / (slope + offset)
    ratio = offset / slope

    def turned(angle: Any) -> Any:
        return (delay + 0.5) * angle - math.pi / 2 + _lag(momentum, angle) - _lag(ratio, angle)

    last = math.pi / (2 * delay + 1)
    angles: Any = np.geomspace(SMALLEST_ANGLE * last, last, ANGLES)
    behind = turned(angles) < 0
    first = int(np.argmin(behind)) if not behind.all() else ANGLES - 1  # rounding alone is left at the last one
    low, high = (angles[first - 1], angles[first])
    angle = root_between(turned, low, high) if turned(low) * turned(high) < 0 else high
    half = math.sin(angle / 2)
    distance = 2 * half * math.hypot(1 - momentum, 2 * math.sqrt(momentum) * half)  # |z - 1|·|z - μ|
    return distance / math.hypot(slope - offset, 2 * math.sqrt(slope * offset) * half)  # over |az - b|


def _lag(ratio: float, angle: Any) -> Any:
    """Return the argument of 1/(1 - r/z) at the angle of z, negated: how far 1 - r/z turns z back."""
    return np.arctan2(ratio * np.sin(angle), 1 - ratio * np.cos(angle))
