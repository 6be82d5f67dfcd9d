"""AVO: gradients against closed forms, baselines without bias, compiled and called back, and refusals."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asyncsim.calibration import _critic as critic
from asyncsim.calibration import avo
from asyncsim.calibration._avo import Avo, History, _batches
from tests.problems import refusals

LINEAR = ((jnp.array([[2.0]]), jnp.zeros(1)), (jnp.ones((1, 1)), jnp.zeros(1)))


def normal(rng, theta):
    return rng.normal(theta, 0.5)


def compiled(key, theta):
    return theta + 0.5 * jax.random.normal(key, theta.shape)


@pytest.mark.parametrize("baseline", ["none", "mean", "optimal"])
def test_the_proposals_gradient(baseline):
    """Of E (θ - a)² + γ H with θ normal: 2 (μ - a), and 2 σ² + γ for log σ, whatever the baseline."""
    mean, sd, target, draws = 0.7, 1.3, 2.0, 400_000
    theta = jnp.asarray(np.random.default_rng(0).normal(mean, sd, (draws, 1)), jnp.float32)
    proposal = critic.Proposal(jnp.array([mean]), jnp.log(jnp.array([sd])))
    cost = ((theta - target) ** 2)[:, 0]
    found = critic.proposal_gradient(proposal, theta, cost, 0.25, baseline)
    scores = critic.scores(proposal, theta)
    for name, truth in (("mean", 2 * (mean - target)), ("log_sd", 2 * sd**2 + 0.25)):
        error = float(jnp.std(getattr(scores, name)[:, 0] * cost)) / math.sqrt(draws)
        assert float(getattr(found, name)[0]) == pytest.approx(truth, abs=5 * error)


def test_the_optimal_baseline_has_the_least_spread():
    generator = np.random.default_rng(0)
    proposal = critic.Proposal(jnp.array([0.0]), jnp.array([0.0]))
    spread = {}
    for baseline in ("none", "mean", "optimal"):
        draws = generator.normal(size=(200, 32, 1)).astype(np.float32)
        found = jax.vmap(lambda x, b=baseline: critic.proposal_gradient(proposal, x, 5 + x[:, 0], 0.0, b).log_sd)(draws)
        spread[baseline] = np.std(found)
    assert spread["optimal"] <= 1.3 * spread["mean"] < 0.6 * spread["none"]


@pytest.mark.quick
def test_losses_of_a_linear_critic():
    """d(x) = 2x: slopes of 2 everywhere, so that the penalty is λ (2 - 1)²; and BCE of a known logit."""
    real, fake = jnp.array([[1.0], [3.0]]), jnp.array([[0.5], [0.5]])
    loss, reported = critic.wasserstein_loss(LINEAR, real, fake, jnp.full((2, 1), 0.5), 0.3)
    assert float(loss) == pytest.approx((1 - 4) / 2 + 0.3)
    assert float(reported) == -float(loss)
    chance = 1 / (1 + np.exp(-2 * np.array([1.0, 3.0])))
    plain = (-np.log(chance).mean() - math.log(1 - 1 / (1 + math.exp(-1.0)))) / 2
    loss, reported = critic.cross_entropy_loss(LINEAR, real, fake, 10.0)
    assert float(reported) == pytest.approx(plain, rel=1e-5)
    assert float(loss - reported) == pytest.approx(10 * ((2 * chance * (1 - chance)) ** 2).mean(), rel=1e-4)
    np.testing.assert_allclose(critic.log_doubt(LINEAR, fake), np.log(1 - 1 / (1 + np.exp(-1.0))), rtol=1e-5)


def test_first_weights_are_within_their_bounds():
    for version, bounds in (
        (1, [0.1 * math.sqrt(6 / 15), 0.1 * math.sqrt(6 / 20), 0.1 * math.sqrt(6 / 10)]),
        (2, [math.sqrt(6 / 15), math.sqrt(6 / 20), math.sqrt(6 / 11)]),
    ):
        layers = critic.new_critic(np.random.default_rng(0), 5, version)
        for (weight, bias), bound in zip(layers, bounds, strict=True):
            assert 0.7 * bound < float(jnp.abs(weight).max()) <= bound
            assert not bias.any()


@pytest.mark.parametrize("size", [40, 1000])
def test_batches_do_not_repeat_a_row(size):
    rows = _batches(np.random.default_rng(0), size, (300, 2, 20))
    assert rows.shape == (300, 2, 20)
    assert all(len(set(row)) == 20 for row in rows.reshape(-1, 20).tolist())
    counts = np.bincount(rows.ravel(), minlength=size)
    assert abs(counts / rows.size * size - 1).max() < 6 / math.sqrt(rows.size / size)


@pytest.mark.parametrize(("version", "options"), [(1, {"steps": 60, "critic_steps": 20}), (2, {"steps": 1500})])
def test_avo_moves_to_the_mean_of_the_data(version, options):
    """From far away, with the simulator called back; equal seeds give equal results."""
    data = np.random.default_rng(1).normal(1.0, 0.5, 2000)
    options |= {"version": version, "proposal_rate": 0.02, "critic_rate": 0.01, "seed": 3}
    reports = []
    found = avo(normal, data, 0.0, 0.5, progress=lambda done, whole: reports.append((done, whole)), **options)
    assert abs(found.mean[0] - 1.0) < 0.3
    assert found.sd[0] < 0.5
    assert reports[-1] == (options["steps"],) * 2
    assert found.history.mean.shape == (options["steps"] + 1, 1)
    assert found.history.critic.shape == (options["steps"],)
    assert "no posterior" in repr(found)


HISTORY = History(np.ones((9, 2)), np.ones((9, 2)), np.zeros(8))
test_a_share_that_is_none = refusals(
    *((share, str(share)) for share in (0, -0.5, 1.5, math.nan)),
    call=Avo(HISTORY.mean[-1], HISTORY.sd[-1], HISTORY, version=2, entropy=0.0).average,
    start="`share` must be above 0 and at most 1; got ",
)


def test_compiled_simulators():
    """One program for all steps; an entropy weight of 2 shrinks the proposal by as many steps as there are."""
    data = np.random.default_rng(1).normal(1.0, 0.5, 2000)
    found = avo(compiled, data, 0.0, 0.5, steps=600, proposal_rate=0.02, critic_rate=0.01, entropy=2.0)
    assert 0.2 < found.mean[0] < 1.3
    assert found.sd[0] < 0.1


USUAL = {"simulate": normal, "data": np.linspace(0, 1, 50), "mean": 0.0, "sd": 1.0, "steps": 2}
test_bad_input = refusals(
    ({"version": 3}, "`version` must be 1 or 2; got 3"),
    ({"sd": 0.0}, "`sd` must be positive"),
    ({"sd": [1.0, 1.0]}, "as many; got shapes"),
    ({"data": [1.0] * 5}, "must be at least a batch, 32; got 5"),
    ({"data": [math.nan] * 50}, "`data` must be finite numbers"),
    ({"simulate": lambda rng, theta: theta[0]}, r"must return shape \(3, 1\) for 3 parameters; got \(1,\)"),
    ({"simulate": lambda rng, theta: rng.normal(theta) * np.nan}, "must return finite numbers"),
    ({"simulate": lambda rng, theta: rng.nromal(theta)}, "fails with NumPy .* and with JAX"),
    ({"baseline": "mena"}, "`baseline` must be one of .* Did you mean 'mean'"),
    ({"backend": "torch"}, "`backend` must be one of"),
    ({"critic_rate": -1.0}, "`critic_rate` must be finite and positive"),
    call=lambda change: avo(**{**USUAL, **change}),
)
