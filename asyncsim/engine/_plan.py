"""The plan of a replay: a trace's columns as the compiled loop reads them, events between commits, and waves.

A wave is a run of commits whose gradients are taken together. Where every worker reads right after its own commit, the
server applies every commit as it comes, and pull and commit are one, the order of the commits is enough. Each deviation
of a trace from that is a *trait*. It adds columns to the plan and code to the compiled program, and a trace without the
trait runs without that code. (The run file and `Run.traits` have the same names.)
"""

import heapq
from typing import NamedTuple

import numpy as np

from asyncsim._checks import brief, warn
from asyncsim.files._hash import hash_parts
from asyncsim.rules import Rule
from asyncsim.rules._hierarchy import Hierarchical, for_regions
from asyncsim.rules._rule import windows_of
from asyncsim.rules._wrappers import layers
from asyncsim.trace import Trace
from asyncsim.trace._columns import count_earlier, previous_own_row
from asyncsim.trace._regroup import in_steps
from asyncsim.trace._variables import (
    changes_of,
    event_positions,
    find_values,
    last_merges,
    sent_values,
    variable_of_worker,
)
from asyncsim.workloads._workload import COMMITS


def bind(rule: Rule, trace: Trace) -> tuple[Rule, Trace]:
    """Return the rule with the trace's number of workers, and the trace in the steps that the rule's server makes."""
    rule = for_regions(rule.for_workers(trace.computing), trace.workers - trace.computing)
    if rule.rounds and rule.collect is not None and trace.steps != len(trace):
        sizes = np.diff(trace.closes_step.nonzero()[0], prepend=-1)
        other = sizes[sizes != rule.collect]
        if other.size:
            raise ValueError(
                f"`trace` must be in rounds of {rule.collect} commits, one of each worker, for the rule {rule.name!r}; "
                f"it has a step of {other[0]}. Simulate it with `protocols.Synchronous()`."
            )
    windows = windows_of(rule, trace.computing)
    if trace.local_steps is not None and (trace.local_steps[: len(windows)] != windows).any():
        worker = int((trace.local_steps[: len(windows)] != windows).argmax())
        raise ValueError(
            f"`trace` must have jobs with as many gradients as the window of {rule.name!r}, {windows[worker]}; those "
            f"of worker {worker} have {trace.local_steps[worker]}. Simulate it with "
            f"`local_steps={brief(rule.window)}`."
        )
    if trace.variables > 1 and rule.collect not in (None, 1):
        raise ValueError(
            f"`trace` must have one variable for {rule.name!r}, which collects {rule.collect} commits in a step; it "
            f"has {trace.variables}. Replay it with a rule that applies every commit, such as 'downpour'."
        )
    if trace.variables > 1 and rule.innermost.awaits_all:
        raise ValueError(
            f"`trace` must have one variable for {rule.name!r}, whose server makes no step before every worker has "
            f"sent it a gradient; it has {trace.variables}, and workers commit to one of them each. Replay it with "
            "another rule, such as 'downpour'."
        )
    if trace.pushes_from is None and any(isinstance(layer, Hierarchical) for layer in layers(rule)):
        raise ValueError(
            f"`trace` must have servers of regions for {rule.name!r}, which has a global rule; it has none. Simulate "
            "an asyncsim.Hierarchy, or give the rule inside."
        )
    # A mixing of push-sum adds what a commit has changed to the value before it.
    uses_change = trace.mixings.own.any() or trace.staleness.any() or (trace.mixings.source_version >= 0).any()
    if rule.innermost.replaces and trace.variables > 1 and uses_change:
        raise ValueError(
            f"`trace` must mix a variable between a commit and the next read of its worker for {rule.name!r}, whose "
            "commits replace it; this one mixes variables while jobs are under way, or what commits change. Simulate "
            "it with `exchange='adapt_then_combine'`."
        )
    return rule, trace if trace.variables > 1 else in_steps(trace, rule.collect)


def warn_of_lacking_rounds(rule: Rule, trace: Trace) -> None:
    if rule.rounds and trace.workers > 1 and trace.steps == len(trace) and trace.variables == 1:
        warn(
            f"The rule {rule.name!r} is made for rounds in which every worker commits once, and `trace` has none: each "
            "of its commits is a step. Simulate it with `protocols.Synchronous()`."
        )


BUFFER = "buffer"  # some commits only add to a step that a later one closes
RESUME = "resume"  # some workers read later than right after their own commit
BEGIN = "begin"  # some workers first read later than at the start, or begin anew
PULL = "pull"  # some workers pull earlier than just before committing
OWN = "own"  # some workers go on from the value they pulled plus their own message
VARIABLES = "variables"  # rows change one of several variables, which are mixed between rows
PUSHES = "pushes"  # some rows push the change of another variable
GROUPS = "groups"  # parameter groups are read at versions of their own, each read an event
EVENTS = (RESUME, BEGIN, PULL)  # handled in this order where several follow one row, and reads of groups before PULL


def group_that_reads(event: str) -> int | None:
    """Return the group of such an event, or None for any other."""
    return int(event[len(GROUPS) + 1 : -1]) if event.startswith(f"{GROUPS}[") else None


def is_event(trait: str) -> bool:
    return trait in EVENTS or group_that_reads(trait) is not None


class Events(NamedTuple):
    """Events of workers between two commits of others, int32 columns in the order of `row`."""

    row: np.ndarray  # the row of the trace after which it happens
    worker: np.ndarray  # the worker
    staleness: np.ndarray  # of the worker's last commit before that
    version: np.ndarray  # of that commit
    # bool, whether the worker begins with this job, and reads the central variable as it is. For reads of groups
    begins: np.ndarray | None = None
    group_staleness: np.ndarray | None = None  # (events, groups) as `staleness`. For reads of groups
    variable: np.ndarray | None = None  # the variable that is read. With `VARIABLES`


class Mixes(NamedTuple):
    """The mixings of a trace, one row per event, in the order of `row`. The first rows of a target are repeated."""

    row: np.ndarray  # (events,) int32, the row after which it happens
    # (events, targets) int32, the variables that change, or slots of values on their way, numbered after the variables
    target: np.ndarray
    # (events, targets, sources) int32, the variables of which each is made, or (events, sources) if all targets of an
    # event have the same ones
    source: np.ndarray
    weight: np.ndarray  # (events, targets, sources) float64, their weights


class Pushes(NamedTuple):
    """What each commit pushes, columns of shape (commits,) int32."""

    region: np.ndarray  # the variable whose change it is, or -1 for a gradient
    sent: np.ndarray  # the slot of its value when it was sent, numbered after the variables
    base: np.ndarray  # the same of its value after its last merge


class Plan(NamedTuple):
    """Columns of a trace, of shape (commits,), or None where the trace lacks the trait that they belong to."""

    workers: int  # n
    worker: np.ndarray  # int32, as in the trace
    job: np.ndarray  # int32, the worker's commits before this one, or the jobs that it had begun (`Workload.counts`)
    staleness: np.ndarray  # int32, as in the trace
    version: np.ndarray  # int32, as in the trace
    read_row: np.ndarray  # int32, the row after which the gradient can be taken, or -1 for the start
    closes: np.ndarray | None  # bool, whether the row closes a step. With `BUFFER`
    collected: np.ndarray | None  # int32, commits collected in the step up to and including this one. With `BUFFER`
    reads_at_commit: np.ndarray | None  # bool, whether the worker reads right after this commit. With `RESUME`
    late_pull: np.ndarray | None  # bool, whether the worker pulls just before this commit. With `PULL`
    resumes_own: np.ndarray | None  # bool, whether the worker goes on from its own value after this commit. With `OWN`
    # `RESUME`, `BEGIN`, `PULL` or reads of groups -> where it happens, only for those that the trace has
    events: dict[str, Events]
    group_staleness: np.ndarray | None = None  # (commits, groups) int32, as in the trace. With `GROUPS`
    variables: int = 1
    variable: np.ndarray | None = None  # int32, as in the trace. With `VARIABLES`
    mixes: Mixes | None = None  # With `VARIABLES`
    # (events,) bool, whether a mixing is a part of the next commit, or comes after one that is. With `VARIABLES`
    of_next: np.ndarray | None = None
    sent: int = 0  # slots for values on their way between variables
    servers: int = 0  # the last of the workers, which push and do not compute. With `PUSHES`
    pushes: Pushes | None = None  # With `PUSHES`

    @property
    def computing(self) -> int:
        """Number of workers that compute."""
        return self.workers - self.servers

    @property
    def traits(self) -> tuple[str, ...]:
        """The trace's deviations from commits that are applied at once by workers that read at once."""
        some = {
            VARIABLES: self.variable,
            PUSHES: self.pushes,
            BUFFER: self.closes,
            OWN: self.resumes_own,
            GROUPS: self.group_staleness,
        }
        return (*(name for name, column in some.items() if column is not None), *self.events)

    def digest(self, commits: int) -> str:
        """Hash everything that shapes a replay's first `commits` commits and the state after them."""
        columns = [self.worker]
        # Without traits, the order of commits says everything.
        if self.traits:
            columns += [self.staleness, self.closes, self.reads_at_commit, self.late_pull, self.resumes_own]
            columns += [self.group_staleness, self.variable]
        parts = [column[:commits] for column in columns if column is not None]
        if not np.array_equal(self.job[:commits], count_earlier(self.worker[:commits])):
            parts.append(self.job[:commits])
        for events in self.events.values():
            until = np.searchsorted(events.row, commits)
            parts += [events.row[:until], events.worker[:until]]
            parts += [] if events.begins is None else [events.begins[:until]]
        if self.mixes is not None:
            parts += [column[: np.searchsorted(self.mixes.row, commits)] for column in self.mixes]
            # Where no commit has a mixing of its own, the state after a commit is what it always was.
            parts += [self.of_next[: len(parts[-1])]] if self.of_next is not None and self.of_next.any() else []
            parts += [] if self.pushes is None else [column[:commits] for column in self.pushes]
        several = (self.variables,) if self.variables > 1 else ()
        several += (self.servers,) if self.servers else ()
        return hash_parts(repr((self.workers, self.traits, *several)), *parts)


def make_plan(trace: Trace, counts: str = COMMITS, newest: bool = False) -> Plan:
    """Return the plan of a trace, without the jobs that never committed, because these change nothing."""
    job, previous = job_numbers(trace, counts), previous_own_row(trace.worker)
    if _is_ordinary(trace, previous):
        read_row = np.arange(-1, len(trace) - 1, dtype=np.int32) if newest else previous
        return Plan(
            trace.workers, trace.worker, job, trace.staleness, trace.version, read_row, None, None, None, None, None, {}
        )
    trace.check()
    if trace.variables > 1:
        return _plan_of_variables(trace, job, previous, newest)
    row_of_version = np.append(-1, np.flatnonzero(trace.closes_step)).astype(np.int32)  # the row that made it
    read_row = np.maximum(previous, row_of_version[trace.read_version])
    pull_row = np.maximum(previous, row_of_version[trace.pull_version])
    begins = trace.state_lost | (previous < 0)
    waits = ~begins & (read_row > previous) & (not trace.groups)
    late_pull = trace.pull_version == trace.version
    # A row of -1 is the start, where every worker reads and pulls anyway.
    happens = {RESUME: waits, BEGIN: begins & (read_row >= 0), PULL: ~late_pull}
    rows = {RESUME: read_row, BEGIN: read_row, PULL: pull_row}
    events = {name: _events(trace, rows[name], which, previous) for name, which in happens.items() if which.any()}
    if trace.groups:
        pulls = {PULL: events.pop(PULL)} if PULL in events else {}
        group_rows = np.maximum(previous[:, None], row_of_version[trace.group_read_version])
        # A job that begins has read all groups at one version.
        changes = ~begins[:, None] | (trace.group_read_version > trace.read_version[:, None])
        for group in np.flatnonzero(changes.any(axis=0)).tolist():
            rows = group_rows[:, group]
            events[f"{GROUPS}[{group}]"] = _events(trace, rows, changes[:, group], previous, begins)
        events |= pulls
        read_row = group_rows.max(axis=1)
    if newest:
        read_row = np.maximum(read_row, pull_row)
    reads_at_commit = np.ones(len(trace), np.bool_)
    reads_at_commit[previous[waits]] = False
    resumes_own = np.zeros(len(trace), np.bool_)
    resumes_own[previous[trace.resumes_own]] = True
    collected = np.arange(len(trace), dtype=np.int32) - row_of_version[trace.version]
    return Plan(
        workers=trace.workers,
        worker=trace.worker,
        job=job,
        staleness=trace.staleness,
        version=trace.version,
        read_row=read_row,
        closes=None if trace.closes_step.all() else trace.closes_step,
        collected=None if trace.closes_step.all() else collected,
        reads_at_commit=reads_at_commit if waits.any() else None,
        late_pull=None if late_pull.all() else late_pull,
        resumes_own=resumes_own if resumes_own.any() else None,
        events=events,
        group_staleness=trace.group_staleness if trace.groups else None,
    )


def _plan_of_variables(trace: Trace, job: np.ndarray, previous: np.ndarray, newest: bool) -> Plan:
    """Return the plan of a trace with several variables, whose workers read after their commit or a mixing."""
    if newest:
        raise ValueError(
            "`trace` must have one variable for a workload whose gradients are taken at the newest parameters; it has "
            f"{trace.variables}. Replay it with another workload."
        )
    position = changes_of(trace).position_of(trace.variable, trace.read_version)
    # The change of row k has the position 2·k + 1, and a mixing before row k at 2·k: it follows row k - 1.
    read_row = np.where(position >= 0, (position - 1) // 2, -1).astype(np.int32)
    computes = trace.from_variable < 0
    waits = computes & (previous >= 0) & (position > 2 * previous + 1)
    begins = computes & (previous < 0) & (read_row >= 0)
    happens = {RESUME: waits, BEGIN: begins}
    events = {}
    for name, which in happens.items():
        if which.any():
            event = _events(trace, read_row, which, previous)
            events[name] = event._replace(variable=variable_of_worker(trace)[event.worker])
    reads_at_commit = np.ones(len(trace), np.bool_)
    reads_at_commit[previous[waits]] = False
    table, sent, pushes = _mix_rows(trace)
    mixes, of_next = _padded(table, trace.variables + sent)
    return Plan(
        workers=trace.workers,
        worker=trace.worker,
        job=job,
        staleness=trace.staleness,
        version=trace.version,
        # A push has no gradient that would have to wait.
        read_row=np.where(computes, np.maximum(previous, read_row), -1).astype(np.int32),
        closes=None,
        collected=None,
        reads_at_commit=reads_at_commit if waits.any() else None,
        late_pull=None,
        resumes_own=None,
        events=events,
        variables=trace.variables,
        variable=trace.variable,
        mixes=mixes,
        of_next=of_next,
        sent=sent,
        servers=trace.workers - trace.computing,
        pushes=pushes,
    )


class MixRows(NamedTuple):
    """Columns of mixings, and of copies of values that are on their way when their variable changes."""

    event: np.ndarray  # int64, increasing
    row: np.ndarray  # int64, the row after which it happens
    target: np.ndarray  # int32
    source: np.ndarray  # int32
    weight: np.ndarray  # float64
    own: np.ndarray  # bool, whether it is a part of the next commit


def _mix_rows(trace: Trace) -> tuple[MixRows, int, Pushes | None]:
    """Return mixings and copies in their order, the number of slots for copies after the variables, and the pushes."""
    table = trace.mixings
    rows = MixRows(table.event.astype(np.int64), table.before - 1, table.target, table.source, table.weight, table.own)
    if trace.pushes_from is None and not (table.source_version >= 0).any():
        return rows, 0, None
    sent, (of_commit, of_row) = sent_values(trace), event_positions(trace)
    late = sent.changed < sent.used  # The others still stand in their variable.
    row, push = sent.row[late], np.flatnonzero(trace.from_variable >= 0)
    # A push needs the value that was sent, and that of the last merge.
    region = np.tile(trace.from_variable[push], 2)
    version = np.append(trace.from_version[push], last_merges(trace, changes_of(trace))[push])
    origin = np.append(table.source[row], region)
    created = np.append(sent.created[late], find_values(trace, region, version)[0])
    key, value = np.unique(created * trace.variables + origin, return_inverse=True)
    created, variable = np.divmod(key, trace.variables)
    last_use = np.zeros(len(key), np.int64)
    np.maximum.at(last_use, value, np.append(sent.used[late], np.tile(of_commit[push], 2)))
    slot, count = _allocate(created.tolist(), last_use.tolist())
    copy_index = trace.variables + slot[value]
    source = table.source.copy()
    source[row] = copy_index[: len(row)]
    values = np.zeros((2, len(trace)), np.int32)
    values[:, push] = copy_index[len(row) :].reshape(2, -1)
    pushes = None if trace.pushes_from is None else Pushes(trace.from_variable, *values)
    # A copy is made right after its value. The first values are there from the beginning.
    copied = created >= 0
    columns = MixRows(
        event=np.append(2 * of_row, 2 * created[copied] + 1),
        row=np.append(rows.row, np.searchsorted(of_commit, created[copied], "right") - 1),
        target=np.append(rows.target, trace.variables + slot[copied]),
        source=np.append(source, variable[copied]),
        weight=np.append(rows.weight, np.ones(copied.sum())),
        own=np.append(rows.own, np.zeros(copied.sum(), np.bool_)),
    )
    order = np.lexsort((columns.target, columns.event))
    return MixRows(*(column[order] for column in columns)), count, pushes


def _allocate(created: list[int], last_use: list[int]) -> tuple[np.ndarray, int]:
    """Return a slot for each value, from when it is made to its last use, and the number of slots."""
    in_use: list[tuple[int, int]] = []  # a heap of (last use, slot), so that the slot that is free first comes first
    slots = np.empty(len(created), np.int32)
    count = 0
    for value, (begin, end) in enumerate(zip(created, last_use, strict=True)):
        if in_use and in_use[0][0] <= begin:
            slot = heapq.heapreplace(in_use, (end, in_use[0][1]))[1]
        else:
            slot, count = count, count + 1
            heapq.heappush(in_use, (end, slot))
        slots[value] = slot
    return slots, count


def _padded(table: MixRows, slots: int) -> tuple[Mixes, np.ndarray]:
    """Return the mixings after the first commit, padded to one size, and which of them belong to the next commit.

    Before the first commit all values are equal.
    """
    # The rows of one target in one event, then the targets of one event, lie together.
    first, sizes = _runs(table.event * slots + table.target)
    event, counts = _runs(table.event[first])
    sources = sizes.max(initial=1)
    column = np.where(np.arange(sources) < sizes[:, None], np.arange(sources), 0)
    rows = first[:, None] + column
    # A shorter sum repeats its first source with a weight of zero, and a smaller event its first target.
    weight = np.where(np.arange(sources) < sizes[:, None], table.weight[rows], 0.0)
    targets = np.arange(counts.max(initial=1))
    chosen = event[:, None] + np.where(targets < counts[:, None], targets, 0)
    row = table.row[first][event]
    is_later = row >= 0
    chosen = chosen[is_later]
    source = table.source[rows][chosen]
    source = source[:, 0] if (source == source[:, :1]).all() else source
    target = table.target[first][chosen]
    mixes = Mixes(row[is_later].astype(np.int32), target.astype(np.int32), source.astype(np.int32), weight[chosen])
    is_own = table.own[first][chosen].any(axis=1)
    # A mixing that follows one of the next commit waits with it, although it is no part of that commit.
    until, before = np.cumsum(is_own), np.searchsorted(mixes.row, mixes.row)
    return mixes, until > (until - is_own)[before]


def _runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the runs of equal values begin, and their lengths."""
    first = np.flatnonzero(np.diff(values, prepend=-1))
    return first, np.diff(np.append(first, len(values)))


def plan_for(trace: Trace, rule: Rule, counts: str = COMMITS) -> Plan:
    """Return the plan of a trace for a rule, whose server may collect commits where that of the trace does not."""
    return make_plan(bind(rule, trace)[1], counts)


def job_numbers(trace: Trace, counts: str) -> np.ndarray:
    """Return the number of each commit's job among those of its worker, int32, which chooses the mini-batch."""
    return count_earlier(trace.worker) if counts == COMMITS else trace.started_before


def _is_ordinary(trace: Trace, previous: np.ndarray) -> bool:
    """Return whether a trace has no trait, so that the order of its commits says everything."""
    rows = np.arange(len(trace), dtype=np.int32)
    return (
        np.array_equal(trace.version, rows)
        and np.array_equal(trace.pull_version, rows)
        and np.array_equal(trace.read_version, previous + 1)
        and bool(trace.closes_step.all())
        and not trace.state_lost.any()
        and not trace.resumes_own.any()
        and not trace.groups
        and trace.variables == 1
    )


def _events(
    trace: Trace, row: np.ndarray, which: np.ndarray, previous: np.ndarray, begins: np.ndarray | None = None
) -> Events:
    """Return the reads or pulls of the jobs `which`, in the order of the rows that they follow."""
    jobs = np.flatnonzero(which)
    # The loop handles the events after a row in this order, so those of one row keep the order of their jobs.
    jobs = jobs[np.argsort(row[jobs], kind="stable")]
    last = previous[jobs]
    events = Events(row[jobs], trace.worker[jobs], trace.staleness[last], trace.version[last])
    if begins is not None:
        events = events._replace(begins=begins[jobs], group_staleness=trace.group_staleness[last])
    return events


def waves(read_row: np.ndarray, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut commits into runs of at most `lanes` whose gradients can all be taken at the run's start."""
    starts, start = [], 0
    for k, read in enumerate(read_row.tolist()):
        if not starts or read >= start or k - start == lanes:
            starts.append(start := k)
    begins = np.array(starts, np.int32)
    return begins, np.diff(np.r_[begins, len(read_row)]).astype(np.int32)
