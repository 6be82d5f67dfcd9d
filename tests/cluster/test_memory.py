"""Memory grows with the commits, and with nothing else."""

import tracemalloc

from asyncsim.cluster import Cluster, Server, simulate
from asyncsim.delays import Exponential


def peak(commits, workers=20):
    cluster = Cluster(workers, Exponential(1.0), server=Server(service=Exponential(0.1)))
    tracemalloc.start()
    try:
        simulate(cluster, commits=commits)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_linear_in_commits():
    peak(100)  # whatever is allocated only once
    one, two, four = peak(5000), peak(10_000), peak(20_000)
    a_commit = (four - two) / 10_000
    assert a_commit < 1000  # bytes: twelve columns, while they are logged, collected and checked
    assert two - one < 1.5 * 5000 * a_commit
