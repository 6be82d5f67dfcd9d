"""Every field that a scenario made of the library's parts can have, for the help of the command line."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from asyncsim import rules, workloads
from asyncsim.cluster import Cluster
from asyncsim.scenario.cluster_components import PROTOCOLS, surroundings
from asyncsim.scenario.components import HELP, LAWS, shown_name
from asyncsim.scenario.fields import Field, fields_of
from asyncsim.scenario.override import did_you_mean
from asyncsim.scenario.scenario import own_fields

PARTS: tuple[tuple[str, str, Mapping[str, Callable[..., Any]]], ...] = (
    ("compute", "Cluster", LAWS),
    ("protocol", "Cluster", PROTOCOLS),
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
    parts = [field for part in PARTS for field in _part_fields(*part)]
    return (*workers, *parts, *surroundings(), *own_fields())


def named_fields(name: str) -> dict[str, list[Field]]:
    """Component -> its fields, for every law, protocol, rule or workload of this name, with their defaults.

    Raises:
        ValueError: If there is none; the nearest is suggested.

    Example:
        >>> {component: [field.name for field in fields] for component, fields in named_fields("rennala").items()}
        {'protocol': ['batch', 'cancel'], 'rule': ['learning_rate', 'rule_batch', 'steps']}
    """
    found = {
        part: [replace(field, name=shown_name(part, field.name)) for field in fields_of(constructors[name], group)]
        for part, group, constructors in PARTS
        if name in constructors
    }
    if not found:
        known = [other for _, _, constructors in PARTS for other in constructors]
        raise ValueError(f"There is no law, protocol, rule or workload {name!r}.{did_you_mean(name, known)}")
    return found


def _part_fields(name: str, group: str, constructors: Mapping[str, Callable[..., Any]]) -> list[Field]:
    """The field that names a part, and every argument of any of its constructors, with who takes it."""
    found: dict[str, list[tuple[str, Field]]] = {}
    for owner, constructor in constructors.items():
        for field in fields_of(constructor, group, {}):
            found.setdefault(field.name, []).append((owner, field))
    known = tuple(constructors)
    fields = [Field(name, "text", f"{HELP[name]}.", group, None, known)]
    for owned in found.values():
        owners, texts = [owner for owner, _ in owned], Counter(field.help for _, field in owned)
        help = f"{texts.most_common(1)[0][0]} ({', '.join(owners)})"  # what most of them say
        fields.append(Field(shown_name(name, owned[0][1].name), owned[0][1].kind, help, group))
    return fields
