"""The definition of a replay: a plain loop over the rows of a trace, without compilation or tricks.

The central variable changes only where a row closes a step, so it is a function of the server's version, and a row's
versions define the row completely:

- Its gradient was taken where the rule lets the worker continue (`resume`) from the central variable of `read_version`.
  A worker that begins (its first commit, or `state_lost`) takes it at that central variable itself.
- Where `resumes_own`, central variable and server state are instead those that the worker's last commit would have left
  if no other had come between its pull and its commit: its message applied to the value it had pulled.
- Where parameters are read by group, each group's leaves are those of the point for the group's own version. A worker
  begins with the state of `read_version`, the oldest of them.
- `view.pulled` is the central variable of `pull_version`, and `view.staleness` is `version - read_version`, also by
  group (`view.staleness_by_parameter`).
- Where the workload asks for `behaviour` parameters, these are the values that the worker read, which drew its data.
  The gradient is then taken at the newest parameters, `view.pulled`, from which local steps go on, too.
- A rule with a schedule has the step size of `version` at the commit, and later where it lets the worker continue from
  it, and that of `read_version` in local steps.
- Worker w makes its own window of H_w local steps, each with the next of its mini-batches. `view.window` is H_w.
- A rule that draws sends with a key of its own, a function of the seed, the worker and its number of earlier commits.
- The rows of one version are one step: their messages are collected, and the row that closes the step applies their
  mean, with its own view.

Nothing else in a trace matters. A job that never committed sent nothing and changed nothing, so a worker's j-th
mini-batch is that of its j-th commit, and times do not enter. A workload that counts "jobs" leaves out the mini-batches
of jobs that never committed, so a worker's j-th is that of the j-th job that it began to compute (`started_before`).

With several variables, all of this holds for the variable that the row names, which has its own versions and a server
state of its own. All variables begin equal, so that a mixing before the first commit changes nothing. Later ones change
the parameters of their targets, and leave server states and gradients on their way as they are. A source that a
message brings has the value of the version that was sent.

After a commit, the variables are those after its row and the mixings that follow it. A mixing that is a part of the
next row (`Mixings.own`), as the average of a pair that its worker makes before it applies its gradient, comes later,
and so does all that follows it.

The server of a region takes no gradient. Its rows push the change of `from_variable` from its last merge to
`from_version`, and the global rule receives minus this change where it would receive a gradient, with states of its
own. The loss of such a row is the mean of those of the region's commits since its last push.

The compiled engine must agree with this loop for every rule and every valid trace (rtol 1e-10 in float64). Set a
breakpoint here when a rule of your own does not work.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from asyncsim._trees import as_precise, widen
from asyncsim.engine._layout import groups_of
from asyncsim.engine._plan import bind, job_numbers
from asyncsim.engine._quantities import CommitView
from asyncsim.rules import Rule, View
from asyncsim.rules._hierarchy import global_rule_of
from asyncsim.rules._rule import windows_of
from asyncsim.rules._schedules import at_version
from asyncsim.trace import Trace
from asyncsim.trace._columns import NOW
from asyncsim.trace._variables import changes_of, last_merges
from asyncsim.workloads import Workload
from asyncsim.workloads._batches import compiled_commit_key, init_key, rule_key

__all__ = ["PlainRun", "average", "compute", "replay_plainly"]


class PlainRun(NamedTuple):
    """Result of the plain loop.

    Attributes:
        loss: (commits,) mini-batch losses.
        central: The last central variable, or the mean of several, or the global one of a hierarchy.
        commits: One `CommitView` per commit.
        variables: The last value of each variable.
        history: The values of all variables after each commit.
    """

    loss: np.ndarray
    central: Any
    commits: list[CommitView]
    variables: list[Any]
    history: list[list[Any]]


class History(NamedTuple):
    """The versions of a variable and of its server's state."""

    centrals: list[Any]
    servers: list[Any]


class Mixed(NamedTuple):
    """What a variable becomes in a mixing: sources, their versions and weights, and whether it is part of a commit."""

    parts: list[tuple[int, int, float]]
    own: bool


def replay_plainly(trace: Trace, rule: Rule, workload: Workload, seed: int = 0) -> PlainRun:
    """Replay a trace one commit at a time.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0])
        >>> run = replay_plainly(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0]))
        >>> run.loss.tolist(), run.central["x"].tolist()
        ([0.5, 0.5, 0.125], [-0.25])
    """
    workload.require_workers(trace.computing)
    rule, trace = bind(rule, trace)
    global_rule, merged = global_rule_of(rule), last_merges(trace, changes_of(trace)).tolist()
    first = workload.init(init_key(seed))
    groups = groups_of(workload, trace, first)  # for every leaf, or () if all are read at once
    tree = jax.tree.structure(first)
    rule_of = [rule if w < trace.computing else global_rule for w in range(trace.workers)]
    histories = [History([first], [rule.start_server(first)]) for _ in range(trace.variables)]
    for variable in set(trace.variable[trace.from_variable >= 0].tolist()):
        histories[variable].servers[:] = [global_rule.start_server(first)]
    values = [first] * trace.variables  # of all variables now
    mixings = mixings_of(trace)
    for mixing in mixings.get(0, ()):
        mix(values, mixing, histories)  # of equal variables
    states: dict[int, Any] = {}  # of each worker after its last commit
    views: dict[int, View] = {}  # of each worker's last commit
    sent: dict[int, Any] = {}  # the message of each worker's last commit
    rules: dict[int, Rule] = {}  # the rule with its step size at each worker's last commit
    messages, jobs = [], job_numbers(trace, workload.counts).tolist()
    windows = [*windows_of(rule, trace.computing).tolist(), *[1] * (trace.workers - trace.computing)]
    losses, commits, history_of_all = [], [], []
    waiting: list[dict[int, Mixed]] = []  # the mixings before a row that belong to it, or follow one that does
    since_push: dict[int, list[Any]] = {}  # the losses of each variable's commits since its last push
    for k, w in enumerate(trace.worker.tolist()):
        for mixing in waiting:
            values = mix(values, mixing, histories)
        variable = int(trace.variable[k])
        history = centrals, servers = histories[variable]
        central, server = values[variable], servers[-1]
        begins = w not in states or trace.state_lost[k]
        if begins:
            states[w] = rule_of[w].start(centrals[trace.read_version[k]])

        def read_at(version: int, k: int = k, w: int = w, begins: bool = begins, history: History = history) -> Any:
            theta, server_state = history.centrals[version], history.servers[version]
            if begins:
                return theta
            if trace.resumes_own[k]:
                theta, server_state = rules[w].apply(views[w].pulled, views[w].server, sent[w], views[w])
            return rules[w].resume(theta, server_state, states[w], views[w])

        ages: Any = ()
        if groups:
            parts = [jax.tree.leaves(read_at(version)) for version in trace.group_read_version[k].tolist()]
            read = jax.tree.unflatten(tree, [parts[group][leaf] for leaf, group in enumerate(groups)])
            ages = jax.tree.unflatten(tree, [trace.group_staleness[k, group] for group in groups])
        else:
            read = read_at(trace.read_version[k])
        # A mixing that belongs to this commit is no version of its own.
        pulled = central if trace.pull_version[k] == trace.version[k] else centrals[trace.pull_version[k]]
        point = pulled if workload.asks_behaviour else read
        versions = trace.read_version, trace.version
        stepping, rules[w] = (at_version(rule_of[w], int(version[k])) for version in versions)
        if (source := int(trace.from_variable[k])) >= 0:
            of_region = histories[source].centrals
            base, sent_value = of_region[merged[k]], of_region[trace.from_version[k]]
            result = jax.tree.map(lambda before, after: before - after, base, sent_value)
            losses_of_region = since_push.pop(source)
            loss: Any = sum(losses_of_region) / len(losses_of_region)
        else:
            loss, result, states[w] = compute(point, stepping, workload, states[w], seed, w, jobs[k], behaviour=read)
            since_push.setdefault(variable, []).append(loss)
        views[w] = View(read, pulled, trace.staleness[k], server, staleness_by_parameter=ages, window=windows[w])
        view = views[w]
        if rule.draws and source < 0:
            view = view._replace(key=rule_key(compiled_commit_key(jax.random.key(seed), w, jobs[k] * windows[w])))
        message, states[w], info = rules[w].send(result, states[w], view)
        sent[w] = message
        messages.append(message)
        if trace.closes_step[k]:
            central, server = rules[w].apply(central, server, average(messages), views[w])
            centrals.append(central)
            servers.append(server)
            messages, values[variable] = [], central
        now, waiting = until_next(mixings.get(k + 1, []))
        for mixing in now:
            values = mix(values, mixing, histories)
        history_of_all.append(list(values))
        losses.append(loss)
        commits.append(CommitView(central=central, view=views[w], info=info, loss=loss, gradient=result))
    central = average(values) if trace.pushes_from is None else values[-1]
    return PlainRun(np.asarray(losses), central, commits, values, history_of_all)


def mixings_of(trace: Trace) -> dict[int, list[dict[int, Mixed]]]:
    """Return row -> the mixings before it in their order, each as target -> what it becomes."""
    events: dict[int, dict[int, dict[int, Mixed]]] = {}
    table = trace.mixings
    names = ("event", "before", "target", "source", "source_version", "weight", "own")
    for event, before, target, source, version, weight, own in zip(
        *(getattr(table, name).tolist() for name in names), strict=True
    ):
        changes = events.setdefault(before, {}).setdefault(event, {})
        changes.setdefault(target, Mixed([], own)).parts.append((source, version, weight))
    return {before: [*by_event.values()] for before, by_event in events.items()}


def until_next(mixings: list[dict[int, Mixed]]) -> tuple[list[dict[int, Mixed]], list[dict[int, Mixed]]]:
    """Split the mixings between two rows into those that follow the first and those from the first of the second on."""
    is_own = [any(mixed.own for mixed in mixing.values()) for mixing in mixings]
    split = is_own.index(True) if True in is_own else len(is_own)
    return mixings[:split], mixings[split:]


def mix(values: list[Any], mixing: dict[int, Mixed], histories: list[History]) -> list[Any]:
    """Return the variables after a mixing, each target the weighted sum of its sources, and add to their versions."""
    after = list(values)
    for target, (parts, own) in mixing.items():
        weighted = []
        for source, version, w in parts:
            value = values[source] if version == NOW else histories[source].centrals[version]
            weighted.append(jax.tree.map(lambda leaf, w=w: w * leaf, widen(value)))
        after[target] = as_precise(jax.tree.map(lambda *leaves: sum(leaves), *weighted), values[target])
        if not own:
            histories[target].centrals.append(after[target])
            histories[target].servers.append(histories[target].servers[-1])
    return after


def compute(
    point: Any, rule: Rule, workload: Workload, state: Any, seed: int, worker: int, job: int, behaviour: Any
) -> Any:
    """Return mean loss, gradient at a point (or the displacement of local steps from it) and a worker's new state."""
    x, losses, gradient = point, [], point
    window = rule.window[worker] if isinstance(rule.window, tuple) else rule.window
    for step in range(job * window, (job + 1) * window):
        key = compiled_commit_key(jax.random.key(seed), worker, step)  # the only compiled part
        loss, gradient = workload.gradient_of(x, workload.batch(seed, worker, step), key, worker, behaviour)
        losses.append(loss)
        if rule.steps_locally:
            x, state = rule.local_step(x, gradient, state)
    result = jax.tree.map(lambda end, start: end - start, x, point) if rule.steps_locally else gradient
    return sum(losses) / window, result, state


def average(messages: list[Any]) -> Any:
    """Return the mean of a step's messages."""
    mean = jax.tree.map(lambda *parts: sum(parts) / len(parts), *map(widen, messages))
    return as_precise(mean, messages[0])
