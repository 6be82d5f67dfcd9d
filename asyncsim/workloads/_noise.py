"""Standard normals as fast as simulated SGD needs them: Threefry with its rounds written out.

`jax.random.normal` runs the same generator's rounds in a loop on CPUs, to compile faster. Between two rounds the words
then go through memory: 14 ns per normal, against 1.5 ns with all rounds in one fused kernel. A noisy quadratic of 1729
parameters draws as many normals at every commit, and does little else.
"""

import jax
import jax.numpy as jnp
import numpy as np

ROUNDS = 20
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # bits, of four rounds each, in turn; from the reference
PARITY = np.uint32(0x1BD11BDA)  # the key schedule's constant, from Skein


def threefry(key: jax.Array, high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Threefry-2x32 with 20 rounds, the generator behind `jax.random.key`."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    high, low = high + schedule[0], low + schedule[1]
    for turn in range(ROUNDS):
        rotation = ROTATIONS[turn // 4 % 2][turn % 4]
        high = high + low
        low = ((low << rotation) | (low >> (32 - rotation))) ^ high
        if turn % 4 == 3:
            block = turn // 4 + 1
            high, low = high + schedule[block % 3], low + schedule[(block + 1) % 3] + np.uint32(block)
    return high, low


def standard_normal(key: jax.Array, size: int, dtype: jnp.dtype) -> jax.Array:
    """Independent N(0, 1), by inversion of the distribution function."""
    words = jax.random.key_data(key)
    if words.shape != (2,):  # JAX is configured to use another generator than Threefry
        return jax.random.normal(key, (size,), dtype)
    if jnp.dtype(dtype).itemsize > 4:
        counter = jnp.arange(size, dtype=jnp.uint32)
        high, low = threefry(words, counter, jnp.zeros_like(counter))
        bits = (high.astype(jnp.uint64) << 32) | low
    else:
        counter = jnp.arange(-(-size // 2), dtype=jnp.uint32)
        bits = jnp.concatenate(threefry(words, counter, jnp.zeros_like(counter)))[:size]
    # The middle of one of 2**23 or 2**52 equal cells of (-1, 1), exact in this dtype: symmetric, and never ±1.
    keep = jnp.finfo(dtype).nmant
    cell = (bits >> (8 * bits.dtype.itemsize - keep)).astype(dtype)
    return np.sqrt(2).astype(dtype) * jax.lax.erf_inv((cell + 0.5) * 2.0 ** (1 - keep) - 1)
