"""Workers on a graph: one commit with its mixing beside a commit around a server.

A commit of DOWNPOUR on P parameters reads the worker's row and the central variable and writes both: 4·P numbers. The
average of a pair reads and writes two variables besides: 8·P numbers in all, so that the ratio is at least 2 where
gradients cost nothing.
"""

import jax
import numpy as np

import asyncsim as asim

COMMITS = 4000
WORKERS, PARAMETERS = 32, 17_226
FLOOR = 2.0  # numbers moved in a commit of a pair over those of DOWNPOUR


def test_commit_of_a_pair(versus, report, scaled):
    commits, law = scaled(COMMITS), asim.delays.Exponential(1.0)
    workload = asim.workloads.Quadratic(np.linspace(0.1, 1.0, PARAMETERS).tolist())
    pair = asim.simulate(asim.Gossip(WORKERS, law, graph="complete"), commits=commits)
    server = asim.simulate(asim.Cluster(WORKERS, law), commits=commits)

    def replay(trace):
        return lambda: jax.block_until_ready(asim.replay(trace, asim.rules.Downpour(0.01), workload).state.central)

    ratio = versus(replay(pair), replay(server), rounds=7)
    report(f"commit of a pair over DOWNPOUR's, n = {WORKERS}", ratio, "×", at_most=1.5 * FLOOR)
