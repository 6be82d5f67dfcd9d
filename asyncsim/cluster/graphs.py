"""Graphs: which workers exchange their variables, and with what weights.

A graph has a name for the command line (`by_name`), and fits every number of workers that it allows. Weights are doubly
stochastic, so that a mixing keeps the mean of the variables. A graph of your own is a matrix (`Edges`, `Directed`, or
`Weights`), or a class that derives from `Graph` and has a method `adjacency`.
"""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from asyncsim import _memory as memory
from asyncsim._checks import brief, require_count, require_integer, require_one_of
from asyncsim.components import _families as families
from asyncsim.components._checked import Checked
from asyncsim.components._families import Named

__all__ = [
    "Complete",
    "Directed",
    "Edges",
    "Exponential",
    "Graph",
    "OnePeer",
    "RandomGroups",
    "RandomRegular",
    "Ring",
    "Star",
    "Torus",
    "Weights",
    "by_name",
]

Matrix = NDArray[np.float64]
Adjacency = NDArray[np.bool_]
Entries = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]  # targets, sources and weights
ROUNDING = 1e-6  # of sums of weights, as those of float32


class Graph(Checked, Named, ABC, family="graphs", example="Ring()"):
    """Base class of graphs."""

    @abstractmethod
    def adjacency(self, workers: int) -> Adjacency:
        """Return (n, n) bool, whether worker i sends to worker j, or refuse a number of workers."""

    def period(self, workers: int) -> int | None:
        """Return the number of rounds after which the weights repeat, 1 where they are the same in all.

        None, the default for a class with weights of its own, is for those that never repeat.
        """
        del workers
        return 1 if type(self).weights is Graph.weights else None

    def drawn(self, seed: int) -> "Graph":
        """Return the graph of a schedule with this seed: this one, unless its rounds are random."""
        del seed
        return self

    def weights(self, workers: int, round: int = 0) -> Matrix:
        """Return the mixing matrix of a round, (n, n), whose rows and columns sum to 1.

        By default w_ij = 1/(1 + max(d_i, d_j)) for neighbours of degrees d, and the rest stays with the worker
        (Metropolis and Hastings; Xiao and Boyd 2004, "Fast linear iterations for distributed averaging").
        """
        del round  # The same in all.
        neighbours = self.adjacency(workers)
        degree = neighbours.sum(1)
        weights = np.where(neighbours, 1 / (1 + np.maximum(degree[:, None], degree)), 0.0)
        np.fill_diagonal(weights, 1 - weights.sum(1))
        return weights

    def shares(self, workers: int, round: int = 0) -> Matrix:
        """Return the matrix of push-sum for a round, (n, n), whose columns sum to 1.

        A worker keeps a share of its sum that is as large as those that it sends to each of its neighbours.
        """
        return _equal_shares((self.weights(workers, round) > 0).T)


def _equal_shares(sends: Adjacency) -> Matrix:
    sends = sends | np.eye(len(sends), dtype=bool)
    return (sends / sends.sum(1)[:, None]).T


def require_graph(name: str, graph: Any) -> Graph:
    """Return a graph, that of a name, or that of pairs, a matrix or a networkx graph."""
    if isinstance(graph, str):
        kind = families.FAMILIES["graphs"][require_one_of(name, graph, choices=families.FAMILIES["graphs"])]
        # Those of a graph of one's own have no default.
        if needed := [each.name for each in fields(kind) if each.default is each.default_factory is MISSING]:
            call = f"graphs.{kind.__name__}({needed[0]}=…)"
            raise ValueError(f"`{name}` must have {needed[0]!r} for {graph!r}, which has no default. Give {call}.")
        return kind()
    if isinstance(graph, Graph):
        return graph
    if hasattr(graph, "adjacency") and hasattr(graph, "nodes"):  # of networkx, which nothing here imports
        graph = _matrix_of(graph)
        if isinstance(graph, Weights):
            return graph
    if isinstance(graph, np.ndarray | list | tuple) and len(graph):
        if _is_weighted(graph):
            return Weights(graph)
        return Directed(graph) if _is_directed(graph) else Edges(graph)
    received = f"the class {graph.__name__}" if isinstance(graph, type) else brief(graph)
    raise ValueError(
        f"`{name}` must be a graph; got {received}. Give a name such as 'ring', one of "
        "`asyncsim.graphs`, or pairs of workers such as [(0, 1), (1, 2)]."
    )


def _matrix_of(graph: Any) -> Any:
    """Return who sends to whom in a networkx graph, (n, n) bool, or if its edges have weights, these as a graph.

    The weight of an edge is the share of the receiver's new value that comes from the sender. What the edges to a
    worker lack of 1 is its own share, unless it has an edge to itself. Weights that are all 1 say nothing.
    """
    nodes = {node: index for index, node in enumerate(graph.nodes)}
    matrix, weights_seen = np.zeros((len(nodes), len(nodes))), set[float]()
    for node, others in graph.adjacency():
        for other, edge in others.items():
            parallel = [*edge.values()] if graph.is_multigraph() else [edge]
            weights_seen |= {link.get("weight", 1) for link in parallel}
            matrix[nodes[other], nodes[node]] = sum(link.get("weight", 1) for link in parallel)
    if weights_seen <= {1}:
        return matrix.T > 0
    alone = np.diag(matrix) == 0
    matrix[alone, alone] = 1 - matrix.sum(1)[alone]
    return Weights(matrix)


def entries(graph: Graph, workers: int, round: int, *, shares: bool = False) -> Entries:
    """Return the entries of a round's mixing matrix, or of that of push-sum, that are not 0, by their targets."""
    if isinstance(graph, RandomGroups):  # whose members have equal weights, which push-sum has as well
        return graph.entries(workers, round)
    weights = (graph.shares if shares else graph.weights)(workers, round)
    target, source = np.nonzero(weights)
    return target.astype(np.int32), source.astype(np.int32), weights[target, source]


def by_name(name: str) -> type[Graph]:
    """Return the class of a graph by its command-line name, those of your own included.

    Args:
        name: The name, for example "ring".

    Raises:
        ValueError: If there is none. The nearest name is suggested.

    Example:
        >>> by_name("ring")().adjacency(4).astype(int).tolist()
        [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    """
    return families.by_name("graphs", name)


def _circulant(workers: int, hops: Any) -> Adjacency:
    """Return the graph in which each worker exchanges with those at some distances, in both directions."""
    distance = (np.arange(workers)[:, None] - np.arange(workers)) % workers
    ahead = np.isin(distance, np.asarray(hops) % workers)
    return (ahead | ahead.T) & ~np.eye(workers, dtype=bool)


@dataclass(frozen=True)
class Complete(Graph):
    """Everybody with everybody. The weights are 1/n, so that one round leaves the mean with everybody."""

    def adjacency(self, workers: int) -> Adjacency:
        """Return all pairs."""
        return ~np.eye(workers, dtype=bool)


@dataclass(frozen=True)
class Ring(Graph):
    """Every worker with the two next to it."""

    def adjacency(self, workers: int) -> Adjacency:
        """Return pairs of neighbours."""
        return _circulant(workers, [1])


@dataclass(frozen=True)
class Torus(Graph):
    """A grid whose edges are joined, as near to a square as the number of workers allows.

    Example:
        >>> Torus().adjacency(12).sum(1).tolist()
        [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]
    """

    def adjacency(self, workers: int) -> Adjacency:
        """Return pairs of neighbours in the two directions of the grid."""
        rows = max(side for side in range(1, int(workers**0.5) + 1) if workers % side == 0)
        row, column = np.divmod(np.arange(workers), workers // rows)
        across = _circulant(workers // rows, [1])[column[:, None], column] & (row[:, None] == row)
        down = _circulant(rows, [1])[row[:, None], row] & (column[:, None] == column)
        return across | down


@dataclass(frozen=True)
class Star(Graph):
    """Worker 0 with everybody else."""

    def adjacency(self, workers: int) -> Adjacency:
        """Return the pairs with worker 0."""
        pairs = np.zeros((workers, workers), bool)
        pairs[0, 1:] = pairs[1:, 0] = True
        return pairs


@dataclass(frozen=True)
class Exponential(Graph):
    """Worker i with workers i ± 2^k, for all 2^k < n.

    In rounds it receives from worker i + 2^k and not from i - 2^k, each with the weight 1/(1 + ⌈log2 n⌉).

    References:
        Ying et al. 2021, "Exponential graph is provably efficient for decentralized deep training", NeurIPS.
    """

    def adjacency(self, workers: int) -> Adjacency:
        """Return the pairs at distances of powers of two."""
        return _circulant(workers, _powers(workers))

    def period(self, workers: int) -> int:
        """Return 1: all rounds have the same weights."""
        del workers
        return 1

    def weights(self, workers: int, round: int = 0) -> Matrix:
        """Return equal weights of the worker itself and those ahead of it."""
        del round
        hops = np.append(0, _powers(workers))
        return np.mean([np.roll(np.eye(workers), hop, axis=1) for hop in hops], axis=0)


@dataclass(frozen=True)
class OnePeer(Graph):
    """One edge of the exponential graph in each round: worker i receives from i + 2^(r mod ⌈log2 n⌉), with weight ½.

    If n is a power of two, everybody has the exact mean after log2 n rounds. It is for rounds only.

    Example:
        >>> graph, mean = OnePeer(), np.eye(8)
        >>> for round in range(3):
        ...     mean = graph.weights(8, round) @ mean
        >>> bool((mean == 1 / 8).all())
        True

    References:
        Ying et al. 2021, as for `Exponential`.
    """

    def adjacency(self, workers: int) -> Adjacency:
        """Return the pairs of all rounds."""
        return Exponential().adjacency(workers)

    def period(self, workers: int) -> int:
        """Return ⌈log2 n⌉."""
        return len(_powers(workers))

    def weights(self, workers: int, round: int = 0) -> Matrix:
        """Return the weights of one round."""
        hops = _powers(workers)
        return (np.eye(workers) + np.roll(np.eye(workers), hops[round % len(hops)], axis=1)) / 2


def _powers(workers: int) -> NDArray[np.int64]:
    """Return the powers of two below n."""
    return 1 << np.arange(int(workers - 1).bit_length())


@dataclass(frozen=True)
class RandomRegular(Graph):
    """A random graph in which every worker has the same number of neighbours.

    Args:
        degree: Neighbours of each worker, below n, and even if n is odd.
        seed: Seed of the graph.

    Example:
        >>> RandomRegular(degree=3, seed=1).adjacency(8).sum(1).tolist()
        [3, 3, 3, 3, 3, 3, 3, 3]
    """

    degree: Annotated[int, require_count, "Use one neighbour or more."] = 3
    seed: Annotated[int, require_integer, "Give the graph another seed."] = 0

    def adjacency(self, workers: int) -> Adjacency:
        """Return the pairs: those of a circulant graph, after many random exchanges of the ends of two edges."""
        if self.degree >= workers or self.degree * workers % 2:
            raise ValueError(
                f"`degree` must be below the number of workers, and their product even; got {self.degree} for "
                f"{workers}. Use another."
            )
        return _random_regular(workers, self.degree, self.seed)


@dataclass(frozen=True)
class RandomGroups(Graph):
    """In each round, random groups of which everybody takes the mean. It is for rounds only.

    A random partition into r groups of any sizes leaves exactly (r - 1)/(n - 1) of Σ |x_i - x̄|², on average. If `size`
    does not divide n, the last group is smaller. In "adapt_then_combine", a worker waits only for its own group.

    Args:
        size: Workers of a group, at least 2: pairs by default.
        seed: Seed of the groups, besides that of the schedule.

    Example:
        >>> RandomGroups(size=2).weights(5, round=3).tolist()[0]
        [0.5, 0.0, 0.0, 0.5, 0.0]

    References:
        Kolehmainen et al. 2025, "NoLoCo: No-all-reduce low communication training method for large models", arXiv
        2506.10911, with pairs. Ryabinin et al. 2021, "Moshpit SGD", NeurIPS, with groups that are not random.
    """

    size: Annotated[int, require_count, "Use two workers or more."] = 2
    seed: Annotated[int, require_integer, "Give the groups another seed."] = 0

    def check(self) -> None:
        """Refuse groups of one."""
        if self.size < 2:
            raise ValueError(f"`size` must be at least 2; got {self.size}. A worker exchanges with another one.")

    def adjacency(self, workers: int) -> Adjacency:
        """Return the pairs of all rounds."""
        if self.size > workers:
            raise ValueError(f"`size` must be at most the number of workers, {workers}; got {self.size}. Use another.")
        return Complete().adjacency(workers)

    def drawn(self, seed: int) -> "RandomGroups":
        """Return the groups of a schedule with this seed."""
        state = int(np.random.SeedSequence([self.seed, seed]).generate_state(1, np.uint64)[0] >> np.uint64(1))
        return replace(self, seed=state)

    def weights(self, workers: int, round: int = 0) -> Matrix:
        """Return the weights of one round."""
        target, source, weight = self.entries(workers, round)
        weights = np.zeros((workers, workers))
        weights[target, source] = weight
        return weights

    def entries(self, workers: int, round: int = 0) -> Entries:
        """Return targets, sources and weights of one round, n·size of each, where the matrix would have n² numbers."""
        group = np.empty(workers, np.int64)
        group[np.random.default_rng([self.seed, round]).permutation(workers)] = np.arange(workers) // self.size
        members, sizes = np.argsort(group, kind="stable"), np.bincount(group)
        target = np.arange(workers, dtype=np.int32).repeat(sizes[group])
        first = (np.cumsum(sizes) - sizes)[group[target]]  # of a group among all members
        offset = np.arange(len(target)) - np.flatnonzero(np.diff(target, prepend=-1))[target]
        return target, members[first + offset].astype(np.int32), 1 / sizes[group[target]]


@lru_cache(maxsize=16)
def _random_regular(workers: int, degree: int, seed: int) -> Adjacency:
    half = np.arange(1, degree // 2 + 1)
    pairs = _circulant(workers, np.append(half, workers // 2) if degree % 2 else half)
    generator = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(pairs))
    for _ in range(10 * len(edges)):
        (a, b), (c, d) = edges[chosen := generator.choice(len(edges), 2, replace=False)]
        # Edges a-b and c-d become a-d and c-b, unless one of these exists.
        if len({a, b, c, d}) == 4 and not pairs[a, d] and not pairs[c, b]:
            for i, j, value in ((a, b, False), (c, d, False), (a, d, True), (c, b, True)):
                pairs[i, j] = pairs[j, i] = value
            edges[chosen] = [(a, d), (c, b)]
    return pairs


@dataclass(frozen=True)
class Edges(Graph):
    """A graph of your own.

    Args:
        pairs: The pairs (i, j) of workers that exchange with each other, counted from 0. Or (n, n) of 0 and 1,
            symmetric: whether worker i exchanges with worker j, where the diagonal does not count.

    Example:
        >>> Edges([(0, 1), (1, 2)]).weights(3).round(3).tolist()
        [[0.667, 0.333, 0.0], [0.333, 0.333, 0.333], [0.0, 0.333, 0.667]]
        >>> Edges([[0, 1, 0], [1, 0, 1], [0, 1, 0]]).adjacency(3).sum(axis=0).tolist()
        [1, 2, 1]
    """

    pairs: Any

    def check(self) -> None:
        """Refuse what is neither pairs of workers nor a symmetric matrix of 0 and 1."""
        pairs: NDArray[Any] = np.empty(0)
        with suppress(TypeError, ValueError):  # Rows of different lengths, or texts.
            pairs = np.asarray(self.pairs, np.float64)
        are_workers = pairs.ndim == 2 and bool(((pairs >= 0) & (pairs % 1 == 0)).all())
        if not (are_workers and (_is_matrix(pairs) or (pairs.shape[1] == 2 and (pairs[:, 0] != pairs[:, 1]).all()))):
            raise ValueError(
                "`pairs` must be pairs of different workers, or a symmetric matrix of 0 and 1; got "
                f"{brief(self.pairs)}. Give [(0, 1), (1, 2)], say, or one row per worker."
            )
        object.__setattr__(self, "pairs", tuple(map(tuple, pairs.astype(int).tolist())))

    def adjacency(self, workers: int) -> Adjacency:
        """Return the pairs."""
        pairs, matrix = np.array(self.pairs), np.zeros((workers, workers), bool)
        if _is_matrix(pairs):
            if len(pairs) != workers:
                raise ValueError(
                    f"`pairs` must have one row per worker; got {len(pairs)} for {workers}. Give another graph."
                )
            return pairs.astype(bool) & ~np.eye(workers, dtype=bool)
        if pairs.max() >= workers:
            raise ValueError(f"`pairs` must name workers below {workers}; got {pairs.max()}. Count them from 0.")
        matrix[pairs[:, 0], pairs[:, 1]] = matrix[pairs[:, 1], pairs[:, 0]] = True
        return matrix


def _is_matrix(pairs: NDArray[Any]) -> bool:
    """Return whether rows are those of a symmetric matrix of 0 and 1."""
    return len(set(pairs.shape)) == 1 and bool(np.isin(pairs, (0, 1)).all() and (pairs == pairs.T).all())


@dataclass(frozen=True)
class Directed(Graph):
    """A graph of your own whose edges have a direction, for push and push-sum.

    Args:
        pairs: (n, n) of 0 and 1: whether worker i sends to worker j. The diagonal does not count.

    Example:
        >>> Directed([[0, 1, 1], [1, 0, 0], [0, 1, 0]]).shares(3).round(3).tolist()
        [[0.333, 0.5, 0.0], [0.333, 0.5, 0.5], [0.333, 0.0, 0.5]]
    """

    pairs: Any

    def check(self) -> None:
        """Refuse what is no matrix of 0 and 1, or a symmetric one, which is that of `Edges`."""
        if not _is_directed(self.pairs):
            raise ValueError(
                f"`pairs` must be a matrix of 0 and 1 that is not symmetric; got {brief(self.pairs)}. Give one row per "
                "worker, three or more, or use Edges."
            )
        object.__setattr__(self, "pairs", tuple(map(tuple, np.asarray(self.pairs).astype(int).tolist())))

    def adjacency(self, workers: int) -> Adjacency:
        """Return who sends to whom."""
        matrix = np.array(self.pairs, bool)
        if len(matrix) != workers:
            raise ValueError(
                f"`pairs` must have one row per worker; got {len(matrix)} for {workers}. Give another graph."
            )
        return matrix & ~np.eye(workers, dtype=bool)

    def shares(self, workers: int, round: int = 0) -> Matrix:
        """Return equal shares of the worker itself and those to whom it sends."""
        del round  # The same in all.
        return _equal_shares(self.adjacency(workers))

    def weights(self, workers: int, round: int = 0) -> Matrix:
        """Refuse: in general no weights of such a graph have rows and columns that sum to 1."""
        raise ValueError(
            "`graph` must have edges in both directions for a mixing that keeps the mean of the variables; got a "
            "directed one. Use `exchange='push_sum'`, or 'push'."
        )

    def period(self, workers: int) -> int:
        """Return 1: all rounds have the same edges."""
        del workers
        return 1


@dataclass(frozen=True)
class Weights(Graph):
    """A mixing matrix of your own, for exchanges in rounds.

    Args:
        matrix: (n, n) W of numbers from 0, x_i ← Σ_j w_ij·x_j. For "rounds" and "adapt_then_combine" its rows and
            columns sum to 1, so that the mean is kept. For "push_sum" its columns do, the shares of what each worker
            sends. Sums may miss 1 by 1e-6, as those of float32 do. Rows are divided by theirs, or columns for
            "push_sum".

    Raises:
        ValueError: If it is no such matrix, or its sums do not fit the exchange.

    Example:
        >>> lazy = Weights([[0.8, 0.2, 0.0], [0.2, 0.5, 0.3], [0.0, 0.3, 0.7]])
        >>> lazy.adjacency(3).astype(int).tolist()
        [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
        >>> lazy.weights(3).tolist() == [list(row) for row in lazy.matrix]
        True
    """

    matrix: Any

    def check(self) -> None:
        """Refuse what is no square matrix of numbers from 0 whose rows or columns sum to 1."""
        matrix: NDArray[Any] = np.empty(0)
        with suppress(TypeError, ValueError):  # Rows of different lengths, or texts.
            matrix = np.asarray(self.matrix, np.float64)
        if matrix.ndim != 2 or len(set(matrix.shape)) != 1 or not (matrix >= 0).all():
            raise ValueError(
                f"`matrix` must be square, of numbers that are at least 0; got {brief(self.matrix)}. Give one row and "
                "one column per worker."
            )
        if self._missing(matrix, axis=0) and self._missing(matrix, axis=1):
            raise ValueError(f"`matrix` must have {self._missing(matrix, axis=1)}")
        object.__setattr__(self, "matrix", tuple(map(tuple, matrix.tolist())))

    @staticmethod
    def _missing(matrix: Matrix, axis: int) -> str:
        """Return what is wrong with the sums of rows, or of columns, or an empty text."""
        name, sums = ("columns", "rows")[axis], matrix.sum(axis)
        if (wrong := np.flatnonzero(~(np.abs(sums - 1) <= ROUNDING))).size == 0:
            return ""
        return f"{name} that sum to 1; {name[:-1]} {wrong[0]} sums to {sums[wrong[0]]:g}. Divide it by its sum."

    def _array(self, workers: int) -> Matrix:
        if len(self.matrix) != workers:
            raise ValueError(
                f"`matrix` must have one row per worker; got {len(self.matrix)} for {workers}. Give another graph."
            )
        return np.array(self.matrix)

    def adjacency(self, workers: int) -> Adjacency:
        """Return who sends to whom: i to j where w_ji is not 0."""
        return (self._array(workers).T > 0) & ~np.eye(workers, dtype=bool)

    def period(self, workers: int) -> int:
        """Return 1: all rounds have the same weights."""
        del workers
        return 1

    def weights(self, workers: int, round: int = 0) -> Matrix:
        """Return the matrix, and refuse one that does not keep the mean."""
        del round  # The same in all.
        matrix = self._array(workers)
        if wrong := self._missing(matrix, axis=1) or self._missing(matrix, axis=0):
            remedy = "With columns that sum to 1, `exchange='push_sum'` keeps the mean of what is sent."
            raise ValueError(f"`matrix` must have {wrong} {remedy}")
        return matrix / matrix.sum(1)[:, None]

    def shares(self, workers: int, round: int = 0) -> Matrix:
        """Return the matrix for push-sum, and refuse one whose columns do not sum to 1."""
        del round  # The same in all.
        matrix = self._array(workers)
        if wrong := self._missing(matrix, axis=0):
            raise ValueError(f"`matrix` must have {wrong} In push-sum, a column has the shares of what a worker sends.")
        return matrix / matrix.sum(0)


def _is_weighted(matrix: Any) -> bool:
    """Return whether rows are those of a square matrix in which some numbers are not whole."""
    with suppress(TypeError, ValueError):  # Rows of different lengths, or texts.
        values = np.asarray(matrix, np.float64)
        return values.ndim == 2 and len(set(values.shape)) == 1 and bool((values % 1 != 0).any())
    return False


def _is_directed(pairs: Any) -> bool:
    """Return whether rows are those of a matrix of 0 and 1 that is not symmetric."""
    with suppress(TypeError, ValueError):  # Rows of different lengths, or texts.
        matrix = np.asarray(pairs, np.float64)
        is_square = matrix.ndim == 2 and len(set(matrix.shape)) == 1 and len(matrix) > 2
        return is_square and bool(np.isin(matrix, (0, 1)).all() and (matrix != matrix.T).any())
    return False


def require_connected(graph: Graph, workers: int) -> Adjacency:
    """Return who sends to whom, and refuse a graph in parts, whose variables could never agree."""
    memory.require(float(workers) ** 2, f"`workers` of {brief(workers)} on a graph", "Use fewer.")
    pairs = graph.adjacency(workers)
    for sends, word in ((pairs, "reaches"), (pairs.T, "hears of")):
        connected = latest = np.arange(workers) == 0
        while latest.any():
            latest = sends[latest].any(0) & ~connected
            connected = connected | latest
        if (count := np.count_nonzero(connected)) < workers:
            raise ValueError(
                f"`graph` must connect all workers; got {brief(graph)}, in which worker 0 {word} {count} of {workers}. "
                "Add edges."
            )
    return pairs
