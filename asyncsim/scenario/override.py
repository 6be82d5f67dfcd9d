"""Overriding the fields of a scenario by name."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from asyncsim import checks
from asyncsim.scenario.cluster_components import protocol_part, rebuild
from asyncsim.scenario.components import Part, law_part, rule_part, shown_name, workload_part
from asyncsim.scenario.fields import arguments

if TYPE_CHECKING:
    from asyncsim.scenario.scenario import Scenario

LENGTHS = ("commits", "seconds", "commits_per_worker")
COUNTED = {"workers", "rule"}  # changes after which a rule may have to count again


def override(scenario: "Scenario", changes: Mapping[str, Any]) -> "Scenario":
    """The scenario with some fields changed; see `Scenario.override`."""
    # A rule that counts the workers counts those of the cluster.
    counted = {"rule_workers": changes.get("workers", scenario.cluster.workers)} if changes.keys() & COUNTED else {}
    rest = {**counted, **changes}
    parts = scenario.parts
    compute, protocol, rule, workload = (part.rebuild(rest) for part in parts)
    if "rule_workers" not in changes:
        rest.pop("rule_workers", None)
    own = {name: rest.pop(name) for name in (*LENGTHS, "seed", "record", "workers") if name in rest}
    workers = own.get("workers", scenario.cluster.workers)
    if isinstance(compute, tuple) and workers != scenario.cluster.workers:
        raise ValueError(
            f"`workers` cannot become {workers} while `compute` has one law for each of the "
            f"{scenario.cluster.workers}; choose one law for all as well."
        )
    cluster = rebuild(scenario.cluster, workers, compute, protocol, rest)
    for name in rest:
        new = law_part(compute), protocol_part(protocol), rule_part(rule), workload_part(workload)
        raise ValueError(unknown_field(name, new, [field.name for field in scenario.fields()]))
    changed = type(scenario)(
        cluster=cluster,
        rule=rule,
        workload=workload,
        **_length(scenario, own),
        seed=own.get("seed", scenario.seed),
        record=own.get("record"),
    )
    if "record" in own or scenario.record is None:
        return changed
    kept = {name: every for name, every in _with_strides(scenario.record) if name in changed.reportable}
    return changed.override(record=kept)


def unknown_field(name: str, parts: Iterable[Part], known: Iterable[str]) -> str:
    """Why a field cannot be overridden: it belongs to another rule, law or workload, or is misspelt."""
    for part in parts:
        takes = {
            owner: [shown_name(part.field, key) for key in arguments(make)] for owner, make in part.constructors.items()
        }
        owners = [owner for owner, names in takes.items() if name in names]
        if owners:
            has = [field.name for field in part.fields()[1:]]
            return (
                f"`{name}` is no field of {part.field} {part.name!r}, only of {', '.join(owners)}; "
                f"{part.name!r} has {', '.join(f'`{field}`' for field in has) or 'none'}.{did_you_mean(name, has)}"
            )
    return f"`{name}` is no field of this scenario.{did_you_mean(name, known)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to the most similar name, or nothing.

    Example:
        >>> did_you_mean("wokers", ["workers", "kappa"])
        ' Did you mean `workers`?'
    """
    near = checks.nearest(name, known)
    return f" Did you mean `{near}`?" if near else ""


def _length(scenario: "Scenario", own: Mapping[str, Any]) -> dict[str, Any]:
    """The new lengths, all of them if several were given (which is then refused), or else the old one."""
    given = {name: own[name] for name in LENGTHS if own.get(name) is not None}
    return given or {name: getattr(scenario, name) for name in LENGTHS}


def _with_strides(record: Any) -> Iterable[tuple[str, int | None]]:
    return record.items() if isinstance(record, Mapping) else dict.fromkeys(record).items()
