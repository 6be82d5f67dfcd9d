"""Changing the fields of a cluster, a rule and a workload by name."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from asyncsim import _checks as checks
from asyncsim._fields import arguments
from asyncsim.cluster import Cluster
from asyncsim.rules import Rule
from asyncsim.scenario._clusters import cluster_fields, rebuild_cluster, rebuilt, workers_of
from asyncsim.scenario._components import STUDY_FIELDS, Component, components_of, shown_name
from asyncsim.scenario._partitions import OF_WORKERS
from asyncsim.scenario._recorded import refuse_cluster_fields
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

COUNTS_WORKERS = "rule_workers"  # field of a rule that was given the number of workers: it follows the cluster's


def override(cluster: Any, rule: Rule, workload: Workload, changes: Mapping[str, Any]) -> tuple[Any, Rule, Workload]:
    """The three with some fields changed; see `Scenario.override`."""
    rest = dict(changes)
    if isinstance(cluster, Trace):
        refuse_cluster_fields(cluster, changes)
    changed = cluster if isinstance(cluster, Cluster | Trace) else rebuilt(cluster, rest)
    before, workers = workers_of(cluster), workers_of(changed)
    if isinstance(cluster, Cluster):
        workers = rest.pop("workers", before)
        workers = checks.require_integer("workers", workers, least=1, remedy="Use one worker or more.")
    if COUNTS_WORKERS not in changes and workers != before and getattr(rule, "workers", None) is not None:
        rest[COUNTS_WORKERS] = workers
    if workers != before:
        rest[OF_WORKERS] = True
    *modelled, ruled, compressor, learned = components_of(cluster, rule, workload)
    learned = learned if workers is None else learned.shared_out(rest, workers)
    present = (*modelled, ruled, compressor, learned)
    *laws, rule, compression, workload = _rebuilt(present, rest, workload)
    rule = compression.around(rule)
    if COUNTS_WORKERS not in changes:
        rest.pop(COUNTS_WORKERS, None)
    if isinstance(cluster, Cluster):
        compute, protocol = laws
        assert workers is not None
        changed = rebuild_cluster(cluster, rest, workers=workers, compute=compute, protocol=protocol)
    _refuse_unknown(rest, changed, present, components_of(changed, rule, workload))
    return changed, rule, workload


def _rebuilt(present: Iterable[Component], rest: dict[str, Any], workload: Workload) -> list[Any]:
    """The components with changes, which are removed from `rest`; the workload keeps its parameter groups."""
    *others, rebuilt = (component.rebuild(rest) for component in present)
    if workload.groups is not None and rebuilt.groups is None:
        try:
            rebuilt = rebuilt.grouped(workload.groups)
        except ValueError:
            warnings.warn(
                f"The `groups` of {workload.name!r} do not fit the tensors of {rebuilt.name!r}; its layers are split "
                "evenly.",
                stacklevel=4,  # where `Scenario.override` was called
            )
    return [*others, rebuilt]


def _refuse_unknown(
    rest: Mapping[str, Any], cluster: Any, before: Iterable[Component], after: Iterable[Component]
) -> None:
    """Refuse what no component took."""
    for name in rest:
        known = [field.name for component in before for field in component.fields()]
        known += [field.name for field in cluster_fields(cluster)]
        known += ["workers"] if isinstance(cluster, Cluster) else []
        raise ValueError(unknown_field(name, after, [*known, *STUDY_FIELDS]))


def unknown_field(name: str, components: Iterable[Component], known: Iterable[str]) -> str:
    """Why a field cannot be overridden: it belongs to another rule, law or workload, or is misspelt."""
    for component in components:
        kind = component.kind
        owners = [owner for owner, make in kind.constructors.items() if name in _shown(kind.field, make)]
        if owners:
            has = [field.name for field in component.arguments()]
            listed = ", ".join(f"`{field}`" for field in has) or "no fields"
            return (
                f"`{name}` is not a field of {kind.field} {component.name!r}, only of {', '.join(owners)}; "
                f"{component.name!r} has {listed}.{checks.did_you_mean(name, has)}"
            )
    return f"`{name}` is not a field of this scenario.{checks.did_you_mean(name, known)}"


def _shown(kind: str, constructor: Any) -> list[str]:
    """The names under which a constructor's arguments are set."""
    return [shown_name(kind, argument) for argument in arguments(constructor)]
