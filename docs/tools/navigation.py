"""Pages that stand in no table of contents share their navigation, which else takes a third of the time of writing."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from sphinx.application import Sphinx

_made: dict[tuple[str, str], str] = {}


def share(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Before the theme asks for the tree: of pages in one folder that are not in it, all trees are equal."""
    if "orphan" in app.env.metadata.get(pagename, {}):
        context["toctree"] = partial(_tree, os.path.dirname(pagename), context["toctree"])


def _tree(folder: str, make: Callable[..., str], **options: Any) -> str:
    key = (folder, repr(sorted(options.items())))
    if key not in _made:
        _made[key] = make(**options)
    return _made[key]


def setup(app: Sphinx) -> dict[str, Any]:
    """Before the theme, whose own step comes at 500."""
    app.connect("html-page-context", share, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
