"""Network, server and protocol of a scenario: their fields, and the cluster rebuilt with some of them changed.

A law among the arguments (latency, service) is set by its mean in seconds: its shape stays.
"""

import functools
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from asyncsim.checks import require_not_negative
from asyncsim.cluster import Cluster, Network, Server, protocols
from asyncsim.cluster.protocols import CommitProtocol
from asyncsim.delays import Constant, Delay, scaled
from asyncsim.scenario.components import LAWS as COMPUTE_LAWS
from asyncsim.scenario.components import OWN, Part
from asyncsim.scenario.fields import Field, arguments, described_arguments, kind_of
from asyncsim.scenario.fingerprint import plain

PROTOCOLS: dict[str, Callable[..., CommitProtocol]] = {
    "asynchronous": protocols.Asynchronous,
    "ssp": protocols.SSP,
    "synchronous": protocols.Synchronous,
    "k_sync": protocols.KSync,
    "k_async": protocols.KAsync,
    "k_batch_sync": protocols.KBatchSync,
    "k_batch_async": protocols.KBatchAsync,
    "rennala": protocols.Rennala,
    "ringmaster": protocols.Ringmaster,
    "round_robin": protocols.RoundRobin,
}
LAWS = {"latency": Network, "service": Server}  # arguments that are laws


def protocol_part(protocol: CommitProtocol) -> Part:
    """Who may read when, and what makes a step; one of the script's own has no fields."""
    name = {kind: name for name, kind in PROTOCOLS.items()}.get(type(protocol), OWN)  # type: ignore[arg-type]
    values = {} if name == OWN else {field.name: getattr(protocol, field.name) for field in fields(protocol)}  # type: ignore[arg-type]
    return Part("protocol", "Cluster", PROTOCOLS, name, values, protocol, (lambda: protocol) if name == OWN else None)


def surroundings(cluster: Cluster | None = None) -> list[Field]:
    """Fields of network and server, with the cluster's values where there is one."""
    return [
        field
        for kind, name in ((Network, "network"), (Server, "server"))
        for field in _fields_of(kind, getattr(cluster, name) if cluster else None)
    ]


def rebuild(cluster: Cluster, workers: int, compute: Any, protocol: Any, changes: dict[str, Any]) -> Cluster:
    """The cluster with some fields changed; those of network and server are taken out of `changes`."""
    return Cluster(
        workers=workers,
        compute=compute,
        network=_rebuilt(cluster.network, changes),
        server=_rebuilt(cluster.server, changes),
        protocol=protocol,
        faults=cluster.faults,
    )


def describe(cluster: Cluster) -> dict[str, Any]:
    """Network, server, protocol and faults as plain data, as far as they are not what a cluster has anyway."""
    usual = Cluster(1, Constant(1.0))
    names = ("network", "server", "protocol", "faults")
    return {name: plain(value) for name in names if (value := getattr(cluster, name)) != getattr(usual, name)}


def _fields_of(kind: Any, part: Any) -> list[Field]:
    helps = described_arguments(kind.__doc__ or "")
    return [_field(field, part, helps[field.name]) for field in fields(kind)]


def _field(field: Any, part: Any, help: str) -> Field:
    value = None if part is None else getattr(part, field.name)
    if field.name in LAWS:
        return Field(field.name, "number", f"{help} Set by its mean; its shape stays.", "Cluster", _mean(value))
    return Field(field.name, kind_of(field.type, field.default), help, "Cluster", value)


def _rebuilt(part: Any, changes: dict[str, Any]) -> Any:
    given = {field.name: changes.pop(field.name) for field in fields(part) if field.name in changes}
    for name in given.keys() & LAWS:
        given[name] = _with_mean(name, getattr(part, name), given[name])
    return replace(part, **given) if given else part


def _mean(law: Any) -> float | None:
    laws = law if isinstance(law, tuple) else (law,)
    return None if law is None else sum(one.mean for one in laws) / len(laws)


def _with_mean(name: str, law: Any, mean: Any) -> Any:
    """The law with another mean; a law that is always 0 becomes a constant."""
    if isinstance(mean, Delay):
        return mean
    mean, present = require_not_negative(name, mean, remedy="Give a mean in seconds."), _mean(law)
    if not present or not mean:
        return Constant(mean)
    factor = mean / present
    return tuple(scaled(one, factor) for one in law) if isinstance(law, tuple) else scaled(law, factor)


@functools.cache
def names_taken() -> frozenset[str]:
    """Names of fields that a scenario has beside those of its rule and workload."""
    from asyncsim.scenario.scenario import own_fields

    parts = [*COMPUTE_LAWS.values(), *PROTOCOLS.values()]
    own = {field.name for field in (*surroundings(), *own_fields())} | {"workers", "compute", "protocol"}
    return frozenset(own.union(*(arguments(part) for part in parts)))


def message_bytes(params: Any) -> float:
    """Size of a message that carries these parameters (shapes are enough)."""
    import jax

    return float(sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params)))
