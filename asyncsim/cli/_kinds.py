"""Kinds of clusters that `--cluster` names in `asyncsim staleness` and the like: the flags of each, and its cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from asyncsim._checks import did_you_mean, require_count
from asyncsim.cluster import Cluster, Gossip, Hierarchy, Network, Pipeline, Rollouts, rollouts
from asyncsim.cluster.rollouts._presets import DERIVED_ARGUMENTS
from asyncsim.components._field import Field
from asyncsim.components._settings import settings_of_class
from asyncsim.delays import Constant, Exponential, Gamma, LogNormal
from asyncsim.scenario._tree import changed_cluster, cluster_settings


def split(flags: Mapping[str, Any], fields: Iterable[Field]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of some fields, the usual ones where a flag is missing, and all other flags."""
    values = {field.name: flags.get(field.name, field.value) for field in fields}
    return values, {name: value for name, value in flags.items() if name not in values}


def preset_of(name: str, changes: Mapping[str, Any]) -> Rollouts:
    """Return the usual engines in the words of a library, with some of its arguments."""
    arguments = {**PRESETS[name], **changes}
    system = {field: getattr(ENGINES, field) for field in ("slots", "group", "batch", "generate", "train")}
    return cast(Rollouts, getattr(rollouts, name)(**{**system, **arguments}))


# A cluster of rollout engines that the words of all libraries describe.
ENGINES = Rollouts(slots=96, group=4, batch=8, generate=LogNormal(mean=1.0, cv=1.0), train=Constant(0.25))
PRESETS: dict[str, dict[str, Any]] = {  # usual arguments of the functions in `asyncsim.rollouts`
    "areal": {"max_head_offpolicyness": 4.0},
    "blocking_queue": {"batches": 1},
    "nemo_rl": {"sampling": "in_order", "max_trajectory_age_steps": 1},
    "openrlhf": {"async_queue_size": 1, "partial_rollout_enable": False},
    "prime_rl": {"max_off_policy_steps": 8, "target_lag": 1.0},
    "queue": {"batches": 2, "batch": ENGINES.batch},
    "roll": {"async_generation_ratio": 1},
    "skyrl": {"max_staleness_steps": 4.0},
    "slime": {"num_steps_per_rollout": 1, "ahead": 1},
    "tinker": {"max_steps_off_policy": 4},
    "tinker_ahead": {"sampling_steps_ahead": 2.0},
    "torchtitan": {"target_off_policy_steps": 2.0, "window": 16},
    "trl": {"max_staleness": 4, "weight_sync_steps": 1},
    "verl": {"staleness_threshold": 0.5, "trigger_parameter_sync_step": 4, "partial_rollout": True},
}
# The usual cluster of each kind, whose numbers are the defaults of its flags.
KINDS = {
    "rollouts": ENGINES,
    **{name: preset_of(name, {}) for name in PRESETS},
    "pipeline": Pipeline(stages=4, forward=Constant(1.0)),
    "gossip": Gossip(workers=8, compute=Gamma(mean=1.0, cv=0.5), graph="ring"),
}
HIERARCHY = "hierarchy"  # a kind whose regions are equal, so that flags describe all of them
REGION = Cluster(workers=4, compute=Exponential(1.0))
REGIONS = Field("regions", "integer", "Number of regions, all of them with the workers below.", "Cluster", 4)
AROUND_REGIONS = Hierarchy([REGION], commits_per_push=8, network=Network(latency=Exponential(1.0)))
KIND_HELP = "Kind of cluster: workers and a server, rollout engines and a trainer (also in the words of a library)"
KIND, KIND_OF_STABILITY = (
    Field("cluster", "text", f"{KIND_HELP}{last}.", "Cluster", "cluster", ("cluster", *kinds), "cluster")
    for last, kinds in (
        (", a pipeline of stages, workers on a graph, or regions with servers of their own", (*KINDS, HIERARCHY)),
        ("", ("rollouts", *PRESETS)),
    )
)


def fields_of_kind(kind: str) -> list[Field]:
    """Return the flags of a kind of cluster, with usual values."""
    fields = [*cluster_settings(KINDS[kind]).values()]
    if kind not in PRESETS:
        return fields
    arguments = settings_of_class(getattr(rollouts, kind), PRESETS[kind])
    usual = {field.name: field.value for field in cluster_settings(ENGINES).values()}
    # A library decides some of the general arguments, by its own or for all of them. The others stay flags.
    derived = {*PRESETS[kind], *DERIVED_ARGUMENTS[kind]}
    own_fields = [replace(field, group="Cluster") for name, field in arguments.items() if name in PRESETS[kind]]
    return [*own_fields, *(f for f in fields if f.name not in derived and f.value == usual[f.name])]


def hierarchy_fields(**components: str) -> list[Field]:
    """Return the flags of regions and of the links between their servers and the global one."""
    regions = cluster_settings(REGION, **components)
    in_regions = [field for path, field in regions.items() if path.startswith(("cluster.workers", "cluster.compute"))]
    return [REGIONS, *in_regions, *cluster_settings(AROUND_REGIONS).values()]


def hierarchy_of(flags: Mapping[str, Any]) -> Hierarchy:
    """Return a hierarchy of equal regions that the flags ask for."""
    shape, settings = split(flags, [REGIONS])
    count = require_count("regions", shape["regions"], remedy="Give one region or more.")
    around = {field.name for field in cluster_settings(AROUND_REGIONS).values()}
    region = changed_cluster(REGION, {name: value for name, value in settings.items() if name not in around})
    outside = changed_cluster(AROUND_REGIONS, {name: value for name, value in settings.items() if name in around})
    return replace(outside, regions=[region] * count)


def cluster_of_kind(kind: str, flags: Mapping[str, Any]) -> Any:
    """Return the usual cluster of a kind with some fields changed."""
    if kind not in PRESETS:
        return changed_cluster(KINDS[kind], flags)
    names = [field.name for field in fields_of_kind(kind)]
    for name in flags:
        if name not in names:
            raise ValueError(f"`{name}` is not a field of this scenario.{did_you_mean(name, names)}")
    arguments = {name: value for name, value in flags.items() if name in PRESETS[kind]}
    changes = {name: value for name, value in flags.items() if name not in arguments}
    return changed_cluster(preset_of(kind, arguments) if arguments else KINDS[kind], changes)
