"""Exchanges of workers on a graph that take time: who sends what to whom, and when it arrives.

A message takes the latency of its sender, and its bytes over the slower of two links, the sender's out and the
receiver's in. `InTurn` is for workers that exchange one with another: each link carries one message at a time in each
direction, first-in, first-out. `InRounds` is for rounds, in which all messages of a worker share its link, and nobody
goes on before all models are where they belong.
"""

from array import array
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.cluster._events import INFINITY
from asyncsim.cluster._model import Cluster, Network
from asyncsim.cluster._random_streams import ComputeDelays, Purpose, draw_delays
from asyncsim.delays._per_worker import is_zero
from asyncsim.trace import Trace, Unfinished
from asyncsim.trace._columns import NOW, Mixings

# The events of an exchange: its worker has computed, its model has arrived, the answer has arrived, its link is free.
COMPUTED, ARRIVED, ANSWERED, FREE = range(4)
# The columns of the rows below, with their types in the trace.
MIXING_TYPES = {"event": np.int32, "before": np.int32, "time": float, "target": np.int32, "source": np.int32}
MIXING_TYPES |= {"weight": float, "own": bool, "source_version": np.int32}
COMMIT_TYPES = {"worker": np.int32, "read_version": np.int32, "version": np.int32}
COMMIT_TYPES |= dict.fromkeys(("read_time", "finish_time", "commit_time"), float)


class Links:
    """The links of the workers, and the seconds that a model takes on each of them."""

    def __init__(self, clock: Any, network: Network, workers: int, seed: int) -> None:
        self.out, self.into = network.uploads(workers), network.downloads(workers)
        self.latencies: list[Callable[[], float] | None] = [
            None if is_zero(law) else draw_delays(clock, law, seed, worker, Purpose.LATENCY).__next__
            for worker, law in enumerate(network.latencies(workers))
        ]
        # The times from which each link is free, out and in: each carries its messages one after another.
        self.free_out, self.free_in = [0.0] * workers, [0.0] * workers

    def latency(self, sender: int) -> float:
        """Return the latency of a worker's next message."""
        draw = self.latencies[sender]
        return 0.0 if draw is None else draw()

    def send(self, now: float, sender: int, receiver: int) -> float:
        """Return when the message arrives that leaves as soon as both links are free."""
        start = max(now, self.free_out[sender], self.free_in[receiver])
        end = start + max(self.out[sender], self.into[receiver])
        self.free_out[sender] = self.free_in[receiver] = end
        return end + self.latency(sender)

    def transfers(self, target: NDArray[Any], source: NDArray[Any]) -> NDArray[np.float64]:
        """Return the seconds of messages that are sent together, whose senders and receivers share their links."""
        # A link that is shared by k messages takes k times as long for each of them.
        sent, received = np.bincount(source, minlength=len(self.out)), np.bincount(target, minlength=len(self.into))
        latency = [self.latency(sender) for sender in source.tolist()] if any(self.latencies) else 0.0
        out, into = sent * np.array(self.out), received * np.array(self.into)
        return np.maximum(out[source], into[target]) + latency


def columns_of(rows: array, types: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the columns of rows that follow one another in an array of float64, which holds every int32 exactly."""
    columns = np.asarray(rows).reshape(-1, len(types)).T
    return {name: column.astype(kind) for (name, kind), column in zip(types.items(), columns, strict=True)}


class Columns(NamedTuple):
    """The trace of an exchange, without the columns that follow from these."""

    commits: dict[str, NDArray[Any]]
    unfinished: Unfinished
    mixings: Mixings


class InTurn:
    """Workers that send their model to one neighbour at a time, which answers with its own where both are mixed."""

    def __init__(
        self,
        cluster: Cluster,
        network: Network,
        partners: list[Iterator[int]],
        seed: int,
        *,
        waits: bool,
        answers: bool,
    ) -> None:
        """Set up the exchange.

        Args:
            cluster: The workers and their laws.
            network: The network between them.
            partners: For each worker, the neighbours that it chooses, one after another.
            seed: Seed of the times.
            waits: Whether a worker commits when the answer is there, and not before it sends its model.
            answers: Whether the neighbour sends its own model back.
        """
        self.cluster, self.now = cluster, 0.0
        self.waits, self.answers, self.partners = waits, answers, partners
        workers = cluster.workers
        self.links = Links(self, network, workers, seed)
        laws: Any = cluster.laws
        self.delays = ComputeDelays(self, laws, seed)
        self.order = count().__next__  # Events of one time happen in the order in which they were scheduled.
        self.version, self.read_version = [0] * workers, [0] * workers
        self.read_time, self.finish_time = [0.0] * workers, [INFINITY] * workers
        self.is_busy = [False] * workers  # whether an exchange that the worker began is under way
        # Rows with the columns of `COMMIT_TYPES` and `MIXING_TYPES`, one after another.
        self.commit_rows, self.mixing_rows = array("d"), array("d")
        self.commit_count, self.mixing_count = 0, 0
        # Time, order, kind and worker of an event, and its partner, the version that was sent, and that of the answer.
        self.heap: list[tuple[float, int, int, int, int, int, int]] = []
        for worker in range(workers):
            self._read(worker)

    def __len__(self) -> int:
        return self.commit_count

    def peek(self) -> float:
        return self.heap[0][0] if self.heap else INFINITY

    def stuck_remedy(self) -> str:
        return "Correct the delays."

    def advance(self, events: int, commits: float, seconds: float) -> None:
        for _ in repeat(None, events):
            if self.heap[0][0] > seconds:
                return
            self.now, _, kind, worker, *message = heappop(self.heap)
            if kind == COMPUTED:
                self._on_computed(worker)
            elif kind == ARRIVED:
                self._on_arrival(worker, *message)
            elif kind == ANSWERED:
                self._on_answer(worker, *message)
            else:
                self._on_free(worker)
            if self.commit_count >= commits:
                return

    def _schedule(self, time: float, kind: int, worker: int, partner: int = 0, sent: int = 0, answer: int = 0) -> None:
        heappush(self.heap, (time, self.order(), kind, worker, partner, sent, answer))

    def _read(self, worker: int) -> None:
        self.read_version[worker], self.read_time[worker] = self.version[worker], self.now
        self.finish_time[worker] = INFINITY
        self._schedule(self.now + self.delays.next(worker), COMPUTED, worker)

    def _on_computed(self, worker: int) -> None:
        self.finish_time[worker] = self.now
        if self.waits:
            self._send(worker)
        elif not self.is_busy[worker]:
            self._commit(worker)

    def _send(self, worker: int) -> None:
        partner, self.is_busy[worker] = next(self.partners[worker]), True
        arrival = self.links.send(self.now, worker, partner)
        self._schedule(arrival, ARRIVED, worker, partner, self.version[worker])
        # Without an answer to wait for, it may send the next model when this one has left.
        if not self.answers:
            self._schedule(self.links.free_out[worker], FREE, worker)

    def _on_arrival(self, worker: int, partner: int, sent: int, _: int) -> None:
        # The partner answers with its model before the mixing, so that both take the mean of the same two models.
        answer = self.version[partner]
        self._mix(partner, (partner, NOW, 0.5), (worker, sent, 0.5))
        if self.answers:
            arrival = self.links.send(self.now, partner, worker)
            self._schedule(arrival, ANSWERED, worker, partner, sent, answer)

    def _on_answer(self, worker: int, partner: int, sent: int, answer: int) -> None:
        if self.version[worker] == sent:
            self._mix(worker, (worker, NOW, 0.5), (partner, answer, 0.5), own=self.waits)
        else:
            # Others have changed it since it sent. It moves by half of the difference of the two models that were
            # exchanged, as its partner did in the other direction, so that the mean of all models stays.
            parts = (worker, NOW, 1.0), (worker, sent, -0.5), (partner, answer, 0.5)
            self._mix(worker, *parts, own=self.waits)
        if self.waits:
            self._commit(worker)
        else:
            self._on_free(worker)

    def _on_free(self, worker: int) -> None:
        self.is_busy[worker] = False
        # A gradient that was computed during the exchange has waited for its end.
        if self.finish_time[worker] < INFINITY:
            self._commit(worker)

    def _commit(self, worker: int) -> None:
        versions = self.read_version[worker], self.version[worker]
        self.commit_rows.extend((worker, *versions, self.read_time[worker], self.finish_time[worker], self.now))
        self.commit_count += 1
        self.version[worker] += 1
        if not self.waits:
            self._send(worker)
        self._read(worker)

    def _mix(self, target: int, *sources: tuple[int, int, float], own: bool = False) -> None:
        for source, version, weight in sources:
            row = (self.mixing_count, self.commit_count, self.now, target, source, weight, own, version)
            self.mixing_rows.extend(row)
        self.mixing_count += 1
        # A mixing that is a part of the next commit makes no version of its own.
        self.version[target] += not own

    def columns(self) -> Columns:
        """Return the columns of the trace so far."""
        commits, mixings = columns_of(self.commit_rows, COMMIT_TYPES), columns_of(self.mixing_rows, MIXING_TYPES)
        # Every worker has one more job under way.
        unfinished = Unfinished(
            worker=np.arange(self.cluster.workers, dtype=np.int32),
            read_version=np.array(self.read_version, np.int32),
            read_time=np.array(self.read_time),
            finish_time=np.array(self.finish_time),
        )
        return Columns(commits, unfinished, Mixings(**mixings))


class RoundEnds(NamedTuple):
    """The mixings at the ends of rounds, in the order of their times: one for each group of each round that is over."""

    number: NDArray[np.int64]  # of the round
    group: NDArray[np.int64]  # of the workers, by the least number of a member
    before: NDArray[np.int64]  # the commit before which it happens
    time: NDArray[np.float64]


class InRounds:
    """Workers that exchange models with all their neighbours in every round, and wait for all, or for their group."""

    def __init__(
        self,
        cluster: Cluster,
        network: Network,
        mixing: Callable[[int], tuple[NDArray[Any], ...]],
        seed: int,
        *,
        adapt_first: bool,
        in_groups: bool = False,
    ) -> None:
        """Set up the rounds.

        Args:
            cluster: The workers and their laws.
            network: The network between them.
            mixing: Function of a round that returns targets, sources and weights of its mixing, sorted by both.
            seed: Seed of the times.
            adapt_first: Whether a worker sends the model to which it has applied its gradient, and not the one at which
                it computes it, so that the messages leave when the round begins.
            in_groups: Whether a round of a worker is over when it is for those with whom it exchanges. These must be
                groups in which everybody exchanges with everybody.
        """
        self.cluster, self.mixing, self.adapt_first, self.in_groups = cluster, mixing, adapt_first, in_groups
        self.links = Links(self, network, cluster.workers, seed)
        laws: Any = cluster.laws
        self.delays = ComputeDelays(self, laws, seed)
        self.begin = np.zeros(cluster.workers)  # when each worker begins its next round
        self.rounds = list[tuple[NDArray[Any], ...]]()  # when they begin, finish, commit and end, and groups
        self.commit_count, self.later_commits = 0, np.zeros(0)  # commits up to now, and the times of later ones
        self.limit = 0.0, INFINITY  # of commits and seconds

    @property
    def now(self) -> float:
        return float(self.begin.min())

    def __len__(self) -> int:
        return self.commit_count

    def peek(self) -> float:
        return self.now

    def stuck_remedy(self) -> str:
        return "Correct the delays."

    def advance(self, events: int, commits: float, seconds: float) -> None:
        self.limit = commits, seconds
        for _ in repeat(None, -(-events // self.cluster.workers)):
            if self.commit_count >= commits or self.now > seconds:
                return
            self._round()

    def _round(self) -> None:
        workers, begin = self.cluster.workers, self.begin
        finish = begin + np.array([self.delays.next(worker) for worker in range(workers)])
        target, source, _ = self.mixing(len(self.rounds))
        group = np.zeros(workers, np.int64)
        if self.in_groups:
            # The rows are sorted, and each worker is a source of its own, so the last assignment to a target, which is
            # its first row, is the least member of its group.
            group[target[::-1]] = source[::-1]
        target, source = target[target != source], source[target != source]
        arrival = (finish if self.adapt_first else begin)[source] + self.links.transfers(target, source)
        complete = begin.copy()
        np.maximum.at(complete, target, arrival)
        commit = finish if self.adapt_first else np.maximum(finish, complete)
        ends = np.zeros(workers)
        np.maximum.at(ends, group, np.maximum(commit, complete))
        self.rounds.append((begin, finish, commit, ends[group], group))
        self.begin = ends[group]
        is_done = (times := np.append(self.later_commits, commit)) <= self.now
        self.commit_count, self.later_commits = self.commit_count + int(is_done.sum()), times[~is_done]

    def trace(self) -> tuple[Trace, RoundEnds]:
        """Return the trace of these rounds around a server, and their ends."""
        workers, (max_commits, seconds) = self.cluster.workers, self.limit
        columns = [np.array(column).ravel() for column in zip(*self.rounds, strict=True)]
        number, worker = np.divmod(np.arange(len(self.rounds) * workers), workers)
        order = np.lexsort((worker, number, columns[2]))
        number, worker = number[order], worker[order]
        begin, finish, commit, end, group = (column[order] for column in columns)
        # Rounds are simulated as a whole, so the last of them may go on beyond the end of the run.
        commit_count = int(min(max_commits, np.searchsorted(commit, seconds, "right")))
        last = commit[commit_count - 1] if max_commits < INFINITY else seconds
        rest = np.flatnonzero((np.arange(len(commit)) >= commit_count) & (begin <= last))
        trace = Trace(
            workers=workers,
            worker=worker[:commit_count],
            read_version=number[:commit_count],
            version=number[:commit_count],
            pull_version=number[:commit_count],
            closes_step=np.ones(commit_count, bool),
            read_time=begin[:commit_count],
            start_time=begin[:commit_count],
            finish_time=finish[:commit_count],
            arrive_time=commit[:commit_count],
            commit_time=commit[:commit_count],
            unfinished=Unfinished(
                worker=worker[rest],
                read_version=number[rest],
                read_time=begin[rest],
                finish_time=np.where(finish[rest] <= last, finish[rest], np.inf),
            ),
        )
        # A group ends its round when all of its members have committed.
        key = number * workers + group
        _, first, round_row = np.unique(key, return_index=True, return_inverse=True)
        committed = np.bincount(round_row[:commit_count], minlength=len(first))
        is_over = (committed == np.bincount(round_row)) & (end[first] <= seconds)
        first = first[is_over]
        first = first[np.lexsort((group[first], number[first], end[first]))]
        # At one time, the commits of a round come before its end, and those of the next round after it.
        stage = np.append(2 * number[:commit_count], 2 * number[first] + 1)
        merged = np.lexsort((stage, np.append(commit[:commit_count], end[first])))
        before = np.cumsum(np.where(merged < commit_count, 1, 0))[merged >= commit_count]
        return trace, RoundEnds(number[first], group[first], before, end[first])
