"""The parts of a scenario with their fields: its cluster, rule, compressor, workload and partition.

Rule, compressor and workload are choices at the top of a scenario. Two of its choices are no field of a component: the
compressor wraps the rule, and the partition shares the workload's data set out.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from asyncsim import _checks as checks
from asyncsim._component import FAMILIES
from asyncsim._description import describe
from asyncsim._fields import Field
from asyncsim._parts import (
    CUSTOM,
    KEPT,
    Choice,
    Chosen,
    Inner,
    Part,
    arguments,
    choices_of,
    chosen,
    every_field,
    every_name,
    fields_of_parts,
    prefixed,
    refuse_unknown,
    signed,
    warn,
)
from asyncsim._remember import cached_per_object
from asyncsim.cluster import Cluster
from asyncsim.datasets import Dataset, Partition, partition
from asyncsim.datasets._partition import ARGUMENTS, OWN
from asyncsim.rules import Compressed, Rule, compressed
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

RULE, COMPRESSOR, WORKLOAD, PARTITION = "rule", "compressor", "workload", "partition"  # choices of a scenario
LENGTHS = ("commits", "seconds", "commits_per_worker")
STUDY_FIELDS = (*LENGTHS, "seed", "schedule_seed", "record")  # of a scenario, beside those of its parts
COUNTS_WORKERS = "rule_workers"  # field of a rule that was given the number of workers: it follows the cluster's
NONE = "none"  # the choice of no compressor, and of no partition
COMMON = ("least", "weighting", "seed")  # arguments that all partitions have


def _unchanged(wrapped: Any, *_: Any) -> Any:
    return wrapped


def _wrapping(kind: type) -> Callable[..., Any]:
    """Arguments of a compressor -> the function that compresses a rule with it."""

    def make(*, error_feedback: bool = True, **values: Any) -> Callable[[Rule], Rule]:
        return partial(compressed, compressor=kind(**values), error_feedback=error_feedback)

    make.either = getattr(kind, "either", ())  # type: ignore[attr-defined]
    return signed(make, {kind: tuple(arguments(kind)), Compressed: ("error_feedback",)})


def _sharing(by: str) -> Callable[..., Any]:
    """Arguments of a partition -> the function that shares a data set out to a number of workers."""
    names = (*filter(None, [ARGUMENTS[by]]), *COMMON)
    return signed(lambda **values: partial(partition, by=by, **values), {Partition: names})


def _nothing() -> Callable[..., Any]:
    """Leave it as it is."""
    return _unchanged


def choices() -> dict[str, Choice]:
    """Name -> choice, of those at the top of a scenario.

    An argument of theirs that a cluster or the study has too is set with a prefix: "rule_limit", as there is a "limit".
    """
    return _choices(*(tuple(FAMILIES[family].values()) for family in ("delays", "protocols", "compressors")))


@cache
def _choices(*classes: tuple[type, ...]) -> dict[str, Choice]:
    """`choices`, as long as the families to which a script may add have these classes."""
    del classes
    taken = frozenset(every_name(Cluster) | {COMPRESSOR, *STUDY_FIELDS})
    rule, compressor, workload = (prefixed(name, taken) for name in (RULE, COMPRESSOR, WORKLOAD))
    wrapping = {NONE: _nothing} | {name: _wrapping(kind) for name, kind in sorted(FAMILIES["compressors"].items())}
    sharing = {NONE: _nothing} | {name: _sharing(name) for name in sorted(ARGUMENTS)}
    smaller = f"Compression of the rule's messages. {KEPT}"
    learned = "Model and data, or another problem. Another one keeps the data set and the arguments that both have."
    shared = f"Who has which training examples: every worker all of them (none), or a part. {KEPT}"
    made = (
        Choice(RULE, FAMILIES["rules"], f"Update rule. {KEPT}", "Rule", shown=rule),
        Choice(COMPRESSOR, wrapping, smaller, "Compressor", NONE, compressor),
        Choice(WORKLOAD, FAMILIES["workloads"], learned, "Workload", shown=workload),
        Choice(PARTITION, sharing, shared, "Workload", NONE, f"{PARTITION}_{{}}".format),
    )
    return {choice.name: choice for choice in made}


def parts_of(cluster: Any, rule: Rule, workload: Workload) -> dict[str, Part]:
    """The parts of a scenario. Without a data set there is no partition, and a recorded trace has no fields."""
    ruled = {RULE: chosen(choices()[RULE], without(rule)), COMPRESSOR: _compression(rule)}
    return {**cluster_parts(cluster), **ruled, **workload_parts(workload)}


def cluster_parts(cluster: Any) -> dict[str, Part]:
    """A cluster, or nothing in the place of a recorded trace."""
    return {} if isinstance(cluster, Trace) else {"cluster": cluster_part(cluster)}


def workload_parts(workload: Workload) -> dict[str, Part]:
    """A workload, and the partition of its data set."""
    learner = chosen(choices()[WORKLOAD], workload)
    parts: dict[str, Part] = {WORKLOAD: learner}
    if isinstance(workload.data, Dataset) and learner.name != CUSTOM:
        parts[PARTITION] = _partition(workload.data)
    return parts


def without(rule: Rule) -> Rule:
    """The rule that is compressed, or the rule itself."""
    return rule.rule if isinstance(rule, Compressed) else rule


def _compression(rule: Rule) -> Chosen:
    if not isinstance(rule, Compressed):
        return Chosen(choices()[COMPRESSOR], _unchanged, NONE, {})
    around = partial(compressed, compressor=rule.compressor, error_feedback=rule.error_feedback)
    inner = chosen(Choice(COMPRESSOR, FAMILIES["compressors"], ""), rule.compressor)
    return Chosen(choices()[COMPRESSOR], around, inner.name, {**inner.values, "error_feedback": rule.error_feedback})


def _partition(data: Dataset) -> Chosen:
    if not isinstance(data, Partition):
        return Chosen(choices()[PARTITION], None, NONE, {})
    settings = data.settings()
    return Chosen(choices()[PARTITION], None, settings.pop("by"), settings)


def cluster_part(cluster: Any) -> Inner:
    """A cluster as a part. In another kind than `Cluster`, names that a rule or a workload has too get a prefix."""
    return Inner(cluster, str if isinstance(cluster, Cluster) else name_in_cluster, "Cluster")


def name_in_cluster(name: str) -> str:
    """The name under which a field of a cluster of another kind is set."""
    taken = _names_of_others(*(len(choice.options) for choice in choices().values()))
    return f"cluster_{name}" if name in taken else name


@cache
def _names_of_others(*sizes: int) -> frozenset[str]:
    """Names of all fields that rules, compressors, workloads and the study have."""
    del sizes
    return frozenset({*STUDY_FIELDS, *(field.name for choice in choices().values() for field in choice.every())})


def workers_of(cluster: Any) -> int | None:
    """Number of workers, or None for a kind of cluster that does not know it before it is simulated."""
    return getattr(cluster, "workers", None)


def override(cluster: Any, rule: Rule, workload: Workload, changes: Mapping[str, Any]) -> tuple[Any, Rule, Workload]:
    """The three with some fields changed. See `Scenario.override`."""
    rest, parts = dict(changes), parts_of(cluster, rule, workload)
    changed = parts["cluster"].rebuild(rest) if "cluster" in parts else cluster
    before, workers = workers_of(cluster), workers_of(changed)
    if COUNTS_WORKERS not in changes and workers != before and getattr(without(rule), "workers", None) is not None:
        rest[COUNTS_WORKERS] = workers
    learner = parts[WORKLOAD]
    if workers is not None and (data := _shared_out(parts, rest, workload.data, before, workers)) is not workload.data:
        learner = replace(learner, context={"data": data})  # type: ignore[type-var]
    ruled, wrap = (parts[name].rebuild(rest) for name in (RULE, COMPRESSOR))
    if COUNTS_WORKERS not in changes:
        rest.pop(COUNTS_WORKERS, None)
    changed_parts = changed, wrap(ruled), _grouped(learner.rebuild(rest), workload)
    if rest:
        known = [field.name for field in fields_of_parts(parts.values(), {})]
        present = [choice for part in parts_of(*changed_parts).values() for choice in part.choices]
        refuse_unknown(next(iter(rest)), present, [*known, *STUDY_FIELDS], "a field of this scenario")
    return changed_parts


def _shared_out(parts: Mapping[str, Part], changes: dict[str, Any], data: Any, before: int | None, workers: int) -> Any:
    """The data set, shared out anew where the way of doing so or the number of workers changes."""
    part = parts.get(PARTITION)
    if not isinstance(part, Chosen):
        return data
    share = part.rebuild(changes)
    if share is None and (workers == before or not isinstance(data, Partition)):
        return data
    if share is None and part.name == OWN:
        raise ValueError(
            f"`workers` cannot be {workers} while who has which examples is of your own making; choose a `partition` "
            f"as well, one of {', '.join(ARGUMENTS)}."
        )
    share = share or part.choice.options[part.name](**part.values)
    return share(data.data if isinstance(data, Partition) else data, workers)


def _grouped(workload: Workload, before: Workload) -> Workload:
    """A workload with the parameter groups of the one before it."""
    if before.groups is None or workload.groups is not None:
        return workload
    try:
        return workload.grouped(before.groups)
    except ValueError:
        warn(
            f"The `groups` of {before.name!r} do not fit the tensors of {workload.name!r}; its layers are split evenly."
        )
        return workload


def cluster_fields() -> list[Field]:
    """Every field that a `Cluster` can have, without values."""
    return [replace(field, group="Cluster") for field in every_field(Cluster)]


def named_choices() -> dict[str, Choice]:
    """Name -> choice, of laws, protocols, rules, compressors and workloads."""
    modelled = {name: replace(choice, group="Cluster") for name, choice in choices_of(Cluster).items()}
    return modelled | {name: choice for name, choice in choices().items() if name != PARTITION}


def named_fields(name: str) -> dict[str, list[Field]]:
    """Choice -> fields, for every law, protocol, rule or workload of this name, with their defaults."""
    named = named_choices()
    found = {field: choice.arguments(name) for field, choice in named.items() if name in choice.options}
    if not found:
        known = [other for choice in named.values() for other in choice.options]
        hint = checks.did_you_mean(name, known, quote="'")
        raise ValueError(f"There is no law, protocol, rule or workload {name!r}.{hint}")
    return found


def values_of(cluster: Any, rule: Rule, workload: Workload) -> dict[str, Any]:
    """Field -> value as plain data, as `Scenario.fields` has them, but a thousand times in half a second."""
    ruled = chosen(choices()[RULE], without(rule)).named_values() | {RULE: without(rule).name}
    ruled |= _compression(rule).named_values()
    return {**_values(cluster, cluster_parts), **describe(ruled), **_values(workload, workload_parts)}


@cached_per_object
def _values(component: Any, parts: Callable[[Any], Mapping[str, Part]]) -> dict[str, Any]:
    return describe({field.name: field.value for field in fields_of_parts(parts(component).values(), {})})
