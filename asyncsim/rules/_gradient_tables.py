"""Rules that weight the workers equally, however fast they are: the server sums a table of one entry per worker."""

from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim._checks import require_count
from asyncsim._trees import tree_where, tree_zeros_like, widen
from asyncsim.components._component import static
from asyncsim.rules._common import Elementwise, Workers, add
from asyncsim.rules._rule import Info, Params, Sent, State, View, descent
from asyncsim.rules._time_optimal import add_precisely, count

TOLERANCE = 1e-6  # relative rounding error allowed in a sum of 1/B_i in single precision
# Steps are numbered modulo 2^24, because a row may be kept in single precision, which has no larger exact integers.
STEP_MODULUS = 2**24


class Entry(NamedTuple):
    """A worker's entry in a table: the mean of its updates, in single precision at least."""

    mean: Params
    size: jax.Array  # number of updates in the mean


def no_entry(params: Params) -> Entry:
    return Entry(widen(tree_zeros_like(params)), jnp.int32(0))


def enter(entry: Entry, update: Params) -> tuple[Entry, Params]:
    """Return the entry with one more update, and by how much its mean grew."""
    growth = jax.tree.map(lambda u, m: (u - m) / (entry.size + 1), update, entry.mean)
    return Entry(jax.tree.map(jnp.add, entry.mean, growth), entry.size + 1), growth


class Table(NamedTuple):
    """A server's part of a table: the sum of its entries' means, and the number of workers with an entry."""

    total: Params
    members: jax.Array


def empty_table(params: Params) -> Table:
    return Table(widen(tree_zeros_like(params)), jnp.int32(0))


class MeanOfWorkers(Elementwise, named=False):
    """Rules that average over all workers of the trace."""

    awaits_all = True

    _: KW_ONLY
    workers: Workers | None = None

    @property
    def collect(self) -> int | None:
        return 1

    def add_mean_if(self, condition: jax.Array, central: Params, total: Params) -> Params:
        """θ + total/n if the condition is true, else θ."""
        mean = jax.tree.map(lambda t: t / self.workers, tree_where(condition, total))
        return add_precisely(central, mean)


class IA2SGD(MeanOfWorkers):
    """Incremental aggregated asynchronous SGD (IA²SGD): every commit steps by the mean of all workers' last gradients.

    g_i ← ∇L(s) of the committing worker i, θ ← θ - (η/n)·Σ_j g_j, once every worker has sent a gradient. Until then θ
    stays where it is. One worker is SGD. The wait for the first n gradients is re-derived (the mean is over n entries),
    not taken from the publication. A worker that lost its state leaves its old gradient in the sum, so use another rule
    on clusters whose workers crash.

    The rule keeps g_i on the worker, on behalf of the server, and their sum on the server.

    Args:
        learning_rate: Step size η, per commit.
        workers: Number of workers n. None takes it from the trace, and another number than the trace's is refused.

    Example:
        Worker 0 fills its entry, worker 1 completes the table (both read 1): x = 1 - 0.5·1. Then worker 0's entry is
        its gradient at 1 once more, x = 0.5 - 0.5·1, and worker 1's becomes 0.5: x = 0 - 0.5·0.75.

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0, 1])
        >>> asim.replay(trace, asim.rules.IA2SGD(0.5), asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [-0.375]

    References:
        Maranjyan and Richtárik 2025, "Ringleader ASGD: the first asynchronous SGD with optimal time complexity under
        data heterogeneity" (there as the method to improve on).
    """

    name = "ia2sgd"
    publication = "maranjyan2025ringleader"
    purpose = "data that differ and unequal speeds"

    def start(self, params: Params) -> Entry:
        return no_entry(params)

    def start_server(self, params: Params) -> Table:
        return empty_table(params)

    def send(self, gradient: Params, state: Entry, view: View) -> Sent:
        """Send by how much the worker's entry changes, and 1 if it was empty."""
        update = descent(self.learning_rate, gradient)
        entry = widen(update)
        change = jax.tree.map(jnp.subtract, entry, state.mean)
        message = Table(total=change, members=1 - state.size)
        return Sent(message, Entry(entry, jnp.ones_like(state.size)), Info(update=update))

    def apply(self, central: Params, server: Table, message: Table, view: View) -> tuple[Params, Table]:
        table, workers = add(server, message), self.workers
        assert workers is not None, "The rule has to be bound to a trace first."
        return self.add_mean_if(table.members >= workers, central, table.total), table


class MaleniaServer(NamedTuple):
    """The server's state of Malenia."""

    total: Params  # sum of the entries' means
    inverse: jax.Array  # Σ 1/B_i over the workers with B_i ≥ 1
    lost: jax.Array  # rounding error of `inverse`, which commits change one by one
    members: jax.Array  # number of workers with B_i ≥ 1
    age: jax.Array  # versions of the trace since the last step
    step: jax.Array  # number of steps made, modulo `STEP_MODULUS`


class MaleniaWorker(NamedTuple):
    """A worker's state of Malenia: its entry, and the number of the step it belongs to, modulo `STEP_MODULUS`."""

    entry: Entry
    step: jax.Array


def one_over(number: jax.Array, like: jax.Array) -> jax.Array:
    """1/B, and 0 for no update."""
    return jnp.where(number > 0, 1 / jnp.maximum(number, 1).astype(like.dtype), 0)


def add_and_keep_error(total: jax.Array, error: jax.Array, part: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the sum of two numbers, and the error plus that of its rounding: Møller's and Knuth's exact sum."""
    rounded = total + part
    difference = rounded - total
    return rounded, error + ((total - (rounded - difference)) + (part - difference))


class Malenia(MeanOfWorkers):
    """Malenia SGD: Rennala's step for workers with data of their own, a mean over workers of each one's mean.

    θ ← θ - (η/n)·Σ_i (1/B_i)·Σ_{b=1}^{B_i} ∇L_i(θ), as soon as ((1/n)·Σ_i 1/B_i)⁻¹ ≥ S/n, with B_i gradients of worker
    i at the current version. Older ones are ignored. Every worker contributes at least one. With one worker and S = 1
    it is SGD. Either the rule or the trace makes the steps:

    - ``"rule"``: the trace is asynchronous, with every commit a step of its own. The rule counts versions of its own,
      as `Rennala` does, and ignores gradients that were read before its last step.
    - ``"trace"``: the trace was made with `asyncsim.protocols.Malenia(batch)`, whose steps have gradients of every
      worker. Choose it to have old jobs stopped at once, as its authors run it with S = 1. `batch` is then the
      protocol's, and workers without a gradient in a step are left out of its mean.

    The rule keeps each worker's mean for the current step on the worker, on behalf of the server, and their sum on the
    server. It steps when the workers' harmonic mean number of gradients has reached S/n.

    Args:
        learning_rate: Step size η, per step.
        workers: Number of workers n. None takes it from the trace, and another number than the trace's is refused.
        batch: S ≥ 1, the gradients in a step if all workers are equally fast (only where the rule makes the steps).
        steps: Who makes the steps: "rule" or "trace".

    Example:
        Worker 0 sends two updates of -0.5 before worker 1 sends its first. Each worker's mean counts one half:
        x = 1 - (0.5 + 0.5)/2.

        >>> import asyncsim as asim
        >>> rule, trace = asim.rules.Malenia(0.5, batch=2), asim.Trace.from_commits([0, 0, 1])
        >>> asim.replay(trace, rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.5]

    References:
        Tyurin and Richtárik 2023, "Optimal time complexities of parallel stochastic optimization methods under a fixed
        computation model".
    """

    _: KW_ONLY
    batch: Annotated[int, require_count, "Collect one gradient or more."] = 20
    steps: Literal["rule", "trace"] = static(default="rule")

    publication = "tyurin2023rennala"
    purpose = "data that differ and unequal speeds, at optimal time"
    ignores = True

    @property
    def collect(self) -> int | None:
        """Every commit is a step where the rule counts, else the trace defines the steps."""
        return 1 if self.steps == "rule" else None

    def start(self, params: Params) -> MaleniaWorker:
        return MaleniaWorker(no_entry(params), jnp.int32(0))

    def start_server(self, params: Params) -> State:
        """Nothing collected, and where the trace makes the steps, their number modulo `STEP_MODULUS`."""
        if self.steps == "trace":
            return jnp.int32(0)
        total = widen(tree_zeros_like(params))
        zero = jnp.zeros((), jax.tree.leaves(total)[0].dtype)
        return MaleniaServer(total, zero, zero, jnp.int32(0), jnp.int32(0), jnp.int32(0))

    def send(self, gradient: Params, state: MaleniaWorker, view: View) -> Sent:
        """Send by how much the worker's entry changes if its gradient is fresh, else zeros."""
        counts = self.steps == "rule"
        update = descent(self.learning_rate, gradient)
        fresh = view.staleness <= view.server.age if counts else view.staleness == 0
        step = view.server.step if counts else view.server
        old = tree_where(state.step == step, state.entry, no_entry(gradient))
        new, growth = enter(old, update)
        if counts:
            inverse = one_over(new.size, view.server.inverse) - one_over(old.size, view.server.inverse)
            message = {"growth": growth, "inverse": inverse, "joined": count(old.size == 0)}
        else:
            share = jnp.zeros((), jax.tree.leaves(growth)[0].dtype)
            message = {"growth": growth, "joined": share + (old.size == 0)}
        new_state = tree_where(fresh, MaleniaWorker(new, step), state)
        return Sent(tree_where(fresh, message), new_state, Info(update=update))

    def apply(self, central: Params, server: State, message: dict[str, Any], view: View) -> tuple[Params, State]:
        """θ ← θ + the mean of the entries, once their harmonic mean size is at least S/n."""
        if self.steps == "trace":
            # The engine hands over the mean of a step's K messages. Growth over joined is the mean over the workers
            # with a gradient, because K cancels.
            some = message["joined"] > 0
            inverse = jnp.where(some, 1 / jnp.where(some, message["joined"], 1), 0)
            mean = jax.tree.map(lambda growth: growth * inverse.astype(growth.dtype), message["growth"])
            return add_precisely(central, mean), (server + 1) % STEP_MODULUS
        n: Any = self.workers
        total = jax.tree.map(jnp.add, server.total, message["growth"])
        inverse, error = add_and_keep_error(server.inverse, server.lost, message["inverse"])
        members = server.members + message["joined"]
        full = (members >= n) & (n * n >= self.batch * (inverse + error) * (1 - TOLERANCE))
        theta = self.add_mean_if(full, central, total)
        # A step empties the collection.
        total, inverse, error, members = tree_where(~full, (total, inverse, error, members))
        age, step = jnp.where(full, 0, server.age + 1), (server.step + full) % STEP_MODULUS
        return theta, MaleniaServer(total, inverse, error, members, age, step)


class RingleaderServer(NamedTuple):
    """The server's state of Ringleader."""

    table: Table  # this phase's sum of means, and its workers (while answering, those that still wait for a step)
    later: Table  # the next phase's table
    answering: jax.Array  # whether every worker has sent a gradient in this phase, so that commits make steps
    phase: jax.Array  # number of phases that are over, modulo `STEP_MODULUS`


class RingleaderWorker(NamedTuple):
    """A worker's state of Ringleader."""

    entry: Entry  # its entry in this phase's table
    later: Entry  # its entry in the next phase's table
    answered: jax.Array  # whether it was answered with a step in this phase
    phase: jax.Array  # number of the phase that the other fields describe, modulo `STEP_MODULUS`


def enter_phase(state: RingleaderWorker, phase: jax.Array) -> RingleaderWorker:
    """Return the worker's state in this phase: its later entry becomes the current one if the state is of another."""
    new = RingleaderWorker(state.later, tree_zeros_like(state.later), jnp.zeros_like(state.answered), phase)
    return tree_where(state.phase == phase, state, new)


class Ringleader(MeanOfWorkers):
    """Ringleader ASGD: every step is the mean over workers of each one's mean gradient, none older than 2n - 2 steps.

    θ ← θ - (η/n)·Σ_i (1/b_i)·Σ_{b=1}^{b_i} g_i^b. In phases: gradients are collected until every worker has sent one.
    Then every worker is answered with one step, at its next commit (the last to be heard at once), and that commit's
    gradient enters the table first. A gradient that an answered worker sends in the meantime is extra: it opens the
    table of the next phase, or with ``ignored`` it is lost, and every phase begins with an empty table. θ stays where
    it is while the server collects. One worker is SGD. A worker that lost its state leaves its entry in the sums, so
    use another rule on clusters whose workers crash. The rule counts versions of its own, n steps in a phase: give it
    an asynchronous trace.

    The rule keeps each worker's entries in both tables on the worker, on behalf of the server, and their sums on the
    server.

    Args:
        learning_rate: Step size η, per step.
        workers: Number of workers n. None takes it from the trace, and another number than the trace's is refused.
        extra: Where gradients go that an answered worker sends before the phase is over: to the "next" phase, or
            "ignored".

    Example:
        Worker 0 is heard, worker 1 is heard and answered: x = 1 - 0.5. Worker 0 sends its second gradient at 1 and is
        answered, x = 0.5 - 0.5·(1 + 1)/2, and the phase is over.

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0])
        >>> run = asim.replay(trace, asim.rules.Ringleader(0.5), asim.workloads.Quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.0]

    References:
        Maranjyan and Richtárik 2025, "Ringleader ASGD: the first asynchronous SGD with optimal time complexity under
        data heterogeneity".
    """

    _: KW_ONLY
    extra: Literal["next", "ignored"] = static(default="next")

    publication = "maranjyan2025ringleader"
    purpose = "data that differ, any speeds, at optimal time"

    def start(self, params: Params) -> RingleaderWorker:
        return RingleaderWorker(no_entry(params), no_entry(params), jnp.bool_(False), jnp.int32(0))

    def start_server(self, params: Params) -> RingleaderServer:
        return RingleaderServer(empty_table(params), empty_table(params), jnp.bool_(False), jnp.int32(0))

    def send(self, gradient: Params, state: RingleaderWorker, view: View) -> Sent:
        """Send the gradient's change of one of the two tables, and whether it is answered with a step."""
        update = descent(self.learning_rate, gradient)
        server, worker = view.server, enter_phase(state, view.server.phase)
        # The worker has had its step, so its gradient is for the next phase.
        extra = server.answering & worker.answered
        old = tree_where(extra, worker.later, worker.entry)
        new, growth = enter(old, update)
        joins = old.size == 0
        # The worker that completes the table is answered with a step at once.
        answered = ~extra & (server.answering | (server.table.members + joins >= self.workers))
        message = {
            "table": Table(tree_where(~extra, growth), count(joins & ~extra)),
            "later": Table(tree_where(extra, growth), count(joins & extra)),
            "answered": count(answered),
        }
        new_state = RingleaderWorker(
            entry=tree_where(extra, worker.entry, new),
            later=tree_where(extra, new, worker.later),
            answered=extra | answered,
            phase=server.phase,
        )
        if self.extra == "ignored":  # The next phase's table stays empty until the phase begins.
            message["later"] = tree_zeros_like(message["later"])
            new_state = new_state._replace(later=tree_zeros_like(state.later))
        return Sent(message, new_state, Info(update=update))

    def apply(
        self, central: Params, server: RingleaderServer, message: dict[str, Any], view: View
    ) -> tuple[Params, RingleaderServer]:
        """θ ← θ + the table's mean if the worker is answered with a step. The phase ends once all workers are."""
        answered = message["answered"] > 0
        table, later = add(server.table, message["table"]), add(server.later, message["later"])
        theta = self.add_mean_if(answered, central, table.total)
        # While workers are answered, `members` counts down: the phase is over after the step of the last one.
        table = Table(table.total, table.members - message["answered"])
        over = answered & (table.members <= 0)
        new_server = RingleaderServer(
            table=tree_where(over, later, table),
            later=tree_where(~over, later),
            answering=(server.answering | answered) & ~over,
            phase=(server.phase + over) % STEP_MODULUS,
        )
        return theta, new_server
