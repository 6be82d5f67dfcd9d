"""What a job is given: the examples in its mini-batch and its random key, functions of (seed, worker, job) alone.

They do not depend on the number of workers, the rule, the order of the commits, or how the replay was cut. Two rules
replayed with one seed therefore see the same mini-batches, and their comparison is a paired one. Where every worker has
a part of the examples, they depend on that part as well, and on nobody else's.
"""

import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from asyncsim.datasets import Parts

INIT, COMMITS = 0, 1  # streams of a seed's key
RULE = 2**31 - 1  # stream of a commit's key: the rule's, as the key itself is the workload's
SHUFFLES_BYTES = 256 * 2**20  # shuffles kept in memory, beyond which they are drawn again
FEW_EXAMPLES = 4096  # up to which shuffles are reused by later replays
REUSED_BYTES = 32 * 2**20  # as SHUFFLES_BYTES, for shuffles that are reused
EPOCH_BITS = 32  # a worker and an epoch share one int64: worker in the upper bits, epoch in the lower
EPOCH_MASK = 2**EPOCH_BITS - 1


class Shuffles:
    """Mini-batches of each worker's epochs: each a fresh shuffle of all examples, or of the worker's own part."""

    def __init__(self, examples: int | Parts, batch_size: int, most_bytes: int = SHUFFLES_BYTES) -> None:
        self.examples = examples
        self.batch_size = batch_size
        self.per_epoch = np.atleast_1d(examples.sizes if isinstance(examples, Parts) else examples) // batch_size
        self._most_bytes = most_bytes
        self._epochs: OrderedDict[tuple[int, int, int], np.ndarray] = OrderedDict()  # least recently used first
        self._bytes = 0

    def take(self, seed: int, worker: np.ndarray, job: np.ndarray) -> np.ndarray:
        """Return the example numbers of the mini-batches of these workers' jobs, int32 of shape (jobs, batch_size)."""
        worker = np.asarray(worker, np.int64)
        per_epoch = self.per_epoch[worker] if isinstance(self.examples, Parts) else self.per_epoch
        epoch, slot = np.divmod(np.asarray(job, np.int64), per_epoch)
        streams, which = np.unique(worker << EPOCH_BITS | epoch, return_inverse=True)
        examples = np.empty((len(worker), self.batch_size), np.int32)
        together = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
        for stream, rows in zip(streams.tolist(), together, strict=True):
            examples[rows] = self._epoch((seed, stream >> EPOCH_BITS, stream & EPOCH_MASK))[slot[rows]]
        return examples

    def _epoch(self, stream: tuple[int, int, int]) -> np.ndarray:
        """Return the (mini-batches, batch_size) example numbers of one epoch: (seed, worker, number of the epoch)."""
        if stream not in self._epochs:
            examples = self.examples[stream[1]] if isinstance(self.examples, Parts) else self.examples
            shuffled = np.random.default_rng(stream).permutation(examples).astype(np.int32)
            used = len(shuffled) - len(shuffled) % self.batch_size
            self._epochs[stream] = shuffled[:used].reshape(-1, self.batch_size)
            self._bytes += self._epochs[stream].nbytes
            while self._bytes > self._most_bytes and len(self._epochs) > 1:
                self._bytes -= self._epochs.popitem(last=False)[1].nbytes
        self._epochs.move_to_end(stream)
        return self._epochs[stream]


def shuffles_of(examples: int, batch_size: int) -> Shuffles:
    """Return the mini-batches of these examples. If they are few, earlier draws of this thread are reused."""
    if examples > FEW_EXAMPLES:
        return Shuffles(examples, batch_size)
    return _reused_shuffles(examples, batch_size, threading.get_ident())


@lru_cache(maxsize=2)
def _reused_shuffles(examples: int, batch_size: int, thread: int) -> Shuffles:
    del thread  # Only part of the cache's key: no two threads change one object at once.
    return Shuffles(examples, batch_size, REUSED_BYTES)


def to_device(array: Any) -> jax.Array:
    """Convert to a JAX array, without the program that `jax.numpy.asarray` would compile for every shape."""
    return array if isinstance(array, jax.Array) else jax.device_put(np.asarray(array))


@jax.jit
def init_key(seed: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(seed), INIT)


def worker_key(seed_key: jax.Array, worker: Any) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(seed_key, COMMITS), worker)


def job_key(worker_key: jax.Array, job: Any) -> jax.Array:
    """Return the key of a worker's job or local step: for dropout, and for the mini-batch of workloads that draw it."""
    return jax.random.fold_in(worker_key, job)


def commit_key(seed_key: jax.Array, worker: Any, job: Any) -> jax.Array:
    return job_key(worker_key(seed_key, worker), job)


compiled_commit_key = jax.jit(commit_key)  # one compiled call in place of three


def rule_key(job_key: jax.Array) -> jax.Array:
    """Return the key of a rule that draws, from the key of the commit, or of the first of its local steps."""
    return jax.random.fold_in(job_key, RULE)


def worker_keys(seeds: Sequence[int], workers: int) -> jax.Array:
    """Return the keys of all workers, (seeds, workers) or more: a power of two, so that few programs are compiled."""
    return _worker_keys(np.array(seeds, np.int32), workers=1 << (workers - 1).bit_length())


@partial(jax.jit, static_argnames="workers")
def _worker_keys(seeds: jax.Array, *, workers: int) -> jax.Array:
    each = jax.vmap(jax.vmap(worker_key, (None, 0)), (0, None))
    return each(jax.vmap(jax.random.key)(seeds), jnp.arange(workers, dtype=jnp.int32))


# Functions that ask for the worker's number or the behaviour parameters, and weights of the workers' gradients.

WORKER, BEHAVIOUR = "worker", "behaviour"  # the parameters by which a function asks


def asks(function: Callable[..., Any] | None, name: str = WORKER) -> bool:
    """Return whether a function has a parameter of this name that its caller has to fill."""
    if function is None or name in (getattr(function, "keywords", None) or {}):
        return False
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # Some built-in functions have no signature.
        return False
    parameter = parameters.get(name)
    return parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def with_worker(function: Partial) -> Partial:
    """Return the function with behaviour parameters and worker as its last positional arguments, if it asks."""
    behaviour, worker = asks(function, BEHAVIOUR), asks(function)
    function = Partial(_tell_behaviour, function) if behaviour else function
    return Partial(_tell, function) if worker else function


def _tell(function: Callable[..., Any], *arguments: Any) -> Any:
    *rest, worker = arguments
    return function(*rest, worker=worker)


def _tell_behaviour(function: Callable[..., Any], *arguments: Any, **worker: Any) -> Any:
    *rest, behaviour = arguments
    return function(*rest, behaviour=behaviour, **worker)


def weighted(gradient: Partial, weights: np.ndarray, by_worker: bool) -> Partial:
    """Return `(params, batch, key, …, worker) -> (loss, gradient)`, of gradients times n times their weight."""
    return Partial(_weigh if by_worker else _weigh_alike, gradient, weights * len(weights))


def _weigh(gradient: Any, factors: Any, *arguments: Any) -> tuple[Any, Any]:
    loss, slope = gradient(*arguments)
    return loss, _scaled(slope, factors, arguments[-1])


def _weigh_alike(gradient: Any, factors: Any, *arguments: Any) -> tuple[Any, Any]:
    *rest, worker = arguments
    loss, slope = gradient(*rest)
    return loss, _scaled(slope, factors, worker)


def _scaled(slope: Any, factors: Any, worker: Any) -> Any:
    factor = jax.numpy.asarray(factors)[worker]
    return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), slope)
