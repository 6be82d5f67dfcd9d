"""Components: the objects that a person configures, and one function each for all of them.

A component is a frozen dataclass whose fields are its arguments: a delay law, a cluster, a rule, a workload.
`describe` gives plain data, `from_description` is its inverse, `digest` is a hash that covers the user's code as well,
`fields` gives typed arguments with help, and `override` changes them by name, as flags and grids do. They have no case
for any kind: a frozen dataclass of your own works like those of asyncsim.

Example:
    >>> import asyncsim as asim
    >>> from asyncsim import components
    >>> cluster = asim.Cluster(workers=4, compute=asim.delays.Gamma(mean=1.0, cv=0.3))
    >>> components.describe(cluster)
    {'kind': 'cluster.Cluster', 'workers': 4, 'compute': {'kind': 'delays.gamma', 'mean': 1.0, 'cv': 0.3}}
    >>> components.from_description(components.describe(cluster)) == cluster
    True
    >>> components.override(cluster, workers=8, compute=2.0)
    Cluster(8 workers, Gamma(mean=2.0, cv=0.3))

Neighbours use `_component` and `_families` (the base classes), `_traced` (components as pytrees), `_checked`
(annotations as checks), `_settings`, `_address` and `_replaced` (settings: their paths, their names and their changes),
`_parse` (the text of a flag becomes a value), `_field` and `_help` (values as texts, and the meaning of arguments),
`_description` (plain data), `_digest` (its hash), `_code_hash` and `_environment` (code, values and JAX's settings on
which results depend), `_precision` and `_frozen` (numbers and arrays that do not change), `_remember` (results per
object) and `_user_files` (where code comes from).
"""

import lazy_loader

# Laws of delays import `_component` from here, and neither they nor the schedule need JAX, which `_traced` imports.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
