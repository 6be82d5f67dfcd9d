"""The convolutional network of the paper's MNIST experiments: 163 790 parameters in 10 tensors, as in PyTorch.

conv 5×5, 1→10, max-pool 2, ReLU; conv 5×5, 10→20, channel dropout ½, max-pool 2, ReLU; 320→300→200→10 with ReLU in
between; log-softmax. Pure functions of their arguments, made for `jax.grad` inside a compiled loop.

XLA's own convolutions make this gradient several times slower on a CPU, so here a convolution and the pooling after it
are one matrix product. Four facts make that possible, and none of them changes a result except by rounding:

* A 5×5 convolution evaluated at one corner of every 2×2 pooling square is a 3×3 convolution of the 2×2 squares of its
  input, whose four pixels are taken as channels. The four corners are four sets of output channels. Pooling is a
  maximum over them. The patches are 2.8 times smaller than those of 5×5 windows. The product has 1.44 times as many
  multiplications, but is of a shape that a CPU computes near its peak.
* Activations are (channels, height, width, batch). With the batch innermost, copies and elementwise loops run over
  contiguous memory.
* A bias is one number per channel, so it can be added after the maximum instead of before.
* So can a channel be multiplied by its dropout factor, which is never negative.
"""

import jax
import jax.numpy as jnp

from asyncsim.datasets import Dataset
from asyncsim.workloads._classification import Classifier, dropout_factors, fan_in_bounds, uniform_like

Params = dict[str, jax.Array]

WEIGHTS = {
    "conv1": (10, 1, 5, 5),  # (out, in, height, width)
    "conv2": (20, 10, 5, 5),
    "linear1": (300, 320),  # (out, in)
    "linear2": (200, 300),
    "linear3": (10, 200),
}


class ConvNet(Classifier):
    """The paper's convolutional network: 163 790 parameters in ten tensors, with dropout while training.

    The loss is the mean cross-entropy. The parameters have PyTorch's default initialisation. The module's source
    describes the network.

    Args:
        data: Images of 28 × 28 pixels in at most ten classes, such as `datasets.MNIST()`. A `datasets.partition` of
            them gives each worker its part.
        batch_size: Images in a mini-batch, 64 in the paper.
        training_loss: Whether to evaluate the loss on all training examples, too, under the name "training_loss".

    Example:
        >>> import asyncsim as asim
        >>> asim.workloads.ConvNet(asim.datasets.Digits(), batch_size=64)
        Traceback (most recent call last):
        ValueError: `data` must be images of 28 × 28 pixels in at most 10 classes; got 'digits', (8, 8) ...
    """

    data: Dataset
    batch_size: int

    name = "convnet"

    def check(self) -> None:
        data = self.data
        if data.shape != (28, 28) or data.classes > 10:
            raise ValueError(
                f"`data` must be images of 28 × 28 pixels in at most 10 classes; got {data.name!r}, {data.shape} "
                f"in {data.classes}. Use asyncsim.datasets.MNIST(), or the models Softmax and MLP, which take any "
                "images."
            )
        super().check()

    def init(self, key: jax.Array) -> Params:
        """Draw `conv1_weight`, `conv1_bias` and so on, uniform on ±1/√fan_in as in PyTorch."""
        bounds = {}
        for name, shape in WEIGHTS.items():
            bounds[f"{name}_weight"], bounds[f"{name}_bias"] = fan_in_bounds(shape)
        return uniform_like(key, bounds)

    def loss(self, params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
        """Return the mean cross-entropy of a mini-batch in training, that is, with dropout."""
        images, labels = batch
        log_probabilities = jax.nn.log_softmax(_forward(params, images, dropout(key, len(images))), axis=0)
        return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[None], axis=0))

    @staticmethod
    def logits(params: Params, inputs: jax.Array) -> jax.Array:
        """Return (examples, 10) unnormalised log-probabilities, without dropout."""
        return _forward(params, inputs, 1.0).T


def dropout(key: jax.Array, batch: int) -> jax.Array:
    """Draw the factors of conv2's channels, (20, 1, 1, batch)."""
    return dropout_factors(key, (WEIGHTS["conv2"][0], 1, 1, batch))


def _forward(params: Params, images: jax.Array, channel_factors: jax.Array | float) -> jax.Array:
    """Return logits (10, batch), with the channels of conv2 multiplied by `channel_factors`."""
    x = images.transpose(1, 2, 0)[None]
    x = jax.nn.relu(_conv_pool(params, "conv1", x))
    x = jax.nn.relu(_conv_pool(params, "conv2", x)) * channel_factors
    x = x.reshape(-1, len(images))  # PyTorch flattens in this order, too: channel, row, column.
    x = jax.nn.relu(_linear(params, "linear1", x))
    x = jax.nn.relu(_linear(params, "linear2", x))
    return _linear(params, "linear3", x)


def _linear(params: Params, name: str, x: jax.Array) -> jax.Array:
    return params[f"{name}_weight"] @ x + params[f"{name}_bias"][:, None]


def _conv_pool(params: Params, name: str, x: jax.Array) -> jax.Array:
    """Convolve by valid 5×5 kernels and max-pool by 2: (in, H, W, batch) to (out, H/2 - 2, W/2 - 2, batch)."""
    patches = _patches(x)
    kernels = _corner_kernels(params[f"{name}_weight"])
    corners = kernels.T @ patches.reshape(len(kernels), -1)
    corners = corners.reshape(4, -1, *patches.shape[-3:])
    return _first_maximum(corners) + params[f"{name}_bias"][:, None, None, None]


def _patches(x: jax.Array) -> jax.Array:
    """Arrange 3×3 windows of 2×2 squares: (in, H, W, batch) to (9, 4 in, H/2 - 2, W/2 - 2, batch)."""
    channels, height, width, batch = x.shape
    rows, columns = height // 2, width // 2
    squares = x.reshape(channels, rows, 2, columns, 2, batch).transpose(0, 2, 4, 1, 3, 5)
    squares = squares.reshape(4 * channels, rows, columns, batch)
    return jnp.stack([squares[:, i : rows - 2 + i, j : columns - 2 + j] for i in range(3) for j in range(3)])


def _corner_kernels(weight: jax.Array) -> jax.Array:
    """Return the kernel (out, in, 5, 5), moved to each corner of a pooling square, as a matrix (9 · 4 in, 4 out)."""
    out, channels = weight.shape[:2]
    moved = [
        jnp.pad(weight, ((0, 0), (0, 0), (down, 1 - down), (right, 1 - right)))
        for down in range(2)
        for right in range(2)
    ]
    kernels = jnp.stack(moved).reshape(4, out, channels, 3, 2, 3, 2)
    return kernels.transpose(3, 5, 2, 4, 6, 0, 1).reshape(36 * channels, 4 * out)


@jax.custom_jvp
def _first_maximum(x: jax.Array) -> jax.Array:
    """Take the maximum over the leading axis, with its gradient at one element, the first of those that tie."""
    return jnp.max(x, axis=0)


@_first_maximum.defjvp
def _first_maximum_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Take the differential of the first maximum. `jnp.max` would share it among all elements that attain it."""
    (x,), (dx,) = primals, tangents
    first = jnp.argmax(x, axis=0) == jnp.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1))
    return jnp.max(x, axis=0), jnp.sum(jnp.where(first, dx, 0), axis=0)
