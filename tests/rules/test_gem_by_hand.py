"""GEM written out in NumPy from Algorithm 1 and from the authors' script, with several workers in random order.

The engine and its plain reference loop call the same rule; this does not.
"""

import numpy as np
import pytest

import asyncsim as asim
from tests.problems import gamma_trace

H, START = np.array([1.0, 0.3, 0.05]), np.array([1.0, -2.0, 0.5])
RATE, MOMENTUM, KAPPA = 0.1, 0.8, 1.5


def by_hand(worker, variant):
    """The central variable after every commit, and every commit's mean π."""
    n = worker.max() + 1
    theta = START.copy()
    moment = [np.zeros(3) for _ in range(n)]
    point = [START.copy() for _ in range(n)]  # where the gradient is taken
    pulled = [START.copy() for _ in range(n)]  # the pull before
    centrals, pis = [], []
    for w in worker:
        update = -RATE * H * point[w]
        moment[w] = MOMENTUM * moment[w] + update
        shift = np.abs(theta - pulled[w])
        if variant == "script":
            pi = np.clip((KAPPA * np.abs(moment[w]) - shift) / np.abs(update + 1e-12), 0, 5)
        else:
            pi = (KAPPA * np.abs(moment[w]) - shift) / (np.abs(update) + 1e-16)
        pulled[w] = theta.copy()
        theta = theta + pi * update
        point[w] = theta.copy() if variant == "script" else pulled[w]
        centrals.append(theta.copy())
        pis.append(pi.mean())
    return np.array(centrals), np.array(pis)


@pytest.mark.parametrize(("variant", "commits"), [("script", 80), ("paper", 30)])
def test_gem_is_what_its_sources_say(variant, commits, x64):
    trace = gamma_trace(workers=4, commits=commits)
    rule = asim.rules.gem(RATE, momentum=MOMENTUM, kappa=KAPPA, variant=variant)
    run = asim.replay(trace, rule, asim.workloads.quadratic(H, start=START), record=("pi_mean",))
    centrals, pis = by_hand(trace.worker, variant)
    np.testing.assert_allclose(run.central["x"], centrals[-1], rtol=1e-9)
    np.testing.assert_allclose(run.records["pi_mean"], pis, rtol=1e-8, atol=1e-12)
