"""Folders of results: their contents, default names and tags. Imports neither JAX nor matplotlib."""

from asyncsim.store import tags

__all__ = ["tags"]
