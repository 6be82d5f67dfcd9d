"""Numbers in tables: a number and its error, range, unit or name stay on one line.

Where even a whole screen is too narrow for them, `_static/tables.js` lets them break.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

NUMBER = r"[-−+]?\d[\d.]*(?:e-?\d+)?"
WHOLE = re.compile(rf"{NUMBER} ± {NUMBER}|\({NUMBER} to {NUMBER}\)|{NUMBER} %|[≤≥<>] {NUMBER}|(?<!\w)\w = {NUMBER}")


def keep_numbers_whole(app: Sphinx, doctree: nodes.document) -> None:
    """Let no line of a cell end inside of a number with its error, range, unit or name: its spaces do not break."""
    for table in doctree.findall(nodes.table):
        for text in list(table.findall(nodes.Text)):
            if not isinstance(text.parent, nodes.literal):
                text.parent.replace(text, nodes.Text(WHOLE.sub(lambda number: number[0].replace(" ", "\xa0"), text)))


def setup(app: Sphinx) -> dict[str, Any]:
    """As soon as a page is read."""
    app.connect("doctree-read", keep_numbers_whole)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
