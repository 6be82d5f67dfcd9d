"""Kinetic energies of the central variable and of its proxy, and the scaling π that matches them.

Everything works on pytrees, elementwise: each parameter has its own energy, and a scalar curve is the sum over all
parameters (`total`). Equation numbers are those of Hermans and Louppe 2018 (arXiv 1805.08469), who derive them from a
Lagrangian. Three points of that derivation do not hold as printed:

* Equations (4)-(6) with Rayleigh function ½(μθ̇)² give a friction μ² of the wrong sign. The equation of motion
  whose unit-step semi-implicit Euler scheme *is* momentum SGD is θ̈ = -(1-μ)θ̇ - η∇L, with potential energy +ηL.
* Equation (11) is a displacement over τ + 1 server updates, so both sides of the stability condition (12),
  E_k(central) ≤ E_k(proxy), are energies per commit of one *worker*, not per server update.
* Equation (19) solves (18) only where θ - s and Δθ have the same sign (see `scaling`).
"""

from typing import Any

import jax
import jax.numpy as jnp

from asyncsim._trees import widen

__all__ = ["Params", "central", "clamped_scaling", "compliance", "kinetic", "proxy", "scaling", "total"]

Params = Any  # any pytree of floating-point arrays

EPSILON_PAPER = 1e-16  # Algorithm 1: outside the absolute value
EPSILON_SCRIPT = 1e-12  # the authors' code: inside it
CLAMP_SCRIPT = (0.0, 5.0)  # the authors' code


@jax.jit
def kinetic(displacement: Params) -> Params:
    """Return the kinetic energy ½d² of every parameter, for a displacement d of unit mass in unit time.

    Args:
        displacement: Pytree of displacements, whose structure and shapes the energies have.

    Example:
        >>> import numpy as np
        >>> kinetic({"w": np.array([1.0, -2.0])})["w"].tolist()
        [0.5, 2.0]
    """
    return jax.tree.map(lambda d: 0.5 * jnp.square(d), displacement)


@jax.jit
def total(energy: Params) -> jax.Array:
    """Sum an elementwise energy over all parameters, to the scalar that is plotted.

    Args:
        energy: A pytree of energies, one for each parameter.

    Example:
        >>> import numpy as np
        >>> float(total({"w": np.array([0.5, 2.0]), "b": np.array([1.0])}))
        3.5
    """
    return jax.tree.reduce(jnp.add, jax.tree.map(jnp.sum, energy))


@jax.jit
def central(central: Params, read: Params) -> Params:
    """Return the kinetic energy of the central variable as the committing worker sees it, ½(θ_{t+1} - s_t)².

    Args:
        central: θ_{t+1}, the central variable just after the commit.
        read: s_t, where the worker took the gradient that it now commits.

    Returns:
        Pytree of elementwise energies, by equation (11). With θ_{t+1} = θ_t + π_t Δθ_t it is the left side of (16). The
        displacement spans τ + 1 server updates, not one.

    Example:
        >>> import numpy as np
        >>> central(np.array([3.0]), np.array([1.0])).tolist()
        [2.0]
    """
    return kinetic(jax.tree.map(jnp.subtract, central, read))


@jax.jit
def proxy(moment: Params, kappa: float | jax.Array = 1.0) -> Params:
    """Return the kinetic energy of the proxy, ½(κm)² with m ← μm - η∇L(s) the worker's own moment.

    The proxy is momentum SGD, (14)-(15), and a worker estimates it from its own gradients, (23)-(24). κ amplifies it as
    in the authors' study of κ, (27), where κ multiplies |m|. Equation (25), ½κm², would have √κ there instead.

    Args:
        moment: m, with the current gradient already added.
        kappa: Amplification κ.

    Example:
        >>> import numpy as np
        >>> proxy(np.array([2.0])).tolist(), proxy(np.array([2.0]), kappa=2.0).tolist()
        ([2.0], [8.0])
    """
    return kinetic(jax.tree.map(lambda m: kappa * m, moment))


@jax.jit
def scaling(moment: Params, shift: Params, update: Params, kappa: float | jax.Array = 1.0) -> Params:
    """Return the paper's π = (κ|m| - |θ - s|) / (|Δθ| + 1e-16), elementwise: (19), (26), (27), Algorithm 1.

    It makes E_k(central) equal to E_k(proxy), equation (18), only where θ - s and Δθ have the same sign. Elsewhere
    |θ - s + πΔθ| = |κ|m| - 2|θ - s||. It is negative where the others moved further than the proxy would.

    Args:
        moment: m, the proxy's velocity, updated with the raw Δθ.
        shift: θ - s, the displacement of the central variable since this worker last read it.
        update: Δθ = -η∇L(s), the raw update.
        kappa: Amplification κ of the proxy.

    Returns:
        π for every parameter, in single precision at least, as 1e-16 is 0 in float16.

    Example:
        >>> import numpy as np
        >>> scaling(np.array([3.0]), np.array([1.0]), np.array([2.0])).tolist()
        [1.0]
    """
    return jax.tree.map(
        lambda m, s, d: (kappa * jnp.abs(m) - jnp.abs(s)) / (jnp.abs(d) + EPSILON_PAPER),
        *widen((moment, shift, update)),
    )


@jax.jit
def clamped_scaling(moment: Params, shift: Params, update: Params, kappa: float | jax.Array = 1.0) -> Params:
    """Return π as the authors' script does, (κ|m| - |θ - s|) / |Δθ + 1e-12|, clamped to [0, 5], elementwise.

    Because of the lower clamp a commit can be silenced but never brakes: where |θ - s| > κ|m|, no worker can
    meet condition (12). With ε inside the absolute value there is a pole at Δθ = -1e-12.

    Arguments as in `scaling`.

    Example:
        >>> import numpy as np
        >>> clamped_scaling(np.array([90.0, 1.0]), np.array([0.0, 4.0]), np.array([2.0, 2.0])).tolist()
        [5.0, 0.0]
    """
    return jax.tree.map(
        lambda m, s, d: jnp.clip((kappa * jnp.abs(m) - jnp.abs(s)) / jnp.abs(d + EPSILON_SCRIPT), *CLAMP_SCRIPT),
        *widen((moment, shift, update)),
    )


@jax.jit
def compliance(central_energy: Params, proxy_energy: Params) -> jax.Array:
    """Divide total E_k(central) by total E_k(proxy): at most 1 if (12) holds on average, 1 if (13) does.

    Args:
        central_energy: Elementwise energy of the central variable, from `central`.
        proxy_energy: Elementwise energy of the proxy, from `proxy`.

    Example:
        >>> import numpy as np
        >>> float(compliance(np.array([1.0, 1.0]), np.array([3.0, 1.0])))
        0.5
    """
    return total(central_energy) / total(proxy_energy)
