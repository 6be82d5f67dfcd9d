"""Formulas as MathML, made when the pages are built: browsers draw it without a script, a font or a network."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def visit_math(writer: Any, node: nodes.math) -> None:
    """A formula in a line."""
    writer.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """A formula of its own, which scrolls where the page is narrow."""
    anchor = f' id="{node["ids"][0]}"' if node["ids"] else ""
    writer.body.append(f'<div class="math-block"{anchor}>{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Make `html_math_renderer = "mathml"` known."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
