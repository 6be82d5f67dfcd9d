"""Folders that one finds again: what they hold, their default names, their tags. Imports neither JAX nor matplotlib."""

from asyncsim.folders import tags

__all__ = ["tags"]
