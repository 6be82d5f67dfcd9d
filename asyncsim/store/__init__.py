"""Folders that one finds again: what they hold, their default names, their tags. Imports neither JAX nor matplotlib."""

from asyncsim.store import tags

__all__ = ["tags"]
