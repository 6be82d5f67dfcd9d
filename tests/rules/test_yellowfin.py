"""YellowFin: its scalar minimisation against SciPy, its estimate against exact dynamics, all of it against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.rules._yellowfin import total_momentum
from tests.problems import gamma_trace, random_trace

seen_momentum = jax.jit(total_momentum)
H, START = np.array([1.0, 0.6, 0.3]), np.array([1.0, -2.0, 0.5])
RATE, DECAY, GAIN, SPAN, HISTORY = 0.1, 0.95, 0.05, 5, 8


@pytest.mark.parametrize("moving", [7, 2, 0])
def test_the_total_momentum_of_exact_dynamics(moving, x64):
    """x_{r+1} = x_r + m·(x_r - x_{r-1}) - α·g gives m, whatever came later, from the parameters that moved."""
    momentum, rate, g = 0.37, 0.2, np.array([1.0, -0.5, 2.0, 0.1, 3.0, -1.0, 0.7])
    x = [np.ones(7), 1 + 0.1 * np.arange(1, 8) * (np.arange(7) < moving)]
    x.append(x[1] + momentum * (x[1] - x[0]) - rate * g)
    x += [np.full(7, 9.0), np.full(7, -3.0)]  # by other workers
    server = rules.YellowFin(span=SPAN, history=HISTORY).start_server(jnp.ones(7))
    history = server.history.at[np.arange(5)].set(np.array(x))
    server = server._replace(steps=jnp.int32(4), history=history)
    seen = seen_momentum(rate, server, g, x[1], 3)
    if moving == 7:
        assert float(seen) == pytest.approx(momentum)
    if moving == 0:
        assert not np.isfinite(seen)
    for unknown in (0, 4, HISTORY - 1):  # fresh; no version before the one read; no longer kept
        assert not np.isfinite(seen_momentum(rate, server, g, x[1], unknown))


def by_hand(trace, closed):
    """Central variables after every step, momenta in use and targets."""
    thetas, velocity, rate, target, momentum = [START], np.zeros(3), 1.0, 0.0, 0.0
    logs, mean, averages, weight, messages, momenta = [], np.zeros(3), np.zeros(5), 0.0, [], []
    for k in range(len(trace)):
        r, tau = trace.read_version[k], trace.staleness[k]
        g, seen = H * thetas[r], target
        if tau == 0:
            seen = momentum
        elif r >= 1 and tau + 2 <= HISTORY:
            seen = np.median((thetas[r + 1] - thetas[r] + RATE * rate * g) / (thetas[r] - thetas[r - 1]))
        messages.append((g, target - seen))
        if not trace.closes_step[k]:
            continue
        g, lacking = (np.mean(part, axis=0) for part in zip(*messages, strict=True))
        messages = []
        velocity = momentum * velocity - RATE * rate * g
        thetas.append(thetas[-1] + velocity)
        square = (g**2).sum()
        logs.append(np.log(square + 1e-15))
        mean = DECAY * mean + (1 - DECAY) * g
        weight = DECAY * weight + 1 - DECAY
        now = [min(logs[-SPAN:]), max(logs[-SPAN:]), square, np.sqrt(square)]
        averages[:4] = DECAY * averages[:4] + (1 - DECAY) * np.array(now)
        averages[4] = DECAY * averages[4] + (1 - DECAY) * averages[3] / (averages[2] + 1e-15)
        low, high, squares, _, distance = averages / weight
        variance = max(squares - (mean**2).sum() / weight**2, 1e-15)
        p = (distance * np.exp(low)) ** 2 / (2 * variance)
        w = -np.cbrt((np.sqrt(p**2 + 4 / 27 * p**3) + p) / 2)  # Vieta's substitution, as the authors do
        x = 1 + w - p / 3 / w
        root = max(x, (np.exp((high - low) / 2) - 1) / (np.exp((high - low) / 2) + 1))
        momentum = momentum + GAIN * lacking
        if len(thetas) > 2:
            rate = DECAY * rate + (1 - DECAY) * (1 - root) ** 2 / (np.exp(low) + 1e-15)
            target = DECAY * target + (1 - DECAY) * root**2
        momentum = momentum if closed else target
        momenta.append(momentum)
    return thetas, momenta


@pytest.mark.parametrize(
    ("closed", "trace"),
    [
        (True, gamma_trace(workers=4, commits=60)),
        (False, random_trace(2, workers=4, commits=60, closing=0.4, crashing=0.1)),
    ],
)
def test_yellowfin_equals_its_paper_by_hand(closed, trace, x64):
    assert trace.staleness.max() > HISTORY - 2 or not closed
    rule = rules.YellowFin(RATE, decay=DECAY, feedback=GAIN, closed_loop=closed, span=SPAN, history=HISTORY)
    run = asim.replay(trace, rule, asim.workloads.Quadratic(H, start=START))
    thetas, momenta = by_hand(trace, closed)
    assert max(map(abs, momenta)) > 0.01  # otherwise little is tested
    np.testing.assert_allclose(run.central["x"], thetas[-1], rtol=1e-6, atol=1e-12)
