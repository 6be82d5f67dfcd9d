"""What a scenario consists of: taken apart into fields, and rebuilt with some of them changed.

Compute law, protocol, rule, compressor and workload are components: each is a name that chooses a constructor, and its
arguments. Network and server have one constructor each, whose arguments are fields of the cluster.
"""

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from asyncsim import checks, compressors, delays, rules, workloads
from asyncsim.cluster import Cluster, Network, Server, protocols
from asyncsim.components import override, settings
from asyncsim.delays import ByJob, Constant, Delay, scaled
from asyncsim.delays.by_name import law_arguments
from asyncsim.rules import Rule
from asyncsim.scenario import compression
from asyncsim.scenario.fields import Field, arguments, described_arguments, fields_of, kind_of
from asyncsim.scenario.partitions import OF_WORKERS, partition_fields, repartitioned
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

LENGTHS = ("commits", "seconds", "commits_per_worker")
STUDY_FIELDS = (
    *LENGTHS,
    "seed",
    "schedule_seed",
    "record",
)  # of a scenario, beside those of cluster, rule and workload
SET_BY_MEAN = ("latency", "service", "pull_to_commit")  # arguments that are laws: a flag sets the mean, the shape stays
CUSTOM = "custom"  # name of a component that no constructor of the library made


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of component: a field that chooses one of several constructors.

    Attributes:
        field: The name of the field.
        group: Heading in the help of the command line.
        help: What is chosen, and what another choice keeps.
        constructors: Name -> constructor.
        default: Name of what a script gets that does not choose, or None.
        either: Arguments of which one that is given replaces the others.
    """

    field: str
    group: str
    help: str
    constructors: Mapping[str, Callable[..., Any]]
    default: str | None = None
    either: tuple[str, ...] = ()

    def choice(self, name: str | None) -> Field:
        """The field, with the name of the present constructor as its value."""
        return Field(self.field, "text", self.help, self.group, name, tuple(self.constructors), self.default)

    def constructor(self, name: str) -> Callable[..., Any]:
        """The constructor of this name.

        Raises:
            ValueError: If there is none; the nearest is suggested.
        """
        return self.constructors[checks.one_of(self.field, name, self.constructors)]

    def argument_fields(self, name: str, values: Mapping[str, Any] | None = None) -> list[Field]:
        """The fields of a constructor's arguments, with these values or else their defaults."""
        fields = fields_of(self.constructor(name), self.group, values)
        return [dataclasses.replace(field, name=shown_name(self.field, field.name)) for field in fields]


COMPUTE = Kind(
    field="compute",
    group="Cluster",
    help="Law of a worker's time from reading to committing; another one keeps the mean.",
    constructors=delays.CONSTRUCTORS,
)
PROTOCOL = Kind(
    field="protocol",
    group="Cluster",
    help="Who may read when, and what makes a step; another one keeps the arguments that both have.",
    constructors=protocols.CONSTRUCTORS,
    default="asynchronous",
)
RULE = Kind(
    field="rule",
    group="Rule",
    help="Update rule; another one keeps the arguments that both have.",
    constructors=rules.CONSTRUCTORS,
)
COMPRESSOR = Kind(
    field="compressor",
    group="Compressor",
    help="What makes the messages of the rule smaller; another one keeps the arguments that both have.",
    constructors=compression.CONSTRUCTORS,
    default=compression.NONE,
    either=("fraction", "k"),
)
WORKLOAD = Kind(
    field="workload",
    group="Workload",
    help="What is learned; another one keeps the data set and the arguments that both have.",
    constructors=workloads.CONSTRUCTORS,
)
KINDS = (COMPUTE, PROTOCOL, RULE, COMPRESSOR, WORKLOAD)


@dataclasses.dataclass(frozen=True)
class Component:
    """A component of a scenario as a name and arguments.

    Attributes:
        kind: Of which kind it is.
        name: Name of its constructor, or `CUSTOM` if none of the library's constructors made it.
        values: Its arguments.
        present: The object itself.
        rebuild_custom: `(**values) -> object`, which rebuilds a custom component; None for the library's.
        data: The data set, which no field can set but which every workload passes on to the next; or None.
        stale: Whether `present` has another data set.
    """

    kind: Kind
    name: str
    values: Mapping[str, Any]
    present: Any
    rebuild_custom: Callable[..., Any] | None = dataclasses.field(default=None, repr=False)
    data: Any = None
    stale: bool = False

    def fields(self, name: str | None = None) -> list[Field]:
        """The field that names the component, and its arguments.

        Args:
            name: Another constructor, whose arguments are wanted instead, with the values that they would keep or else
                their defaults.

        Raises:
            ValueError: If there is no constructor of this name; the nearest is suggested.
        """
        return [self.kind.choice(self.name if name is None else name), *self.arguments(name)]

    def arguments(self, name: str | None = None) -> list[Field]:
        """The fields of its arguments, or of those of another constructor, as in `fields`."""
        if name is not None and name != self.name:
            return [*self.kind.argument_fields(name, self._accepted(name, {})), *partition_fields(self.data)]
        if self.rebuild_custom is None:
            return [*self.kind.argument_fields(self.name, self.values), *partition_fields(self.data)]
        helps = described_arguments(inspect.getdoc(type(self.present)) or "")
        described = dataclasses.fields(self.present) if dataclasses.is_dataclass(self.present) else ()
        types = {field.name: field.type for field in described}
        own = f"Of the script's own {self.kind.field}."
        return [
            Field(key, kind_of(types.get(key), value), helps.get(key, own), self.kind.group, value)
            for key, value in self.values.items()
        ]

    def rebuild(self, changes: dict[str, Any]) -> Any:
        """The object with changes; those that belong to this component are removed from the dictionary.

        Another constructor keeps the arguments that both have, except for values that mean nothing to it, such as a
        variant that it does not know: a warning says so.
        """
        name = changes.pop(self.kind.field, self.name)
        constructor, takes = self._constructor(name)
        shown = {key: shown_name(self.kind.field, key) for key in takes}
        given = {key: changes.pop(field) for key, field in shown.items() if field in changes}
        if name == self.name and not given and not self.stale:
            return self.present
        kept = self.values if name == self.name else self._kept(name, given)
        if given.keys() & set(self.kind.either):
            kept = {key: value for key, value in kept.items() if key not in self.kind.either}
        values = {**kept, **given}
        lacking = [key for key, required in takes.items() if required and key not in values]
        if lacking:
            raise ValueError(f"`{shown[lacking[0]]}` must be given as well with `{self.kind.field}` {name!r}.")
        return constructor(**values)

    def shared_out(self, changes: dict[str, Any], workers: int) -> "Component":
        """The component with its data set shared out anew where that changes, as in `repartitioned`."""
        if self.rebuild_custom is not None:
            changes.pop(OF_WORKERS, None)
            return self
        data = repartitioned(self.data, changes, workers)
        return self if data is self.data else dataclasses.replace(self, data=data, stale=True)

    def _constructor(self, name: str) -> tuple[Callable[..., Any], dict[str, bool]]:
        """What makes the component of this name, and the arguments that it takes, with whether they are required."""
        if name == self.name and self.rebuild_custom is not None:
            return self.rebuild_custom, dict.fromkeys(self.values, False)
        constructor = self.kind.constructor(name)
        takes = {key: p.default is p.empty for key, p in arguments(constructor).items()}
        if "data" not in inspect.signature(constructor).parameters:
            return constructor, takes
        if self.data is None:
            raise ValueError(f"`{self.kind.field}` {name!r} needs a data set, and the present one has none.")
        return partial(constructor, data=self.data), takes

    def _kept(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Present arguments that another constructor accepts, with a warning that names the others."""
        kept = self._accepted(name, given)
        for key, value in self._carried(name).items():
            if key not in kept and key not in given:
                warnings.warn(
                    f"{self.kind.field} {name!r} does not accept the `{shown_name(self.kind.field, key)}` {value!r} of "
                    f"{self.name!r}; its default is used.",
                    stacklevel=7,  # where `Scenario.override` was called
                )
        return kept

    def _accepted(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Present arguments that another constructor accepts beside those that are given."""

        def accepts(values: Mapping[str, Any]) -> bool:
            try:
                self._constructor(name)[0](**{**values, **given})
            except ValueError:
                return False
            except TypeError:  # a required argument is lacking, and nobody can tell
                return True
            return True

        carried, takes = self._carried(name), arguments(self.kind.constructor(name))
        kept = {key: value for key, value in carried.items() if takes[key].default is inspect.Parameter.empty}
        if accepts(carried) or not accepts(kept):
            return carried
        for key, value in carried.items():
            if key not in given and accepts({**kept, key: value}):
                kept[key] = value
        return kept

    def _carried(self, name: str) -> dict[str, Any]:
        """Present arguments that another constructor has too, in its words."""
        values = law_arguments(self.present, name) if self.kind is COMPUTE else self.values
        takes = arguments(self.kind.constructor(name))
        return {key: value for key, value in values.items() if key in takes}


def shown_name(kind: str, argument: str) -> str:
    """The name under which an argument is set: its own, or "rule_limit" because a cluster can have a "limit" too.

    Example:
        >>> shown_name("rule", "momentum"), shown_name("rule", "limit"), shown_name("protocol", "limit")
        ('momentum', 'rule_limit', 'limit')
    """
    taken = kind in (RULE.field, COMPRESSOR.field, WORKLOAD.field) and argument in names_taken()
    return f"{kind}_{argument}" if taken else argument


@cache
def names_taken() -> frozenset[str]:
    """Names of the fields that a scenario can have beside those of its rule, compressor and workload."""
    constructors = (*COMPUTE.constructors.values(), *PROTOCOL.constructors.values(), Network, Server)
    own = {"workers", COMPUTE.field, PROTOCOL.field, COMPRESSOR.field, *STUDY_FIELDS}
    return frozenset(own.union(*(arguments(constructor) for constructor in constructors)))


def components_of(cluster: Cluster | Trace, rule: Rule, workload: Workload) -> tuple[Component, ...]:
    """Compute law, protocol, rule, compressor and workload, taken apart; of a recorded trace, the last three only."""
    modelled = (
        () if isinstance(cluster, Trace) else (law_component(cluster.compute), protocol_component(cluster.protocol))
    )
    return (*modelled, rule_component(rule), compressor_component(rule), workload_component(workload))


def law_component(compute: Any) -> Component:
    """The law of compute times; a tuple of one law per worker has no arguments of its own."""
    name = {law: name for name, law in COMPUTE.constructors.items()}.get(type(compute), CUSTOM)
    values = _attributes(compute) if dataclasses.is_dataclass(compute) else {}
    values = {key: value for key, value in values.items() if isinstance(value, (int, float))}  # no lists, no laws
    return Component(COMPUTE, name, values, compute, _replacing(compute) if name == CUSTOM else None)


def protocol_component(protocol: protocols.CommitProtocol) -> Component:
    """Who may read when, and what makes a step; a protocol of the script's own has no arguments."""
    name = {kind: name for name, kind in PROTOCOL.constructors.items()}.get(type(protocol), CUSTOM)
    if name == CUSTOM:
        return Component(PROTOCOL, CUSTOM, {}, protocol, lambda: protocol)
    return Component(PROTOCOL, name, _attributes(protocol), protocol)


def rule_component(rule: Rule) -> Component:
    """The update rule without its compressor; a rule of the script's own has its hyper-parameters as arguments."""
    rule = compression.without(rule)
    if rules.CONSTRUCTORS.get(rule.name) is type(rule):
        defaults = {field.name: field.default for field in dataclasses.fields(rule)}
        values = {name: value for name, value in settings(rule).items() if not value is defaults[name] is None}
        return Component(RULE, rule.name, values, rule)
    return Component(RULE, CUSTOM, settings(rule), rule, partial(override, rule))


def compressor_component(rule: Rule) -> Component:
    """What makes the messages of the rule smaller; a compressor of the script's own keeps its arguments."""
    present = compression.setting(rule)
    if present.compressor is None:
        return Component(COMPRESSOR, compression.NONE, {}, present)
    kinds = {kind: name for name, kind in compressors.CONSTRUCTORS.items()}
    values = {"error_feedback": present.error_feedback}
    name = kinds.get(type(present.compressor))
    if name is None:
        return Component(COMPRESSOR, CUSTOM, values, present, _replacing(present))
    return Component(COMPRESSOR, name, {**_attributes(present.compressor), **values}, present)


def workload_component(workload: Workload) -> Component:
    """What is learned; a workload of the script's own has its batch size as an argument."""
    if workload.name in WORKLOAD.constructors:
        return Component(WORKLOAD, workload.name, workload.options, workload, data=workload.dataset)
    values = {} if workload.data is None else {"batch_size": workload.batch_size}
    return Component(WORKLOAD, CUSTOM, values, workload, _replacing(workload), workload.dataset)


def network_and_server_fields(cluster: Cluster | None = None) -> list[Field]:
    """Fields of network and server, with the cluster's values where there is a cluster."""
    network, server = (None, None) if cluster is None else (cluster.network, cluster.server)
    return [*_cluster_fields(Network, network), *_cluster_fields(Server, server)]


def rebuild_cluster(
    cluster: Cluster, changes: dict[str, Any], *, workers: int, compute: Any, protocol: protocols.CommitProtocol
) -> Cluster:
    """The cluster with some fields changed; those of network and server are removed from `changes`."""
    network = _rebuilt(cluster.network, changes)
    latency = for_workers("latency", network.latency, workers)
    changed = {
        "workers": workers,
        "compute": for_workers("compute", compute, workers),
        "network": network if latency is network.latency else dataclasses.replace(network, latency=latency),
        "server": _rebuilt(cluster.server, changes),
        "protocol": protocol,
    }
    if all(getattr(cluster, name) is value for name, value in changed.items()):
        return cluster  # itself, so that what is known of it is not computed again
    return dataclasses.replace(cluster, **changed)


def for_workers(name: str, laws: Any, workers: int) -> Any:
    """Laws of a fleet for another number of workers: who is where keeps the shares of the classes.

    Raises:
        ValueError: If a law is that of one worker's own mini-batches, which no other worker has.

    Example:
        >>> for_workers("compute", ("fast", "fast", "slow"), 6)
        ('fast', 'fast', 'fast', 'fast', 'slow', 'slow')
    """
    if not isinstance(laws, tuple) or len(laws) == workers:
        return laws
    if any(isinstance(law, ByJob) for law in laws):
        raise ValueError(
            f"`workers` cannot become {workers} while `{name}` has the times of each worker's own mini-batches, for "
            f"{len(laws)} workers; choose one law for all as well, or make those of {workers} by `job_times`."
        )
    return tuple(laws[worker * len(laws) // workers] for worker in range(workers))


def _cluster_fields(kind: type[Network | Server], present: Network | Server | None) -> list[Field]:
    helps, usual = described_arguments(kind.__doc__ or ""), kind()
    return [_cluster_field(field, present, usual, helps[field.name]) for field in dataclasses.fields(kind)]


def _cluster_field(field: dataclasses.Field[Any], present: Any, usual: Any, help: str) -> Field:
    value, default = (None if one is None else getattr(one, field.name) for one in (present, usual))
    if field.name not in SET_BY_MEAN:
        return Field(field.name, kind_of(field.type, field.default), help, "Cluster", value, default=default)
    mean, default = (None if law is None else _mean(law) for law in (value, default))
    return Field(field.name, "number", f"{help} Set by its mean; its shape stays.", "Cluster", mean, default=default)


def _rebuilt(present: Any, changes: dict[str, Any]) -> Any:
    names = [field.name for field in dataclasses.fields(present) if field.name in changes]
    given = {name: changes.pop(name) for name in names}
    for name in given.keys() & set(SET_BY_MEAN):
        given[name] = _with_mean(name, getattr(present, name), given[name])
    return dataclasses.replace(present, **given) if given else present


def _mean(law: Any) -> float:
    laws = law if isinstance(law, tuple) else (law,)
    return sum(one.mean for one in laws) / len(laws)


def _with_mean(name: str, law: Any, mean: Any) -> Any:
    """The law with another mean; a law that is always 0 becomes a constant law."""
    if isinstance(mean, Delay):
        return mean
    mean, present = checks.require_not_negative(name, mean, remedy="Give a mean in seconds."), _mean(law)
    if not present or not mean:
        return Constant(mean)
    factor = mean / present
    return tuple(scaled(one, factor) for one in law) if isinstance(law, tuple) else scaled(law, factor)


def _replacing(instance: Any) -> Callable[..., Any]:
    """`(**changes) -> instance` with these attributes changed."""
    return partial(dataclasses.replace, instance)


def _attributes(instance: Any) -> dict[str, Any]:
    return {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}
