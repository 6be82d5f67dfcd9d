"""The examples in a commit's mini-batch, and its random key: functions of (seed, worker, job) alone.

They do not depend on the number of workers, the rule, the order of the commits, or how the replay was cut. Two rules
replayed with one seed therefore see the same mini-batches, and their comparison is a paired one. Where every worker has
a part of the examples, they depend on that part as well, and on nobody else's.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim.datasets import Parts

INIT, COMMITS = 0, 1  # streams of a seed's key
RULE = 2**31 - 1  # stream of a commit's key: the rule's, as the key itself is the workload's
SHUFFLES_BYTES = 256 * 2**20  # shuffles kept in memory, beyond which they are drawn again
FEW_EXAMPLES = 4096  # up to which shuffles are kept from one replay to the next
KEPT_BYTES = 32 * 2**20  # the same as SHUFFLES_BYTES, of those
EPOCH_BITS = 32  # a worker and an epoch share one int64: worker in the upper bits, epoch in the lower
EPOCH_MASK = 2**EPOCH_BITS - 1


class Shuffles:
    """Mini-batches of each worker's epochs: each a fresh shuffle of all examples, or of the worker's own part."""

    def __init__(self, examples: int | Parts, batch_size: int, most_bytes: int = SHUFFLES_BYTES) -> None:
        self.examples = examples
        self.batch_size = batch_size
        self.per_epoch = np.atleast_1d(examples.sizes if isinstance(examples, Parts) else examples) // batch_size
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[int, int, int], np.ndarray] = OrderedDict()  # least recently used first
        self._bytes = 0

    def take(self, seed: int, worker: np.ndarray, job: np.ndarray) -> np.ndarray:
        """Example numbers of the mini-batches of these workers' jobs, int32 of shape (jobs, batch_size)."""
        worker = np.asarray(worker, np.int64)
        per_epoch = self.per_epoch[worker] if isinstance(self.examples, Parts) else self.per_epoch
        epoch, slot = np.divmod(np.asarray(job, np.int64), per_epoch)
        streams, which = np.unique(worker << EPOCH_BITS | epoch, return_inverse=True)
        taken = np.empty((len(worker), self.batch_size), np.int32)
        together = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
        for stream, rows in zip(streams.tolist(), together, strict=True):
            taken[rows] = self._epoch((seed, stream >> EPOCH_BITS, stream & EPOCH_MASK))[slot[rows]]
        return taken

    def _epoch(self, stream: tuple[int, int, int]) -> np.ndarray:
        """(mini-batches, batch_size) example numbers of one epoch: seed, worker and number of the epoch."""
        if stream not in self._kept:
            whose = self.examples[stream[1]] if isinstance(self.examples, Parts) else self.examples
            shuffled = np.random.default_rng(stream).permutation(whose).astype(np.int32)
            used = len(shuffled) - len(shuffled) % self.batch_size
            self._kept[stream] = shuffled[:used].reshape(-1, self.batch_size)
            self._bytes += shuffled.nbytes
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].base.nbytes
        self._kept.move_to_end(stream)
        return self._kept[stream]


def shuffles_of(examples: int, batch_size: int) -> Shuffles:
    """The mini-batches of these examples. If they are few, earlier draws of this thread are reused."""
    if examples > FEW_EXAMPLES:
        return Shuffles(examples, batch_size)
    return _kept_shuffles(examples, batch_size, threading.get_ident())


@lru_cache(maxsize=2)
def _kept_shuffles(examples: int, batch_size: int, thread: int) -> Shuffles:
    # By thread, so that no two threads change a table at once.
    return Shuffles(examples, batch_size, KEPT_BYTES)


@jax.jit
def init_key(seed: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(seed), INIT)


def worker_key(seed_key: jax.Array, worker: Any) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(seed_key, COMMITS), worker)


def job_key(worker_key: jax.Array, job: Any) -> jax.Array:
    """The key of a worker's job or local step: for dropout, and for the mini-batch of workloads that draw it."""
    return jax.random.fold_in(worker_key, job)


def commit_key(seed_key: jax.Array, worker: Any, job: Any) -> jax.Array:
    return job_key(worker_key(seed_key, worker), job)


compiled_commit_key = jax.jit(commit_key)  # one call in place of three


def rule_key(job_key: jax.Array) -> jax.Array:
    """The key of a rule that draws, from the key of the commit, or of the first of its local steps."""
    return jax.random.fold_in(job_key, RULE)


def worker_keys(seeds: Sequence[int], workers: int) -> jax.Array:
    """The keys of all workers, (seeds, workers) or some more: a power of two, so that few programs are compiled."""
    return _worker_keys(np.array(seeds, np.int32), workers=1 << (workers - 1).bit_length())


@partial(jax.jit, static_argnames="workers")
def _worker_keys(seeds: jax.Array, *, workers: int) -> jax.Array:
    each = jax.vmap(jax.vmap(worker_key, (None, 0)), (0, None))
    return each(jax.vmap(jax.random.key)(seeds), jnp.arange(workers, dtype=jnp.int32))
