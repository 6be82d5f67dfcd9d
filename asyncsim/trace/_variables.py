"""The variables of a trace: the changes that each of them went through, and which of these a job saw.

A trace of one central variable has one row per commit, and nothing else changes the variable. Workers on a graph have a
variable each (`variables`): a row changes the variable that it names (`variable`), and between two rows variables are
mixed (`mixings`). Versions count the changes of one variable. A mixing that belongs to a commit, say that of a worker
which averages with a neighbour and then applies its own gradient, is a part of that commit's change (`Mixings.own`), so
that staleness counts what others did.

The servers of regions are workers of a global variable. Their commits push the change of another one
(`from_variable`) since its last merge, a mixing with the global variable. Commits to it between sending and merging are
in no push, and all others are in one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace._columns import NOW, Tables, TraceError, order_of, previous_own_row, refuse

TOLERANCE = 1e-9  # of a sum of weights


class Changes(NamedTuple):
    """The changes of all variables that count as versions: those of one variable together, in their order.

    Attributes:
        first: (variables + 1,) int64, where each variable's changes begin in the other columns, and their number.
        position: (changes,) int64, 2·k + 1 for that of row k, and 2·k for a mixing before row k.
        time: (changes,) float64, in seconds.
    """

    first: NDArray[np.int64]
    position: NDArray[np.int64]
    time: NDArray[np.float64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """(variables,) int64, the last version of each variable."""
        return np.diff(self.first)

    def before(self, variable: NDArray[np.int32], position: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the version of a variable just before a position."""
        most = 2 + max(int(self.position.max(initial=0)), int(position.max(initial=0)))
        keys = np.repeat(np.arange(len(self.first) - 1), self.counts) * most + self.position
        return np.searchsorted(keys, variable.astype(np.int64) * most + position) - self.first[variable]

    def position_of(self, variable: NDArray[np.int32], version: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the position of the change that made a version, or -1 for the first one."""
        return np.append(-1, self.position)[np.where(version > 0, self.first[variable] + version, 0)]

    def spans(self, variable: NDArray[np.int32], version: NDArray[np.int32]) -> tuple[NDArray[np.float64], ...]:
        """Return when a version of a variable was made, and when the next one was, 0 and infinite at the ends."""
        ends = np.zeros(len(self.first) - 1)
        # Each variable has one version more than changes.
        since = np.insert(self.time, self.first[:-1], ends)
        until = np.insert(self.time, self.first[1:], ends + np.inf)
        position = self.first[variable] + variable + version
        return since[position], until[position]


def changes_of(trace: Tables) -> Changes:
    """Return the changes of a trace's variables."""
    rows = np.flatnonzero(trace.closes_step)
    if trace.variables == 1:
        return Changes(np.array([0, len(rows)]), 2 * rows + 1, trace.commit_time[rows])
    mixed = mixed_rows(trace)
    mixed = mixed[~trace.mixings.own[mixed]]
    variable = np.append(trace.mixings.target[mixed], trace.variable[rows])
    position = np.append(2 * trace.mixings.before[mixed].astype(np.int64), 2 * rows + 1)
    time = np.append(trace.mixings.time[mixed], trace.commit_time[rows])
    # Both parts are in order, so that their merge is quick. Mixings before one row keep their order.
    order = np.argsort(position, kind="stable")
    order = order[order_of(variable[order])]
    first = np.append(0, np.cumsum(np.bincount(variable, minlength=trace.variables)))
    return Changes(first, position[order], time[order])


def last_merges(trace: Tables, changes: Changes) -> NDArray[np.int32]:
    """Return the version of `from_variable` after its last merge, (commits,), for each push, and 0 for others.

    A merge is a mixing that makes a version of the variable, and the last one is that up to `from_version`.
    """
    merged, pushes = np.zeros(len(trace), np.int32), np.flatnonzero(trace.from_variable >= 0)
    for number in np.unique(trace.from_variable[pushes]).tolist():
        versions = 1 + np.flatnonzero(changes.position[slice(*changes.first[number : number + 2])] % 2 == 0)
        rows = pushes[trace.from_variable[pushes] == number]
        last = np.searchsorted(versions, trace.from_version[rows], "right")
        merged[rows] = np.append(0, versions)[last]
    return merged


def reported(trace: Tables) -> NDArray[np.bool_]:
    """Return whether a push of the trace carries the change that a commit made, (commits,).

    Commits between the sending of a push and the region's merge are in none, nor are those after the last one that was
    sent.
    """
    carried, merged = np.zeros(len(trace), np.bool_), last_merges(trace, changes_of(trace))
    pushes = trace.from_variable >= 0
    for number in np.unique(trace.from_variable[pushes]).tolist():
        sent, commits = trace.from_variable == number, np.flatnonzero(trace.variable == number)
        # A push sees the versions after its merge up to the one that is sent, and a commit makes the next version.
        before = np.searchsorted(trace.from_version[sent], trace.version[commits], "right")
        after = np.searchsorted(merged[sent], trace.version[commits], "right")
        carried[commits] = after > before
    return carried


def require_one_variable(trace: Tables, remedy: str) -> None:
    """Refuse a trace of several variables where one is required."""
    if trace.variables > 1:
        raise ValueError(f"`trace` must have one variable here; got one with {trace.variables}. {remedy}")


def last_versions(trace: Tables) -> NDArray[np.int32]:
    """Return the last version of each worker's variable, (n,)."""
    if trace.variables == 1:
        return np.full(trace.workers, trace.steps, np.int32)
    first = mixed_rows(trace)
    changed = np.append(trace.variable, trace.mixings.target[first[~trace.mixings.own[first]]])
    return np.bincount(changed, minlength=trace.variables)[variable_of_worker(trace)].astype(np.int32)


def is_on_graph(trace: Tables) -> bool:
    """Return whether each worker has a variable of its own, which has its number, as in gossip."""
    number = np.arange(trace.workers)
    return 1 < trace.variables == trace.workers and bool((variable_of_worker(trace) == number).all())


def mixed_rows(trace: Tables) -> NDArray[np.int64]:
    """Return the first row of each target in each event of the mixings, in their order."""
    return np.flatnonzero(np.diff(_keys(trace), prepend=-1))


def _keys(trace: Tables) -> NDArray[np.int64]:
    """Return a number of each row's target and event, equal in the rows of one sum."""
    return trace.mixings.event.astype(np.int64) * trace.variables + trace.mixings.target


class Sent(NamedTuple):
    """The sources of the mixings whose value a message brings, with positions in one order of commits and mixings.

    Attributes:
        row: (sources,) int64, the row of the mixings.
        created: (sources,) int64, the position of the change that made the value, -1 for the first one, or behind the
            last position if the source never had the version.
        changed: (sources,) int64, the position at which the source changed next.
        used: (sources,) int64, the position of the mixing.
    """

    row: NDArray[np.int64]
    created: NDArray[np.int64]
    changed: NDArray[np.int64]
    used: NDArray[np.int64]


def event_positions(trace: Tables) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the position of each commit and of each row of the mixings in one order of all commits and events."""
    before, commits = trace.mixings.before, np.arange(len(trace))
    first = np.flatnonzero(np.diff(trace.mixings.event, prepend=-1))
    event = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(before))))
    # A commit follows the events before it, and an event the commits before it.
    return commits + np.searchsorted(before[first], commits, "right"), event + before


def sent_values(trace: Tables) -> Sent:
    """Return where the values of messages were made and used."""
    row = np.flatnonzero(trace.mixings.source_version >= 0)
    created, changed = find_values(trace, trace.mixings.source[row], trace.mixings.source_version[row])
    return Sent(row, created, changed, event_positions(trace)[1][row])


def find_values(
    trace: Tables, source: NDArray[Any], version: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where versions of variables were made, and where each variable changed next (see `Sent`)."""
    table, (of_commit, of_row) = trace.mixings, event_positions(trace)
    position_count = 1 + max(of_commit.max(initial=0), of_row.max(initial=0))
    mixed = mixed_rows(trace)
    # All changes of a value, also those that are a part of the next commit and no version.
    variable = np.append(table.target[mixed], trace.variable)
    keys = variable.astype(np.int64) * (position_count + 1) + np.append(of_row[mixed], of_commit)
    order = np.argsort(keys)
    variable, keys = variable[order], keys[order]
    counted = np.append(~table.own[mixed], np.ones(len(trace), np.bool_))[order]
    makers = keys[counted] % (position_count + 1)
    starts = np.searchsorted(variable[counted], np.arange(trace.variables + 1))
    source, version = source.astype(np.int64), version.astype(np.int64)
    exists = version <= np.diff(starts)[source]
    created = np.append(makers, -1)[np.where(exists & (version > 0), starts[source] + version - 1, len(makers))]
    created[~exists] = position_count
    after = np.searchsorted(keys, source * (position_count + 1) + created, "right")
    is_same = np.append(variable, -1)[after] == source
    return created, np.where(is_same, np.append(keys, 0)[after] % (position_count + 1), position_count)


def check_variables(trace: Tables) -> None:
    """Raise for the first row whose variable or mixing breaks a rule, also of one with a single variable."""
    mixings, variables = trace.mixings, trace.variables
    remedy = "Number the variables from 0, and say how many there are in `variables`."
    for name, column in (
        ("variable", trace.variable),
        ("mixings.target", mixings.target),
        ("mixings.source", mixings.source),
    ):
        refuse((column < 0) | (column >= variables), name, column, f"be from 0 to {variables - 1}", remedy)
    if variables == 1:
        if trace.pushes_from is not None or trace.worker_variable is not None:
            name = "worker_variable" if trace.pushes_from is None else "pushes_from"
            raise TraceError(name, "must be left out with one variable", remedy)
        if len(mixings):
            raise TraceError(
                "mixings", "must be empty with one variable", "Leave them out.", found=f"{len(mixings)} rows"
            )
        return
    _check_jobs(trace)
    _check_mixings(trace)
    changes = changes_of(trace)
    _check_pushes(trace, changes)


def _check_jobs(trace: Tables) -> None:
    """Check that workers keep to one variable, which every commit changes and nobody else reads in parts."""
    remedy = "Simulate it without, or with one variable."
    for name, wrong, rule in (
        ("closes_step", ~trace.closes_step, "be true where there are several variables"),
        ("resumes_own", trace.resumes_own, "be false where there are several variables"),
        ("state_lost", trace.state_lost, "be false where there are several variables"),
        ("pull_version", trace.pull_version != trace.version, "be `version` where there are several variables"),
    ):
        refuse(wrong, name, getattr(trace, name), rule, remedy)
    if trace.groups:
        raise TraceError("groups", "must be left out where there are several variables", remedy)
    variable = variable_of_worker(trace)
    refuse((variable < 0) | (variable >= trace.variables), "worker_variable", variable, "be a variable", remedy)
    rule = "be the same in all commits of a worker"
    refuse(variable[trace.worker] != trace.variable, "variable", trace.variable, rule, "Number the workers apart.")


def variable_of_worker(trace: Tables) -> NDArray[np.int32]:
    """Return the variable of each worker, (n,): that of its first commit, and 0 for one that never committed."""
    if trace.worker_variable is not None:
        return trace.worker_variable
    variable = np.zeros(trace.workers, np.int32)
    if trace.variables == 1:
        return variable
    variable[trace.worker[::-1]] = trace.variable[::-1]
    if trace.variables == trace.workers:  # A worker that never committed has the variable of its number.
        idle = np.bincount(trace.worker, minlength=trace.workers) == 0
        variable[idle] = np.flatnonzero(idle)
    return variable


def _check_mixings(trace: Tables) -> None:
    mixings, commits = trace.mixings, len(trace)
    backwards = np.diff(mixings.event, prepend=0) < 0
    refuse(backwards, "mixings.event", mixings.event, "not decrease from row to row", "Sort the rows by their event.")
    backwards = np.diff(_keys(trace), prepend=0) < 0
    rule, remedy = "not decrease in the rows of one event", "Sort these by their target."
    refuse(backwards, "mixings.target", mixings.target, rule, remedy)
    rule = f"be from 0 to {commits}, and not decrease from row to row"
    bad = (mixings.before < 0) | (mixings.before > commits) | (np.diff(mixings.before, prepend=0) < 0)
    refuse(bad, "mixings.before", mixings.before, rule, "Give the number of the next commit's row.")
    same_event = np.diff(mixings.event, prepend=-1) == 0
    for name in ("before", "time"):
        column = getattr(mixings, name)
        refuse(
            same_event & (np.diff(column, prepend=0) != 0), f"mixings.{name}", column, "be one in an event", "Split it."
        )
    times = np.concatenate([[0.0], trace.commit_time, [np.inf]])
    bad = ~((times[mixings.before] <= mixings.time) & (mixings.time <= times[mixings.before + 1]))
    rule = "be between the commits around it"
    refuse(bad | ~np.isfinite(mixings.time), "mixings.time", mixings.time, rule, "Give seconds from the start.")
    first = mixed_rows(trace)
    of_first = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(mixings))))
    total = np.bincount(of_first, mixings.weight, minlength=len(first))
    bad = ~(np.abs(total - 1) <= TOLERANCE)[of_first]
    refuse(bad, "mixings.weight", mixings.weight, "sum to 1 for each target of an event", "Include the target itself.")
    is_own = mixings.own[first]
    rule = "be one for each target of an event"
    refuse(
        is_own[of_first] != mixings.own, "mixings.own", mixings.own, rule, "A change belongs to one commit, or to none."
    )
    bad = mixings.source_version < NOW
    if (mixings.source_version >= 0).any():
        sent = sent_values(trace)
        bad[sent.row] = sent.created >= sent.used
    rule = f"be a version that the source has had before the mixing, or {NOW}"
    refuse(bad, "mixings.source_version", mixings.source_version, rule, "A message brings a value of its past.")


def _check_pushes(trace: Tables, changes: Changes) -> None:
    """Check that each push carries a change that its region has made since its last merge, and that no other has."""
    source = trace.pushes_from
    pushes = trace.from_variable >= 0
    rule, remedy = "be -1 for commits of a gradient", "Only a push sends another variable."
    refuse(~pushes & (trace.from_version != -1), "from_version", trace.from_version, rule, remedy)
    if source is None:
        return
    target = variable_of_worker(trace)
    bad = (source < -1) | (source >= trace.variables) | (source == target)
    rule, remedy = "be another variable than the worker's, or -1", "Number the variables from 0."
    refuse(bad, "pushes_from", source, rule, remedy)
    backwards = (np.diff(source >= 0, prepend=False) != 0) & (source < 0)
    rule, remedy = "be -1 for the first workers only", "Give workers that compute the first numbers."
    refuse(backwards, "pushes_from", source, rule, remedy)
    if not trace.computing:
        raise TraceError("pushes_from", "must be -1 for one worker or more", "Only workers compute.")
    servers = source >= 0
    twice = servers & (np.bincount(source[servers], minlength=trace.variables)[np.maximum(source, 0)] > 1)
    refuse(twice, "pushes_from", source, "be another variable for each worker", "A variable has one server.")
    remedy = "Give the global variable the last number."
    refuse(
        servers & (target != trace.variables - 1), "worker_variable", target, "be the last one where one pushes", remedy
    )
    # A version is sent before the push is applied.
    row = 2 * np.arange(len(trace), dtype=np.int64) + 1
    most = changes.before(np.maximum(trace.from_variable, 0), row)
    bad = pushes & ((trace.from_version < 0) | (trace.from_version > most))
    rule, remedy = "be a version that `from_variable` had before", "Give the version that the region sent."
    refuse(bad, "from_version", trace.from_version, rule, remedy)
    merged = last_merges(trace, changes)
    previous = previous_own_row(trace.worker)
    sent_before = np.where(previous >= 0, trace.from_version[previous], -1)
    bad = pushes & (merged <= sent_before)
    remedy = "A region merges between two pushes, so that no commit is reported twice."
    refuse(bad, "from_version", trace.from_version, "follow a merge after the previous push", remedy)
    least = np.where(previous >= 0, trace.version[previous] + 1, 0)
    remedy = "A region's server receives the global value with the answer to its push."
    refuse(
        pushes & (trace.read_version != least), "read_version", trace.read_version, "follow its previous push", remedy
    )
