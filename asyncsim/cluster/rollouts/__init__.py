"""Asynchronous reinforcement learning in the words of the libraries: each function makes `asyncsim.Rollouts`.

All take the arguments of `asyncsim.Rollouts` by name as well: `slots`, `group`, `batch`, `generate`, `train`, and the
others that a library's own arguments do not decide.

Neighbours use `_ledger` (one row per sample, and its summary) and `_presets` (which arguments each function decides).
"""

import lazy_loader

# `__init__.pyi` lists the public names. Each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
