"""Stability limits: known numbers, spectral radii, and runs on either side of them."""

import time

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import theory
from asyncsim.delays import Constant, Erlang, Exponential, Gamma, HyperExponential, Straggler
from asyncsim.theory.stability.second_moments import linear_rule
from tests.theory.replicates import many_paths

MEAN_SQUARE = {2: 1.280776, 4: 0.843070, 8: 0.566391, 16: 0.386182, 32: 0.266113, 64: 0.184762}
WITH_MOMENTUM = {
    2: (0.1184, 0.4188),
    5: (0.0374, 0.1514),
    10: (0.0220, 0.0881),
    20: (0.0152, 0.0553),
    30: (0.0129, 0.0430),
}


@pytest.mark.parametrize("workers", MEAN_SQUARE)
def test_known_limits_of_exponential_workers(workers):
    assert theory.exponential_limit(workers) == pytest.approx(MEAN_SQUARE[workers], abs=1e-6)
    solved = theory.stability_limit(workers=workers, compute=Exponential(3.0))
    assert solved == pytest.approx(theory.exponential_limit(workers), rel=1e-10)


@pytest.mark.parametrize("workers", WITH_MOMENTUM)
def test_known_limits_with_momentum(workers):
    for where, known in zip(("server", "worker"), WITH_MOMENTUM[workers], strict=True):
        limit = theory.stability_limit(workers=workers, compute=Exponential(1.0), momentum=0.9, where=where)
        assert limit == pytest.approx(known, abs=6e-5)


def test_known_limits_of_other_laws():
    fast_and_slow = [Exponential(1 / rate) for rate in (1, 1, 1, 1, 2, 2, 4, 8)]
    assert theory.stability_limit(workers=8, compute=fast_and_slow) == pytest.approx(0.6917, abs=5e-5)
    assert theory.stability_limit(workers=4, compute=Erlang(1.0, 2)) == pytest.approx(0.69358, abs=5e-6)
    assert theory.stability_limit(workers=3, compute=Gamma(1.0, 3**-0.5)) == pytest.approx(0.81802, abs=5e-6)


def kronecker_radius(kappa, share, momentum, where):
    """Spectral radius of Σ p_w A_w ⊗ A_w with A_w one commit of (z, s_1, …, s_n), written out in full."""
    rule, workers = linear_rule(kappa, momentum, where), len(share)
    p, q = len(rule.e), len(rule.f)
    total = 0
    for w, weight in enumerate(share):
        matrix, mine = np.eye(p + workers * q), slice(p + w * q, p + (w + 1) * q)
        matrix[:p, :p], matrix[:p, mine], matrix[mine, :p], matrix[mine, mine] = rule.F, rule.G, rule.J, rule.K
        total = total + weight * np.kron(matrix, matrix)
    return np.abs(np.linalg.eigvals(total)).max()


@pytest.mark.parametrize(("momentum", "where"), [(0.0, "none"), (0.7, "server"), (0.7, "worker")])
@pytest.mark.parametrize("rates", [(1, 1, 1), (1, 1, 4), (1, 2, 5)])
def test_at_the_limit_the_second_moments_are_neutral(rates, momentum, where):
    compute = [Exponential(1 / rate) for rate in rates]
    limit = theory.stability_limit(workers=3, compute=compute, momentum=momentum, where=where)
    share = np.array(rates) / sum(rates)
    assert kronecker_radius(limit, share, momentum, where) == pytest.approx(1.0, abs=1e-8)
    for fraction in (0.3, 0.7, 0.95):
        assert kronecker_radius(fraction * limit, share, momentum, where) < 1


def test_mixtures_of_laws_reduce_to_what_they_are():
    one = theory.stability_limit(workers=5, compute=Exponential(1.0))
    for same in (Erlang(1.0, 1), Gamma(1.0, 1.0), HyperExponential((0.5, 0.5), (2.0, 2.0))):
        assert theory.stability_limit(workers=5, compute=same) == pytest.approx(one, rel=1e-9)
    straggler = Straggler(Exponential(1.0), 0.0, 10.0)
    assert theory.stability_limit(workers=5, compute=straggler) == pytest.approx(one, rel=1e-9)


def test_regular_laws_approach_the_round_robin_from_above():
    limits = [theory.stability_limit(workers=3, compute=Erlang(1.0, shape)) for shape in (1, 2, 3, 5, 8)]
    assert limits == sorted(limits, reverse=True)
    assert limits[-1] > theory.stability_limit(workers=3, compute=Constant(1.0))


def test_time_has_no_unit():
    limits = [theory.stability_limit(workers=4, compute=[Erlang(s, 2)] * 2 + [Exponential(3 * s)] * 2) for s in (1, 50)]
    assert limits[0] == pytest.approx(limits[1], rel=1e-9)


@pytest.mark.parametrize("fraction", [0.8, 1.2])
def test_second_moments_of_runs_on_either_side_of_the_limit(fraction):
    workers, commits, runs = 8, 40, 200_000
    kappa = fraction * theory.exponential_limit(workers)
    squares = many_paths(lambda x: x, workers=workers, learning_rate=kappa, commits=commits, runs=runs) ** 2
    predicted = theory.exponential_moments(kappa, workers, commits)
    error = squares.std(axis=0, ddof=1) / np.sqrt(runs)
    assert np.all(np.abs(squares.mean(axis=0) - predicted)[2:15] < 5 * error[2:15])
    assert (predicted[-1] > predicted[20]) == (fraction > 1)


def test_known_second_moments_of_a_transient():
    path = theory.exponential_moments(0.8 * theory.exponential_limit(8), 8, 60)
    assert path[[15, 30, 60]] == pytest.approx([0.37913, 0.40340, 0.19898], abs=1e-5)
    path = theory.exponential_moments(1.2 * theory.exponential_limit(8), 8, 60)
    assert path[[15, 30, 60]] == pytest.approx([2.2678, 3.4457, 7.7353], abs=1e-4)


def test_second_moments_settle_at_the_noise_floor():
    assert theory.exponential_moments(0.2, 4, 500, noise=2.0)[-1] == pytest.approx(
        4 * theory.exponential_noise_floor(0.2, 4)
    )


def test_the_mean_is_stable_far_beyond_all_runs():
    assert theory.mean_stability_limit(workers=4, worker_momentum=0.5) == pytest.approx(15.0)
    assert theory.mean_stability_limit(workers=8, worker_momentum=0.9) == pytest.approx(31.8)
    for kappa, stable in ((14.99, True), (15.01, False)):
        roots = np.roots(theory.mean_polynomial(kappa, workers=4, momentum=0.5, where="worker"))
        assert (np.abs(roots).max() < 1) == stable


def test_the_replay_decays_below_and_grows_above_the_round_robin_limit():
    trace = asim.simulate(asim.Cluster(workers=6, compute=Constant(1.0)), commits=4000, seed=0)
    limit = theory.stability_limit(workers=6, compute=Constant(1.0))
    low, high = (
        asim.replay(trace, asim.rules.downpour(f * limit), asim.workloads.quadratic([1.0])).final_loss()
        for f in (0.98, 1.02)
    )
    assert low < 1e-4
    assert high > 1e4


def test_a_map_takes_seconds():
    theory.stability_limit(workers=2, compute=Exponential(1.0), momentum=0.5, where="worker")  # imports SciPy
    start = time.process_time()
    for workers in range(1, 21):
        for momentum in np.linspace(0, 0.95, 20):
            theory.stability_limit(workers=workers, compute=Exponential(1.0), momentum=momentum, where="worker")
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"compute": [Exponential(1.0)] * 3}, "one law per worker"),
        ({"compute": [Constant(1.0), Constant(1.0), Constant(1.0), Constant(2.0)]}, "no closed form"),
        ({"compute": Erlang(1.0, 40), "workers": 8}, "moments"),
        ({"where": "sever"}, "Did you mean 'server'"),
        ({"where": "none"}, "`where` must be 'server' or 'worker'"),
        ({"momentum": -0.1}, "`momentum` must not be negative"),
    ],
)
def test_what_cannot_be_answered_is_refused(bad, message):
    good = {"workers": 4, "compute": Exponential(1.0), "momentum": 0.5, "where": "server"}
    with pytest.raises(ValueError, match=message):
        theory.stability_limit(**(good | bad))
