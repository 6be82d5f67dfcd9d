"""GEM in NumPy from Algorithm 1 and from the authors' script, and with one proxy at the server.

The engine and its plain reference loop call the same rule, but the loops here do not.
"""

import dataclasses

import numpy as np
import pytest

from asyncsim import rules
from asyncsim.engine.reference import replay_plainly
from tests.problems import TRACES, random_trace
from tests.rules.by_hand import H, quadratic, versions

pytestmark = pytest.mark.quick

RATE, MOMENTUM, KAPPA = 0.1, 0.8, 1.5


def by_hand(trace, variant, proxy):
    """The central variable of every version, and every commit's π and proxy κ·m."""
    shared, own_moments, pulled, own, pis, proxies = [np.zeros(3)], {}, {}, {}, [], []

    def send(k, thetas):
        w, theta = trace.worker[k], thetas[trace.pull_version[k]]
        point = own[w] if trace.resumes_own[k] else thetas[trace.read_version[k]]  # where the gradient is taken
        begins = w not in pulled or trace.state_lost[k]
        last = point if begins else pulled[w]
        point = last if variant == "paper" else point
        update = -RATE * H * point
        before = shared[-1] if proxy == "server" else np.zeros(3) if begins else own_moments[w]
        moment = own_moments[w] = MOMENTUM * before + update
        left = KAPPA * abs(moment) - abs(theta - last)
        pi = np.clip(left / abs(update + 1e-12), 0, 5) if variant == "script" else left / (abs(update) + 1e-16)
        message = KAPPA * moment - (theta - point) if variant == "signed" else pi * update
        pulled[w], own[w] = theta, theta + message
        pis.append(pi)
        proxies.append(KAPPA * moment)
        return message, update

    def apply(theta, message):
        shared.append(MOMENTUM * shared[-1] + message[1])
        return theta + message[0]

    return versions(trace, send, apply), np.array(pis), np.array(proxies)


KINDS = [  # a variant, who keeps the proxy, and a trace, the shorter the more the variant amplifies rounding
    *(("script", "worker", TRACES[kind][0](workers=4, commits=80)) for kind in ("own", "everything")),
    *(("paper", "worker", TRACES[kind][0](workers=4, commits=25)) for kind in ("own", "everything")),
    *(
        (variant, "server", random_trace(workers=4, commits=commits, closing=0.4, waiting=0.3))
        for variant, commits in (("script", 80), ("paper", 20), ("signed", 60))
    ),
]


@pytest.mark.parametrize(("variant", "proxy", "trace"), KINDS)
def test_gem_is_what_its_sources_say(variant, proxy, trace, x64):
    """Also with a server that keeps the moment of all raw updates."""
    run = replay_plainly(
        trace, rules.GEM(RATE, momentum=MOMENTUM, kappa=KAPPA, variant=variant, proxy=proxy), quadratic()
    )
    thetas, pis, proxies = by_hand(trace, variant, proxy)
    np.testing.assert_allclose(run.central["x"], thetas[-1], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose([commit.info.proxy["x"] for commit in run.commits], proxies, rtol=1e-7, atol=1e-10)
    if variant != "signed":
        # π divides by |Δθ + 1e-12|: where a coordinate has come to rest, rounding in it shows up magnified by 10¹².
        np.testing.assert_allclose([commit.info.pi["x"] for commit in run.commits], pis, rtol=1e-8, atol=1e-8)


def test_a_crash_leaves_the_servers_proxy_alone(x64):
    """Signed GEM then keeps nothing on the worker, so nothing is lost with its state."""
    trace = random_trace(crashing=0.3)
    assert trace.state_lost.any()
    forgotten = dataclasses.replace(trace, state_lost=np.zeros_like(trace.state_lost))
    rule = rules.GEM(0.05, momentum=MOMENTUM, kappa=KAPPA, variant="signed", proxy="server")
    runs = [replay_plainly(one, rule, quadratic()) for one in (trace, forgotten)]
    np.testing.assert_array_equal(runs[0].loss, runs[1].loss)
