"""Packages that only some functions need."""

import importlib
from types import ModuleType


def import_optional(module: str, *, package: str, needed_by: str) -> ModuleType:
    """Import a module of the extra `datasets`, or say how to install it.

    Raises:
        ImportError: If it is not installed.

    Example:
        >>> import_optional("no_such_module", package="nosuch", needed_by="This")
        Traceback (most recent call last):
        ImportError: This needs nosuch, which is not installed. Run: pip install 'asyncsim[datasets]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError(
            f"{needed_by} needs {package}, which is not installed. Run: pip install 'asyncsim[datasets]'"
        ) from None
