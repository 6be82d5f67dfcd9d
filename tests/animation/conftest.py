"""The browser, for all tests of pages."""

from tests.animation.browser import browser

__all__ = ["browser"]
