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

import numpy as np

from asyncsim import _checks as checks
from asyncsim._component import settings
from asyncsim._families import FAMILIES
from asyncsim._fields import Field, arguments, described_arguments, fields_of, kind_of, override
from asyncsim.cluster import Cluster, Network, Server, protocols
from asyncsim.datasets import Dataset
from asyncsim.delays._law import arguments_like
from asyncsim.rules import Rule
from asyncsim.scenario import _compression as compression
from asyncsim.scenario._partitions import OF_WORKERS, partition_fields, repartitioned
from asyncsim.workloads import Workload
from asyncsim.workloads._workload import Functions

LENGTHS = ("commits", "seconds", "commits_per_worker")
STUDY_FIELDS = (
    *LENGTHS,
    "seed",
    "schedule_seed",
    "record",
)  # of a scenario, beside those of cluster, rule and workload
CUSTOM = "custom"  # name of a component that no constructor of the library made


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of component: a field that chooses one of several constructors."""

    field: str  # the name of the field
    group: str  # heading in the help of the command line
    help: str  # what is chosen, and what another choice keeps
    constructors: Mapping[str, Callable[..., Any]]  # name -> constructor
    default: str | None = None  # name of what a script gets that does not choose, or None
    either: tuple[str, ...] = ()  # arguments of which one that is given replaces the others

    def choice(self, name: str | None) -> Field:
        """The field, with the name of the present constructor as its value."""
        return Field(self.field, "text", self.help, self.group, name, tuple(self.constructors), self.default)

    def constructor(self, name: str) -> Callable[..., Any]:
        """The constructor of this name."""
        return self.constructors[checks.one_of(self.field, name, self.constructors)]

    def argument_fields(self, name: str, values: Mapping[str, Any] | None = None) -> list[Field]:
        """The fields of a constructor's arguments, with these values or else their defaults."""
        fields = fields_of(self.constructor(name), self.group, values)
        return [dataclasses.replace(field, name=shown_name(self.field, field.name)) for field in fields]


COMPUTE = Kind(
    field="compute",
    group="Cluster",
    help="Law of a worker's time from reading to committing; another one keeps the mean.",
    constructors=FAMILIES["delays"],
)
PROTOCOL = Kind(
    field="protocol",
    group="Cluster",
    help="Who may read when, and what makes a step; another one keeps the arguments that both have.",
    constructors=FAMILIES["protocols"],
    default="asynchronous",
)
RULE = Kind(
    field="rule",
    group="Rule",
    help="Update rule; another one keeps the arguments that both have.",
    constructors=FAMILIES["rules"],
)
COMPRESSOR = Kind(
    field="compressor",
    group="Compressor",
    help="What makes the messages of the rule smaller; another one keeps the arguments that both have.",
    constructors=compression.Settings(),
    default=compression.NONE,
    either=("fraction", "k"),
)
WORKLOAD = Kind(
    field="workload",
    group="Workload",
    help="What is learned; another one keeps the data set and the arguments that both have.",
    constructors=FAMILIES["workloads"],
)
KINDS = (COMPUTE, PROTOCOL, RULE, COMPRESSOR, WORKLOAD)


@dataclasses.dataclass(frozen=True)
class Component:
    """A component of a scenario as a name and arguments."""

    kind: Kind  # of which kind it is
    name: str  # name of its constructor, or `CUSTOM` if none of the library's constructors made it
    values: Mapping[str, Any]  # its arguments
    present: Any  # the object itself
    rebuild_custom: Callable[..., Any] | None = dataclasses.field(default=None, repr=False)
    data: Any = None  # the data set, which no field can set but which every workload passes on to the next; or None
    stale: bool = False  # whether `present` has another data set

    def fields(self, name: str | None = None) -> list[Field]:
        """The field that names the component, and its arguments."""
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
        """The object with changes; those that belong to this component are removed from the dictionary."""
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
        values, make = self.values, self.kind.constructor(name)
        if self.kind is COMPUTE:
            values = arguments_like(FAMILIES["delays"][name], self.present)
        takes = arguments(make)
        return {key: value for key, value in values.items() if key in takes}


def shown_name(kind: str, argument: str) -> str:
    """The name under which an argument is set: its own, or "rule_limit" because a cluster can have a "limit" too."""
    taken = kind in (RULE.field, COMPRESSOR.field, WORKLOAD.field) and argument in names_taken()
    return f"{kind}_{argument}" if taken else argument


def names_taken() -> frozenset[str]:
    """Names of the fields that a scenario can have beside those of its rule, compressor and workload."""
    return _names_taken(len(FAMILIES["delays"]), len(FAMILIES["protocols"]))  # to which a script may add


@cache
def _names_taken(laws: int, protocols: int) -> frozenset[str]:
    del laws, protocols
    constructors = (*COMPUTE.constructors.values(), *PROTOCOL.constructors.values(), Network, Server)
    own = {"workers", COMPUTE.field, PROTOCOL.field, COMPRESSOR.field, *STUDY_FIELDS}
    return frozenset(own.union(*(arguments(constructor) for constructor in constructors)))


def components_of(cluster: Any, rule: Rule, workload: Workload) -> tuple[Component, ...]:
    """Compute law, protocol, rule, compressor and workload, taken apart; without a `Cluster`, the last three only."""
    modelled = ()
    if isinstance(cluster, Cluster):
        modelled = (law_component(cluster.compute), protocol_component(cluster.protocol))
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
    if FAMILIES["rules"].get(rule.name) is type(rule):
        defaults = {field.name: field.default for field in dataclasses.fields(rule)}
        values = {name: value for name, value in settings(rule).items() if not value is defaults[name] is None}
        return Component(RULE, rule.name, values, rule)
    return Component(RULE, CUSTOM, settings(rule), rule, partial(override, rule))


def compressor_component(rule: Rule) -> Component:
    """What makes the messages of the rule smaller; a compressor of the script's own keeps its arguments."""
    present = compression.setting(rule)
    if present.compressor is None:
        return Component(COMPRESSOR, compression.NONE, {}, present)
    kinds = {kind: name for name, kind in FAMILIES["compressors"].items()}
    values = {"error_feedback": present.error_feedback}
    name = kinds.get(type(present.compressor))
    if name is None:
        return Component(COMPRESSOR, CUSTOM, values, present, _replacing(present))
    return Component(COMPRESSOR, name, {**_attributes(present.compressor), **values}, present)


def workload_component(workload: Workload) -> Component:
    """What is learned; a workload of the script's own has its numbers as arguments, or its batch size."""
    data = workload.data if isinstance(workload.data, Dataset) else None
    values = {name: getattr(workload, name) for name in arguments(type(workload))}
    if WORKLOAD.constructors.get(workload.name) is type(workload) and not any(map(callable, values.values())):
        values = {name: _listed(value) for name, value in values.items() if value is not None}
        return Component(WORKLOAD, workload.name, values, workload, data=data)
    if isinstance(workload, Functions):
        values = {} if workload.data is None else {"batch_size": workload.batch_size}
    else:
        values = {name: value for name, value in values.items() if isinstance(value, (bool, int, float, str))}
    return Component(WORKLOAD, CUSTOM, values, workload, _replacing(workload), data)


def _listed(value: Any) -> Any:
    """An array or a tuple as a list."""
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value


def _replacing(instance: Any) -> Callable[..., Any]:
    """`(**changes) -> instance` with these attributes changed."""
    return partial(dataclasses.replace, instance)


def _attributes(instance: Any) -> dict[str, Any]:
    return {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}
