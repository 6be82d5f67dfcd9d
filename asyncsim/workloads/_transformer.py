"""A small language model: a decoder-only transformer of characters, whose every symbol is predicted from those before.

Learned positions, RMS normalisation before attention and before the hidden layer of four times the width, GELU, no
biases, and an output matrix of its own that starts at zero. Pure functions of their arguments, made for `jax.grad`
inside a compiled loop.
"""

from functools import cache, partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from asyncsim import _checks as checks
from asyncsim._checks import require_count
from asyncsim._trees import widen
from asyncsim.components._component import static
from asyncsim.datasets import Dataset, Partition, Sequences
from asyncsim.workloads._classification import Classifier, Logits, cross_entropy, uniform_like
from asyncsim.workloads._programs import programs

Params = dict[str, Any]

HIDDEN = 4  # units of the hidden layer over the width
EPSILON = 1e-6  # added to the mean square


class Transformer(Classifier):
    """A decoder-only transformer of the symbols of sequences, such as the characters of a text.

    It begins with x = token + position. Every layer adds x ← x + Attention(norm(x)) and x ← x + gelu(norm(x)·up)·down,
    and the logits of the next symbol are norm(x)·weight. Attention is causal, softmax(q·kᵀ/√(width/heads))·v for each
    head, and norm(x) = scale·x/√(mean x² + 10⁻⁶). There are no biases and no dropout.

    The loss is the mean cross-entropy over all places of all sequences of the mini-batch, in nats per symbol. It starts
    at log V for V symbols, because the output's weight starts at zero. All other matrices start with the standard
    deviation 1/√(inputs), those that write to x with a further 1/√(2·layers), and the tables of the embedding with 0.5.

    `evaluate` measures "test_loss" (nats per symbol), "test_accuracy" (of the likeliest next symbol) and "perplexity",
    exp(test_loss), on all test sequences. The parameters are ``{"embedding": {"position", "token"}, "layers":
    [{"attention": {"key", "norm", "projection", "query", "value"}, "mlp": {"down", "norm", "up"}}, …], "output":
    {"norm", "weight"}}``. A pipeline's stages share out the embedding, the attention and the hidden layer of every
    layer, and the output, in this order.

    Args:
        data: `datasets.Text`, `datasets.Markov` or other `datasets.Sequences`. A `datasets.partition` of them gives
            each worker its part.
        layers: Number of layers.
        width: Numbers that represent a symbol, a multiple of `heads`.
        heads: Heads of an attention.
        batch_size: Sequences in a mini-batch.
        bfloat16: Whether products with the model's matrices are rounded to bfloat16, as on accelerators. Parameters,
            their gradients, norms, attention's weights and the loss keep their precision.
        training_loss: Whether to evaluate the loss on all training sequences, too, under the name "training_loss".

    Example:
        >>> import asyncsim as asim
        >>> text = asim.datasets.Text("to be or not to be, that is the question. " * 50, context=16)
        >>> model = asim.workloads.Transformer(text, layers=1, width=16, batch_size=8)
        >>> trace = asim.Trace.from_commits([0, 1] * 100)
        >>> run = asim.replay(trace, asim.rules.ServerOptimiser(0.02, optimiser="adamw"), model)
        >>> round(float(run.loss[0]), 4) == round(float(np.log(text.classes)), 4)
        True
        >>> run.evaluate()["test_loss"] < text.table_loss(1)
        True

    References:
        Vaswani et al. 2017, "Attention is all you need". Zhang and Sennrich 2019, "Root mean square layer
        normalization". Radford et al. 2019, "Language models are unsupervised multitask learners" (norms before the
        layers, and the scale of matrices that write to x).
    """

    data: Dataset
    layers: Annotated[int, require_count, "2 is usual here."] = static(default=2)
    width: Annotated[int, require_count, "32 or 64 are usual here."] = static(default=64)
    heads: Annotated[int, require_count, "2 or 4 are usual here."] = static(default=2)
    batch_size: int = 32
    bfloat16: bool = False

    label_axes = 2

    def check(self) -> None:
        if self.width % self.heads:
            raise ValueError(
                f"`width` must be a multiple of `heads`, {checks.brief(self.heads)}; got {checks.brief(self.width)}. "
                "Use 64 for 2 or 4 heads, say."
            )
        super().check()

    @property
    def measures(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*super().measures, "perplexity")

    def evaluate(self, params: Params) -> dict[str, jax.Array]:
        """Return test loss in nats per symbol, test accuracy and perplexity, as JAX scalars."""
        measures = super().evaluate(params)
        return {**measures, "perplexity": jnp.exp(measures["test_loss"])}

    def init(self, key: jax.Array) -> Params:
        width, symbols = self.width, self.data.classes
        bound = 3**0.5  # over the standard deviation of uniform numbers
        inner, writing = bound * width**-0.5, bound * (2 * self.layers) ** -0.5
        square = jnp.full((width, width), inner)
        layer = {
            "attention": {
                "key": square,
                "norm": jnp.zeros(width),
                "projection": square * (2 * self.layers) ** -0.5,
                "query": square,
                "value": square,
            },
            "mlp": {
                "down": jnp.full((HIDDEN * width, width), writing * (HIDDEN * width) ** -0.5),
                "norm": jnp.zeros(width),
                "up": jnp.full((width, HIDDEN * width), inner),
            },
        }
        bounds = {
            "embedding": {
                "position": jnp.full((*self.data.shape, width), 0.5 * bound),
                "token": jnp.full((symbols, width), 0.5 * bound),
            },
            "layers": [layer] * self.layers,
            "output": {"norm": jnp.zeros(width), "weight": jnp.zeros((width, symbols))},
        }
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: jnp.ones_like(leaf) if path[-1].key == "norm" else leaf, uniform_like(key, bounds)
        )

    def loss(self, params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
        """Return the mean cross-entropy of a mini-batch, in nats per symbol."""
        del key  # There is no dropout.
        tokens, labels = batch
        logits = self.logits(params, tokens)
        return cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.ravel())

    @property
    def logits(self) -> Logits:  # type: ignore[override]
        """`(params, tokens) -> (sequences, places, symbols)`, for sequences of at most `context` tokens."""
        return _logits_of(self.heads, self.bfloat16)

    def sample(self, params: Params, prompt: str, length: int = 200, *, temperature: float = 1.0, seed: int = 0) -> str:
        """Continue a text by symbols that the model draws one after the other, from at most `context` before each.

        Args:
            params: The parameters of one seed.
            prompt: The text to continue, of characters of the vocabulary.
            length: Symbols to draw.
            temperature: The logits are divided by this: 1 for the model's own probabilities, less for likelier symbols.
            seed: Seed of the draws.

        Returns:
            The prompt and its continuation.

        Raises:
            ValueError: If the prompt is empty or has other characters, or an argument is not positive.
        """
        data = self.data.data if isinstance(self.data, Partition) else self.data
        if not isinstance(prompt, str) or not prompt or not isinstance(data, Sequences):
            raise ValueError(f"`prompt` must be a text of at least one character; got {checks.brief(prompt)}.")
        length = require_count("length", length, remedy="200 are usual.")
        temperature = checks.require_positive("temperature", temperature, remedy="1 is usual.")
        key = jax.random.key(checks.require_integer("seed", seed, remedy="Give a whole number."))
        (context,) = self.data.shape
        last = data.encode(prompt)[-context:]
        window = np.zeros(context, np.int32)
        window[: len(last)] = last
        drawn = _draw(params, window, len(last), key, temperature, logits=self.logits, length=length)
        return prompt + data.decode(np.asarray(drawn))


@programs("logits", "length")
def _draw(
    params: Params, window: jax.Array, count: int, key: jax.Array, temperature: float, *, logits: Logits, length: int
) -> jax.Array:
    """Draw symbols after the first `count` of a window, which moves on when it is full."""

    def draw_one(state: tuple[jax.Array, jax.Array], key: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        window, count = state
        # No symbol sees those behind it, so the rest of the window does not matter.
        new = jax.random.categorical(key, logits(params, window[None])[0, count - 1] / temperature)
        window = jnp.where(count == len(window), jnp.roll(window, -1), window)
        count = jnp.minimum(count + 1, len(window))
        return (window.at[count - 1].set(new.astype(window.dtype)), count), new

    return lax.scan(draw_one, (window, jnp.asarray(count)), jax.random.split(key, length))[1]


@cache
def _logits_of(heads: int, bfloat16: bool) -> Logits:
    """Return the model of these static arguments, always the same object: nothing recompiles."""
    return partial(_logits, heads=heads, bfloat16=bfloat16)


def _logits(params: Params, tokens: jax.Array, *, heads: int, bfloat16: bool) -> jax.Array:
    """Return (sequences, places, symbols) unnormalised log-probabilities, in single precision at least."""
    product = _rounded_product if bfloat16 else jnp.matmul
    tables = params["embedding"]
    x = tables["token"][tokens] + tables["position"][: tokens.shape[1]]
    for layer in params["layers"]:
        x = x + _attend(layer["attention"], x, heads, product)
        mlp = layer["mlp"]
        x = x + product(jax.nn.gelu(product(_normalise(x, mlp["norm"]), mlp["up"])), mlp["down"])
    return widen(product(_normalise(x, params["output"]["norm"]), params["output"]["weight"]))


def _rounded_product(x: jax.Array, weight: jax.Array) -> jax.Array:
    return jnp.matmul(x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)).astype(x.dtype)


def _normalise(x: jax.Array, scale: jax.Array) -> jax.Array:
    precise = widen(x)
    over_root = lax.rsqrt(jnp.mean(precise**2, axis=-1, keepdims=True) + EPSILON)
    return (precise * over_root).astype(x.dtype) * scale


def _attend(part: dict[str, jax.Array], x: jax.Array, heads: int, product: Any) -> jax.Array:
    """Return what each place takes from itself and those before it."""
    normalised = _normalise(x, part["norm"])
    shape = (*x.shape[:2], heads, -1)
    query, key, value = (product(normalised, part[name]).reshape(shape) for name in ("query", "key", "value"))
    scores = widen(jnp.einsum("bqhd,bkhd->bhqk", query, key)) * query.shape[-1] ** -0.5
    before = np.tri(x.shape[1], dtype=bool)
    weights = jax.nn.softmax(jnp.where(before, scores, -jnp.inf)).astype(x.dtype)
    return product(jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape), part["projection"])
