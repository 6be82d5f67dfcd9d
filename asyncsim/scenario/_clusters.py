"""The cluster of a scenario as fields: those of network and server, or of another kind of cluster."""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from asyncsim._families import FAMILIES
from asyncsim._fields import Field, fields, override
from asyncsim.cluster import Cluster, Network, Server, protocols
from asyncsim.delays import ByJob
from asyncsim.scenario._components import COMPRESSOR, RULE, STUDY_FIELDS, WORKLOAD
from asyncsim.trace import Trace


def workers_of(cluster: Any) -> int | None:
    """Number of workers, or None for a kind of cluster that does not know it before it is simulated."""
    return getattr(cluster, "workers", None)


def cluster_fields(cluster: Any) -> list[Field]:
    """Fields of a cluster besides its workers, compute law and protocol."""
    if isinstance(cluster, Trace):
        return []
    return network_and_server_fields(cluster) if isinstance(cluster, Cluster) else _shown(type(cluster), cluster)


def network_and_server_fields(cluster: Cluster | None = None) -> list[Field]:
    """Fields of network and server, with the cluster's values where there is a cluster."""
    network, server = (None, None) if cluster is None else (cluster.network, cluster.server)
    return [*_shown(Network, network), *_shown(Server, server)]


def rebuild_cluster(
    cluster: Cluster, changes: dict[str, Any], *, workers: int, compute: Any, protocol: protocols.CommitProtocol
) -> Cluster:
    """The cluster with some fields changed; those of network and server are removed from `changes`."""
    network = rebuilt(cluster.network, changes)
    latency = for_workers("latency", network.latency, workers)
    changed = {
        "workers": workers,
        "compute": for_workers("compute", compute, workers),
        "network": network if latency is network.latency else replace(network, latency=latency),
        "server": rebuilt(cluster.server, changes),
        "protocol": protocol,
    }
    if all(getattr(cluster, name) is value for name, value in changed.items()):
        return cluster  # itself, so that what is known of it is not computed again
    return replace(cluster, **changed)


def rebuilt(present: Any, changes: dict[str, Any]) -> Any:
    """A component of a cluster, or a cluster of another kind, with those of its fields that are in `changes`."""
    names = {shown_name(type(present), field.name): field.name for field in _own_fields(type(present), present)}
    given = {name: changes.pop(shown) for shown, name in names.items() if shown in changes}
    return override(present, **given) if given else present


def for_workers(name: str, laws: Any, workers: int) -> Any:
    """Laws of a fleet for another number of workers: who is where keeps the shares of the classes."""
    if not isinstance(laws, tuple) or len(laws) == workers:
        return laws
    if any(isinstance(law, ByJob) for law in laws):
        raise ValueError(
            f"`workers` cannot become {workers} while `{name}` has the times of each worker's own mini-batches, for "
            f"{len(laws)} workers; choose one law for all as well, or make those of {workers} by `job_times`."
        )
    return tuple(laws[worker * len(laws) // workers] for worker in range(workers))


def shown_name(kind: type, name: str) -> str:
    """The name under which a field of a cluster is set."""
    return f"cluster_{name}" if kind not in (Network, Server) and name in _names_of_others() else name


def _names_of_others() -> frozenset[str]:
    return _others(*(len(FAMILIES[family]) for family in ("rules", "compressors", "workloads")))


@cache
def _others(*sizes: int) -> frozenset[str]:
    """Names of all fields that rules, compressors, workloads and the study have."""
    del sizes
    kinds = (RULE, COMPRESSOR, WORKLOAD)
    names = (field.name for kind in kinds for name in kind.constructors for field in kind.argument_fields(name, {}))
    return frozenset({*STUDY_FIELDS, *(kind.field for kind in kinds), *names})


def _own_fields(kind: type, present: Any) -> Sequence[Field]:
    return fields(kind if present is None else present) if dataclasses.is_dataclass(kind) else ()


def _shown(kind: type, present: Any) -> list[Field]:
    """The fields of network or server, or of a cluster of another kind, with the names under which they are set."""
    found = _own_fields(kind, present)
    return [replace(field, name=shown_name(kind, field.name), group="Cluster") for field in found]
