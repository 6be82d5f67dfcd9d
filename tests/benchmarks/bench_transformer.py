"""The language model: the tax of replaying it, one gradient beside Flax's, and both beside their multiplications.

One gradient takes at least 3·B·T·(24·W²·L + 4·T·W·L + 2·W·V) floating-point operations: the products of the forward
pass (12·W² multiplications a layer in the matrices, 2·T·W in attention, W·V at the output) for each of B·T symbols, and
twice as many for the derivatives. For B = T = W = 32, L = 2 and V = 103 these are 196 million, for W = 64 695 million.
"""

import jax
import jax.numpy as jnp
import pytest

import asyncsim as asim
from tests.benchmarks.loops import bare_loop, gamma_trace

GRADIENTS = 300
WIDTHS = (32, 64)
LAYERS, HEADS = 2, 2


def transformer(width: int) -> asim.workloads.Transformer:
    return asim.workloads.Transformer(asim.datasets.Text(), LAYERS, width, HEADS, batch_size=32)


def operations(model: asim.workloads.Transformer) -> float:
    """Floating-point operations of the products in one gradient."""
    (context,), width, symbols = model.data.shape, model.width, model.data.classes
    of_symbol = LAYERS * (24 * width**2 + 4 * context * width) + 2 * width * symbols
    return 3.0 * model.batch_size * context * of_symbol


@pytest.mark.parametrize("rule", [asim.rules.GEM(0.001), asim.rules.Downpour(0.001)], ids=lambda rule: rule.name)
@pytest.mark.parametrize("width", WIDTHS)
def test_transformer_tax(width, rule, versus, report, scaled):
    gradients, model = scaled(GRADIENTS), transformer(width)
    trace = gamma_trace(16, 0.1, gradients)
    tax = versus(lambda: asim.replay(trace, rule, model, lanes=1), bare_loop(model, gradients), rounds=5)
    report(f"tax, transformer of width {width}, n = 16, cv = 0.1, {rule.name}", tax, "×", at_most=1.1)


@pytest.mark.parametrize("width", WIDTHS)
def test_gradient_beside_flax(width, versus, report, scaled):
    gradients, ours = scaled(GRADIENTS), transformer(width)
    theirs = flax_transformer(ours)
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(w.init, KEY))) for w in (ours, theirs)]
    assert sizes[0] == sizes[1]
    ratio = versus(bare_loop(ours, gradients), bare_loop(theirs, gradients), rounds=5)
    report(f"gradient of a transformer of width {width} over that of Flax", ratio, "×", at_most=1.0)


@pytest.mark.parametrize("width", WIDTHS)
def test_gradient_beside_its_multiplications(width, versus, report, scaled):
    """The bound is the time of as many operations in products of the largest matrices of the model alone."""
    gradients, model = scaled(GRADIENTS), transformer(width)
    x, weight = jnp.ones((model.batch_size * model.data.shape[0], width)), jnp.ones((width, 4 * width))
    times = round(gradients * operations(model) / (4.0 * x.shape[0] * weight.size))
    products = lambda: jax.block_until_ready(_multiply(x, weight, times))  # noqa: E731
    ratio = versus(bare_loop(model, gradients), products, rounds=5)
    report(f"gradient of a transformer of width {width} over its multiplications", ratio, "×", at_most=4.0)


@jax.jit
def _multiply(x, weight, times):
    return jax.lax.fori_loop(0, times, lambda _, x: (x @ weight) @ weight.T * 1e-3, x)


KEY = jax.random.key(0)


def flax_transformer(model: asim.workloads.Transformer) -> asim.Workload:
    """The same network by Flax's modules."""
    nn = pytest.importorskip("flax.linen", reason="Flax is not installed: nothing to compare with")
    width, data = model.width, model.data

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, mask):
            attention = nn.MultiHeadDotProductAttention(HEADS, use_bias=False)
            x = x + attention(nn.RMSNorm()(x), mask=mask)
            hidden = nn.gelu(nn.Dense(4 * width, use_bias=False)(nn.RMSNorm()(x)))
            return x + nn.Dense(width, use_bias=False)(hidden)

    class Network(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            positions = self.param("positions", nn.initializers.normal(0.5), (*data.shape, width))
            x = nn.Embed(data.classes, width)(tokens) + positions
            mask = nn.make_causal_mask(tokens)
            for _ in range(LAYERS):
                x = Layer()(x, mask)
            return nn.Dense(data.classes, use_bias=False, kernel_init=nn.initializers.zeros)(nn.RMSNorm()(x))

    network = Network()

    def init(key):
        return network.init(key, jnp.zeros((1, *data.shape), jnp.int32))

    def loss(params, batch, key):
        del key  # There is no dropout.
        tokens, labels = batch
        chosen = jnp.take_along_axis(jax.nn.log_softmax(network.apply(params, tokens)), labels[..., None], axis=-1)
        return -chosen.mean()

    return asim.Workload(init, loss, data=(data.train_inputs, data.train_labels), batch_size=model.batch_size)
