"""Graphs of networkx, with and without weights, which Gossip accepts."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import graphs
from asyncsim.cluster.graphs import require_graph
from tests.problems import refusals

networkx = pytest.importorskip("networkx")
RING = graphs.Ring().adjacency(4)
LAZY = np.eye(4) * 0.6 + 0.2 * RING
CLUSTER = {"workers": 4, "compute": asim.delays.Constant(1.0), "exchange": "rounds"}


def cycle(workers, weight=None, kind=networkx.Graph):
    graph = networkx.cycle_graph(workers, kind)
    if weight is not None:
        networkx.set_edge_attributes(graph, weight, "weight")
    return graph


def test_without_weights_it_is_who_exchanges_with_whom():
    for graph in (cycle(4), cycle(4, 1), networkx.from_numpy_array(RING.astype(float))):
        assert isinstance(require_graph("graph", graph), graphs.Edges)
        assert (require_graph("graph", graph).adjacency(4) == RING).all()
    parallel = networkx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    assert require_graph("graph", parallel) == graphs.Edges([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    directed = require_graph("graph", cycle(3, kind=networkx.DiGraph))
    assert directed == graphs.Directed([[0, 1, 0], [0, 0, 1], [1, 0, 0]])


def test_the_rest_of_one_stays_with_the_worker():
    assert require_graph("graph", cycle(4, 0.2)) == graphs.Weights(LAZY)


def test_edges_of_a_worker_to_itself_are_its_own_weight():
    assert require_graph("graph", networkx.from_numpy_array(LAZY)) == graphs.Weights(LAZY)


def test_a_directed_edge_leads_from_the_sender_to_the_receiver():
    """The shares of push-sum: columns sum to 1."""
    shares = np.array([[0.875, 0.0, 0.125], [0.125, 0.5, 0.0], [0.0, 0.5, 0.875]])
    graph = networkx.from_numpy_array(shares.T, create_using=networkx.DiGraph)
    gossip = asim.Gossip(3, asim.delays.Constant(1.0), graph=graph, exchange="push_sum")
    assert gossip.graph == graphs.Weights(shares)
    assert graphs.Weights(shares).adjacency(3).tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


test_graphs_that_cannot_be_are_refused = refusals(
    ({"graph": cycle(4, kind=networkx.DiGraph)}, "`exchange` must be 'push_sum' or 'push'"),
    ({"graph": cycle(5)}, "`pairs` must have one row per worker; got 5 for 4"),
    ({"graph": cycle(5, 0.2)}, "`matrix` must have one row per worker; got 5 for 4"),
    ({"graph": cycle(4, 0.6)}, "`matrix` must be square, of numbers that are at least 0"),
    ({"graph": cycle(4, 3)}, "`matrix` must be square, of numbers that are at least 0"),
    ({"graph": cycle(4, 0.2), "exchange": "pair"}, "`exchange` must be in rounds for a graph with weights"),
    ({"graph": networkx.Graph()}, "`graph` must be a graph"),
    ({"graph": networkx.Graph([(0, 1), (2, 3)])}, "`graph` must connect all workers"),
    call=lambda changes: asim.Gossip(
        **{"workers": 4, "compute": asim.delays.Constant(1.0), "exchange": "rounds"} | changes
    ),
)
