"""The tree of a scenario's settings, in which wrappers of the rule and of the data set have places of their own.

A compressed rule contains the rule, and a partition the data set. Settings are addressed in another tree: the path
`rule.learning_rate` is that of the innermost rule, whatever is around it, and `local`, `weight`, `step_schedule`,
`global_rule`, `compressor` and `partition` stand beside it.
"""

import inspect
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any, ClassVar, TypeVar

import numpy as np

from asyncsim._checks import did_you_mean, warn
from asyncsim.cluster import Cluster, Hierarchy
from asyncsim.cluster._model import fit_to_workers
from asyncsim.components._address import address, changed, listed, name_of_setting, shorten
from asyncsim.components._description import describe, with_defaults
from asyncsim.components._families import FAMILIES
from asyncsim.components._field import Field
from asyncsim.components._replaced import replaced
from asyncsim.components._settings import (
    CHOICE_HELP,
    CUSTOM,
    NONE,
    Options,
    arguments_of,
    every_setting,
    name_of,
    settings,
    settings_of_class,
)
from asyncsim.compressors import Compressor
from asyncsim.datasets import Dataset, Partition
from asyncsim.datasets._partition import SHARINGS, Sharing, sharing_of
from asyncsim.rules import Compressed, Hierarchical, Local, Rule, Scheduled, StepSchedule, Weight, Weighted, WithProxy
from asyncsim.scenario._shapes import count_tensors
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

LENGTHS = ("commits", "seconds", "commits_per_worker")
STUDY_FIELDS = (*LENGTHS, "seed", "schedule_seed", "record")  # of a scenario, beside those of its parts
# Parts of the tree that make the scenario's rule.
RULE_PARTS = ("rule", "proxy", "local", "weight", "step_schedule", "global_rule", "compressor")
GROUPS = {  # first name of a path -> heading in the help
    "cluster": "Cluster",
    **dict.fromkeys(RULE_PARTS, "Rule"),
    **dict.fromkeys(("compressor", "error_feedback"), "Compressor"),
    **dict.fromkeys(("workload", "partition"), "Workload"),
}
WRAPPERS = (Compressed, Hierarchical, Local, Scheduled, Weighted, WithProxy)
INNERMOST, OUTERMOST = (Weighted,), (Scheduled, Compressed, Hierarchical)  # wrappers that a change adds, and where
Kind = TypeVar("Kind")
DATA = "workload.data"  # path of the data set: no name means it, and another workload is made with it
PARTITIONS: Options = ChainMap(SHARINGS, {NONE: None})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Proxy:
    """The proxy next to a rule.

    Args:
        proxy_learning_rate: As in WithProxy.
        proxy_momentum: As in WithProxy.
    """

    proxy_learning_rate: float | None
    proxy_momentum: float


@dataclass(frozen=True)
class Steps:
    """The local steps around a rule.

    Args:
        window: Local steps between two commits: one number, or one per worker.
        learning_rate: Step size of a local step.
        optimiser: The worker's optimiser of the local steps.
        elementwise: Whether an optimiser of your own treats every parameter independently, which is faster.
    """

    # A bare `window` is this one. A bare `learning_rate` or `optimiser` is that of the rule, the outer one.
    preferred: ClassVar[bool] = True

    window: int | Sequence[int]
    learning_rate: float = field(metadata={"least": 2})
    optimiser: Any = field(metadata={"least": 2})
    elementwise: bool = field(metadata={"least": 2})


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The parts of a scenario.

    Args:
        error_feedback: Whether a worker remembers the parts that its messages leave out, with a compressor.
    """

    cluster: Cluster | None  # or another kind of cluster. None in place of a recorded trace
    rule: Rule = field(metadata={"choice": f"Update rule. {CHOICE_HELP}"})
    proxy: Proxy | None
    local: Steps | None
    weight: Weight | None = field(
        metadata={
            "least": 2,  # A bare `limit` is a protocol's, and `exponent` a rule's.
            "choice": f"Weight of gradients by their age, or none. {CHOICE_HELP}",
        }
    )
    step_schedule: StepSchedule | None = field(
        metadata={
            "least": 2,  # A bare `steps` is a rule's, and `final` says little.
            "choice": f"Schedule by which the step size changes with the server's steps, or none. {CHOICE_HELP}",
        }
    )
    global_rule: Rule | None = field(
        metadata={
            "least": 2,  # A bare `learning_rate` is that of the rule.
            "choice": f"Rule of the global server of a hierarchy, or none, to add the regions' changes. {CHOICE_HELP}",
        }
    )
    compressor: Compressor | None = field(metadata={"choice": f"Compression of the rule's messages. {CHOICE_HELP}"})
    error_feedback: bool = True
    workload: Workload = field(
        metadata={
            "choice": "Model and data, or another problem. Another one keeps the data set and the arguments that both "
            "have."
        }
    )


@dataclass(frozen=True, kw_only=True)
class TreeWithData(Tree):
    """The parts of a scenario that learns from a data set.

    Args:
        error_feedback: As in Tree.
    """

    partition: Sharing | None = field(
        default=None,
        metadata={
            "options": PARTITIONS,
            "least": 2,  # A bare `alpha` is a rule's or a workload's.
            "choice": f"Who has which training examples: every worker all of them (none), or a part. {CHOICE_HELP}",
        },
    )


def tree_of(cluster: Any, rule: Rule, workload: Workload) -> Tree:
    """Return the tree of a scenario's parts. Without a data set there is no partition, and a trace has no settings."""
    proxy, steps = _wrapper(rule, WithProxy), _wrapper(rule, Local)
    weight, schedule, compression = _wrapper(rule, Weighted), _wrapper(rule, Scheduled), _wrapper(rule, Compressed)
    levels = _wrapper(rule, Hierarchical)
    parts = {
        "cluster": None if isinstance(cluster, Trace) else cluster,
        "rule": innermost(rule),
        "proxy": proxy and Proxy(proxy.proxy_learning_rate, proxy.proxy_momentum),
        "local": steps and Steps(**{field.name: getattr(steps, field.name) for field in fields(Steps)}),
        "weight": weight and weight.by,
        "step_schedule": schedule and schedule.by,
        "global_rule": levels and levels.global_rule,
        "compressor": compression and compression.compressor,
        "error_feedback": compression is None or compression.error_feedback,
        "workload": workload,
    }
    data = workload.data
    if isinstance(data, Dataset) and name_of(workload, FAMILIES["workloads"]) != CUSTOM:
        return TreeWithData(**parts, partition=sharing_of(data) if isinstance(data, Partition) else None)
    return Tree(**parts)


def _wrapper(rule: Rule, kind: type[Kind]) -> Kind | None:
    """Return the wrapper of a class around the innermost rule, if there is one."""
    return next((wrapper for wrapper in wrappers(rule) if isinstance(wrapper, kind)), None)


def wrappers(rule: Rule) -> list[Any]:
    """Return the wrappers around the innermost rule, from the outside."""
    return [rule, *wrappers(rule.rule)] if isinstance(rule, WRAPPERS) else []


def innermost(rule: Rule) -> Rule:
    """Return the rule inside all wrappers."""
    return innermost(rule.rule) if isinstance(rule, WRAPPERS) else rule


def _wrap(tree: Tree, rule: Rule) -> Rule:
    """Return the rule of a tree in the wrappers of another rule, with another weight and compressor, or none."""
    if tree.compressor is None and not tree.error_feedback:
        raise ValueError("`error_feedback` must be left out without a `compressor`; got False. Choose a compressor.")
    around, arguments = list(reversed(wrappers(rule))), _wrapper_arguments(tree)
    present = [(wrapper, arguments[kind]) for wrapper in around for kind in WRAPPERS if isinstance(wrapper, kind)]
    new = {
        kind: (kind, values)
        for kind, values in arguments.items()
        if not any(isinstance(wrapper, kind) for wrapper in around)
    }
    # A new weight multiplies the gradients of the rule itself. A new compressor packs what leaves the worker at last.
    # A new schedule is that of the outermost step size, which is that of the local steps if there are any.
    first, last = ([new[kind] for kind in kinds if kind in new] for kinds in (INNERMOST, OUTERMOST))
    return reduce(_put_around, (*first, *present, *last), tree.rule)


def _wrapper_arguments(tree: Tree) -> dict[type, dict[str, Any] | None]:
    """Return class of a wrapper -> its arguments besides the rule inside, or None where the tree has no such part."""
    return {
        WithProxy: tree.proxy and vars(tree.proxy),
        Local: tree.local and vars(tree.local),
        Weighted: tree.weight and {"by": tree.weight},
        Scheduled: tree.step_schedule and {"by": tree.step_schedule},
        Compressed: tree.compressor and {"compressor": tree.compressor, "error_feedback": tree.error_feedback},
        Hierarchical: tree.global_rule and {"global_rule": tree.global_rule},
    }


def _put_around(inside: Rule, layer: tuple[Any, dict[str, Any] | None]) -> Rule:
    """Return a rule in a wrapper, or in one of its class with other arguments, or as it is without arguments."""
    wrapper, arguments = layer
    if arguments is None:
        return inside
    return wrapper(inside, **arguments) if isinstance(wrapper, type) else replace(wrapper, rule=inside, **arguments)


def override(cluster: Any, rule: Rule, workload: Workload, changes: Mapping[str, Any]) -> tuple[Any, Rule, Workload]:
    """Return the three with some settings changed. See `Scenario.override`."""
    # A rule in wrappers of its own takes the place of the whole rule, and settings beside it are those of the new one.
    if isinstance(changes.get("rule"), WRAPPERS):
        rest = {name: value for name, value in changes.items() if name != "rule"}
        return override(cluster, changes["rule"], workload, rest)
    tree = tree_of(cluster, rule, workload)
    values, paths = address(tree, changes, "a field of this scenario")

    def show(path: str) -> str:
        return name_of_setting(path, changes, paths)

    # The data set of the workload depends on the number of workers, so that the other settings are changed first.
    learning = {path: value for path, value in values.items() if path.partition(".")[0] == "workload"}
    training = replaced(tree, {path: value for path, value in values.items() if path not in learning}, show)
    machines = cluster if tree.cluster is None else training.cluster
    before, workers = workers_of(cluster), workers_of(machines)
    fitted = training if workers == before else _fit_to_workers(training, workers)
    takes_data = _takes_data(learning.get("workload", workload))
    data = _share_anew(tree, fitted, workload.data, before, workers) if workers and takes_data else workload.data
    new = replaced(fitted, learning if data is workload.data else {**learning, DATA: data}, show)
    # An unchanged rule stays the same object: results are cached per object.
    is_same_rule = new.error_feedback == tree.error_feedback and all(
        getattr(new, name) is getattr(tree, name) for name in RULE_PARTS
    )
    return machines, rule if is_same_rule else _wrap(new, rule), _keep_groups(new.workload, workload)


def _fit_to_workers(tree: Tree, workers: int | None) -> Tree:
    """Return the tree with its rule, and with windows by worker of it or around it, for another number of workers."""
    has_workers = getattr(tree.rule, "workers", None) is not None
    rule: Any = replace(tree.rule, workers=workers) if has_workers else tree.rule  # type: ignore[call-arg]
    parts = {"rule": rule, "local": tree.local}
    windows = {name: part.window for name, part in parts.items() if part is not None and np.ndim(part.window)}
    fitted = {
        name: replace(parts[name], window=fit_to_workers("window", tuple(window), workers))
        for name, window in windows.items()
        if workers is not None
    }
    return replace(tree, **{"rule": rule, **fitted})


def workers_of(cluster: Any) -> int | None:
    """Return the number of workers, or None for a kind of cluster that does not know it before it is simulated."""
    return cluster.computing if isinstance(cluster, Trace) else getattr(cluster, "workers", None)


def _takes_data(workload: Any) -> bool:
    """Return whether a workload, or the class of a name, has an argument for the scenario's data set."""
    kind = FAMILIES["workloads"].get(workload) if isinstance(workload, str) else type(workload)
    return kind is not None and "data" in inspect.signature(kind).parameters


def _share_anew(tree: Tree, changed: Tree, data: Any, before: int | None, workers: int) -> Any:
    """Return the data set, in new parts where the partition or the number of workers changes."""
    if not isinstance(tree, TreeWithData) or not isinstance(changed, TreeWithData):
        return data
    if changed.partition is tree.partition and (workers == before or changed.partition is None):
        return data
    if changed.partition is None:
        return data.data  # Without a partition every worker has the whole data set.
    if changed.partition.by is None:
        raise ValueError(
            f"`workers` cannot be {workers} while who has which examples is of your own making; choose a `partition` "
            f"as well, one of {', '.join(SHARINGS)}."
        )
    return changed.partition.share(data.data if isinstance(data, Partition) else data, workers)


def _keep_groups(workload: Workload, before: Workload) -> Workload:
    """Return a workload with the parameter groups of the one before it, if it has as many tensors."""
    if before.groups is None or workload.groups is not None:
        return workload
    if count_tensors(workload) == len(before.groups):
        return workload.grouped(before.groups)
    warn(f"The `groups` of {before.name!r} do not fit the tensors of {workload.name!r}; its layers are split evenly.")
    return workload


def with_groups(paths: Mapping[str, Field]) -> dict[str, Field]:
    """Return the settings with the headings under which they are listed, those of the cluster first."""
    first = sorted(paths, key=lambda path: path.partition(".")[0] != "cluster")
    return {path: replace(paths[path], group=GROUPS[path.partition(".")[0]]) for path in first}


def every_tree_setting() -> dict[str, Field]:
    """Return all settings, without values, that scenarios of the library's components can have."""
    every = {**every_setting(Cluster, "cluster."), **every_setting(TreeWithData)}
    # Most scenarios have no local steps around their rule, and a bare `window` is the rule's own.
    window = replace(every["local.window"], least=2, preferred=False)
    return with_groups({**every, "local.window": window})


def values_of(cluster: Any, rule: Rule, workload: Workload) -> dict[str, Any]:
    """Return path -> value as plain data, of the settings that are listed. Parts that are shared are read once."""
    paths = settings(tree_of(cluster, rule, workload))
    first = sorted(paths, key=lambda path: path.partition(".")[0] != "cluster")
    values = {path: describe(paths[path].value) for path in first if paths[path].listed}
    for number, region in enumerate(cluster.regions if isinstance(cluster, Hierarchy) else ()):
        below = {path: field for path, field in settings(region).items() if field.listed}
        values |= {f"cluster.regions.{number}.{path}": describe(field.value) for path, field in below.items()}
    return values


def described_wrappers(rule: Rule, workload: Workload) -> dict[str, Any]:
    """Return the innermost rule, its wrappers and the partition as plain data, at their places in the tree."""
    tree = tree_of(None, rule, workload)
    partition = tree.partition if isinstance(tree, TreeWithData) else None
    parts = {
        "rule": with_defaults(tree.rule),
        "proxy": tree.proxy and vars(tree.proxy),
        "local": tree.local and with_defaults(vars(tree.local)),
        "weight": tree.weight and with_defaults(tree.weight),
        "step_schedule": tree.step_schedule and with_defaults(tree.step_schedule),
        "global_rule": tree.global_rule and with_defaults(tree.global_rule),
        "compressor": tree.compressor and with_defaults(tree.compressor),
        "error_feedback": tree.error_feedback if tree.compressor else None,
        "partition": partition and {"kind": partition.by, **vars(partition)},
    }
    return {name: part for name, part in parts.items() if part is not None}


def settings_of_choice(name: str) -> dict[str, list[Field]]:
    """Return choice -> its settings with their defaults, for every law, protocol, rule or workload of this name."""
    every = every_tree_setting()
    short = shorten(every)
    options = {
        f"{prefix}{field}": argument.options
        for prefix, kind in (("cluster.", Cluster), ("", Tree))
        for field, argument in arguments_of(kind).items()
        if argument.options is not None
    }
    choices = {
        short[path]: [
            replace(field, name=short.get(f"{path}.{argument}", field.name))
            for argument, field in settings_of_class(kinds[name]).items()
        ]
        for path, kinds in options.items()
        if kinds.get(name) is not None
    }
    if not choices:
        hint = did_you_mean(name, [other for kinds in options.values() for other in kinds], quote="'")
        raise ValueError(f"There is no law, protocol, rule or workload {name!r}.{hint}")
    return choices


@dataclass(frozen=True)
class Machines:
    """A cluster of any kind, whose settings have the paths that they have in a scenario."""

    cluster: Any


def cluster_settings(cluster: Any, **chosen: str) -> dict[str, Field]:
    """Return path -> field with its short name, of the settings of a cluster that are listed."""
    return listed(with_groups(address(Machines(cluster), chosen, "a field of this scenario")[1]))


def changed_cluster(cluster: Any, changes: Mapping[str, Any]) -> Any:
    """Return the cluster with some settings changed."""
    return changed(Machines(cluster), changes, "a field of this scenario").cluster
