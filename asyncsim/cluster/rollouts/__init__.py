"""Asynchronous reinforcement learning in the words of the libraries: each function makes `asyncsim.Rollouts`.

All take the arguments of `asyncsim.Rollouts` by name as well: `slots`, `group`, `batch`, `generate`, `train`, and the
others that a library's own arguments do not decide.

Neighbours use `_ledger` (one row per sample, and its summary) and `_presets` (which arguments each function decides).
"""

from asyncsim.cluster.rollouts._presets import (
    areal,
    blocking_queue,
    nemo_rl,
    openrlhf,
    prime_rl,
    queue,
    roll,
    skyrl,
    slime,
    tinker,
    tinker_ahead,
    torchtitan,
    trl,
    verl,
)

__all__ = [
    "areal",
    "blocking_queue",
    "nemo_rl",
    "openrlhf",
    "prime_rl",
    "queue",
    "roll",
    "skyrl",
    "slime",
    "tinker",
    "tinker_ahead",
    "torchtitan",
    "trl",
    "verl",
]
