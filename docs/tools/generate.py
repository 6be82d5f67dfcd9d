"""Pages made of the code each time: those of the library's names, the rules, the command line, the gallery."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.roles import XRefRole

from tools import catalogue, commands, gallery, reference
from tools.names import other_names, public_names

FOLDER = "reference/generated"


def write_pages(app: Sphinx) -> None:
    """Write what has changed, so that Sphinx reads no page twice, and remove what is no longer there."""
    folder = Path(app.srcdir) / FOLDER
    pages = {**reference.pages(), "rules": catalogue.page(), "command-line": commands.page(), "gallery": gallery.page()}
    folder.mkdir(exist_ok=True)
    for stale in set(folder.glob("*.rst")) - {folder / f"{name}.rst" for name in pages}:
        stale.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def targets() -> dict[str, str]:
    """What docstrings call a name -> its page and anchor: its path, and its last word where only one name has it."""
    names, pages = public_names(), reference.page_of_names()
    last = [name.path.rpartition(".")[2] for name in names]
    found = {word: pages[name.path] for word, name in zip(last, names, strict=True) if last.count(word) == 1}
    paths = {name.path: name.path for name in names} | other_names()
    for path, first in paths.items():
        found |= dict.fromkeys((path, path.replace("asyncsim.", "asim."), path[9:]), pages[first])
    return found


def resolve(app: Sphinx, env: Any, node: Any, contnode: nodes.Element) -> nodes.reference | None:
    """Link a name in backticks to its entry, however it is written; what is no public name stays code."""
    target = TARGETS.get(node.get("reftarget", "").removesuffix("()"))
    if target is None or app.builder.format != "html":
        return None
    page, _, anchor = target.partition("#")
    uri = app.builder.get_relative_uri(node["refdoc"], f"{FOLDER}/{page}")
    return nodes.reference("", "", contnode, internal=True, refuri=f"{uri}#{anchor}")


TARGETS = targets()


def setup(app: Sphinx) -> dict[str, Any]:
    """Before Sphinx looks for pages, and where it finds no target of its own."""
    app.add_role("name", XRefRole())
    app.connect("builder-inited", write_pages)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
