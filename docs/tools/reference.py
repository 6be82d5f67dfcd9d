"""The reference of the library: a page for every public name, and a page for every package that lists its names."""

import inspect
import sys

from tools.docstrings import escaped
from tools.names import PACKAGES, Name, by_package, summary

FIRST = {
    "Cluster": "Describe workers, network, server, protocol and faults.",
    "simulate": "Schedule a cluster.",
    "Trace": "Read, check and save a schedule or a log.",
    "replay": "Train a model on a schedule.",
    "Run": "Evaluate the result: losses, records and final parameters.",
    "Scenario": "Describe a whole experiment as one object.",
    "run": "Run a scenario and keep its results in a folder.",
    "sweep": "Run many scenarios, resumably and in parallel.",
    "calibrate": "Fit a cluster model to a log.",
    "animate": "Make a moving picture.",
    "load": "Load a run again, by its tag or folder.",
}


def pages() -> dict[str, str]:
    """File name without suffix -> reStructuredText."""
    packages = dict(by_package())
    found = {f"package-{package}": package_page(package, names) for package, names in packages.items()}
    found["library"] = library_page(list(packages))
    for names in packages.values():
        found |= {name.page: name_page(name) for name in names}
    return found


def library_page(packages: list[str]) -> str:
    """The names that one needs first, and all packages in the order of importance."""
    lines = [titled("The library"), "You need these names first:\n\n.. list-table::\n   :widths: 25 75\n\n"]
    lines += [f"   * - `asyncsim.{name}`\n     - {use}\n" for name, use in FIRST.items()]
    lines.append("\nAll public names, the most important packages first:\n\n.. toctree::\n   :maxdepth: 1\n\n")
    return "".join([*lines, *(f"   package-{package}\n" for package in packages)])


def titled(text: str, mark: str = "=") -> str:
    """A heading."""
    return f"{text}\n{mark * len(text)}\n\n"


def package_page(package: str, names: list[Name]) -> str:
    """What the package's docstring says, and its names with their first lines."""
    module = sys.modules.get(f"asyncsim.{package}")
    about = (inspect.getdoc(module) or "").partition("\n\n")[0] if module else ""
    lines = [
        titled(PACKAGES[package]),
        "\n".join(escaped(about.splitlines())),
        "\n\n.. list-table::\n   :widths: 35 65\n\n",
    ]
    for name in names:
        short = name.path.removeprefix("asyncsim.")
        lines.append(f"   * - :doc:`{short} <{name.page}>`\n     - {''.join(escaped([summary(name.value)]))}\n")
    return "".join(lines)


def name_page(name: Name) -> str:
    """What autodoc finds: signature, docstring and, of a class, its members."""
    short = name.path.removeprefix("asyncsim.")
    back = f":doc:`{PACKAGES[name.package]} <package-{name.package}>`"
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
