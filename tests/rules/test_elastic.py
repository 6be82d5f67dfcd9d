"""Springs between workers and centre: in NumPy, their degenerate cases, and the effect of an old pull."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.workloads._batches import Shuffles
from tests.problems import TRACES, assert_close, noisy_quadratic, round_robin
from tests.rules.by_hand import START, H, assert_ends, versions

RATE, RHO, MOMENTUM, WINDOW = 0.2, 1.5, 0.6, 3
ALPHA = RATE * RHO


class Aeasgd:
    """A worker of Distributed Keras: local steps, then the exchange."""

    def __init__(self, theta):
        self.x = theta.copy()

    def window(self):
        for _ in range(WINDOW):
            self.x = self.x - RATE * H * self.x

    def exchange(self, theta):
        pull = ALPHA * (self.x - theta)
        self.x = self.x - pull
        return pull


class Eamsgd(Aeasgd):
    """A worker of the paper: the gradient after an exchange is that of the x before it."""

    def __init__(self, theta):
        super().__init__(theta)
        self.v, self.pull = np.zeros(3), np.zeros(3)

    def window(self):
        for _ in range(WINDOW):
            self.v = MOMENTUM * self.v - RATE * H * (self.x + MOMENTUM * self.v)
            self.x, self.pull = self.x - self.pull + self.v, np.zeros(3)

    def exchange(self, theta):
        self.pull = ALPHA * (self.x - theta)
        return self.pull


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize(
    ("rule", "worker"),
    [
        (rules.AEASGD(RATE, window=WINDOW, rho=RHO), Aeasgd),
        (rules.EAMSGD(RATE, window=WINDOW, rho=RHO, momentum=MOMENTUM), Eamsgd),
    ],
    ids=["aeasgd", "eamsgd"],
)
def test_a_rule_is_what_its_source_says(rule, worker, atomic, x64):
    trace, workers = TRACES["everything"][0](workers=4, commits=60), {}

    def send(k, thetas):
        w = trace.worker[k]
        if w not in workers or trace.state_lost[k]:
            workers[w] = worker(thetas[trace.read_version[k]])
        workers[w].window()
        return workers[w].exchange(thetas[-1] if atomic else thetas[trace.pull_version[k]])

    assert (trace.pull_version < trace.version).any()
    assert_ends(trace, replace(rule, atomic=atomic), versions(trace, send))


def rounds(workers, commits):
    protocol = asim.protocols.Synchronous()
    return asim.simulate(asim.Cluster(workers, asim.delays.Exponential(1.0), protocol=protocol), commits=commits)


def shifted_loss(params, batch, key):
    del key
    return (0.5 * H * params["x"] ** 2 + batch[0] * params["x"]).sum()


def test_easgd_is_what_its_source_says(x64):
    """x_i ← x_i - ηg_i - α(x_i - θ) and θ ← θ + αΣ(x_i - θ), both from the same x_i and θ.

    The paper's centre is one step behind: it exchanges before its step, and the first exchange moves nothing.
    """
    workers, turns, rate, beta = 4, 12, 0.2, 0.7
    data = np.random.default_rng(0).normal(size=(30, 3))  # keeps the x_i apart
    workload = asim.Workload(lambda key: {"x": jax.numpy.asarray(START)}, shifted_loss, data)
    batch = Shuffles(30, 1).take
    theta, x = START.copy(), np.tile(START, (workers, 1))
    for turn in range(turns + 1):
        slopes = H * x + data[batch(0, np.arange(workers), np.full(workers, turn))[:, 0]]
        pull = beta / workers * (x - theta)
        x, theta = x - rate * slopes - pull, theta + pull.sum(axis=0)
    rule = rules.EASGD(workers=workers, window=1, beta=beta, learning_rate=rate)
    assert_close(asim.replay(rounds(workers, workers * turns), rule, workload).central["x"], theta)


def pulled_before(workers, commits, lag):
    """Round robin with exactly `lag` commits between each pull and its commit."""
    trace = round_robin(workers, commits)
    trace = replace(trace, pull_version=np.maximum(trace.version - lag, trace.read_version))
    trace.check()
    return trace


@pytest.mark.parametrize("lag", [0, 1, 2, 3, 5])
def test_an_old_pull_limits_the_exchange(lag, x64):
    """Workers that come to rest in every window: stable up to α = 2 sin(π/(2(2τ' + 1))); 0.5 up to τ' = 2."""
    limit = 2 * np.sin(np.pi / (2 * (2 * lag + 1)))
    assert (limit > 0.5) == (lag <= 2)
    alphas, trace = limit * np.array([0.97, 1.03]), pulled_before(8, 4000, lag)
    rule = rules.AEASGD(window=1, rho=alphas, learning_rate=1.0, atomic=False)  # one step to the minimum of x²/2
    central = asim.replay(trace, rule, asim.workloads.Quadratic([1.0]), seed=(0, 0)).central["x"]
    assert abs(central[0]) < 1e-3
    assert not abs(central[1]) < 1e3


def test_easgd_wants_rounds():
    trace = asim.simulate(asim.Cluster(4, asim.delays.Constant(1.0), protocol=asim.protocols.KAsync(2)), commits=20)
    with pytest.raises(ValueError, match=r"rounds of 4 commits.* has a step of 2. Simulate it with `protocols.Sync"):
        asim.replay(trace, rules.EASGD(), noisy_quadratic())
