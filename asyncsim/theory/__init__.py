"""Closed forms and exact numerics to compare with the simulator's measurements: NumPy and SciPy only.

Arguments that need an array of more than 4 million numbers, or some ten seconds, are refused with a remedy.

Neighbours use `_numerics` (roots, integrals, quantiles and bounds of a computation), `_parameters` (types and checks of
parameters) and `_phases` (laws as chains of exponential phases).
"""

import lazy_loader

# `__init__.pyi` lists the public names. Each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
