"""Every field that a scenario made of the library's components can have, for the help of the command line."""

from collections import Counter

from asyncsim import _checks as checks
from asyncsim._fields import Field, fields_of
from asyncsim.cluster import Cluster
from asyncsim.scenario._clusters import network_and_server_fields
from asyncsim.scenario._components import KINDS, Kind
from asyncsim.scenario._partitions import every_partition_field
from asyncsim.scenario._scenario import study_fields


def all_fields() -> tuple[Field, ...]:
    """All fields, without values."""
    workers = [field for field in fields_of(Cluster, "Cluster", {}) if field.name == "workers"]
    components = [field for kind in KINDS for field in _fields_of_kind(kind)]
    return (*workers, *components, *every_partition_field(), *network_and_server_fields(), *study_fields())


def named_fields(name: str) -> dict[str, list[Field]]:
    """Kind -> fields, for every law, protocol, rule or workload of this name, with their defaults."""
    found = {kind.field: kind.argument_fields(name) for kind in KINDS if name in kind.constructors}
    if not found:
        known = [other for kind in KINDS for other in kind.constructors]
        hint = checks.did_you_mean(name, known, quote="'")
        raise ValueError(f"There is no law, protocol, rule or workload {name!r}.{hint}")
    return found


def _fields_of_kind(kind: Kind) -> list[Field]:
    """The field that names the component, and every argument of its constructors, with those that take it."""
    found: dict[str, list[tuple[str, Field]]] = {}
    for owner in kind.constructors:
        for field in kind.argument_fields(owner, {}):
            found.setdefault(field.name, []).append((owner, field))
    fields = [kind.choice(None)]
    for name, owned in found.items():
        most_common = Counter(field.help for _, field in owned).most_common(1)[0][0]
        help = f"{most_common} ({', '.join(owner for owner, _ in owned)})"
        fields.append(Field(name, owned[0][1].kind, help, kind.group))
    return fields
