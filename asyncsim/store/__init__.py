"""Folders of results, into which `study` writes: labels, leases, names and tags. Imports neither JAX nor matplotlib.

Neighbours use `_entry` (the life of an `out` folder), `_entries` (a store), `_sweeps` (what sweeps asked of it),
`_labels` (the small files that say what a folder holds), `_lease` (which process works where), `_listing` (lists of
runs) and `_places` (names of folders). `tags` is public.
"""

from asyncsim.store import tags

__all__ = ["tags"]
