"""Asynchronous reinforcement learning in the words of the libraries: each function makes `asyncsim.Rollouts`.

All take the arguments of `asyncsim.Rollouts` by name as well: `slots`, `group`, `batch`, `generate`, `train`, and the
others that a library's own arguments do not decide.

Neighbours use `_ledger` (one row per sample, and its summary).
"""

from asyncsim.cluster.rollouts._presets import areal, nemo_rl, prime_rl, queue, skyrl, tinker, torchtitan, verl

__all__ = ["areal", "nemo_rl", "prime_rl", "queue", "skyrl", "tinker", "torchtitan", "verl"]
