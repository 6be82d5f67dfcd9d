"""Convolutions and pooling of images laid out (channels, height, width, batch), for compiled loops on a CPU.

With the batch innermost, copies and elementwise loops run over contiguous memory. XLA's own convolutions are slow in a
loop on a CPU, so `patches_conv` is one matrix product; on an accelerator, use `lax_conv`.
"""

import jax
import jax.numpy as jnp
from jax import lax

POOL_SIZE, POOL_STRIDE = 3, 2  # pixels, in each direction


def patches_conv(x: jax.Array, weight: jax.Array, stride: int, pad: int) -> jax.Array:
    """Convolution as one matrix product of the kernel and the image's patches."""
    out, size = len(weight), weight.shape[2]
    x = jnp.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    # Rows, then columns: 2k slices instead of k², which compile sooner.
    patches = _windows(_windows(x, size, stride, axis=1), size, stride, axis=3)
    shape = patches.shape[-3:]
    kernel = weight.transpose(0, 3, 2, 1).reshape(out, -1)
    return (kernel @ patches.reshape(kernel.shape[1], -1)).reshape(out, *shape)


def lax_conv(x: jax.Array, weight: jax.Array, stride: int, pad: int) -> jax.Array:
    """The same convolution, by XLA."""
    layout = ("CHWN", "OIHW", "CHWN")
    return lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad)] * 2, dimension_numbers=layout)


def max_pool(x: jax.Array) -> jax.Array:
    """Maximum over windows of three by three pixels at a stride of two: (channels, height, width, batch)."""
    for axis in (2, 1):
        first, second, third = _windows(x, POOL_SIZE, POOL_STRIDE, axis)
        x = _larger(_larger(first, second), third)
    return x


def _windows(x: jax.Array, size: int, stride: int, axis: int) -> jax.Array:
    """Element i of every window along an axis, for all i: (size, …)."""
    last = windows(x.shape[axis], size, stride) * stride - stride
    return jnp.stack([lax.slice_in_dim(x, i, i + last + 1, stride, axis) for i in range(size)])


def _larger(a: jax.Array, b: jax.Array) -> jax.Array:
    """The larger of two; the first where they are equal; nan where either is, so that no divergence is hidden."""
    return jnp.where((a >= b) | jnp.isnan(a), a, b)


def windows(length: int, size: int, stride: int) -> int:
    """Number of windows that fit in a row of pixels."""
    return (length - size) // stride + 1
