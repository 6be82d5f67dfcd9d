"""The reference of the library: a page for every public name, and a page for every room that lists its names."""

import inspect
import sys

from tools.docstrings import escaped
from tools.names import ROOMS, Name, by_room, summary


def pages() -> dict[str, str]:
    """File name without suffix -> reStructuredText."""
    rooms = dict(by_room())
    found = {f"room-{room}": room_page(room, names) for room, names in rooms.items()}
    for names in rooms.values():
        found |= {name.page: name_page(name) for name in names}
    return found


def titled(text: str, mark: str = "=") -> str:
    """A heading."""
    return f"{text}\n{mark * len(text)}\n\n"


def room_page(room: str, names: list[Name]) -> str:
    """What the room's docstring says, and its names with their first lines."""
    module = sys.modules.get(f"asyncsim.{room}")
    about = (inspect.getdoc(module) or "").partition("\n\n")[0] if module else ""
    lines = [titled(ROOMS[room]), "\n".join(escaped(about.splitlines())), "\n\n.. list-table::\n   :widths: 35 65\n\n"]
    for name in names:
        short = name.path.removeprefix("asyncsim.")
        lines.append(f"   * - :doc:`{short} <{name.page}>`\n     - {''.join(escaped([summary(name.value)]))}\n")
    return "".join(lines)


def name_page(name: Name) -> str:
    """What autodoc finds: signature, docstring and, of a class, its members."""
    short = name.path.removeprefix("asyncsim.")
    back = f":doc:`{ROOMS[name.room]} <room-{name.room}>`"
    head = f":orphan:\n\n{titled(short)}{back} · write ``{name.path.replace('asyncsim.', 'asim.', 1)}``\n\n"
    if name.kind == "data":
        return f"{head}.. py:data:: {name.path}\n\n{constant(name)}"
    members = "   :members:\n   :inherited-members: tuple,dict,list,int,Enum,Exception,BaseException\n"
    return f"{head}.. auto{name.kind}:: {name.path}\n{members if name.kind in ('class', 'exception') else ''}"


def constant(name: Name) -> str:
    """What a constant holds: the keys of a table, or its value."""
    if isinstance(name.value, dict):
        return f"   A table of {len(name.value)}: {', '.join(f'``{key}``' for key in name.value)}.\n"
    return f"   ``{name.value!r}``\n"
