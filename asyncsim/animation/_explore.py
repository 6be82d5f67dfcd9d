"""The explorable: one page with sliders for workers, spread, step size and server, and pictures that follow."""

from asyncsim.animation import _page

TITLE = "How stale may a gradient be?"
SUBTITLE = "Drag a slider, and the simulated cluster answers at once."


def make_explorable() -> str:
    """The page as text: self-contained, and without any request to a network."""
    return _page.fill("explore", {"title": TITLE, "subtitle": SUBTITLE}, None, shared="explore_core")
