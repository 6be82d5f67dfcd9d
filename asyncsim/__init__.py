"""asyncsim simulates asynchronous SGD on one accelerator.

A cluster model is scheduled with SimPy (`simulate`), the schedule becomes plain columns (`Trace`), and JAX
replays them, compiled and vectorised (`replay`).
"""

import sys

import lazy_loader

from asyncsim._version import __version__ as __version__

# `__init__.pyi` lists the public names. Each is imported when it is first used: JAX and SciPy take a second, which
# `--help` does not need.
_import, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    try:
        return _import(name)
    except AttributeError:
        if name in __all__:  # the fault is inside the module that has the name
            raise
    # Python suggests the nearest name of `obj`.
    raise AttributeError(f"module 'asyncsim' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
