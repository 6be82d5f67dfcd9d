"""Compile quickly."""

from tests.quick_compile import quick_compile

__all__ = ["quick_compile"]
