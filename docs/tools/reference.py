"""The reference of the library: a page for every package that lists its names, and pages that describe them.

A page describes the names of one module, because a module is one idea. The names that one needs first have pages of
their own, and theory has a page for every group of functions.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from tools.docstrings import escaped
from tools.names import PACKAGES, Name, by_package, public_names, summary

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
# Package -> the names that its users need most, in this order. The others follow in that of the alphabet.
NEEDED = {
    "cluster": "Network Server protocols.Asynchronous protocols.Synchronous protocols.KAsync protocols.SSP "
    "faults.Crash Gossip Hierarchy graphs.Ring Rollouts Pipeline",
    "delays": "delays.Gamma delays.Exponential delays.Constant delays.LogNormal delays.Straggler delays.Mixture "
    "delays.Empirical delays.fleet.two_classes delays.fleet.linear delays.SlowPeriods",
    "trace": "statistics trace.Statistics",
    "engine": "loss_against_time use_all_cores",
    "rules": "rules.GEM rules.Downpour rules.MomentumSGD rules.StalenessAware rules.EASGD rules.DiLoCo Rule citation",
    "workloads": "workloads.MLP workloads.Softmax workloads.ConvNet workloads.Transformer workloads.Quadratic "
    "workloads.Landscape Workload",
    "datasets": "datasets.Digits datasets.MNIST datasets.CIFAR10 datasets.Text datasets.Partition",
    "study": "grid best compare Result Sweep",
    "plots": "plots.draw_report plots.draw_loss plots.draw_staleness plots.draw_timeline plots.draw_throughput "
    "plots.style",
    "costs": "cost costs.Cost Price Power",
    "calibration": "Fit calibration.what_if calibration.ladder calibration.Model calibration.Checks",
    "compressors": "compressors.TopK compressors.QSGD compressors.ScaledSign compressors.Compressor",
    "energy": "energy.kinetic energy.compliance energy.scaling",
    "trainers": "trainers.single_trainer",
    "store": "tags.add tags.get tags.every",
    "components": "components.digest components.describe components.from_description static",
}
MOST_NAMES = 3  # of a page whose title is their list
BUILT_IN = ("tuple", "dict", "list", "int", "Enum", "Exception", "BaseException")
CONSTANTS = {
    "asyncsim.components.REVISION": "A number that is raised whenever a change of the library alters a result. It is "
    "part of each `digest`, so that a stored result never outlives the code that computed it.",
    "asyncsim.delays.FloatArray": "The type of an array of numbers: `numpy.ndarray` with the dtype float64.",
}
# Title of a group of theory's functions -> the ends of its modules' names, and its symbols.
THEORY = {
    "Staleness": (
        ("_asynchronous", "_protocols"),
        "n is the number of workers, τ staleness in versions, cv the standard deviation of a time over its mean, "
        "K the number of gradients in a step, λ the gradients per second of one worker, and N(x) the number of "
        "commits of another worker in x seconds. Of a pipeline, S is the number of stages, s = 0, …, S - 1 a "
        "stage, and M the number of micro-batches in a mini-batch.",
    ),
    "The server's queue": (
        ("theory._queue",),
        "n is the number of workers, λ the gradients per second of one worker, ν the commits per second that the "
        "server can apply, and τ staleness in versions.",
    ),
    "Seconds of a step, time complexity and cost": (
        ("_rounds", "_cost"),
        "n is the number of workers, K the number of gradients in a step, m the mean compute time and ℓ the "
        "latency each way in seconds, λ = 1/m, X_{i:n} the i-th shortest of n compute times, and H_n = 1 + 1/2 + "
        "… + 1/n. In time complexities t_i is the time of the i-th fastest worker, h_m the harmonic mean of the "
        "times of the m fastest, L the smoothness of the loss (not the loss), Δ the initial gap, σ² the variance "
        "of a gradient, and ε the squared gradient norm aimed at. Of preemptions, φ is the rate for each second up.",
    ),
    "Stability, noise floors and energies": (
        ("_constant_delay", "_outer", "_stationary", "_lyapunov", "_energies"),
        "η is the step size, h the curvature, η·h their product without a unit (the argument `kappa`), μ "
        "momentum, τ staleness, n the number of workers, K the number of gradients in a step, x the central "
        "variable, and σ² the variance of a gradient (s² that of the raw update, η²σ²). Of local steps, H is the "
        "number in a window, c the curvature of a window, and α the outer step size.",
    ),
    "Gradient Energy Matching": (
        ("_gem",),
        "μ is the momentum of the proxy, M = 1/(1 - μ) its velocity in raw updates, m its moment, κ the "
        "amplification, n the number of workers, and π the factor of a message.",
    ),
    "The mean path, and asynchrony as momentum": (
        ("_mean_path", "_estimators"),
        "L is the loss, x_t the central variable, Δ_t its t-th displacement, "
        "T the number of displacements, η the step size, h the curvature, n the number of workers, K the number of "
        "gradients in a step, and q_k the probability of staleness k.",
    ),
    "Workers on a graph": (
        ("_gossip", "_gossip_staleness", "_pairings", "_hierarchy"),
        "x_i is the variable of worker i and x̄ their mean, n the number of workers, W the mixing matrix and λ_j its "
        "eigenvalues, η the step size, h the curvature, κ = η·h, and s² the variance of a gradient. "
        "H is the window of local steps, c its curvature, α the outer step size, β its momentum, and φ_i the outer "
        "weights of worker i.",
    ),
    "Workers whose data differ": (
        ("_heterogeneous",),
        "h_w is the curvature of worker w's quadratic, m_w its minimum (in `commit_shares` its mean seconds of a "
        "commit), p_w its share of the commits, n the number of workers, and η the step size.",
    ),
    "Rollout engines and a trainer": (
        ("rollouts._queue", "rollouts._admission", "rollouts._faults"),
        "b is the number of groups in a step, S of samples in a group, B = b·S of samples in a step, and C of "
        "slots. G is the time to generate a sample and T that of a step, in seconds. Λ = C/E G is the samples per "
        "second of all slots, ρ = Λ·T/B the load, and L the lead in steps. F is the mean time of a group's longest "
        "sample over that of a sample, and M the number of steps between two synchronisations. K is the age bound "
        "and τ staleness in versions. Of N GPUs, one trains c_T samples per second, or generates c_R of them.",
    ),
}


class Page(NamedTuple):
    """A page of names. Without a title it is that of the package, where the names stand below its table."""

    name: str
    title: str
    package: str
    names: list[Name]
    symbols: str = ""


def pages() -> dict[str, str]:
    """File name without suffix -> reStructuredText."""
    packages = dict(by_package())
    found = {f"package-{package}": package_page(package) for package in packages}
    found["library"] = library_page(list(packages))
    return found | {page.name: names_page(page) for page in all_pages() if page.title}


@cache
def all_pages() -> list[Page]:
    """All pages that describe names, those of a package with the names that one needs first at the beginning."""
    return [page for package, names in by_package() for page in _divided(package, names)]


def page_of_names() -> dict[str, str]:
    """Path of a name -> its page and anchor."""
    return {name.path: f"{page.name}#{name.path}" for page in all_pages() for name in page.names}


def _divided(package: str, names: list[Name]) -> list[Page]:
    if package == "theory":
        return list(_groups(names))
    first = [name for key in FIRST for name in names if name.path == f"asyncsim.{key}"]
    names = by_need(package, names)
    modules: dict[str, list[Name]] = {}
    for name in names:
        if name not in first:
            modules.setdefault(_module(name), []).append(name)
    left = modules.pop("", [])  # of the package itself: `by_name`, constants and aliases of types
    found = [_page_of([name]) for name in first] + [_page_of(here) for here in modules.values()]
    return [*found, Page(f"package-{package}", "", package, left)] if left else found


def by_need(package: str, names: list[Name]) -> list[Name]:
    """Order names of a package: those that its users need most, and then the others as they came."""
    rank = {f"asyncsim.{name}": place for place, name in enumerate(NEEDED.get(package, "").split())}
    if unknown := set(rank) - {name.path for name in names}:
        raise ValueError(f"docs/tools/reference.py: {package} has no {sorted(unknown)}, which `NEEDED` lists.")
    return sorted(names, key=lambda name: rank.get(name.path, len(rank)))


def _module(name: Name) -> str:
    """The module that defines a class or a function, or nothing for what stands on the page of the package."""
    module = getattr(name.value, "__module__", None) or ""
    is_small = name.kind == "data" or name.path.endswith(".by_name") or not module.startswith("asyncsim")
    return "" if is_small else module


def _page_of(names: list[Name]) -> Page:
    """One name has a page of its name. Several have the title of their module, or the list of their names if short."""
    short = [name.path.removeprefix("asyncsim.") for name in names]
    package, module = names[0].package, _module(names[0])
    if len(names) == 1:
        is_class = names[0].kind in ("class", "exception")
        return Page(f"{short[0]}-class" if is_class else short[0], short[0], package, names)
    title = re.split(r"[:.,]", inspect.getdoc(sys.modules[module]) or "", maxsplit=1)[0]
    slug = f"{package}-{module.rpartition('.')[2].strip('_')}"
    return Page(slug, ", ".join(short) if len(names) <= MOST_NAMES else title, package, names)


def library_page(packages: list[str]) -> str:
    """The names that one needs first, and all packages in the order of importance."""
    lines = [titled("The library"), "You need these names first:\n\n.. list-table::\n   :widths: 25 75\n\n"]
    lines += [f"   * - `asyncsim.{name}`\n     - {use}\n" for name, use in FIRST.items()]
    lines.append("\nAll public names, the most important packages first:\n\n.. toctree::\n   :maxdepth: 1\n\n")
    return "".join([*lines, *(f"   package-{package}\n" for package in packages)])


def titled(text: str, mark: str = "=") -> str:
    """A heading."""
    return f"{text}\n{mark * len(text)}\n\n"


def package_page(package: str) -> str:
    """What the package's docstring says, its names with their first lines, and the entries that have no other page."""
    module = sys.modules.get(f"asyncsim.{package}")
    about = (inspect.getdoc(module) or "").partition("\n\n")[0] if module else ""
    head = titled(PACKAGES[package]) + "\n".join(escaped(about.splitlines())) + "\n\n"
    here = [page for page in all_pages() if page.package == package]
    if package == "theory":
        tables = [titled(page.title, "-") + _table(page.names) for page in here]
    else:
        tables = [_table([name for page in here for name in page.names])]
    return "".join([head, *tables, *(entry(name) for page in here if not page.title for name in page.names)])


def _groups(names: list[Name]) -> Iterator[Page]:
    """Theory's names in groups, each with a line of symbols."""
    left = list(names)
    for title, (modules, symbols) in THEORY.items():
        here = [name for name in left if name.value.__module__.endswith(modules)]
        left = [name for name in left if name not in here]
        if not symbols.endswith("."):
            raise ValueError(f"docs/tools/reference.py: the symbols of {title!r} are cut off: …{symbols[-30:]!r}.")
        yield Page(f"theory-{re.sub(r'[^a-z]+', '-', title.lower())}", title, "theory", here, symbols)
    if left:
        raise ValueError(f"docs/tools/reference.py has no group for {[name.path for name in left]}.")


def _table(names: list[Name]) -> str:
    lines = ["\n\n.. list-table::\n   :widths: 35 65\n\n"]
    for name in names:
        short = name.path.removeprefix("asyncsim.")
        lines.append(f"   * - :name:`{short} <{name.path}>`\n     - {''.join(escaped([summary(name.value)]))}\n")
    return "".join([*lines, "\n"])


def names_page(page: Page) -> str:
    """Describe the names of a page, after its symbols and a table of them if there are several."""
    place = f":doc:`The library <library>` › :doc:`{PACKAGES[page.package]} <package-{page.package}>`"
    head = f":orphan:\n\n{titled(page.title)}{place}"
    if len(page.names) == 1:
        (name,) = page.names
        return f"{head} · write ``{name.path.replace('asyncsim.', 'asim.', 1)}``\n\n{description(name)}"
    symbols = f"*Symbols.* {''.join(escaped([page.symbols]))}" if page.symbols else ""
    return "".join([f"{head}\n\n{symbols}", _table(page.names), *map(entry, page.names)])


def entry(name: Name) -> str:
    """Describe a name under a heading of its own, by which the search finds it."""
    return titled(name.path.removeprefix("asyncsim."), "-") + description(name)


def description(name: Name) -> str:
    """What autodoc finds: signature, docstring and, of a class, the members that its base does not describe."""
    if name.kind == "data":
        return f".. py:data:: {name.path}\n\n{constant(name)}\n"
    if name.kind == "function":
        return f".. autofunction:: {name.path}\n\n"
    text = f".. auto{name.kind}:: {name.path}\n   :members:\n   :inherited-members: {', '.join(BUILT_IN)}\n"
    base = next((kind for kind in name.value.__mro__[1:] if kind in _classes()), None)
    if base is None or not (inherited := sorted(member for member in dir(base) if not member.startswith("_"))):
        return f"{text}\n"
    return f"{text}   :exclude-members: {', '.join(inherited)}\n\nIt also has the members of `{_classes()[base]}`.\n\n"


@cache
def _classes() -> dict[Any, str]:
    """Public class -> its path."""
    return {name.value: name.path for name in public_names() if inspect.isclass(name.value)}


def constant(name: Name) -> str:
    """What a constant holds: the keys of a table, or its value."""
    if isinstance(name.value, dict):
        return f"   A table of {len(name.value)}: {', '.join(f'``{key}``' for key in name.value)}.\n"
    about = CONSTANTS.get(name.path, "")
    return f"   ``{name.value!r}``\n\n   {about}\n"
