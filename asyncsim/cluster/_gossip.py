"""Workers on a graph, each with a variable of its own, which neighbours average: no server.

The times are those of workers around a server without a network, asynchronous or in rounds, which the same simulation
gives. On top of them lies who mixes with whom.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import brief, require_count, require_one_of
from asyncsim.cluster import graphs, protocols
from asyncsim.cluster._model import CHOICE_OF_LAW, Cluster
from asyncsim.cluster._random_streams import Purpose, stream
from asyncsim.cluster._simulation import simulate
from asyncsim.components._checked import Checked
from asyncsim.delays import Delay
from asyncsim.trace import Trace
from asyncsim.trace._columns import Mixings, count_earlier, order_of, previous_own_row

EXCHANGES = ("pair", "rounds", "adapt_then_combine")


@dataclass(frozen=True, repr=False)
class Gossip(Checked):
    """Workers that average variables of their own with their neighbours on a graph.

    A row of the trace is a commit of a worker to its own variable, by the update rule of a replay: what the rule's
    server does with a message, each worker does for itself. Exchanges take no time.

    Args:
        workers: Number of workers n, at least 2.
        compute: Law of the time that one gradient takes: one law for all workers, or a sequence of one per worker.
        graph: Who exchanges with whom: one of `asyncsim.graphs`, its name, a matrix of 0 and 1, or a networkx graph.
        exchange: When they do. "pair": a worker that has its gradient averages with one neighbour at random, then
            applies the gradient to its half, x_i ← (x_i + x_j)/2 - η·g, x_j ← (x_i + x_j)/2 (AD-PSGD). "rounds": all
            workers compute, then x ← W·x - η·g with the weights of the graph (D-PSGD). "adapt_then_combine": the same
            with x ← W·(x - η·g).
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
    """

    workers: Annotated[int, require_count, "Use two workers or more."]
    compute: Delay | Sequence[Delay] = field(metadata={"choice": CHOICE_OF_LAW})
    graph: graphs.Graph | str | Any = field(default_factory=graphs.Ring)
    exchange: str = "pair"
    local_steps: int | Sequence[int] | None = None

    def check(self) -> None:
        """Refuse a graph that does not fit the workers, and arguments that do not fit a cluster."""
        if self.workers < 2:
            raise ValueError(f"`workers` must be at least 2; got {self.workers}. A worker needs a neighbour.")
        require_one_of("exchange", self.exchange, choices=EXCHANGES)
        object.__setattr__(self, "graph", graphs.require_graph("graph", self.graph))
        graphs.require_connected(self._graph, self.workers)
        if isinstance(self.graph, graphs.OnePeer) and self.exchange == "pair":
            raise ValueError(
                "`exchange` must be in rounds for OnePeer(), whose edges change from round to round; got 'pair'. Use "
                "'rounds', or Exponential()."
            )
        around = self.around_a_server()
        object.__setattr__(self, "compute", around.compute)
        object.__setattr__(self, "local_steps", around.local_steps)

    def adapted(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Complete changes of fields: for another number of workers, a fleet keeps the shares of its classes."""
        completed = Cluster.adapted(self.around_a_server(), changes)
        return {name: value for name, value in completed.items() if name != "network"}

    @property
    def _graph(self) -> graphs.Graph:
        return cast(graphs.Graph, self.graph)  # `check` has made one of a name or a matrix

    def __repr__(self) -> str:
        """Return one line: the workers, their law, the graph and the exchange."""
        law = brief(self.compute) if not isinstance(self.compute, tuple) else f"{len(set(self.compute))} laws"
        return f"Gossip({self.workers} workers, {law}, {self.graph!r}, {self.exchange})"

    def around_a_server(self) -> Cluster:
        """Return the workers around a server whose commits and waiting are at the same times."""
        protocol = protocols.Asynchronous() if self.exchange == "pair" else protocols.Synchronous()
        return Cluster(self.workers, self.compute, protocol=protocol, local_steps=self.local_steps)  # type: ignore[arg-type]

    def simulate(
        self,
        *,
        commits: int | None = None,
        seconds: float | None = None,
        seed: int = 0,
        progress: Callable[..., None] | None = None,
    ) -> Trace:
        """Make the trace for `asyncsim.simulate`, which checks the arguments."""
        report = None if progress is None else lambda simulated: progress(*simulated)
        trace = simulate(self.around_a_server(), commits=commits, seconds=seconds, seed=seed, progress=report)
        if self.exchange == "pair":
            return self._in_pairs(trace, seed)
        return self._in_rounds(trace)

    def _in_pairs(self, trace: Trace, seed: int) -> Trace:
        """Return the trace in which every commit begins with the average of its worker and a random neighbour."""
        worker = trace.worker
        partner = np.empty_like(worker)
        ends = np.cumsum(np.bincount(worker, minlength=self.workers))
        commits = np.split(order_of(worker), ends[:-1])
        for number, (rows, pairs) in enumerate(zip(commits, self._graph.adjacency(self.workers), strict=True)):
            neighbours = np.flatnonzero(pairs)
            drawn = stream(seed, number, Purpose.PARTNER).integers(len(neighbours), size=len(rows))
            partner[rows] = neighbours[drawn]
        # A commit changes the partner's variable, and then the worker's own.
        changed = np.stack([partner, worker], axis=1).ravel()
        version = count_earlier(changed)[1::2]
        rows = np.arange(len(worker), dtype=np.int32)
        pair = np.sort(np.stack([worker, partner], axis=1), axis=1)
        mixings = Mixings(
            event=rows.repeat(4),
            before=rows.repeat(4),
            time=trace.commit_time.repeat(4),
            target=pair.repeat(2, axis=1).ravel(),
            source=np.tile(pair, 2).ravel(),
            weight=np.full(4 * len(rows), 0.5),
            own=(pair == worker[:, None]).repeat(2, axis=1).ravel(),
        )
        return _with_variables(trace, version, mixings)

    def _in_rounds(self, trace: Trace) -> Trace:
        """Return the trace in which the variables of all workers are mixed in each round."""
        after = self.exchange == "adapt_then_combine"
        first = np.flatnonzero(np.diff(trace.version, prepend=-1))  # row of each round
        if after:  # A round that is not over mixes nothing.
            first = np.append(first, len(trace))[1:][trace.closes_step[np.append(first, len(trace))[1:] - 1]]
        columns = []
        for number, row in enumerate(first.tolist()):
            weights = self._graph.weights(self.workers, number)
            target, source = np.nonzero(weights)
            time = trace.commit_time[row - 1 if after else row]
            columns.append((number, row, time, target, source, weights[target, source]))
        sizes = [len(target) for *_, target, _, _ in columns]
        event, before, time = (np.repeat([column[place] for column in columns], sizes) for place in range(3))
        target, source, weight = (_joined([column[place] for column in columns]) for place in range(3, 6))
        mixings = Mixings(
            event=event.astype(np.int32),
            before=before.astype(np.int32),
            time=time,
            target=target.astype(np.int32),
            source=source.astype(np.int32),
            weight=weight,
            own=np.full(len(target), not after),
        )
        # In each round a variable changes once, or once by its commit and once by the mixing.
        return _with_variables(trace, trace.version * (1 + after), mixings, changes=1 + after)


def _joined(columns: list[Any]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0), *columns])


def _with_variables(trace: Trace, version: NDArray[Any], mixings: Mixings, changes: int | None = None) -> Trace:
    """Return a trace with one variable per worker, with the times of a trace of one variable.

    Workers read right after their commit, or with `changes` for each round, at the beginning of a round.
    """
    rest, workers = trace.unfinished, trace.workers
    if changes is None:
        last = np.full(workers, -1)
        last[trace.worker] = version
        rows = previous_own_row(trace.worker)
        read, rest_read = np.where(rows >= 0, version[rows] + 1, 0), last[rest.worker] + 1
    else:
        read, rest_read = trace.read_version * changes, rest.read_version * changes
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
