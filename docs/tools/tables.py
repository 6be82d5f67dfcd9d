"""Tables on narrow screens: rows of sentences become cards, in which every cell says what its column is called.

Tables of short cells stay tables; `_static/pages.css` keeps their first column in view. A number and its error, range,
unit or name stay on one line.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LONG = 36  # letters of a cell that a third of a phone's width would break into more than three lines
NUMBER = r"[-−+]?\d[\d.]*(?:e-?\d+)?"
WHOLE = re.compile(rf"{NUMBER} ± {NUMBER}|\({NUMBER} to {NUMBER}\)|{NUMBER} %|[≤≥<>] {NUMBER}|(?<!\w)\w = {NUMBER}")


def keep_numbers_whole(app: Sphinx, doctree: nodes.document) -> None:
    """Let no line of a cell end inside of a number with its error, range, unit or name: its spaces do not break."""
    for table in doctree.findall(nodes.table):
        for text in list(table.findall(nodes.Text)):
            if not isinstance(text.parent, nodes.literal):
                text.parent.replace(text, nodes.Text(WHOLE.sub(lambda number: number[0].replace(" ", "\xa0"), text)))


def name_columns(app: Sphinx, doctree: nodes.document) -> None:
    """Give each cell of a table that becomes cards the name of its column, which wide screens do not show."""
    for table in doctree.findall(nodes.table):
        head, body = next(table.findall(nodes.thead), None), next(table.findall(nodes.tbody), None)
        if head is not None and body is not None and is_wide(body):
            table["classes"].append("cards")
            names = [entry.astext() for entry in next(head.findall(nodes.row))]
            for row in body:
                told = [(name, entry) for name, entry in zip(names, row, strict=False) if entry.astext()]
                for entry in row:
                    entry["classes"] += [] if entry.astext() else ["nothing"]
                told[0][1]["classes"].append("heading")
                for name, entry in told[1:]:
                    if name:
                        entry.insert(0, nodes.paragraph("", name, classes=["column"]))


def is_wide(body: nodes.tbody) -> bool:
    """Whether rows have at least three cells, and one beside the first is long."""
    return len(body[0]) > 2 and any(len(entry.astext()) > LONG for row in body for entry in row[1:])


def setup(app: Sphinx) -> dict[str, Any]:
    """As soon as a page is read."""
    app.connect("doctree-read", name_columns)
    app.connect("doctree-read", keep_numbers_whole)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
