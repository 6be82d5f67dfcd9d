"""AlexNet, the network of the paper's figures 7, 9 and 10, and a small one of the same sixteen tensors.

Five convolutions, of which the first, second and last are max-pooled (windows of three pixels at a stride of two), then
three linear layers with dropout ½ before the first two, and ReLU after every layer but the last. The full network is
the one-tower form of Krizhevsky 2014 (arXiv 1404.5997), with torchvision's channels, for images of 224 × 224 pixels.
The small one has a quarter of its channels and a 32nd of its units, and takes images of 32 × 32.

XLA's own convolutions make the gradient of the small network more than ten times slower on a CPU, so its convolutions
are patches times a matrix (`asyncsim.workloads._alexnet`). The full network needs an accelerator and uses XLA's.
A channel's bias and ReLU are applied after the pooling instead of before it, to about a quarter of the numbers: the
result is the same, because both increase with their argument.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from asyncsim.datasets import Dataset
from asyncsim.workloads._classification import (
    Classifier,
    Logits,
    cross_entropy,
    dropout_factors,
    fan_in_bounds,
    uniform_like,
)

POOL_SIZE, POOL_STRIDE = 3, 2  # pixels, in each direction


def patches_conv(x: jax.Array, weight: jax.Array, stride: int, pad: int) -> jax.Array:
    """Convolve by one matrix product of the kernel and the image's patches."""
    out, size = len(weight), weight.shape[2]
    x = jnp.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    # Rows, then columns: 2k slices instead of k², which compile sooner.
    patches = _windows(_windows(x, size, stride, axis=1), size, stride, axis=3)
    shape = patches.shape[-3:]
    kernel = weight.transpose(0, 3, 2, 1).reshape(out, -1)
    return (kernel @ patches.reshape(kernel.shape[1], -1)).reshape(out, *shape)


def lax_conv(x: jax.Array, weight: jax.Array, stride: int, pad: int) -> jax.Array:
    layout = ("CHWN", "OIHW", "CHWN")
    return lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad)] * 2, dimension_numbers=layout)


def max_pool(x: jax.Array) -> jax.Array:
    """Pool (channels, height, width, batch) over windows of three by three pixels at a stride of two."""
    for axis in (2, 1):
        first, second, third = _windows(x, POOL_SIZE, POOL_STRIDE, axis)
        x = _larger(_larger(first, second), third)
    return x


def _windows(x: jax.Array, size: int, stride: int, axis: int) -> jax.Array:
    """Stack element i of every window along an axis, for all i: (size, …)."""
    last = windows(x.shape[axis], size, stride) * stride - stride
    return jnp.stack([lax.slice_in_dim(x, i, i + last + 1, stride, axis) for i in range(size)])


def _larger(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the larger of two, the first of equals, nan where either is, so that no divergence is hidden."""
    return jnp.where((a >= b) | jnp.isnan(a), a, b)


def windows(length: int, size: int, stride: int) -> int:
    return (length - size) // stride + 1


class Layer(NamedTuple):
    """The two tensors of a layer, in the order in which the paper's heat maps number them."""

    weight: jax.Array
    bias: jax.Array


Params = list[Layer]


class AlexNet(Classifier):
    """AlexNet in 16 tensors: the full network for images of 224 × 224 pixels, a small one for 32 × 32.

    The size of the images decides which, because a network fits images of one size only. The loss is the mean
    cross-entropy, with dropout while training. For ImageNet's 1000 classes the full network has 61 100 840 parameters,
    for ten classes the small one has 180 442.

    The parameters are a list of eight `Layer(weight, bias)`, in the network's order: tensor 0 is the first
    convolution's weight, tensor 15 the last linear layer's bias. They have PyTorch's default initialisation.

    Args:
        data: Colour images in any number of classes: `datasets.ImageFolder` for the full network, `datasets.CIFAR10`
            or `datasets.AsColour` of any images for the small one. A `datasets.partition` gives each worker its part.
        batch_size: Images in a mini-batch, 1024 / n for the paper's n workers.
        training_loss: Whether to evaluate the loss on all training examples, too, under the name "training_loss".

    Example:
        >>> import asyncsim as asim
        >>> images = asim.datasets.AsColour(asim.datasets.Digits())
        >>> params = asim.workloads.AlexNet(images, batch_size=32).init(jax.random.key(0))
        >>> [tensor.shape for tensor in jax.tree.leaves(params)][-4:]
        [(128, 128), (128,), (10, 128), (10,)]

    References:
        Krizhevsky 2014 (arXiv 1404.5997). Hermans and Louppe 2018, figures 7, 9 and 10.
    """

    data: Dataset
    batch_size: int

    name = "alexnet"

    def check(self) -> None:
        data = self.data
        if data.shape not in (FULL.shape, SMALL.shape):
            raise ValueError(
                f"`data` must be images of 224 × 224 or 32 × 32 pixels in three colours; got {data.name!r}, "
                f"{data.shape}. Use asyncsim.datasets.ImageFolder or CIFAR10, or asyncsim.datasets.AsColour(data)."
            )
        super().check()

    @property
    def form(self) -> "Form":
        return FULL if self.data.shape == FULL.shape else SMALL

    def init(self, key: jax.Array) -> Params:
        return self.form.init(self.data.classes, key)

    def loss(self, params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
        """Return the mean cross-entropy of a mini-batch in training, that is, with dropout."""
        return self.form.loss(params, batch, key)

    @property
    def logits(self) -> Logits:  # type: ignore[override]
        """`(params, images) -> (images, classes)`, without dropout."""
        return self.form.logits


@dataclass(frozen=True)
class Convolution:
    """One convolution: output channels, width of the kernel, stride, padding, and whether its output is pooled."""

    channels: int
    size: int = 3
    stride: int = 1
    pad: int = 1
    pooled: bool = False

    def side(self, side: int) -> int:
        side = windows(side + 2 * self.pad, self.size, self.stride)
        return windows(side, POOL_SIZE, POOL_STRIDE) if self.pooled else side


@dataclass(frozen=True)
class Form:
    side: int  # width and height of the images
    convolutions: tuple[Convolution, ...]  # the five convolutions
    units: tuple[int, int]  # outputs of the two hidden linear layers
    conv: Callable[[jax.Array, jax.Array, int, int], jax.Array]

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.side, self.side, 3

    @property
    def features(self) -> int:
        side = self.side
        for convolution in self.convolutions:
            side = convolution.side(side)
        return self.convolutions[-1].channels * side * side

    def weights(self, classes: int) -> list[tuple[int, ...]]:
        """Return the shapes of the weights: (out, in, height, width), then (out, in)."""
        channels = (3, *(convolution.channels for convolution in self.convolutions))
        kernels = zip(pairwise(channels), self.convolutions, strict=True)
        linear = pairwise((self.features, *self.units, classes))
        return [(o, i, c.size, c.size) for (i, o), c in kernels] + [(o, i) for i, o in linear]

    def init(self, classes: int, key: jax.Array) -> Params:
        return uniform_like(key, [Layer(*fan_in_bounds(shape)) for shape in self.weights(classes)])

    def logits(self, params: Params, images: jax.Array) -> jax.Array:
        """Return (batch, classes) unnormalised log-probabilities of images (batch, side, side, 3), without dropout."""
        return self._forward(params, images, (1.0, 1.0))

    def loss(self, params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
        """Return the mean cross-entropy of a mini-batch in training, that is, with dropout."""
        images, labels = batch
        return cross_entropy(self._forward(params, images, self.dropout(key, len(images))), labels)

    def dropout(self, key: jax.Array, batch: int) -> tuple[jax.Array, jax.Array]:
        """Draw the factors of the inputs of the first two linear layers, (inputs, batch)."""
        factors = dropout_factors(key, (self.features + self.units[0], batch))
        return factors[: self.features], factors[self.features :]

    def _forward(self, params: Params, images: jax.Array, factors: Sequence[jax.Array | float]) -> jax.Array:
        *hidden, last = params
        kernels, linear = hidden[: len(self.convolutions)], hidden[len(self.convolutions) :]
        x = images.transpose(3, 1, 2, 0).astype(last.weight.dtype)
        for layer, c in zip(kernels, self.convolutions, strict=True):
            x = self.conv(x, layer.weight, c.stride, c.pad)
            x = max_pool(x) if c.pooled else x
            x = jax.nn.relu(x + layer.bias[:, None, None, None])
        x = x.reshape(-1, len(images))  # PyTorch flattens in this order, too: channel, row, column.
        for layer, factor in zip(linear, factors, strict=True):
            x = jax.nn.relu(_linear(layer, x * factor))
        return _linear(last, x).T


def _linear(layer: Layer, x: jax.Array) -> jax.Array:
    return layer.weight @ x + layer.bias[:, None]


FULL = Form(
    side=224,
    convolutions=(
        Convolution(64, size=11, stride=4, pad=2, pooled=True),
        Convolution(192, size=5, pad=2, pooled=True),
        Convolution(384),
        Convolution(256),
        Convolution(256, pooled=True),
    ),
    units=(4096, 4096),
    conv=lax_conv,
)
SMALL = Form(
    side=32,
    convolutions=(
        Convolution(16, size=5, stride=2, pad=2, pooled=True),
        Convolution(48, size=5, pad=2, pooled=True),
        Convolution(96),
        Convolution(64),
        Convolution(64, pooled=True),
    ),
    units=(128, 128),
    conv=patches_conv,
)
