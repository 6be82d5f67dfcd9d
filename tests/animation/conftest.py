"""One browser for all tests of pages."""

import pytest

from tests.animation.browser import started


@pytest.fixture(scope="session")
def browser():
    """A real browser; tests that ask for it are skipped where there is none."""
    driver, browser = started()
    yield browser
    browser.close()
    driver.stop()
