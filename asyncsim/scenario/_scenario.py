"""A scenario: one study as one frozen object."""

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim._checks import brief, require_count, require_integer, require_positive, warn
from asyncsim._metrics import counted
from asyncsim._version import REVISION
from asyncsim.cluster import Cluster, Gossip, Hierarchy, Pipeline, Rollouts, simulate
from asyncsim.cluster._simulation import OwnSchedule, Simulated, require_cluster
from asyncsim.components._address import address, listed, paths_named
from asyncsim.components._checked import Checked, require_kind
from asyncsim.components._description import code_of, describe
from asyncsim.components._digest import hash_of
from asyncsim.components._environment import environment, environment_in, forget_programs
from asyncsim.components._field import Field
from asyncsim.components._precision import require_precision
from asyncsim.components._remember import cached_per_object
from asyncsim.components._settings import every_setting, parameters_of, settings_of_class
from asyncsim.components._traced import Structure
from asyncsim.compressors import Compressor, bytes_of
from asyncsim.engine._layout import Packing
from asyncsim.engine._plan import bind
from asyncsim.engine._preconditions import MOST_SEED, require_memory_of_records
from asyncsim.engine._quantities import (
    EVALUATIONS,
    QUANTITIES,
    Measure,
    Record,
    as_mapping,
    of_variables,
    own_measures,
    strides,
    with_functions,
)
from asyncsim.rules import Rule
from asyncsim.rules._rule import windows_of
from asyncsim.scenario import _estimates as estimates
from asyncsim.scenario import _shapes as shapes
from asyncsim.scenario._tree import (
    LENGTHS,
    STUDY_FIELDS,
    every_tree_setting,
    override,
    tree_of,
    with_groups,
    workers_of,
)
from asyncsim.trace import Trace
from asyncsim.workloads import Workload
from asyncsim.workloads._groups import group_of_each_leaf

RECORD = ("energy_central", "energy_proxy", "pi_mean", "pi_median")  # by default, as far as the rule has them
# Times per n commits: enough for a curve, whereas energies at every commit would make small models slow.
RECORDS_PER_ROUND = 5
RECORD_HELP = (  # of the flag, whose syntax differs from that of the argument
    "Metrics to record in addition to the loss: names separated by commas, each alone or as name=N for every N commits,"
    f" or the word none. Names: {', '.join((*QUANTITIES, *EVALUATIONS))}, and other "
    "metrics of the workload."
)


@dataclass(frozen=True, eq=False, repr=False)
class Scenario(Checked):
    """A cluster that trains a workload by a rule, for a given length, from one seed.

    Two scenarios are equal if they describe the same thing, in whatever way: with 4 workers, 10 `commits_per_worker`
    are 40 `commits`.

    Attributes:
        cluster: Who computes, and how fast: a `Cluster`, a `Pipeline`, `Rollouts`, or an object of your own with a
            method `simulate(*, commits, seconds, seed)`. Or a recorded `Trace`, whose schedule is replayed as it is.
        rule: Update rule.
        workload: Model and data to learn, or another problem to solve.
        commits: Length of the run in commits to the server. Exactly one of commits, seconds and commits_per_worker must
            be given. With a recorded trace at most one is given, and by default all of it is replayed.
        seconds: Length of the run in simulated seconds.
        commits_per_worker: Length of the run in commits of each worker on average: n times as many in all.
        seed: Seed of the compute times, the mini-batches and the initial parameters.
        schedule_seed: Seed of the compute times alone, by default `seed`. Scenarios that share it share their
            schedule, and differ in mini-batches and initial parameters only.
        record: Names of metrics to record in addition to the loss, or name -> number of commits from one record to the
            next, a function of your own, or both (see `asyncsim.replay`). By default energy_central, energy_proxy and
            pi_mean are recorded five times per n commits, and pi_median once, as far as the rule has them.
        labels: Name of an axis -> name of a case, as `asyncsim.grid` gives them. Tables show them. No digest depends on
            them.

    Raises:
        ValueError: If not exactly one length is given, or a number or name does not fit.

    Example:
        >>> import asyncsim as asim
        >>> scenario = Scenario(
        ...     cluster=asim.Cluster(workers=4, compute=asim.delays.Gamma(mean=1.0, cv=0.3)),
        ...     rule=asim.rules.GEM(learning_rate=0.05),
        ...     workload=asim.workloads.Quadratic([1.0, 0.1]),
        ...     commits_per_worker=100,
        ... )
        >>> scenario
        Scenario(gem on quadratic, 4 workers, 400 commits, seed 0)
        >>> scenario.override(workers=8, compute="exponential", rule="downpour", commits=1000)
        Scenario(downpour on quadratic, 8 workers, 1000 commits, seed 0)
        >>> scenario.override(commits=400) == scenario, scenario.override(kappa=2.0) == scenario
        (True, False)

        The schedule of a real cluster, from its log:

        >>> log = asim.Trace.from_commits([0, 1, 0, 2, 1, 2], commit_time=[0.9, 1.0, 1.8, 2.1, 2.2, 3.3])
        >>> Scenario(log, asim.rules.GEM(learning_rate=0.05), asim.workloads.Quadratic([1.0, 0.1]))
        Scenario(gem on quadratic, 3 workers, 6 commits, seed 0)
    """

    cluster: Cluster | OwnSchedule | Trace
    rule: Rule
    workload: Workload
    commits: int | None = None
    seconds: float | None = None
    commits_per_worker: int | None = None
    seed: int = 0
    schedule_seed: int | None = None
    record: Record | None = None
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.cluster, Trace):
            require_cluster("cluster", self.cluster)
        for name, kind in (("rule", Rule), ("workload", Workload), ("labels", Mapping)):
            require_kind(name, getattr(self, name), kind)
        compression = self.cluster.network.compression if isinstance(self.cluster, Cluster) else 1.0
        if compression != 1 and self.rule.compression is not None:
            raise ValueError(
                f"`compression` must be left out of the network with a compressed rule; got {brief(compression)}. The "
                f"compressor of {self.rule.name!r} says how large its messages are."
            )
        if isinstance(self.cluster, Cluster) and self.cluster.network.collective != "none" and self.rule.compression:
            raise ValueError(
                f"`rule` must not be compressed on a ring, whose sums of updates are sent in full; got "
                f"{self.rule.name!r}. Give the rule inside, or leave `collective` out of the network."
            )
        self._check_length()
        object.__setattr__(self, "seed", _checked_seed("seed", self.seed))
        if self.schedule_seed is not None:
            object.__setattr__(self, "schedule_seed", _checked_seed("schedule_seed", self.schedule_seed))
        _ = self._rule  # Binding it to the number of workers refuses a rule that is made for another number.
        self._check_local_steps()
        self.workload.require_workers(self.workers)
        if self.trace is not None:
            if self.schedule_seed is not None:
                raise ValueError("`schedule_seed` must be left out with a recorded trace, which is the schedule.")
            bind(self.rule, self.trace)  # This refuses steps that the trace cannot have.
        if groups := getattr(self.cluster, "groups", ()):
            group_of_each_leaf(shapes.parameter_shapes(self.workload), groups, self.workload.groups)
        if self.record is not None:  # It is copied, so that its owner may change it afterwards.
            names = as_mapping(self.record)
            object.__setattr__(self, "record", dict(names) if isinstance(self.record, Mapping) else tuple(names))
        require_precision(self._rule, jnp.result_type(float))
        self.workload.require_precision()
        for name in self.strides:
            if name not in (*self.reportable, *self.own_measures):
                raise ValueError(
                    f"`record` names {name!r}, which {self.rule.name!r} on this workload cannot report; it has "
                    f"{', '.join(self.reportable)}."
                )
        if self.own_measures:
            self._record_shapes()  # Tracing the user's functions refuses those that fail.

    def _check_local_steps(self) -> None:
        """Refuse jobs with another number of gradients than the rule takes."""
        window, steps = self._rule.window, getattr(self.cluster, "local_steps", None)
        kinds = Cluster | Gossip | Hierarchy
        if isinstance(self.cluster, kinds) and steps is not None and np.any(np.not_equal(steps, window)):
            raise ValueError(
                f"`local_steps` must be the window of {self.rule.name!r}, {brief(window)}; got {brief(steps)}. Leave "
                "it out, and jobs have as many gradients as the rule takes, each with a time of its own. (A cluster "
                "that was fitted to a log has the times of whole jobs: a window of H needs 1/H of their mean and √H "
                "times their cv.)"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        length = f"{self.seconds:g} seconds" if self.total is None else counted(self.total, "commit")
        study = f"{self.rule.name} on {self.workload.name}"
        return f"Scenario({study}, {counted(self.workers, 'worker')}, {length}, seed {self.seed})"

    @property
    def trace(self) -> Trace | None:
        """The recorded trace, if there is one in the place of a cluster."""
        return self.cluster if isinstance(self.cluster, Trace) else None

    @cached_property
    def workers(self) -> int:
        """Number of workers n. Rollouts have as many as groups are ever outstanding at once, so they are simulated."""
        workers = workers_of(self.cluster)
        if workers is not None:
            return workers
        return _count_workers(self.cluster, self.total, self.seconds, self._seed, tuple(environment().items()))

    @cached_property
    def _rule(self) -> Rule:
        """The rule that knows the number of workers."""
        return self.rule.for_workers(self.workers)

    @property
    def total(self) -> int | None:
        """Number of commits in all, or None if it is not known, because the length is given in seconds."""
        if self.trace is not None:
            return _count_replayed(self.trace, self._lengths)
        return self.commits if self.commits_per_worker is None else self.commits_per_worker * self.workers

    @property
    def replayed(self) -> int | None:
        """Number of commits that are replayed, where that may be fewer than the schedule has, else None."""
        return None if self.trace is None else self.total

    @cached_property
    def reportable(self) -> tuple[str, ...]:
        """Names of the metrics that this rule and workload can report."""
        return self._reportable_by(Structure(self._rule), self.workload, self.cluster)

    @staticmethod
    def _reportable_by(rule: Structure, workload: Workload, cluster: Any) -> tuple[str, ...]:
        names, measures = shapes.reportable_metrics(workload, rule)
        several = cluster.variables > 1 if isinstance(cluster, Trace) else isinstance(cluster, Gossip | Hierarchy)
        return (*names, *measures, *(of_variables(measures, workload.outputs is not None) if several else ()))

    @cached_property
    def strides(self) -> dict[str, int]:
        """Recorded metrics: name -> number of commits from one record to the next."""
        n = self.workers
        if self.record is not None:
            return strides(self.record, n, self.reportable)
        defaults = {name: max(1, n // RECORDS_PER_ROUND) for name in RECORD} | {"pi_median": n}
        return {name: stride for name, stride in defaults.items() if name in self.reportable}

    @cached_property
    def own_measures(self) -> dict[str, Measure]:
        """Name -> function, of the metrics that functions of the user's own record."""
        return own_measures(self.record or ())

    @property
    def recorded(self) -> dict[str, int | tuple[Measure, int]]:
        """The recorded metrics, as `asyncsim.replay` takes them."""
        measures = self.own_measures
        return {name: (measures[name], stride) if name in measures else stride for name, stride in self.strides.items()}

    def describe(self) -> dict[str, Any]:
        """Return the scenario as plain data, fit for JSON, where hashes represent the user's own code and data.

        Example:
            >>> import asyncsim as asim
            >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
            >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0])
            >>> Scenario(cluster, rule, workload, commits=8).describe()["cluster"]
            {'kind': 'cluster.Cluster', 'workers': 2, 'compute': {'kind': 'delays.constant', 'value': 1.0}}
        """
        return deepcopy(self.description)

    @cached_property
    def description(self) -> dict[str, Any]:
        """The result of `describe`, not to be changed: other scenarios share its parts. Pickles contain it."""
        return {
            "cluster": describe(self.cluster, "cluster"),
            **self._describe_code(),
            "commits": self.total,
            "seconds": self.seconds if self.trace is None else None,
            "seed": self.seed,
            **({} if self.schedule_seed in (None, self.seed) else {"schedule_seed": self.schedule_seed}),
            "record": self.strides,
            **environment(),
            "revision": REVISION,
        }

    def current(self) -> "Scenario":
        """Return the scenario with the present values that its code reads and settings of JAX: itself, if none changed.

        A scenario is described once. In a session, a global that its loss reads may have another value later, or 64-bit
        mode may be switched on.
        """
        forget_programs()
        if "description" not in vars(self):
            # No digest may cover the code. None is needed where no results are saved.
            with suppress(ValueError):
                self._describe_code()
            return self
        described = {"cluster": describe(self.cluster, "cluster"), **self._describe_code()}
        same = all(self.description[name] == value for name, value in described.items())
        if same and environment_in(self.description) == environment():
            return self
        # Results are cached per object, so that a copy of the workload has none yet.
        return dataclasses.replace(self, workload=copy(self.workload))

    def _describe_code(self) -> dict[str, Any]:
        """Return the parts of the description that may hold the user's code. Functions to record are hashed."""
        described = {"rule": describe(self._rule, "rule"), "workload": describe(self.workload, "workload")}
        codes = {name: code_of("record", {name: measure}) for name, measure in self.own_measures.items()}
        return {**described, "record_code": codes} if codes else described

    @cached_property
    def digest(self) -> str:
        """Hash of the description: scenarios with equal digests give the same result."""
        return hash_of(self.description)

    @cached_property
    def scheduled(self) -> Cluster | OwnSchedule:
        """The cluster as it is simulated: its jobs have the gradients of the rule, and messages the size of parameters.

        A job takes as many gradients as the rule's window. If bandwidth is limited, a message is as large as the
        parameters, and a compressed update as large as its compressor says, in proportion.
        """
        if isinstance(self.cluster, Trace):
            raise ValueError("`cluster` is a recorded trace, which is not simulated. See `Scenario.trace`.")
        if isinstance(self.cluster, Hierarchy):
            # Regions send the changes of their variables in full.
            cluster, windows = self._for_rule(self.cluster, None), iter(windows_of(self._rule, self.workers).tolist())
            regions = [
                self._for_rule(region, self.rule.compression, tuple(islice(windows, region.workers)))
                for region in cluster.regions
            ]
            return dataclasses.replace(cluster, regions=regions)
        if isinstance(self.cluster, Gossip):  # Workers send their models, whatever their updates are.
            return self._for_rule(self.cluster, None)
        if not isinstance(self.cluster, Cluster):
            return self.cluster
        return self._for_rule(self.cluster, self.rule.compression)

    def _for_rule(self, cluster: Any, compressor: Compressor | None, windows: tuple[int, ...] = ()) -> Any:
        """Return a cluster whose jobs have the gradients of the rule, and messages the size of the parameters."""
        network = cluster.network
        is_by_rule = isinstance(cluster, Cluster | Gossip) and cluster.local_steps is None and self._rule.window != 1
        window = windows if np.ndim(self._rule.window) and windows else self._rule.window
        timed = dataclasses.replace(cluster, local_steps=window) if is_by_rule else cluster
        # Without a limit, schedules are the same for all models, and their digests are equal.
        if not network.limits_bytes or (network.message_bytes is not None and compressor is None):
            return timed
        params = shapes.parameter_shapes(self.workload)
        size = float(bytes_of(params))
        sizes = {
            "message_bytes": size if network.message_bytes is None else network.message_bytes,
            "compression": network.compression if compressor is None else compressor.bytes(params) / size,
        }
        return dataclasses.replace(timed, network=dataclasses.replace(network, **sizes))

    @property
    def packing(self) -> Packing:
        """Layout of the parameters in a vector, traced without an array as large as they are."""
        return shapes.packing_of(self.workload, jax.config.read("jax_enable_x64")).seen_by(self.rule)

    def _record_shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
        return shapes.record_shapes(self._rule, self.packing, self.strides, self.own_measures)

    @property
    def _schedule(self) -> tuple[Cluster | None, int | None, float | None]:
        """The cluster, if its schedule can be estimated, and the length in commits and in seconds."""
        cluster = None if self.trace is not None else self.scheduled
        return (cluster if isinstance(cluster, Cluster) else None), self.total, self.seconds

    @property
    def expected_commits(self) -> float | None:
        """Commits of the schedule, roughly if its length is a time, and None if only a simulation can tell."""
        return estimates.expected_commits(*self._schedule)

    @property
    def expected_seconds(self) -> float:
        """Seconds that the schedule and the replay take at least, on a machine of today."""
        work = self.packing.size * self.workload.batch_size * float(np.mean(self.rule.window))
        return estimates.expected_seconds(*self._schedule, work_per_commit=work)

    def require_memory(self) -> None:
        """Refuse a schedule or a replay for which this machine does not have the memory."""
        estimates.require_memory(*self._schedule, workers=self.workers, rule=self._rule, params=self.packing)
        # Records are traced last: a model that does not fit may have more parameters than JAX can count.
        require_memory_of_records(self._record_shapes(), self.strides, seeds=1, commits=self.total or 0)

    def simulate(self, progress: Callable[[Simulated], None] | None = None) -> Trace:
        """Return the schedule of this scenario, simulated (with `progress` as in `asyncsim.simulate`) or recorded."""
        return self.in_steps(self.schedule(progress))

    def schedule(self, progress: Callable[[Simulated], None] | None = None) -> Trace:
        """Return the schedule as it is saved: a recorded trace before the server of the rule makes its steps of it."""
        if self.trace is not None:
            return self.trace
        if isinstance(self.cluster, Pipeline | Rollouts) and self._rule.window != 1:
            kind = type(self.cluster).__name__
            warn(
                f"The {brief(self.rule.window)} local steps of {self.rule.name!r} take no time on {kind}, whose times "
                "are those of whole jobs."
            )
        trace = simulate(self.scheduled, commits=self.total, seconds=self.seconds, seed=self._seed, progress=progress)
        return self.in_steps(trace)

    @property
    def _seed(self) -> int:
        """Seed of the schedule."""
        return self.seed if self.schedule_seed is None else self.schedule_seed

    def in_steps(self, trace: Trace) -> Trace:
        """Return a schedule in the steps that the server of the rule makes."""
        return bind(self.rule, trace)[1]

    def describe_schedule(self) -> dict[str, Any]:
        """Return the settings that decide the schedule, as plain data: equal descriptions have equal schedules."""
        if self.trace is not None:
            return {"cluster": describe(self.trace)}  # All lengths, seeds and rules share a recorded trace.
        return {
            "cluster": describe(self.scheduled),
            **environment(),  # JAX draws the prompts of rollouts, and a schedule of the user's may draw with it.
            "commits": self.total,
            "seconds": self.seconds,
            "seed": self._seed,
            "collect": self._rule.collect,
        }

    @cached_property
    def schedule_digest(self) -> str:
        """Hash of `describe_schedule`."""
        return hash_of(self.describe_schedule())

    def fields(self, **components: str) -> tuple[Field, ...]:
        """Return the fields that `override` takes, with their present values and meanings.

        Args:
            **components: Names of another `compute` law, `protocol`, `rule`, `compressor` or `workload`, whose fields
                are wanted.

        Raises:
            ValueError: If no component has such a name. The nearest is suggested.

        Example:
            >>> import asyncsim as asim
            >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
            >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0])
            >>> fields = Scenario(cluster, rule, workload, commits=8).fields(rule="momentum_sgd")
            >>> [(field.name, field.value) for field in fields if field.group == "Rule"][:3]
            [('rule', 'momentum_sgd'), ('learning_rate', 0.1), ('momentum', 0.9)]
        """
        return tuple(self.settings(**components).values())

    def settings(self, **components: str) -> dict[str, Field]:
        """Return path -> field of `fields`, as in "rule.learning_rate"."""
        paths = address(tree_of(self.cluster, self.rule, self.workload), components, "a field of this scenario")[1]
        study = {
            field.name: field for field in study_fields(self) if self.trace is None or field.name != "schedule_seed"
        }
        return listed({**with_groups(paths), **study})

    def override(self, **changes: Any) -> "Scenario":
        """Return the scenario with some fields changed, by the names of the constructors' own arguments.

        Another law of compute times keeps the mean and, if it has a spread, the coefficient of variation. Another
        rule or workload keeps the arguments that both have, and the entries of `record` that it can report. A new
        length replaces the old one.

        Raises:
            ValueError: If a field is unknown (the nearest is named) or a value does not fit.

        Example:
            >>> import asyncsim as asim
            >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
            >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0])
            >>> Scenario(cluster, rule, workload, commits=8).override(wokers=8)
            Traceback (most recent call last):
            ValueError: `wokers` is not a field of this scenario. Did you mean `workers`?
        """
        study = {name: value for name, value in changes.items() if name in STUDY_FIELDS}
        rest = {name: value for name, value in changes.items() if name not in STUDY_FIELDS}
        if self.trace is not None:
            paths = self.settings()
            for name in changes:
                if name == "schedule_seed" or is_of_cluster(name, paths):
                    raise ValueError(
                        f"`{name}` cannot be changed: the schedule is a recorded trace of "
                        f"{counted(self.workers, 'worker')}. Give the scenario a Cluster to simulate others."
                    )
        cluster, rule, workload = override(self.cluster, self.rule, self.workload, rest)
        record = self._record_after(study, cluster, rule, workload)
        length = {name: study[name] for name in LENGTHS if study.get(name) is not None}
        return Scenario(
            cluster=cluster,
            rule=rule,
            workload=workload,
            **(length or self._lengths),
            seed=study.get("seed", self.seed),
            schedule_seed=study.get("schedule_seed", self.schedule_seed),
            record=record,
            labels=self.labels,
        )

    def _record_after(self, study: Mapping[str, Any], cluster: Any, rule: Rule, workload: Workload) -> Any:
        """Return what to record after changes: the record that they name, or the entries that can still be reported."""
        if "record" in study:
            chosen = study["record"]
            return None if chosen is None else with_functions(as_mapping(chosen), self.own_measures)
        if self.record is None:
            return None
        # The number of workers of rollouts is not known before they are simulated. It changes no names.
        bound = Structure(rule.for_workers(workers_of(cluster) or self.workers))
        possible = (*self._reportable_by(bound, workload, cluster), *self.own_measures)
        return {name: stride for name, stride in as_mapping(self.record).items() if name in possible}

    @property
    def _lengths(self) -> dict[str, Any]:
        """Name -> value of the lengths that are not None."""
        return {name: getattr(self, name) for name in LENGTHS if getattr(self, name) is not None}

    def _check_length(self) -> None:
        """Refuse no or several lengths, and convert the one to its type."""
        lengths = self._lengths
        if len(lengths) > 1 or (not lengths and self.trace is None):
            received = " and ".join(f"{name}={brief(value)}" for name, value in lengths.items()) or "nothing"
            number = "Exactly one" if self.trace is None else "At most one"
            raise ValueError(
                f"{number} of `commits`, `seconds` and `commits_per_worker` must be given; got {received}."
            )
        if "commits_per_worker" in lengths and workers_of(self.cluster) is None:
            kind = type(self.cluster).__name__
            raise ValueError(f"`commits_per_worker` must be left out with {kind}, whose workers vary. Give `commits`.")
        for name in lengths.keys() & {"commits", "commits_per_worker"}:
            object.__setattr__(self, name, require_count(name, lengths[name], remedy="Ask for 1 or more."))
        if "seconds" in lengths:
            seconds = require_positive("seconds", self.seconds, remedy="Ask for a positive simulated time.")
            object.__setattr__(self, "seconds", seconds)
        if self.trace is not None:
            _count_replayed(self.trace, self._lengths)


def _checked_seed(name: str, value: Any) -> int:
    seed = require_integer(name, value, remedy="Give the scenario another seed.")
    if seed > MOST_SEED:
        raise ValueError(f"`{name}` must be at most {MOST_SEED}; got {brief(seed)}. Give a smaller one.")
    return seed


@cached_per_object
def _count_workers(
    cluster: OwnSchedule, commits: int | None, seconds: float | None, seed: int, environment: tuple[Any, ...]
) -> int:
    """Count the workers of a schedule, which scenarios that share it simulate once for that."""
    del environment  # Only part of the cache's key: a schedule of the user's may draw with JAX.
    return simulate(cluster, commits=commits, seconds=seconds, seed=seed).computing


def _count_replayed(trace: Trace, lengths: Mapping[str, Any]) -> int:
    """Count the commits of a recorded trace that are replayed: all, or those of the one length that is given."""
    if not len(trace):
        raise ValueError("`cluster` must be a trace with commits; got an empty one.")
    for name, value in lengths.items():
        if name == "seconds":
            commits = int(np.searchsorted(trace.commit_time, value, side="right"))
            if not commits:
                first = f"{trace.commit_time[0]:g}"
                raise ValueError(f"`seconds` must reach the first commit of the trace, at {first} s; got {value:g}.")
            return commits
        commits = value if name == "commits" else value * trace.computing
        if commits > len(trace):
            per = "" if name == "commits" else f" for {counted(trace.computing, 'worker')}"
            raise ValueError(
                f"`{name}` must be at most those of the recorded trace, {len(trace)}{per}; got {brief(value)}. Leave "
                "it out for all."
            )
        return commits
    return len(trace)


def all_fields() -> tuple[Field, ...]:
    """Return every field that a scenario of the library's components can have, without values."""
    return tuple(listed(every_setting_of_scenarios()).values())


def every_setting_of_scenarios() -> dict[str, Field]:
    """Return path -> field, of all settings of scenarios of the library's components, without values."""
    return {**every_tree_setting(), **{field.name: field for field in study_fields()}}


def settings_of_regions(scenario: Any) -> dict[str, Field]:
    """Return path -> field, without values, of all settings that regions of a hierarchy can have. No list has them."""
    cluster = scenario.cluster if isinstance(scenario, Scenario) else None
    if not isinstance(cluster, Hierarchy):
        return {}
    paths: dict[str, Field] = {}
    for number in range(len(cluster.regions)):
        paths |= every_setting(Cluster, f"cluster.regions.{number}.")
    # A name has at least "regions" and the number.
    return {
        path: dataclasses.replace(field, least=path.count("."), preferred=False, listed=False)
        for path, field in paths.items()
    }


def field_named(scenario: Scenario, name: str) -> Field | None:
    """Return the field that a name means in a scenario, or else in one with other choices, or None if there is none."""
    for paths in (scenario.settings(), settings_of_regions(scenario), every_setting_of_scenarios()):
        if matches := paths_named(name, paths):
            return dataclasses.replace(paths[matches[0]], name=name)
    return None


def is_of_cluster(name: str, present: Mapping[str, Field]) -> bool:
    """Return whether a name means a setting that a cluster may have, and none of those that are present."""
    every = every_setting(Cluster, "cluster.")
    return not paths_named(name, present) and (name in parameters_of(Cluster) or bool(paths_named(name, every)))


def study_fields(scenario: Scenario | None = None) -> list[Field]:
    """Return the fields of a scenario without those of its components, with its values if one is given."""
    values = {name: getattr(scenario, name, None) for name in STUDY_FIELDS if name != "record"} | {"record": None}
    fields = settings_of_class(Scenario, values)
    strides = None if scenario is None else scenario.strides
    record = dataclasses.replace(fields["record"], kind="names", help=RECORD_HELP, value=strides)
    return [*(fields[name] for name in STUDY_FIELDS if name != "record"), record]
