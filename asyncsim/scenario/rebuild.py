"""A scenario made again from its description, where all its parts have names in the library.

The description says what a scenario is; `hints` says how it was written, which no digest depends on: with 20 workers,
8000 commits may have been 400 per worker, and then twice as many workers make twice as many commits.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from importlib import import_module
from typing import Any

import jax.numpy as jnp

from asyncsim import compressors, datasets, delays, rules, workloads
from asyncsim.cluster import Cluster, Network, Server, faults, protocols
from asyncsim.datasets.again import made_again
from asyncsim.folders.differences import first_difference
from asyncsim.rules import Rule
from asyncsim.rules.compressed import compressor_of
from asyncsim.rules.proxy import Wrapper
from asyncsim.rules.rule import LIBRARY
from asyncsim.scenario.fingerprint import describe_cluster, with_infinity
from asyncsim.scenario.lanes import as_described
from asyncsim.scenario.scenario import Scenario
from asyncsim.trace import Trace
from asyncsim.version import REVISION
from asyncsim.workloads import Workload


class NotByName(ValueError):
    """A part of a scenario that the library cannot make from its description."""


def hints(scenario: Scenario) -> dict[str, Any]:
    """What `rebuild` wants to know beside the description, as plain data.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.quadratic([1.0])
        >>> hints(Scenario(cluster, rule, workload, commits_per_worker=8))
        {'commits_per_worker': 8}
    """
    data = scenario.workload.dataset
    found = {
        "commits_per_worker": scenario.commits_per_worker,
        "data": data.source if isinstance(data, datasets.Dataset) else None,
        "classes": dict(_own_classes(scenario.rule)) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def rebuild(
    description: Mapping[str, Any],
    hints: Mapping[str, Any] | None = None,
    *,
    wanted: str | None = None,
    trace: Trace | None = None,
) -> Scenario:
    """The scenario of a description.

    Args:
        description: What `Scenario.describe` gave, also as JSON has it.
        hints: What `hints` gave, where that is known.
        wanted: The digest of the scenario, if that is known.
        trace: The recorded trace, if there is one in the place of a cluster.

    Raises:
        NotByName: If a part of it has no name in the library, or is not made as it was then; says which.
        ValueError: If the description is of another precision, or another revision of the library, than this process
            has.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Gamma(mean=1.0, cv=0.3))
        >>> rule, workload = asim.rules.GEM(0.1), asim.workloads.quadratic([1.0])
        >>> scenario = Scenario(cluster, rule, workload, commits=8)
        >>> rebuild(scenario.describe()) == scenario
        True
    """
    hints, parts = hints or {}, with_infinity(description)
    _require_precision(description)
    _require_revision(description)
    if "record_code" in description:
        raise NotByName("`record` names a function of your own")
    workload = _part("workload", lambda: _workload(parts["workload"], hints.get("data")))
    rule = _part("rule", lambda: _rule(parts["rule"], hints.get("classes") or {}))
    cluster = _part("cluster", lambda: _cluster(parts["cluster"], trace))
    alone = _part("cluster", lambda: _scenario(description, cluster, rule, workload))
    made = as_described(alone, description)
    different = first_difference(description, made.describe())
    if different is None and wanted in (None, made.digest):
        return as_described(_as_written(alone, hints), description)
    part = next((part for part in ("rule", "workload") if (different or "").startswith(f"`{part}.code`")), None)
    if part is not None:
        raise NotByName(f"`{part}` is made of code that is not the library's, or that has changed since")
    raise NotByName(f"this asyncsim makes another scenario of it: {different or 'its digest differs'}")


def rebuild_cluster(description: Mapping[str, Any]) -> Cluster:
    """The cluster of a description.

    Args:
        description: What `describe_cluster` gave, also as JSON has it.

    Raises:
        NotByName: If a part of it has no name in the library; says which.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(2, asim.delays.Gamma(1.0, 0.3), server=asim.Server(slots=2))
        >>> rebuild_cluster(describe_cluster(cluster)) == cluster
        True
    """
    made = _part("cluster", lambda: _cluster(with_infinity(description), None))
    if isinstance(made, Cluster) and describe_cluster(made) == description:
        return made
    raise NotByName("this asyncsim makes another cluster of it")


def _part(name: str, make: Callable[[], Any]) -> Any:
    """What `make` gives; whatever keeps it from that names the part."""
    try:
        return make()
    except NotByName as error:
        raise NotByName(f"`{name}`: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OSError, ImportError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, (KeyError, TypeError)) else str(error)
        raise NotByName(f"`{name}` cannot be made from its description: {reason.rstrip('.')}") from error


def _require_precision(description: Mapping[str, Any]) -> None:
    there, here = description.get("precision"), jnp.result_type(float).name
    if there != here:
        remedy = "Set JAX_ENABLE_X64=1." if there == "float64" else "Unset JAX_ENABLE_X64."
        raise ValueError(f"It was computed in {there}, and this process computes in {here}. {remedy}")


def _require_revision(description: Mapping[str, Any]) -> None:
    there = description.get("revision")
    if there != REVISION:
        remedy = "Run it again, or use the asyncsim that computed it."
        raise ValueError(
            f"It was computed by revision {there} of the library, and this is revision {REVISION}. {remedy}"
        )


def _scenario(description: Mapping[str, Any], cluster: Cluster | Trace, rule: Rule, workload: Workload) -> Scenario:
    names = ("commits", "seconds", "seed", "schedule_seed", "record")
    given = {name: description[name] for name in names if name in description}
    if isinstance(cluster, Cluster) and compressor_of(rule) is not None:  # which decides about bytes
        cluster = dataclasses.replace(cluster, network=dataclasses.replace(cluster.network, compression=1.0))
    return Scenario(cluster=cluster, rule=rule, workload=workload, **given)


def _as_written(made: Scenario, hints: Mapping[str, Any]) -> Scenario:
    """An equal scenario that follows when it is overridden: lengths per worker, records by default, own numbers."""
    total, each = made.total, hints.get("commits_per_worker")
    changes: list[dict[str, Any]] = [{"record": None}] if made.record else []
    if each is not None and total == each * made.cluster.workers:
        changes.append({"commits": None, "commits_per_worker": each})
    if isinstance(made.cluster, Cluster) and made.cluster.network.message_bytes is not None:
        bare = dataclasses.replace(made.cluster.network, message_bytes=None)
        changes.append({"cluster": dataclasses.replace(made.cluster, network=bare)})
    for rule in _rules_that_follow(made.rule):
        changes.append({"rule": rule})
    for change in changes:
        try:
            other = dataclasses.replace(made, **change)
            made = other if other.digest == made.digest else made
        except ValueError:
            continue
    return made


def _rules_that_follow(rule: Rule) -> Iterator[Rule]:
    """The rule without each of the arguments that it may have taken from the number of workers."""
    if isinstance(rule, Wrapper):
        yield from (dataclasses.replace(rule, rule=other) for other in _rules_that_follow(rule.rule))
        return
    for field in dataclasses.fields(rule):
        if field.init and field.default is None and getattr(rule, field.name) is not None:
            yield dataclasses.replace(rule, **{field.name: None})


def _rule(described: Mapping[str, Any], classes: Mapping[str, str]) -> Rule:
    values = dict(described)
    name = values.pop("name")
    values.pop("code", None)  # compared in the end
    kind = _class_of_rule(name, classes.get(name), "rule" in values)
    arguments = {key: _rule(value, classes) if key == "rule" else _made(value) for key, value in values.items()}
    return kind(**arguments)


def _own_classes(rule: Rule) -> Iterator[tuple[str, str]]:
    """Name -> "module:class" of a user's rule, and of a user's rule that it contains."""
    kind = type(rule)
    if not kind.__module__.startswith(f"{LIBRARY}."):
        yield rule.name, f"{kind.__module__}:{kind.__qualname__}"
    if isinstance(rule, Wrapper):
        yield from _own_classes(rule.rule)


def _class_of_rule(name: str, place: str | None, wraps: bool) -> type[Rule]:
    """The class of a rule, by name; a user's own where its module can be imported."""
    if place is not None:
        return _imported(place)
    if wraps:
        return next(kind for kind in (rules.Compressed, rules.WithProxy) if name.endswith(kind.suffix))
    if name not in rules.CONSTRUCTORS:
        raise NotByName(f"there is no rule {name!r} in the library")
    return rules.CONSTRUCTORS[name]


def _imported(place: str) -> type[Rule]:
    """A user's class, "module:name"."""
    module, _, name = place.partition(":")
    found: Any = None
    if module != "__main__" and "<locals>" not in name:
        with suppress(ImportError):
            found = reduce(lambda part, step: getattr(part, step, None), name.split("."), import_module(module))
    if not isinstance(found, type) or not issubclass(found, Rule):
        raise NotByName(f"the class {name!r} is of your own, and no module {module!r} that can be imported has it")
    return found


def _workload(described: Mapping[str, Any], source: Mapping[str, Any] | None) -> Workload:
    values = dict(described)
    name = values.pop("name")
    values.pop("code", None)  # compared in the end: a workload of the library has some where it holds a data set
    groups = values.pop("groups", None)
    if name not in workloads.CONSTRUCTORS:
        raise NotByName(f"the workload {name!r} is of your own")
    if "data" in values:
        values["data"] = made_again(values["data"], source)
    counts = {"counts": values.pop("counts")} if "counts" in values else {}
    made = dataclasses.replace(workloads.CONSTRUCTORS[name](**values), **counts)
    return made if groups is None else made.grouped(groups)


def _cluster(described: Mapping[str, Any], trace: Trace | None) -> Cluster | Trace:
    if "trace" in described:
        if trace is None:
            raise NotByName("it is a recorded trace, whose file is not there")
        return trace
    values = {key: _made(value) for key, value in described.items() if key != "compute"}
    return Cluster(compute=_compute(described["compute"]), **values)


def _compute(described: Any) -> Any:
    if isinstance(described, list):
        return tuple(map(_compute, described))
    if "class" in described or "law" not in described:
        return _made(described)
    values = {key: value for key, value in described.items() if key != "law"}
    if described["law"] not in delays.CONSTRUCTORS:
        raise NotByName(f"there is no law {described['law']!r} in the library")
    return delays.CONSTRUCTORS[described["law"]](**values)


def _made(described: Any) -> Any:
    """A value of a description: an object of the library, or plain."""
    if isinstance(described, (list, tuple)):
        return tuple(map(_made, described))
    if not isinstance(described, Mapping):
        return described
    values = dict(described)
    name = values.pop("class", None)
    if name not in CLASSES or "code" in values:
        raise NotByName(f"{name or 'a part'!r} is of your own")
    return CLASSES[name](**{key: _made(value) for key, value in values.items()})


def _classes() -> Iterator[type]:
    yield from (Network, Server)
    for module in (delays, faults, protocols, compressors):
        for value in vars(module).values():
            if isinstance(value, type) and dataclasses.is_dataclass(value):
                yield value


CLASSES = {kind.__qualname__: kind for kind in _classes()}
