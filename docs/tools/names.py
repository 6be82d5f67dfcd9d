"""The public names of asyncsim, and the package that each belongs to."""

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import asyncsim

# Package -> its title, the most important first. A name's package is the folder of its module.
PACKAGES = {
    "cluster": "Clusters: network, server, protocols, faults",
    "delays": "Compute times",
    "trace": "The trace",
    "recorder": "The recorder of a log",
    "engine": "Replay",
    "rules": "Update rules",
    "workloads": "Models",
    "datasets": "Data",
    "scenario": "Scenarios",
    "study": "Running, sweeping, comparing",
    "plots": "Plots",
    "costs": "Costs: time, bytes, energy, money",
    "theory": "Theory",
    "calibration": "Calibration",
    "animation": "Animations",
    "compressors": "Compressed messages",
    "energy": "Energies",
    "trainers": "Reference trainers",
    "store": "Tags",
    "components": "Components",
    "cli": "The command, from Python",
}
# Modules with public names that are not themselves among the names of a package.
MODULES = ("asyncsim.delays.fleet",)


@dataclass(frozen=True)
class Name:
    """A public name.

    Attributes:
        path: What users write, such as ``asyncsim.rules.GEM``.
        value: What it stands for.
        package: The package of the reference that it belongs to.
    """

    path: str
    value: Any
    package: str

    @property
    def kind(self) -> str:
        """Which directive of autodoc describes it."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if inspect.isroutine(self.value) else "data"


def public_names() -> list[Name]:
    """Every public name once, under the shortest path that users write."""
    found: dict[int, Name] = {}
    taken: list[Name] = []
    for module in public_modules():
        for name in own_names(module):
            value = getattr(module, name)
            if inspect.ismodule(value) or id(value) in found:
                continue
            entry = Name(f"{public_path(module)}.{name}", value, package_of(module, value))
            if not isinstance(value, int | float | str | tuple):  # equal ones are one object
                found[id(value)] = entry
            taken.append(entry)
    return taken


def other_names() -> dict[str, str]:
    """Further paths of classes, such as `asyncsim.datasets.partition` of `Partition` -> the first path of the class."""
    classes = {id(name.value): name for name in public_names() if inspect.isclass(name.value)}
    found = {}
    for module in public_modules():
        for name in own_names(module):
            path, entry = f"{public_path(module)}.{name}", classes.get(id(getattr(module, name)))
            if entry is not None and path != entry.path:
                found[path] = entry.path
    return found


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


def package_of(module: ModuleType, value: Any) -> str:
    """The package that a name comes from; what stands in a module of the top level belongs to the components."""
    paths = (getattr(value, "__module__", None) or "", module.__name__)
    found = [path.split(".")[1] for path in paths if path.startswith("asyncsim.")]
    return next((package for package in found if package in PACKAGES), "components")


def summary(value: Any) -> str:
    """The first line of a docstring."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return ""
    return (inspect.getdoc(value) or "").partition("\n")[0]


def by_package() -> Iterator[tuple[str, list[Name]]]:
    """Packages that have names, in the order of the reference."""
    names = public_names()
    unknown = {name.package for name in names} - set(PACKAGES)
    if unknown:
        raise ValueError(f"Packages of the library that docs/tools/names.py has no title for: {sorted(unknown)}.")
    for package in PACKAGES:
        here = [name for name in names if name.package == package]
        if here:
            yield package, sorted(here, key=lambda name: name.path.lower())
