"""The meaning of each argument, read from the docstring of a class or a function."""

import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

SECTION = re.compile(r"^ *(Args|Attributes):\s*$")
ENTRY = re.compile(r"^( +)(\*{0,2}\w+(?:, \w+)*): (.*)$")
CROSS_REFERENCE = re.compile(r"As in (\w+)\. ?(.*)$")


@cache
def described_arguments(constructor: Callable[..., Any]) -> Mapping[str, str]:
    """Return argument -> its text in `Args:` or `Attributes:`. "As in X." stands for the text of X in its package."""
    lines = (inspect.getdoc(constructor) or "").splitlines()
    starts = [number for number, line in enumerate(lines) if SECTION.match(line)]
    texts: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines[starts[0] + 1 :] if starts else []:
        entry = ENTRY.match(line)
        if line.strip() and not line.startswith(" "):
            break
        if entry and len(entry[1]) == 4:
            names = entry[2].split(", ")
            texts |= {name: [entry[3]] for name in names}
        else:
            for name in names:
                texts[name].append(line.strip())
    helps = {name: " ".join(part for part in text if part).replace("`", "") for name, text in texts.items()}
    for name, help in helps.items():
        if reference := CROSS_REFERENCE.match(help):
            module = constructor.__module__
            places = (sys.modules.get(place) for place in (module, module.rpartition(".")[0]))
            other = next(filter(None, (getattr(place, reference[1], None) for place in places)), None)
            helps[name] = f"{described_arguments(other).get(name, '') if other else ''} {reference[2]}".strip()
    return types.MappingProxyType(helps)
