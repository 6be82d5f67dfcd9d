"""The public names of asyncsim, and the room that each belongs to."""

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import asyncsim

# Room -> its title, in the order of the reference. A name's room is the folder that its module stands in.
ROOMS = {
    "cluster": "Clusters: network, server, protocols, faults",
    "delays": "Compute times",
    "trace": "The trace",
    "rules": "Update rules",
    "compressors": "Compressed messages",
    "workloads": "Models",
    "datasets": "Data",
    "components": "Components",
    "engine": "Replay",
    "energy": "Energies",
    "theory": "Theory",
    "scenario": "Scenarios",
    "study": "Running, keeping, comparing",
    "priors": "Priors",
    "calibration": "Calibration",
    "animation": "Moving pictures",
    "plots": "Plots",
    "folders": "Tags",
    "cli": "The command, from Python",
}
# Modules with public names that are not themselves among the names of a package.
MODULES = ("asyncsim.delays.fleet", "asyncsim.priors", "asyncsim.trace", "asyncsim.engine", "asyncsim.study")


@dataclass(frozen=True)
class Name:
    """A public name.

    Attributes:
        path: What users write, such as ``asyncsim.rules.GEM``.
        value: What it stands for.
        room: The room of the reference that it belongs to.
    """

    path: str
    value: Any
    room: str

    @property
    def kind(self) -> str:
        """Which directive of autodoc describes it."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if inspect.isroutine(self.value) else "data"

    @property
    def page(self) -> str:
        """The name of its page, by case alone different names apart."""
        short = self.path.removeprefix("asyncsim.")
        return f"{short}-class" if self.kind in ("class", "exception") else short


def public_names() -> list[Name]:
    """Every public name once, under the shortest path that users write."""
    found: dict[int, Name] = {}
    taken: list[Name] = []
    for module in public_modules():
        for name in own_names(module):
            value = getattr(module, name)
            if inspect.ismodule(value) or id(value) in found:
                continue
            entry = Name(f"{public_path(module)}.{name}", value, room_of(module, value))
            if not isinstance(value, int | float | str | tuple):  # equal ones are one object
                found[id(value)] = entry
            taken.append(entry)
    return taken


def public_modules() -> list[ModuleType]:
    """The package, and all modules with public names, shortest paths first."""
    found = [asyncsim]
    for module in found:
        inner = [getattr(module, name) for name in own_names(module)]
        found += [value for value in inner if inspect.ismodule(value) and value not in found]
    return found + [importlib.import_module(path) for path in MODULES if importlib.import_module(path) not in found]


def own_names(module: ModuleType) -> list[str]:
    """What a module declares as public, or else what it defines."""
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return sorted(declared)
    return sorted(name for name, value in vars(module).items() if not name.startswith("_") and _is_from(module, value))


def _is_from(module: ModuleType, value: Any) -> bool:
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__


def public_path(module: ModuleType) -> str:
    """How users reach a module: ``asyncsim.protocols`` for ``asyncsim.cluster.protocols``."""
    last = module.__name__.rpartition(".")[2]
    is_short = last in asyncsim.__all__ and getattr(asyncsim, last) is module
    return f"asyncsim.{last}" if is_short else module.__name__


def room_of(module: ModuleType, value: Any) -> str:
    """The folder or the module of the ground floor that a name comes from."""
    home = getattr(value, "__module__", None) or module.__name__
    home = home if home.startswith("asyncsim.") else module.__name__
    room = home.split(".")[1]
    return room if room in ROOMS else module.__name__.split(".")[1]


def summary(value: Any) -> str:
    """The first line of a docstring."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return ""
    return (inspect.getdoc(value) or "").partition("\n")[0]


def by_room() -> Iterator[tuple[str, list[Name]]]:
    """Rooms that have names, in the order of the reference."""
    names = public_names()
    unknown = {name.room for name in names} - set(ROOMS)
    if unknown:
        raise ValueError(f"Rooms of the library that docs/tools/names.py has no title for: {sorted(unknown)}.")
    for room in ROOMS:
        here = [name for name in names if name.room == room]
        if here:
            yield room, sorted(here, key=lambda name: name.path.lower())
