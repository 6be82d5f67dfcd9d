"""A real browser for the pages, where there is one: Debian's chromium or Chrome, driven by Playwright."""

import functools
import json
import os
import shutil
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests of pages; these are skipped where there is none, with a word on what is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="the extra `browser` (playwright) is not installed")
    program = os.environ.get("ASYNCSIM_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser is on the path ({', '.join(NAMES[:3])}); ASYNCSIM_BROWSER names one")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@functools.cache
def page_of(browser, **device):
    """The one page of a kind of device, in which all files are opened: a new page takes longer than most tests."""
    return browser.new_context(**device).new_page()


class Watched:
    """A page that is opened, and whatever it asked for or complained about.

    Args:
        browser: The fixture.
        path: The file.
        query: After the file's name.
        viewport: Width and height in pixels.
        media: `color_scheme` and `reduced_motion` that the reader prefers.
        device: Options of a browser's context: `has_touch` and `is_mobile`.
    """

    def __init__(self, browser, path, query="", *, viewport=(1280, 720), media=None, **device):
        self.page = page_of(browser, **device)
        self.page.mouse.move(0, 0)
        self.page.set_viewport_size(dict(zip(("width", "height"), viewport, strict=True)))
        self.page.emulate_media(**{"color_scheme": "light", "reduced_motion": "no-preference", **(media or {})})
        # From another page: the same file with another fragment would not be loaded again.
        self.page.goto("about:blank")
        self.complaints, self.requests = [], []
        self.listeners = {
            "console": lambda message: self.complaints.append(message.text),
            "pageerror": lambda error: self.complaints.append(str(error)),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, listener in self.listeners.items():
            self.page.on(event, listener)
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
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)
        assert error[0] is not None or self.complaints == []
        assert error[0] is not None or len(self.requests) == 1  # for the file itself


class MoviePage(Watched):
    """The page of a movie, once its script has run."""

    def __init__(self, browser, path, query="", **options):
        super().__init__(browser, path, query, **options)
        self.wait("window.movie !== undefined")
