"""Small problems and traces that several tests share."""

import jax
import jax.numpy as jnp
import numpy as np

import asyncsim as asim
from asyncsim import rules

EXAMPLES = 40
INPUTS = np.random.default_rng(0).normal(size=(EXAMPLES, 3))


def init_tree(key):
    return {"bias": jnp.zeros(2), "layers": [jax.random.normal(key, (3, 2)), jnp.ones(())]}


def tree_loss(params, batch, key):
    inputs, targets = batch
    outputs = jnp.tanh(inputs @ params["layers"][0] + params["bias"]) * params["layers"][1]
    keep = jax.random.bernoulli(key, 0.8, outputs.shape)  # the key must matter
    return jnp.mean(jnp.where(keep, outputs - targets, 0.0) ** 2)


def tree_workload(batch_size=8):
    """A small non-convex problem on a nested pytree, with data and with a loss that uses its key."""
    return asim.Workload(init_tree, tree_loss, data=(INPUTS, np.sin(INPUTS[:, :2])), batch_size=batch_size)


def noisy_quadratic():
    return asim.workloads.quadratic([1.0, 0.5, 0.1], noise=0.3)


def gamma_trace(workers=5, commits=60, seed=1, cv=0.5):
    return asim.simulate(asim.Cluster(workers, asim.delays.Gamma(mean=1.0, cv=cv)), commits=commits, seed=seed)


def round_robin(workers, commits):
    return asim.simulate(asim.Cluster(workers, asim.delays.Constant(1.0)), commits=commits)


# Every rule and variant, and what it must equal with one worker (None: nothing standard).
RULES = {
    "downpour": (lambda: rules.downpour(0.1), "sgd"),
    "adaptive_staleness": (lambda: rules.adaptive_staleness(0.1), "sgd"),
    "momentum_sgd": (lambda: rules.momentum_sgd(0.02, momentum=0.8), "momentum"),
    "gem_script": (lambda: rules.gem(0.05, momentum=0.8, kappa=1.5, variant="script"), None),
    "gem_paper": (lambda: rules.gem(0.05, momentum=0.8, kappa=1.5, variant="paper"), None),
    # With kappa = 1 and one worker, exact compliance is its own proxy.
    "gem_signed": (lambda: rules.gem(0.02, momentum=0.8, variant="signed"), "momentum"),
}
