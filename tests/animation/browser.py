"""A real browser for the pages, where there is one: Debian's chromium or Chrome, driven by Playwright."""

import json
import os
import shutil
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def program():
    """The browser's path; None if none is found. ASYNCSIM_BROWSER names another one."""
    return os.environ.get("ASYNCSIM_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


def started():
    """A browser and what stops it, or a skipped test that says what is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="the extra `browser` (playwright) is not installed")
    if program() is None:
        pytest.skip(f"no browser is on the path ({', '.join(NAMES[:3])}); ASYNCSIM_BROWSER names one")
    driver = api.sync_playwright().start()
    browser = driver.chromium.launch(executable_path=program(), args=["--no-sandbox", "--disable-gpu"])
    return driver, browser


class Watched:
    """A page that is opened, and whatever it asked for or complained about.

    Args:
        browser: Of `started`.
        path: The file.
        query: After the file's name.
        options: Of the browser's context: `viewport`, `color_scheme`, `reduced_motion`, …
    """

    def __init__(self, browser, path, query="", **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"file://{path}{query}")

    def wait(self, expression, seconds=30.0):
        """Wait until an expression is true; Playwright's own way of waiting evaluates text, which the page forbids."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"{expression} is not true: {self.complaints}"
            self.page.wait_for_timeout(20)

    def state(self):
        """The state that a page writes into itself."""
        return json.loads(self.page.text_content("#state"))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.context.close()
        assert error[0] is not None or self.complaints == []
        assert error[0] is not None or len(self.requests) == 1  # for the file itself


class MoviePage(Watched):
    """The page of a movie, once its script has run."""

    def __init__(self, browser, path, query="", **options):
        super().__init__(browser, path, query, **options)
        self.wait("window.movie !== undefined")
