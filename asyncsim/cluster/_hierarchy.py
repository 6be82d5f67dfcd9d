"""Clusters of regions, each with a server of its own, whose servers are the workers of a global one.

A region's schedule does not depend on the others: pushes and merges take none of its time. So each is simulated alone.
The global level is a cluster as well, in which a job of a region's server lasts until its workers have made some
commits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import brief, require_count
from asyncsim._metrics import counted
from asyncsim.cluster._events import Report
from asyncsim.cluster._model import Cluster, Network
from asyncsim.cluster._random_streams import Purpose
from asyncsim.cluster._simulation import simulate
from asyncsim.cluster.faults import Crash, Sessions
from asyncsim.cluster.protocols import Terms
from asyncsim.components._checked import Checked
from asyncsim.delays import Constant, VariableSpeed
from asyncsim.delays._per_worker import expand
from asyncsim.trace import Trace
from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    FAULT_COLUMNS,
    NOW,
    UNFINISHED_COLUMNS,
    Faults,
    Mixings,
    Unfinished,
    previous_own_row,
)


def _weight(name: str, value: Any) -> float:
    number = float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else math.nan
    if not 0 < number <= 1:
        raise ValueError(f"`{name}` must be above 0 and at most 1; got {brief(value)}. Give the global share.")
    return number


@dataclass(frozen=True, repr=False)
class Hierarchy(Checked):
    """Regions with servers of their own, and a global server to which these push.

    The workers of a region commit to their region's server. When it has applied `commits_per_push` commits since its
    last merge, it sends the change of its variable since then to the global server, and goes on. The global server
    applies the change as it arrives and sends its value back, and the region merges it into its own,
    x ← (1 - w)·x + w·x_global. Commits between the sending and the merge are in no push, and survive with 1 - w.

    A push is a row of the trace (`Trace.from_variable`), a commit of the region's server, which is a worker of the
    global variable. These workers have the last numbers, and compute nothing. Variables are those of the regions, in
    their order, and then the global one, which is evaluated. A rule of `asyncsim.rules.hierarchical` has two parts, one
    for regions and one for the global server, which otherwise adds the changes.

    Args:
        regions: The clusters, whose servers apply single commits in one moment (`Server.atomic`).
        commits_per_push: Commits K of a region from a merge to its next push, at least 1.
        network: Messages between the regions' servers and the global one: latency and bandwidth, also one per region.
        merge_weight: Share w of the global value in a merge, above 0 and at most 1.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> from asyncsim.cluster import Cluster, Network, simulate
        >>> from asyncsim.delays import Constant, Exponential
        >>> region, far = Cluster(workers=4, compute=Exponential(1.0)), Network(latency=Constant(1.0))
        >>> hierarchy = Hierarchy([region, region], commits_per_push=8, network=far)
        >>> hierarchy
        Hierarchy(2 regions, 8 workers, commits_per_push=8, merge_weight=0.25)
        >>> trace = simulate(hierarchy, seconds=1000)
        >>> trace.workers, trace.computing, trace.variables
        (10, 8, 3)

        A push and its answer take 2 seconds, in which a region makes 8 commits, as many as a push reports:

        >>> commits = trace.from_variable < 0
        >>> 0.45 < float(trace.reported[commits].mean()) < 0.55
        True

    References:
        Kim et al. 2025, "HALoS: Hierarchical asynchronous local SGD over slow networks for geo-distributed large
        language model training", ICML, arXiv 2506.04531. Its setting is `Hierarchy.halos`.
    """

    regions: Sequence[Cluster]
    commits_per_push: Annotated[int, require_count, "Let a region push after one commit or more."] = 8
    network: Network = field(default_factory=Network)
    merge_weight: Annotated[float, _weight] = 0.25

    @classmethod
    def halos(cls, regions: Sequence[Cluster], network: Network | None = None) -> "Hierarchy":
        """Return regions that push and merge as the authors of HALoS published for 70 million parameters.

        A region pushes after 32 commits, and a quarter of a merge is the global value. The rule is
        `asyncsim.rules.hierarchical.halos`.

        Args:
            regions: As in `Hierarchy`.
            network: As in `Hierarchy`. By default messages between the servers take no time.

        Example:
            >>> from asyncsim.cluster import Cluster
            >>> from asyncsim.delays import Exponential
            >>> Hierarchy.halos([Cluster(workers=4, compute=Exponential(1.0))] * 4)
            Hierarchy(4 regions, 16 workers, commits_per_push=32, merge_weight=0.25)
        """
        return cls(regions, commits_per_push=32, network=network or Network(), merge_weight=0.25)

    def check(self) -> None:
        """Refuse regions that the trace of several variables cannot describe, and networks of another number."""
        regions = self.regions if isinstance(self.regions, Sequence) and not isinstance(self.regions, str) else ()
        if not regions or not all(isinstance(region, Cluster) for region in regions):
            raise ValueError(f"`regions` must be one or more asyncsim.Cluster; got {brief(self.regions)}. Give a list.")
        object.__setattr__(self, "regions", tuple(regions))
        for number, region in enumerate(self.regions):
            if (reason := _why_no_region(region)) is not None:
                raise ValueError(
                    f"`regions` must have servers that apply single commits in one moment; entry {number}, {region!r}, "
                    f"{reason}. Simulate it as a cluster alone, or change it."
                )
        if self.network.collective != "none":
            raise ValueError(
                "`network` must lead to a global server; got a ring. Leave `collective` out, and give latency and "
                "bandwidth."
            )
        if len({region.local_steps is None for region in self.regions}) > 1:
            raise ValueError("`regions` must all have `local_steps`, or none of them; got both. Give all of them.")
        for name in ("latency", "bandwidth", "upload_bandwidth"):
            by_region = getattr(self.network, name)
            if isinstance(by_region, tuple) and len(by_region) != len(self.regions):
                raise ValueError(
                    f"`{name}` of the network must have one entry per region; got {len(by_region)} for "
                    f"{counted(len(self.regions), 'region')}. Give one for all, or as many as `regions`."
                )
        self._global([])  # This refuses what else no network around a server may have.

    def __repr__(self) -> str:
        """Return one line: regions and workers, pushes and merges."""
        words = [counted(len(self.regions), "region"), counted(self.workers, "worker")]
        words += [f"commits_per_push={self.commits_per_push}", f"merge_weight={self.merge_weight:g}"]
        return f"Hierarchy({', '.join(words)})"

    @property
    def workers(self) -> int:
        """Number of workers that compute, of all regions."""
        return sum(region.workers for region in self.regions)

    @property
    def local_steps(self) -> tuple[int, ...] | None:
        """Number of gradients of each worker's jobs, or None where the regions do not say it."""
        if self.regions[0].local_steps is None:
            return None
        steps: Any = (expand(region.local_steps, region.workers) for region in self.regions)
        return tuple(count for of_region in steps for count in of_region)

    def _global(self, clocks: Sequence["PushClock"]) -> Cluster:
        """Return the servers of the regions around the global one."""
        laws = [_UntilCommits(Constant(float(self.commits_per_push)), _Steady(), each) for each in clocks]
        return Cluster(len(self.regions), laws or Constant(1.0), network=self.network)

    def simulate(
        self, *, commits: int | None = None, seconds: float | None = None, seed: int = 0, progress: Report | None = None
    ) -> Trace:
        """Make the trace for `asyncsim.simulate`, which checks the arguments."""
        del progress
        if seconds is not None:
            return self._combined(self._levels(seconds, seed))
        assert commits is not None
        # A region's first commits do not depend on how long it runs. Longer runs are tried until there are enough rows.
        share = -(-commits // len(self.regions))
        while True:
            runs = [simulate(region, commits=share, seed=_seed(seed, r)) for r, region in enumerate(self.regions)]
            end = min(run.seconds for run in runs)
            if not end:
                raise ValueError(f"`regions` must take time; got {self.regions!r}. Give a delay that is not zero.")
            levels = self._levels(end, seed)
            times = np.sort(np.concatenate([level.commit_time for level in (*levels.regions, levels.pushed)]))
            if len(times) >= commits:
                break
            share = min(2 * share, commits)
        return self._cut(self._levels(float(times[commits - 1]), seed), commits, seed)

    def _levels(self, seconds: float, seed: int) -> "Levels":
        """Return the trace of each region alone, and that of the global server."""
        regions = [simulate(region, seconds=seconds, seed=_seed(seed, r)) for r, region in enumerate(self.regions)]
        return self._under_global(regions, seed, seconds=seconds)

    def _under_global(self, regions: list[Trace], seed: int, **length: Any) -> "Levels":
        clocks = [PushClock(region.commit_time.tolist()) for region in regions]
        pushed = simulate(self._global(clocks), seed=_seed(seed, len(regions)), **length)
        return Levels(regions, _without_rounding(pushed, clocks), clocks)

    def _cut(self, levels: "Levels", commits: int, seed: int) -> Trace:
        """Return the trace of so many rows, of levels that end with the last one or another one at the same time."""
        order = levels.order()
        if len(order) == commits:
            return self._combined(levels)
        # Without those that come later at the same time: a level that has some stops at its last commit before.
        whole = [*levels.regions, levels.pushed]
        level = np.repeat(np.arange(len(whole)), [len(each) for each in whole])
        counts = np.bincount(level[order[:commits]], minlength=len(whole)).tolist()
        end = float(levels.time[order[-1]])

        def length(count: int, level: Trace) -> dict[str, Any]:
            if count == len(level):
                return {"seconds": end}
            return {"commits": count} if count else {"seconds": math.nextafter(end, 0.0)}

        regions = [
            simulate(region, seed=_seed(seed, r), **length(counts[r], levels.regions[r]))
            for r, region in enumerate(self.regions)
        ]
        # Pushes that are left over are those of commits that are.
        levels = self._under_global(levels.regions, seed, **length(counts[-1], levels.pushed))
        return self._combined(levels._replace(regions=regions))

    def _combined(self, levels: "Levels") -> Trace:
        """Return the trace of all levels, with a variable for each region and the global one."""
        regions, count, workers = levels.regions, len(levels.regions), self.workers
        first = [0, *accumulate(region.workers for region in regions)]
        traces = [
            *(_in_region(region, merges) for region, merges in zip(regions, levels.merges, strict=True)),
            levels.pushed,
        ]
        order = levels.order()

        def joined(name: str, rows: Sequence[Any], shift: bool = False) -> NDArray[Any]:
            columns = [getattr(table, name) for table in rows]
            return np.concatenate([c + first[r] if shift else c for r, c in enumerate(columns)])

        columns: dict[str, Any] = {name: joined(name, traces, shift=name == "worker")[order] for name in COMMIT_COLUMNS}
        columns["pull_version"] = columns["version"]
        unfinished = [trace.unfinished for trace in traces]
        rest = {name: joined(name, unfinished, shift=name == "worker") for name in UNFINISHED_COLUMNS}
        ended = np.argsort(rest["end_time"], kind="stable")
        faults = {name: np.concatenate([getattr(trace.faults, name) for trace in traces]) for name in FAULT_COLUMNS}
        faults["worker"] = np.concatenate(
            # A pause of a region's server is one of the worker that it is for the global server.
            [np.where(t.faults.worker < 0, workers + r, t.faults.worker + first[r]) for r, t in enumerate(traces)]
        )
        begun = np.argsort(faults["start_time"], kind="stable")
        servers = np.arange(count, dtype=np.int32)
        in_region = np.repeat(servers, np.diff(first))
        trace = Trace(
            workers=workers + count,
            **columns,
            unfinished=Unfinished(**{name: column[ended] for name, column in rest.items()}),
            faults=Faults(**{name: column[begun] for name, column in faults.items()}),
            local_steps=None if self.local_steps is None else np.array([*self.local_steps, *[1] * count], np.int32),
            names=(
                *(f"{r}/{w}" for r, region in enumerate(regions) for w in range(region.workers)),
                *(f"region {r}" for r in range(count)),
            ),
            variables=count + 1,
            variable=np.append(in_region, np.full(count, count))[columns["worker"]].astype(np.int32),
            worker_variable=np.append(in_region, np.full(count, count)).astype(np.int32),
            pushes_from=np.append(np.full(workers, -1), servers).astype(np.int32),
            from_version=np.concatenate([*(np.full(len(r), -1) for r in regions), levels.sent_versions()])[order],
        )
        return replace(trace, mixings=self._merges(levels, trace.commit_time, order))

    def _merges(self, levels: "Levels", times: NDArray[np.float64], order: NDArray[np.intp]) -> Mixings:
        """Return the mixings by which regions merge the global value, as it was when it was sent."""
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        of_pushes = rank[len(order) - len(levels.pushed) :]
        columns = []
        for region, merges in enumerate(levels.merges):
            pushes = np.flatnonzero(levels.pushed.worker == region)[: len(merges.time)]
            before = np.maximum(of_pushes[pushes] + 1, np.searchsorted(times, merges.time, "left"))
            columns.append((before, merges.time, np.full(len(pushes), region), levels.pushed.version[pushes] + 1))
        before, time, region, version = (np.concatenate(column) for column in zip(*columns, strict=True))
        by_time = np.lexsort((time, before))
        events, weight = np.arange(len(by_time), dtype=np.int32), self.merge_weight
        both = np.stack([region, np.full_like(region, len(levels.regions))], axis=1)[by_time]
        return Mixings(
            event=events.repeat(2),
            before=before[by_time].repeat(2),
            time=time[by_time].repeat(2),
            target=region[by_time].repeat(2),
            source=both.ravel(),
            weight=np.tile([1 - weight, weight], len(events)),
            own=np.zeros(2 * len(events), bool),
            source_version=np.stack([np.full_like(version, NOW), version], axis=1)[by_time].ravel(),
        )


class Merges(NamedTuple):
    """The merges of a region, in their order.

    Attributes:
        row: The region's commit before which each happens, at most one before each commit.
        time: When, in seconds.
    """

    row: NDArray[np.int64]
    time: NDArray[np.float64]

    def before(self, version: NDArray[Any], time: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the merges before some moments, at which the region has made as many commits as `version` says."""
        earlier = np.searchsorted(self.row, version, "left")
        following = np.append(self.row, -1)[earlier] == version
        return earlier + (following & (np.append(self.time, np.inf)[earlier] < time))


class PushClock:
    """The commits of a region, and those with which its pushes leave: the clock of its server's jobs.

    Attributes:
        sent: The commit after which each push leaves.
        merged: The commit before which each merge happens, and its time.
    """

    def __init__(self, times: list[float]) -> None:
        self.times = times
        self.sent: list[int] = []
        self.merged: list[tuple[int, float]] = []

    def duration(self, start: float, work: float) -> float:
        """Return the seconds of a job of the region's server, which is a push."""
        # The simulation asks once for each job, in their order, so that the answer may note the push.
        return self.start_push(start, int(work))

    def start_push(self, start: float, commits: int) -> float:
        """Note the merge before a push and the commit with which it leaves, and return the seconds until then."""
        row = int(np.searchsorted(self.times, start, "left"))
        if self.sent:
            # At one time, a merge comes after the commit with which the push left, and before all others.
            row = max(row, self.sent[-1] + 1)
            self.merged.append((row, start))
        row += commits - 1
        self.sent.append(row)
        if row >= len(self.times):
            return math.inf
        end = self.times[row]
        seconds = end - start
        while start + seconds > end:  # The sum may be rounded, and `_without_rounding` makes up for what is missing.
            seconds = math.nextafter(seconds, 0.0)
        return seconds


class _Steady:
    """A speed whose mean is 1, of a clock that does not ask for it."""

    mean = 1.0

    def segments(self, generator: np.random.Generator, /) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class _UntilCommits(VariableSpeed):
    """The law of the time until a region has made some commits."""

    clock: Any

    def timer(self, generator: np.random.Generator, /) -> Any:
        return self.clock


class Levels(NamedTuple):
    """The regions alone, the global server with their servers as workers, and who reported what."""

    regions: list[Trace]
    pushed: Trace
    clocks: list[PushClock]

    @property
    def time(self) -> NDArray[np.float64]:
        """(rows,) float64, times of the commits of all regions, in their order, and then of the pushes."""
        return np.concatenate([level.commit_time for level in (*self.regions, self.pushed)])

    @property
    def merges(self) -> list[Merges]:
        """The merges of each region."""
        columns = [zip(*clock.merged, strict=True) if clock.merged else ((), ()) for clock in self.clocks]
        return [Merges(np.array(row, np.int64), np.array(time, np.float64)) for row, time in columns]

    def order(self) -> NDArray[np.intp]:
        """Return the order of all rows: by time, and at one time a push after its commit and before the region's next.

        Other pushes come before commits at their time, so that only those are after a push that need not be before.
        """
        pushes = np.arange(len(self.pushed))
        ties = []
        for region, (trace, clock) in enumerate(zip(self.regions, self.clocks, strict=True)):
            of_region = np.flatnonzero(self.pushed.worker == region)
            left = np.searchsorted(clock.sent[: len(of_region)], np.arange(len(trace)), "left")
            push = np.append(of_region, len(pushes))[left]
            at = np.append(self.pushed.commit_time, np.nan)[push]
            ties.append(np.where(at == trace.commit_time, 2 * push, 2 * len(pushes)))
        ties.append(2 * pushes + 1)
        return np.lexsort((np.concatenate(ties), self.time))

    def sent_versions(self) -> NDArray[np.int64]:
        """Return the version of the region's variable that each push sent, which counts its commits and merges."""
        versions = np.zeros(len(self.pushed), np.int64)
        for region, (clock, merges) in enumerate(zip(self.clocks, self.merges, strict=True)):
            pushes = np.flatnonzero(self.pushed.worker == region)
            row = np.array(clock.sent[: len(pushes)], np.int64)
            versions[pushes] = row + 1 + np.searchsorted(merges.row, row, "right")
        return versions


def _without_rounding(pushed: Trace, clocks: list[PushClock]) -> Trace:
    """Return the pushes with the times at which their commits were applied, which the simulation has rounded down."""
    rest, finish, read = pushed.unfinished, pushed.finish_time.copy(), pushed.read_time.copy()
    for region, clock in enumerate(clocks):
        of_region = np.flatnonzero(pushed.worker == region)
        finish[of_region] = np.array(clock.times)[clock.sent[: len(of_region)]]
    arrive, serve = np.maximum(pushed.arrive_time, finish), np.maximum(pushed.serve_time, finish)
    commit = np.maximum.accumulate(np.maximum(pushed.commit_time, finish))
    previous = previous_own_row(pushed.worker)
    read[previous >= 0] = commit[previous[previous >= 0]]
    last = np.zeros(pushed.workers)
    last[pushed.worker] = commit
    rest_finish = rest.finish_time.copy()
    for row in np.flatnonzero(np.isfinite(rest_finish)).tolist():
        clock = clocks[rest.worker[row]]
        rest_finish[row] = clock.times[clock.sent[-1]]
    for region, clock in enumerate(clocks):
        answered = commit[pushed.worker == region][: len(clock.merged)]
        merged = zip(clock.merged, answered.tolist(), strict=True)
        clock.merged = [(row, max(time, since)) for (row, time), since in merged]
    return replace(
        pushed,
        read_time=read,
        start_time=np.maximum(pushed.start_time, read),
        finish_time=finish,
        arrive_time=arrive,
        serve_time=np.maximum(serve, arrive),
        commit_time=commit,
        unfinished=replace(
            rest,
            read_time=np.maximum(rest.read_time, last[rest.worker]),
            start_time=np.maximum(rest.start_time, last[rest.worker]),
            finish_time=rest_finish,
        ),
    )


def _in_region(trace: Trace, merges: Merges) -> Trace:
    """Return a region's trace with versions that count its commits and merges."""
    rest, rows = trace.unfinished, np.arange(len(trace))
    read = trace.read_version + merges.before(trace.read_version, trace.read_time)
    ended = np.isfinite(rest.end_time)
    end = rest.end_version + np.where(ended, merges.before(rest.end_version, rest.end_time), 0)
    rest_read = rest.read_version + merges.before(rest.read_version, rest.read_time)
    return replace(
        trace,
        read_version=read.astype(np.int32),
        version=(rows + np.searchsorted(merges.row, rows, "right")).astype(np.int32),
        unfinished=replace(rest, read_version=rest_read.astype(np.int32), end_version=end.astype(np.int32)),
    )


def _seed(seed: int, number: int) -> int:
    """Return the seed of a region, or of the global level: the first region's is the seed itself."""
    sequence = np.random.SeedSequence(seed, spawn_key=(number, Purpose.REGION))
    return int(sequence.generate_state(1, np.uint64)[0]) if number else seed


def _why_no_region(region: Cluster) -> str | None:
    """Return why a cluster cannot be a region, or None if it can."""
    terms: Terms = region.protocol.terms(region.workers)
    collects = terms.collect != 1 or (terms.balance, terms.bound, terms.every) != (None, None, None)
    forgets = any(isinstance(fault, Crash | Sessions) and not fault.keeps_state for fault in region.faults)
    reasons = {
        "has a protocol that collects gradients": collects,
        "has a server that pulls and commits in separate requests": not region.server.atomic,
        "exchanges updates in a ring, without a server": region.network.collective != "none",
        "has workers that lose their state": forgets,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
