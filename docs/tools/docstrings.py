"""Docstrings are plain text with a little markup; what reStructuredText would take for more is escaped here."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from docutils import nodes
from sphinx.addnodes import pending_xref, pending_xref_condition
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

from tools.sections import completed

EMPHASIS = r"(?<![\w*]){0}(?=[^\W\d])[^*`]*[\w.]{0}(?![\w*])"
CODE = re.compile(rf"(``.+?``|`[^`\n]+`|{EMPHASIS.format('[*]')}|{EMPHASIS.format('[*][*]')})")  # or emphasised words
MARKUP = re.compile(r"(?<!\\)([|]|\*(?!\s)|(?<=\w)_(?=\W|$))")
COLUMNS = re.compile(r"\S {2,}\S")
ARRAY_LIKE = re.compile(r"[\w.~]*(?:Buffer|ArrayLike)\b[^=]*?\[complex \| bytes \| str\]\]?")
ARRAY = re.compile(r"[\w.~]*ndarray\[tuple\[[\w.~]+, \.\.\.\], [\w.~]*dtype\[[\w.~]+\]\]")
LIST = re.compile(r"^(\s*(?:\w*: +)?)(\(?[^\W\d][.)])(?=\s|$)")
FACTORY = re.compile(r"<factory>|<function [\w.<>]+>|<object object>")
VARTYPE = re.compile(r"^\s*:vartype ")
MODULES = re.compile(r"\b(?:[^\W\d]\w*\.)+(?=\w)")
NO_TYPE = ("property", "attribute", "data")
SKIPPED = re.compile(r"\s*(>>>|={3}|Args:|Returns:|Attributes:|Example:|- )")


def escaped(lines: list[str]) -> list[str]:
    """The lines with bars, stars and closing underscores escaped, except in code, in examples and around emphasis.

    Example:
        >>> escaped(["(κ|m| - |θ|) of `Run`s as `a | b`", ">>> 1 | 2"])
        ['(κ\\\\|m\\\\| - \\\\|θ\\\\|) of `Run`\\\\ s as `a | b`', '>>> 1 | 2']
        >>> escaped(["workers: n."])
        ['workers: \\\\n.']
        >>> escaped(["the *old* x*y, and **options"])
        ['the *old* x\\\\*y, and \\\\*\\\\*options']
    """
    found, is_example = [], False
    for line in lines:
        is_example = line.lstrip().startswith(">>>") or (is_example and bool(line.strip()))
        found.append(line if is_example else _escaped(line))
    return found


def _escaped(line: str) -> str:
    """One line: a letter with a full stop begins no list, and a letter right after backticks stands apart."""
    line = LIST.sub(r"\1\\\2", line)
    parts = CODE.split(line)
    for place in range(0, len(parts), 2):
        parts[place] = MARKUP.sub(r"\\\1", parts[place])
        if place and parts[place][:1].isalnum():
            parts[place] = rf"\ {parts[place]}"
    return "".join(parts)


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Complete and escape a docstring in place, before napoleon reads its sections."""
    whole = untyped(what, completed(obj, lines))
    lines[:] = [line for paragraph in paragraphs(whole) for line in typeset(paragraph)]


def shorten_types(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Name the types of attributes without their modules, which may be private, after napoleon has looked them up."""
    lines[:] = [MODULES.sub("", line) if VARTYPE.match(line) else line for line in lines]


def untyped(what: str, lines: list[str]) -> list[str]:
    """The lines with a colon before the text of a property and of what is returned: napoleon reads a type before it.

    Example:
        >>> untyped("function", ["Returns:", "    Staleness: versions since the read."])
        ['Returns:', '    : Staleness: versions since the read.']
    """
    first = [what in NO_TYPE and bool(lines), *(line.strip() in ("Returns:", "Yields:") for line in lines)]
    return [
        re.sub(r"^(\s*)(?=\S)", r"\1: ", line, count=1) if marked else line
        for marked, line in zip(first, lines, strict=False)
    ]


def paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Runs of lines with no empty line between them, each with the empty lines that follow."""
    start = 0
    for place in range(1, len(lines) + 1):
        if place == len(lines) or (lines[place].strip() and not lines[place - 1].strip()):
            yield lines[start:place]
            start = place


def typeset(paragraph: list[str]) -> list[str]:
    """A paragraph with what is special escaped; formulas that stand in columns stay as they stand.

    Example:
        >>> typeset(["one law:   τ = n", "any laws:  τ_i"])
        ['::', '', '    one law:   τ = n', '    any laws:  τ_i', '']
    """
    if any(COLUMNS.search(line) for line in paragraph) and not any(SKIPPED.match(line) for line in paragraph):
        return ["::", "", *(f"    {line}" for line in paragraph), ""]
    return escaped(paragraph)


def shorten(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Name the types of arrays in a signature as the code does, and defaults without a name by three dots."""
    if signature and (is_dataclass(obj) or "Annotated[" in signature):
        signature = unchecked(obj)
    short = (text and ARRAY.sub("Array", ARRAY_LIKE.sub(_array_like, text)) for text in (signature, returns))
    return tuple(text and FACTORY.sub("...", text) for text in short)


def unchecked(obj: Any) -> str:
    """The signature of a dataclass or function without the checks in its annotations.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> unchecked(Gamma)
        '(mean: float, cv: float)'
    """
    found = inspect.signature(obj)
    bare = [one.replace(annotation=_without_check(one.annotation)) for one in found.parameters.values()]
    plain = found.replace(parameters=bare)
    return stringify_signature(plain, show_return_annotation=False, unqualified_typehints=True)


def _without_check(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(map(_without_check, get_args(annotation)))]  # noqa: UP007
    return annotation


def _array_like(found: re.Match[str]) -> str:
    """The short name, and a closing bracket that belongs to what stands around it."""
    return "ArrayLike" + "]" * (found[0].count("]") - found[0].count("["))


def skip(app: Sphinx, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what a named tuple or a dataclass says of each field by itself."""
    documentation = getattr(obj, "__doc__", None) or ""
    return True if documentation.startswith("Alias for field number") else None


def unlink_attributes(app: Sphinx, doctree: nodes.document) -> None:
    """Attributes of a class are no links: Sphinx would link `mean` to any other class that has one."""
    for node in list(doctree.findall(pending_xref)):
        if node.get("refdomain") == "py" and node.get("refspecific"):
            node.replace_self(_as_unresolved(node))


def hide_private_paths(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """A link needs no tooltip that says in which private module its class stands."""
    for node in doctree.findall(nodes.reference):
        if "._" in node.get("reftitle", ""):
            del node["reftitle"]


def _as_unresolved(node: pending_xref) -> list[nodes.Node]:
    """What a reference shows if it is none: of two texts, the one for that case."""
    texts = [child for child in node.children if isinstance(child, pending_xref_condition)]
    return next((list(child.children) for child in texts if child["condition"] == "*"), list(node.children))


def setup(app: Sphinx) -> dict[str, Any]:
    """Before and after napoleon, whose own step comes at 500."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-process-docstring", shorten_types, priority=600)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", shorten)
    app.connect("doctree-read", unlink_attributes)
    app.connect("doctree-resolved", hide_private_paths)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
