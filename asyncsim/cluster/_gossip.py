"""Workers on a graph, each with a variable of its own, which neighbours average: no server.

Where messages take no time, the times are those of workers around a server without a network, asynchronous or in
rounds, which the same simulation gives. On top of them lies who mixes with whom. Where they take time, `_messages`
simulates them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import brief, require_count, require_one_of
from asyncsim.cluster import graphs, protocols
from asyncsim.cluster._events import Report, run_until
from asyncsim.cluster._messages import InRounds, InTurn, RoundEnds
from asyncsim.cluster._model import CHOICE_OF_LAW, Cluster, Network, brief_part
from asyncsim.cluster._random_streams import Purpose, stream
from asyncsim.cluster._simulation import require_memory, require_message_size, simulate
from asyncsim.components._checked import Checked
from asyncsim.delays import Delay
from asyncsim.trace import Trace
from asyncsim.trace._columns import NOW, Mixings, count_earlier, order_of, previous_own_row

ROUNDS = ("rounds", "adapt_then_combine", "push_sum")
IN_TURN = ("pair", "push", "push_pull")
EXCHANGES = (*IN_TURN, *ROUNDS)
ROUNDING = 1e-12  # of the weights of push-sum
BLOCK = 256  # partners that are drawn at once


@dataclass(frozen=True, repr=False)
class Gossip(Checked):
    """Workers that average variables of their own with their neighbours on a graph.

    A row of the trace is a commit of a worker to its own variable, by the update rule of a replay: what the rule's
    server does with a message, each worker does for itself.

    Args:
        workers: Number of workers n, at least 2.
        compute: Law of the time that one gradient takes: one law for all workers, or a sequence of one per worker.
        graph: Who exchanges with whom: one of `asyncsim.graphs`, its name, pairs of workers, a matrix of 0 and 1,
            the weights of a mixing matrix (`graphs.Weights`), or a networkx graph, which may have these as weights.
        exchange: When they do. "pair": a worker that has its gradient averages with one neighbour at random, then
            applies the gradient to its half, x_i ← (x_i + x_j)/2 - η·g, x_j ← (x_i + x_j)/2 (AD-PSGD). "push": it
            applies its gradient, and sends its model to the neighbour, x_j ← (x_i + x_j)/2. "push_pull": the same, and
            the neighbour sends its own back, x_i ← (x_i + x_j)/2. "rounds": all workers compute, then
            x ← W·x - η·g with the weights of the graph (D-PSGD). "adapt_then_combine": the same with x ← W·(x - η·g).
            "push_sum": the same with sums s ← P·(s - η·g) and weights w ← P·w, from w = 1, where the columns of P sum
            to 1 and its rows need not. The variables are x = s/w, at which gradients are taken, so that a rule changes
            them by 1/w of what it does elsewhere (stochastic gradient push).
        network: Latency and bandwidth of each worker's link, by default messages take no time. A model takes the
            latency of its sender, and its bytes over the slower of two links, out of the sender and into the receiver.
            Each link carries one model at a time in each direction. In pairs, a worker waits for its partner's model
            before it commits, while the partner computes on, and is averaged when the message arrives. With push and
            push-pull nobody waits, but a worker has one exchange at a time, and commits when the last one is over. In
            rounds, all wait for the slowest message, and the messages of a worker share its link. Those of "rounds"
            leave when the round begins, so that workers compute meanwhile.
        local_steps: Number of gradients of a job, as in `Cluster`.

    Raises:
        ValueError: If an argument does not fit, or the graph is not connected.

    Example:
        >>> from asyncsim.cluster import simulate
        >>> from asyncsim.delays import Exponential
        >>> cluster = Gossip(workers=8, compute=Exponential(1.0), graph="ring", exchange="pair")
        >>> cluster
        Gossip(8 workers, Exponential(mean=1.0), Ring(), pair)
        >>> trace = simulate(cluster, commits=20_000)
        >>> trace.variables, len(trace.mixings)
        (8, 80000)

        Between a worker's read and its commit, others change its variable once on average, on every graph:

        >>> bool(abs(trace.staleness.mean() - 1) < 0.05)
        True

    References:
        Lian et al. 2018, "Asynchronous decentralized parallel stochastic gradient descent", ICML (AD-PSGD).
        Lian et al. 2017, "Can decentralized algorithms outperform centralized algorithms?", NeurIPS (D-PSGD).
        Assran et al. 2019, "Stochastic gradient push for distributed deep learning", ICML (push-sum).
    """

    workers: Annotated[int, require_count, "Use two workers or more."]
    compute: Delay | Sequence[Delay] = field(metadata={"choice": CHOICE_OF_LAW})
    graph: graphs.Graph | str | Any = field(default_factory=graphs.Ring)
    exchange: str = "pair"
    network: Network = field(default_factory=Network)
    local_steps: int | Sequence[int] | None = None

    def check(self) -> None:
        """Refuse a graph that does not fit the workers, and arguments that do not fit a cluster."""
        if self.workers < 2:
            raise ValueError(f"`workers` must be at least 2; got {self.workers}. A worker needs a neighbour.")
        require_one_of("exchange", self.exchange, choices=EXCHANGES)
        object.__setattr__(self, "graph", graphs.require_graph("graph", self.graph))
        graphs.require_connected(self._graph, self.workers)
        if isinstance(self.graph, graphs.OnePeer | graphs.RandomGroups) and self.exchange in IN_TURN:
            other = graphs.Exponential if isinstance(self.graph, graphs.OnePeer) else graphs.Complete
            raise ValueError(
                f"`exchange` must be in rounds for {self.graph!r}, whose edges change from round to round; got "
                f"{self.exchange!r}. Use 'rounds', or {other()!r}."
            )
        if self.exchange not in ("push", "push_sum") and isinstance(self._graph, graphs.Directed):
            raise ValueError(
                f"`exchange` must be 'push_sum' or 'push' for a graph with directed edges; got {self.exchange!r}, in "
                "which both ends of an edge send. Add the edges back, or use one of these."
            )
        self._check_weights()
        self._check_network()
        cluster = self._with_network()
        object.__setattr__(self, "compute", cluster.compute)
        object.__setattr__(self, "local_steps", cluster.local_steps)

    def _check_weights(self) -> None:
        """Refuse weights of the user's own that do not fit the exchange."""
        if not isinstance(self._graph, graphs.Weights):
            return
        if self.exchange in IN_TURN:
            raise ValueError(
                f"`exchange` must be in rounds for a graph with weights of your own; got {self.exchange!r}, in which "
                "each of two workers keeps one half. Use 'rounds', or give who exchanges with whom as 0 and 1."
            )
        (self._graph.shares if self.exchange == "push_sum" else self._graph.weights)(self.workers)

    def _check_network(self) -> None:
        """Refuse what a network between workers without a server cannot have."""
        network = self.network
        for name, default, reason in (
            ("shared", False, "there is no server whose link they could share"),
            ("collective", "none", "`exchange` says who sends what"),
            ("compression", 1.0, "workers send their models and not their updates"),
        ):
            if getattr(network, name) != default:
                raise ValueError(
                    f"`{name}` must be left out of the network of workers on a graph, because {reason}; got "
                    f"{brief(getattr(network, name))}. Use {default!r}."
                )

    def adapted(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Complete changes of fields: for another number of workers, a fleet keeps the shares of its classes."""
        return Cluster.adapted(self._with_network(), changes)

    @property
    def _graph(self) -> graphs.Graph:
        return cast(graphs.Graph, self.graph)  # `check` has made one of a name or a matrix

    def __repr__(self) -> str:
        """Return one line: the workers, their law, the graph, the exchange and the network."""
        law = brief(self.compute) if not isinstance(self.compute, tuple) else f"{len(set(self.compute))} laws"
        network = "" if self.network == Network() else f", {brief_part(self.network)}"
        return f"Gossip({self.workers} workers, {law}, {self.graph!r}, {self.exchange}{network})"

    def around_a_server(self) -> Cluster:
        """Return the workers around a server whose commits and waiting are at the same times."""
        protocol = protocols.Synchronous() if self.exchange in ROUNDS else protocols.Asynchronous()
        return Cluster(self.workers, self.compute, protocol=protocol, local_steps=self.local_steps)  # type: ignore[arg-type]

    def _with_network(self) -> Cluster:
        """Return the workers around a server with this network, to check its arguments."""
        return replace(self.around_a_server(), network=self.network)

    def simulate(
        self, *, commits: int | None = None, seconds: float | None = None, seed: int = 0, progress: Report | None = None
    ) -> Trace:
        """Make the trace for `asyncsim.simulate`, which checks the arguments."""
        if self.network.is_instant and not self._waits_in_groups:
            report = None if progress is None else lambda simulated: progress(*simulated)
            trace = simulate(self.around_a_server(), commits=commits, seconds=seconds, seed=seed, progress=report)
            return self._in_rounds(trace, seed) if self.exchange in ROUNDS else self._in_turn(trace, seed)
        require_message_size(self.network)
        require_memory(self._with_network(), commits, seconds)
        return self._with_messages(commits, seconds, seed, progress)

    @property
    def _waits_in_groups(self) -> bool:
        return isinstance(self.graph, graphs.RandomGroups) and self.exchange == "adapt_then_combine"

    def _with_messages(self, commits: int | None, seconds: float | None, seed: int, report: Report | None) -> Trace:
        """Return the trace of exchanges that take time."""
        cluster = self.around_a_server()
        local_steps = None
        if self.local_steps is not None:
            local_steps = np.broadcast_to(np.asarray(self.local_steps, np.int32), self.workers)
        if self.exchange in ROUNDS:
            mixing, kind = self._mixing(seed), {"adapt_first": self.exchange != "rounds"}
            rounds = InRounds(cluster, self.network, mixing, seed, in_groups=self._waits_in_groups, **kind)
            run_until(rounds, commits, seconds, report, self.workers)
            trace, ends = rounds.trace()
            return self._in_rounds(replace(trace, local_steps=local_steps), seed, ends)
        partners = self._partners(seed)
        waits, answers = self.exchange == "pair", self.exchange != "push"
        running = InTurn(cluster, self.network, partners, seed, waits=waits, answers=answers)
        run_until(running, commits, seconds, report, self.workers)
        columns: Any
        columns, unfinished, mixings = running.columns()
        return Trace(
            workers=self.workers,
            **columns,
            start_time=columns["read_time"],
            arrive_time=columns["commit_time"],
            pull_version=columns["version"],
            closes_step=np.ones(len(running), bool),
            unfinished=unfinished,
            local_steps=local_steps,
            variables=self.workers,
            variable=columns["worker"],
            mixings=mixings,
        )

    def _partners(self, seed: int) -> list[Iterator[int]]:
        """Return for each worker the neighbours that it chooses, one after another, each equally often."""
        pairs = self._graph.adjacency(self.workers)
        streams = [stream(seed, worker, Purpose.PARTNER) for worker in range(self.workers)]
        return [draw_partners(np.flatnonzero(row), own) for row, own in zip(pairs, streams, strict=True)]

    def _in_turn(self, trace: Trace, seed: int) -> Trace:
        """Return the trace in which every commit comes with an exchange of its worker and a random neighbour."""
        worker, commits = trace.worker, len(trace)
        partner = np.empty_like(worker)
        ends = np.cumsum(np.bincount(worker, minlength=self.workers))
        for rows, drawn in zip(np.split(order_of(worker), ends[:-1]), self._partners(seed), strict=True):
            partner[rows] = np.fromiter(drawn, np.int32, len(rows))
        # A commit changes these variables one after another. In pairs, the worker's part of the average is no change
        # of its own, but a part of its commit.
        order = {"pair": [partner, worker], "push": [worker, partner], "push_pull": [worker, worker, partner]}
        changed = np.stack(order[self.exchange], axis=1).ravel()
        version = count_earlier(changed).reshape(commits, -1)[:, 1 if self.exchange == "pair" else 0]
        both = np.sort(np.stack([worker, partner], axis=1), axis=1)
        target = partner[:, None] if self.exchange == "push" else both
        targets, rows = target.shape[1], np.arange(commits, dtype=np.int32)
        first = rows if self.exchange == "pair" else rows + 1
        mixings = Mixings(
            event=rows.repeat(2 * targets),
            before=first.repeat(2 * targets),
            time=trace.commit_time.repeat(2 * targets),
            target=target.repeat(2, axis=1).ravel(),
            source=np.tile(both, targets).ravel(),
            weight=np.full(2 * targets * commits, 0.5),
            own=(target == worker[:, None]).repeat(2, axis=1).ravel() & (self.exchange == "pair"),
        )
        return _with_variables(trace, version, mixings, own_changes=1 + (self.exchange == "push_pull"))

    def _mixing(self, seed: int) -> Callable[[int], tuple[NDArray[Any], ...]]:
        """Return the function of a round that returns targets, sources and weights of its mixing."""
        graph = self._graph.drawn(seed)
        period, shares = graph.period(self.workers), self.exchange == "push_sum"

        @lru_cache(maxsize=period or 1)
        def mixing(number: int) -> tuple[NDArray[Any], ...]:
            return graphs.entries(graph, self.workers, number, shares=shares)

        return mixing if period is None else lambda number: mixing(number % period)

    def _parts(self, rounds: int, seed: int) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield targets, sources, weights and source versions of each round."""
        mixing = self._mixing(seed)
        sizes: NDArray[Any] = np.ones(self.workers)  # w of push-sum
        for number in range(rounds):
            target, source, weight = mixing(number)
            if self.exchange == "push_sum":
                yield divided(target, source, weight, sizes, 2 * number)
                sizes = np.bincount(target, weight * sizes[source], self.workers)
            else:
                yield target, source, weight, np.full(len(target), NOW)

    def _in_rounds(self, trace: Trace, seed: int, ends: RoundEnds | None = None) -> Trace:
        """Return the trace in which variables are mixed in each round, when it begins or at these ends."""
        after = self.exchange != "rounds"
        if after and ends is not None:
            number, group, rows, time = ends
            parts = [*self._parts(int(number.max(initial=-1)) + 1, seed)]
            if self._waits_in_groups:
                of_rounds = [_by_group(part) for part in parts]
                parts = [of_rounds[each][of] for each, of in zip(number.tolist(), group.tolist(), strict=True)]
            else:
                parts = [parts[each] for each in number.tolist()]
        else:
            rows = np.flatnonzero(np.diff(trace.version, prepend=-1))  # the first of each round
            time = trace.commit_time[rows]
            if after:  # A round that is not over mixes nothing.
                last = np.flatnonzero(trace.closes_step)
                rows, time = last + 1, trace.commit_time[last]
            parts = [*self._parts(len(rows), seed)]
        sizes = [len(target) for target, *_ in parts]
        target, source, weight, sent = (_joined([part[column] for part in parts]) for column in range(4))
        mixings = Mixings(
            event=np.arange(len(rows), dtype=np.int32).repeat(sizes),
            before=rows.astype(np.int32).repeat(sizes),
            time=time.repeat(sizes),
            target=target,
            source=source,
            weight=weight.astype(float),
            own=np.full(len(target), not after),
            source_version=sent.astype(np.int32),
        )
        # In each round a variable changes once, or once by its commit and once by the mixing.
        return _with_variables(trace, trace.version * (1 + after), mixings, round_changes=1 + after)


def divided(
    target: NDArray[Any], source: NDArray[Any], weight: NDArray[Any], sizes: NDArray[np.float64], before: int
) -> tuple[NDArray[Any], ...]:
    """Return the mixing of x = s/w for that of the sums s, whose weights w are `sizes`, with versions of its sources.

    A commit has moved x by Δ from version `before` on, and s by as much: s = w·x_before + Δ = x + (w - 1)·x_before. The
    weights of x and x_before in the next s/w sum to 1.
    """
    after = np.bincount(target, weight * sizes[source])
    share, rest = weight / after[target], sizes[source] - 1
    old = np.abs(rest) > ROUNDING  # Where all receive as much as they send, x is s.
    rows = np.append(target, target[old]), np.append(source, source[old]), np.append(share, (share * rest)[old])
    order = np.argsort(rows[0], kind="stable")
    versions = np.append(np.full(len(target), NOW), np.full(old.sum(), before))
    return (*(column[order] for column in rows), versions[order])


def _by_group(part: tuple[NDArray[Any], ...]) -> dict[int, tuple[NDArray[Any], ...]]:
    """Return the rows of each group in a round's mixing, by the least number of a member, which is the first source."""
    target, source, *_ = part
    first = np.empty(target.max() + 1, np.int64)
    first[target[::-1]] = source[::-1]
    group = first[target]
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order], prepend=-1))
    columns = [np.split(column[order], cuts[1:]) for column in part]
    return dict(zip(group[order][cuts].tolist(), zip(*columns, strict=True), strict=True))


def draw_partners(neighbours: NDArray[np.int64], generator: np.random.Generator) -> Iterator[int]:
    """Yield neighbours without end, each equally often."""
    while True:
        yield from neighbours[generator.integers(len(neighbours), size=BLOCK)].tolist()


def _joined(columns: list[Any]) -> NDArray[Any]:
    return np.concatenate(columns) if columns else np.zeros(0, np.int32)


def _with_variables(
    trace: Trace, version: NDArray[Any], mixings: Mixings, own_changes: int = 1, round_changes: int | None = None
) -> Trace:
    """Return a trace with one variable per worker, with the times of a trace of one variable.

    Workers read right after their commit and what changes their variable with it, or at the beginning of a round.
    """
    rest, workers = trace.unfinished, trace.workers
    if round_changes is None:
        last = np.zeros(workers, np.int64)
        last[trace.worker] = version + own_changes
        rows = previous_own_row(trace.worker)
        read, rest_read = np.where(rows >= 0, version[rows] + own_changes, 0), last[rest.worker]
    else:
        read, rest_read = trace.read_version * round_changes, rest.read_version * round_changes
    return replace(
        trace,
        read_version=read.astype(np.int32),
        version=version.astype(np.int32),
        pull_version=version.astype(np.int32),
        closes_step=np.ones(len(trace), bool),
        unfinished=replace(rest, read_version=rest_read.astype(np.int32)),
        variables=workers,
        variable=trace.worker,
        mixings=mixings,
    )
