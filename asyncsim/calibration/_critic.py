"""Critics of Adversarial Variational Optimization: a small network, its two losses, and the score of the proposal."""

import math
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

HIDDEN = (10, 10)
LEAKY_SLOPE = 0.1  # slope of the activation below zero

Layers = tuple[tuple[jax.Array, jax.Array], ...]


class Proposal(NamedTuple):
    """q(θ|ψ) = Π N(θ_j; μ_j, σ_j²), ψ = (μ, log σ)."""

    mean: jax.Array
    log_sd: jax.Array


def new_critic(generator: np.random.Generator, size: int, version: int) -> Layers:
    """Draw first weights: Glorot's U(±√(6 / (fan_in + fan_out))), or by version 1 a tenth, with a last fan-out of 0."""
    layers = []
    for n, m in pairwise((size, *HIDDEN, 1)):
        bound = math.sqrt(6 / (n + m)) if version == 2 else 0.1 * math.sqrt(6 / (n + (m if m > 1 else 0)))
        layers.append((jnp.asarray(generator.uniform(-bound, bound, (n, m)), jnp.float32), jnp.zeros(m)))
    return tuple(layers)


def value(layers: Layers, x: jax.Array) -> jax.Array:
    """Compute (m,) outputs of the network for (m, d) observations, without bounds."""
    for weight, bias in layers[:-1]:
        x = jax.nn.leaky_relu(x @ weight + bias, LEAKY_SLOPE)
    weight, bias = layers[-1]
    return (x @ weight + bias)[:, 0]


def wasserstein_loss(
    layers: Layers, real: jax.Array, fake: jax.Array, mix: jax.Array, penalty: float
) -> tuple[jax.Array, jax.Array]:
    """Compute ½ [E d(x̃) - E d(x)] + λ E(‖∇d(x̂)‖ - 1)² with x̂ = εx + (1 - ε)x̃ between the two, and its negative."""
    distance = value(layers, real).mean() - value(layers, fake).mean()
    between = mix * real + (1 - mix) * fake
    slopes = _slopes(layers, between)
    norm = jnp.sqrt((slopes * slopes).sum(axis=1) + 1e-12)
    loss = -distance / 2 + penalty * ((norm - 1) ** 2).mean()
    return loss, -loss


def cross_entropy_loss(layers: Layers, real: jax.Array, fake: jax.Array, penalty: float) -> tuple[jax.Array, jax.Array]:
    """Compute ½ [BCE(D(x), 1) + BCE(D(x̃), 0)] + γ E‖∇D(x)‖², and its first part, log 2 where they look alike."""
    loss = (jax.nn.softplus(-value(layers, real)).mean() + jax.nn.softplus(value(layers, fake)).mean()) / 2
    chance = jax.nn.sigmoid(value(layers, real))[:, None]
    slopes = chance * (1 - chance) * _slopes(layers, real)
    return loss + penalty * (slopes * slopes).sum(axis=1).mean(), loss


def log_doubt(layers: Layers, fake: jax.Array) -> jax.Array:
    """Compute (m,) log(1 - D(x̃))."""
    return -jax.nn.softplus(value(layers, fake))


def scores(proposal: Proposal, theta: jax.Array) -> Proposal:
    """Compute (m, p) ∂ log q / ∂μ = (θ - μ) / σ² and ∂ log q / ∂ log σ = ((θ - μ) / σ)² - 1."""
    deviation = (theta - proposal.mean) / jnp.exp(proposal.log_sd)
    return Proposal(deviation / jnp.exp(proposal.log_sd), deviation * deviation - 1)


def proposal_gradient(proposal: Proposal, theta: jax.Array, cost: jax.Array, entropy: float, baseline: str) -> Proposal:
    """Estimate the gradient of E cost + γ H(q), from (m,) costs of simulations at (m, p) parameters."""

    def average(score: jax.Array) -> jax.Array:
        subtracted: jax.Array | float = 0.0
        if baseline == "mean":
            subtracted = cost.mean()
        elif baseline == "optimal":
            squared = score * score
            subtracted = (squared * cost[:, None]).mean(axis=0) / (squared.mean(axis=0) + 1e-30)
        return ((cost[:, None] - subtracted) * score).mean(axis=0)

    score = scores(proposal, theta)
    return Proposal(average(score.mean), average(score.log_sd) + entropy)


def _slopes(layers: Layers, x: jax.Array) -> jax.Array:
    """Compute the (m, d) gradient of the network's value at each observation."""
    return jax.grad(lambda at: value(layers, at).sum())(x)
