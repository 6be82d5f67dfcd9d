"""Every field that a scenario made of the library's components can have, for the help of the command line."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from asyncsim import checks, delays, rules, workloads
from asyncsim.cluster import Cluster, protocols
from asyncsim.scenario.components import HELP, argument_fields, network_and_server_fields, shown_name
from asyncsim.scenario.fields import Field, fields_of
from asyncsim.scenario.scenario import study_fields

COMPONENTS: tuple[tuple[str, str, Mapping[str, Callable[..., Any]]], ...] = (
    ("compute", "Cluster", delays.CONSTRUCTORS),
    ("protocol", "Cluster", protocols.CONSTRUCTORS),
    ("rule", "Rule", rules.CONSTRUCTORS),
    ("workload", "Workload", workloads.CONSTRUCTORS),
)


def all_fields() -> tuple[Field, ...]:
    """All fields, without values.

    Example:
        >>> fields = {field.name: field for field in all_fields()}
        >>> list(fields)[:5]
        ['workers', 'compute', 'value', 'low', 'high']
        >>> fields["kappa"].help
        'Amplification κ ≥ 0 of the proxy, equation (27). (gem)'
    """
    workers = [field for field in fields_of(Cluster, "Cluster", {}) if field.name == "workers"]
    components = [field for component in COMPONENTS for field in _component_fields(*component)]
    return (*workers, *components, *network_and_server_fields(), *study_fields())


def named_fields(name: str) -> dict[str, list[Field]]:
    """Component -> its fields, for every law, protocol, rule or workload of this name, with their defaults.

    Raises:
        ValueError: If there is none of this name; the nearest is suggested.

    Example:
        >>> {component: [field.name for field in fields] for component, fields in named_fields("rennala").items()}
        {'protocol': ['batch', 'cancel'], 'rule': ['learning_rate', 'rule_batch', 'steps']}
    """
    found = {
        component: argument_fields(component, group, constructors[name])
        for component, group, constructors in COMPONENTS
        if name in constructors
    }
    if not found:
        known = [other for _, _, constructors in COMPONENTS for other in constructors]
        hint = checks.did_you_mean(name, known, quote="'")
        raise ValueError(f"There is no law, protocol, rule or workload {name!r}.{hint}")
    return found


def _component_fields(name: str, group: str, constructors: Mapping[str, Callable[..., Any]]) -> list[Field]:
    """The field that names a component, and every argument of its constructors, with those that take it."""
    found: dict[str, list[tuple[str, Field]]] = {}
    for owner, constructor in constructors.items():
        for field in fields_of(constructor, group, {}):
            found.setdefault(field.name, []).append((owner, field))
    known = tuple(constructors)
    fields = [Field(name, "text", f"{HELP[name]}.", group, choices=known)]
    for owned in found.values():
        owners = [owner for owner, _ in owned]
        most_common = Counter(field.help for _, field in owned).most_common(1)[0][0]
        help = f"{most_common} ({', '.join(owners)})"
        fields.append(Field(shown_name(name, owned[0][1].name), owned[0][1].kind, help, group))
    return fields
