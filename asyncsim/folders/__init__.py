"""Folders that one finds again: what they hold, their default names, their tags. Imports neither JAX nor matplotlib."""
