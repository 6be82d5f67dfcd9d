"""The sections of a docstring, completed for the reference: arguments, errors and sources that it takes from elsewhere.

In the code, "Arguments and errors as in `throughput`." is enough. A page of the reference repeats what is meant.
"""

import functools
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

import asyncsim
from asyncsim.components import Component

ORDER = ("", "Args:", "Attributes:", "Returns:", "Yields:", "Raises:", "Example:", "Examples:", "References:")
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*): +(\S.*)$")
SHARED = re.compile(r"\b[Aa]rguments\b[^`.]*\bas in\s+`([\w.]+)`")
SAME_SOURCE = re.compile(r"\breferences?\b[^`.]*\bas in\s+`")
SAME = re.compile(r"^As in `([\w.]+)`\.")
OUT_OF_RANGE = "    ValueError: If an argument has the wrong type or is out of range."
DERIVED = "    Derived for asyncsim, and checked by the tests of `asyncsim.theory`."


def completed(obj: Any, lines: list[str]) -> list[str]:
    """The lines of a docstring with one entry for each field or argument, and with the sections that it refers to.

    Example:
        >>> completed(object, ["Attributes:", "    mean, sd: Moments.", "        In seconds."])[1:4]
        ['    mean: Moments.', '        In seconds.', '    sd: Moments.']
    """
    parts = split(lines)
    if "Attributes:" in parts:
        parts["Attributes:"] = written(entries(parts["Attributes:"]), parts["Attributes:"])
    if inspect.isclass(obj) and issubclass(obj, Component) and "Args:" in parts:
        parts.setdefault("Raises:", [OUT_OF_RANGE, ""])
    if not callable(obj) or inspect.isclass(obj):
        return joined(parts)
    found = arguments(obj, parts)
    names = [one for one in inspect.signature(obj).parameters if one in found]
    if names and set(names) != set(entries(parts.get("Args:", []))):
        parts["Args:"] = written({name: found[name] for name in names}, [])
    if obj.__module__.startswith("asyncsim.theory"):
        other = shared(obj, parts)
        theirs = split(docstring(other)) if other else {}
        source = theirs if SAME_SOURCE.search(" ".join(parts[""])) else {}
        parts.setdefault("Raises:", theirs.get("Raises:", [OUT_OF_RANGE, ""]))
        parts.setdefault("References:", source.get("References:", [DERIVED, ""]))
    return joined(parts)


def split(lines: list[str]) -> dict[str, list[str]]:
    """Title of a section -> its lines; before the first title, the text."""
    parts: dict[str, list[str]] = {"": []}
    title = ""
    for line in lines:
        if line in ORDER[1:]:
            title = line
            parts.setdefault(title, [])
        else:
            parts[title].append(line)
    return parts


def joined(parts: dict[str, list[str]]) -> list[str]:
    """The sections in their order, with an empty line after each."""
    found: list[str] = []
    for title in ORDER:
        if title in parts:
            found += [*([title] if title else []), *parts[title]]
            found += [""] * bool(found and found[-1].strip())
    return found


def entries(lines: list[str]) -> dict[str, list[str]]:
    """Name -> the lines of its text; names that share a text get it each."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        if entry := ENTRY.match(line):
            names = [name.lstrip("*") for name in entry[1].split(", ")]
            found |= {name: [entry[2]] for name in names}
        elif line.strip():
            for name in names:
                found[name].append(line)
    return found


def written(found: dict[str, list[str]], otherwise: list[str]) -> list[str]:
    """The lines of a section with these entries; without any, the lines as they were."""
    return [line for name, text in found.items() for line in (f"    {name}: {text[0]}", *text[1:])] or otherwise


def arguments(function: Callable[..., Any], parts: dict[str, list[str]]) -> dict[str, list[str]]:
    """Name of an argument -> its text, in this docstring or in the one that it refers to."""
    found = entries(parts.get("Args:", []))
    for name, text in found.items():
        if same := SAME.match(text[0]):
            found[name] = [*arguments_of(named(function, same[1])).get(name, text)]
    other = shared(function, parts)
    return (arguments_of(other) if other else {}) | found


def arguments_of(function: Callable[..., Any]) -> dict[str, list[str]]:
    """The arguments of another function."""
    return arguments(function, split(docstring(function)))


def shared(function: Callable[..., Any], parts: dict[str, list[str]]) -> Callable[..., Any] | None:
    """The function whose arguments a docstring says that it has."""
    found = SHARED.search(" ".join(parts[""]))
    return named(function, found[1]) if found else None


def named(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    """A function that another one names, for example `load` of its class, module or package, or `Mixture.fit`."""
    module, (first, *rest) = sys.modules[function.__module__], path.split(".")
    own = vars(module).get(function.__qualname__.partition(".")[0])
    space = {"asyncsim": asyncsim} | vars(sys.modules[module.__name__.rpartition(".")[0]]) | vars(module)
    found = functools.reduce(getattr, rest, (space | dict(vars(own) if inspect.isclass(own) else {}))[first])
    return getattr(found, "__func__", found)


def docstring(value: Any) -> list[str]:
    """The lines of a docstring."""
    return (inspect.getdoc(value) or "").splitlines()
