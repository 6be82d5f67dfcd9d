"""Known numbers and identities, a row each; also calls by position, which programs outside this repository use."""

import math

import numpy as np
import pytest

from asyncsim import theory
from asyncsim.delays import Constant, Erlang, Exponential, Gamma, LogNormal, Mixture, Pareto, Uniform

pytestmark = pytest.mark.quick
approx = pytest.approx

ONE, TWO, GAMMA, HEAVY = Exponential(1.0), Exponential(2.0), Gamma(mean=1.0, cv=0.5), Pareto(minimum=1.0, shape=1.5)
EIGHT = [Exponential(1 / rate) for rate in (1, 1, 1, 1, 2, 2, 4, 8)]
COIN = Mixture((0.5, 0.5), (Constant(1.0), Constant(2.0)))
LENGTHS = LogNormal(5.0, 1.0)
RESCALINGS = {2: 0.69315, 5: 0.40236, 10: 0.25584, 30: 0.11728}
LIMITS = {(8, 1): 0.566391, (8, 2): 1.150199, (8, 4): 2.223537, (8, 7): 2.455467, (16, 4): 1.563802, (30, 10): 2.656989}
TIMES = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
AT_TIMES = [0.66930, 0.42472, 0.14862, 0.04177, 0.04041, 0.02273, 0.02228]
ROOTS = {"seconds": np.sqrt(np.arange(1, 101)).tolist(), "gap": 1.0, "noise": 10.0, "accuracy": 0.1}
FIVE = {"workers": 5, "service": TWO}
READ = {"service": ONE, "after_read": [Constant(1.0)]}
OF_16 = {"workers": 16, "protocol": "k_sync"}
GEOMETRIC = 0.75 ** np.arange(120)


def each(predict, cases):
    """A prediction for each of some arguments."""
    return np.array([predict(case) for case in cases])


def harmonic(n, after=0):
    return sum(1 / i for i in range(after + 1, n + 1))


def curve(seconds=TIMES, **change):
    return theory.error_curve(seconds, **{"workers": 8, "kappa": 0.1, "rate": 1.0, "noise": 0.0025} | change)


def path(workers, kappa, commits):
    return theory.expected_path(lambda x: x, 1.0, workers=workers, learning_rate=kappa, commits=commits)


N, SLACK, MU = np.array([1, 2, 5, 16]), np.array([0, 1, 3, 10, 100]), np.array([0.0, 0.5, 0.9])
# Functions of no argument that return what theory says, and the number that is known.
KNOWN = [
    # Staleness.
    lambda: (theory.staleness_mean(workers=8), 7),
    lambda: (theory.worker_staleness(compute=EIGHT, workers=8), approx([19, 19, 19, 19, 9, 9, 4, 1.5])),
    lambda: (theory.staleness_variance(compute=EIGHT, workers=8), 143),
    lambda: (theory.staleness_variance(compute=HEAVY, workers=4), np.inf),
    lambda: (theory.staleness_variance(compute=Constant(2.0), workers=4), 0),
    lambda: (theory.staleness_pmf(compute=GAMMA, workers=1, size=2).tolist(), [1, 0]),
    lambda: (theory.staleness_pmf([GAMMA] * 3, 3, 9).tolist(), theory.staleness_pmf(GAMMA, 3, 9).tolist()),
    *(lambda n=n: (theory.mean_rescaling(compute=TWO, workers=n), approx(RESCALINGS[n], abs=6e-6)) for n in RESCALINGS),
    lambda: (theory.mean_rescaling(compute=Constant(1.0), workers=7), approx(1 / 7)),
    # Queues.
    lambda: (theory.saturated_staleness_variance(compute_rate=2.0, service_rate=6.0), 12),
    lambda: (theory.separate_pull_staleness_mean(workers=9, before_read=[], **READ), 8),
    lambda: (theory.separate_pull_staleness_mean(workers=1, before_read=[Constant(1.0)], **READ), 0),
    lambda: (theory.mean_value_analysis(**FIVE, delays=[Constant(0.0)], slots=2)[:3], approx((1.0, 1.0, 5.0))),
    lambda: (
        theory.mean_value_analysis(**FIVE, delays=[Uniform(0.0, 2.0), Constant(1.0)], slots=5)[:4],
        approx((5 / (1 + 1 + 2), 0.5, 2.5, 2)),
    ),
    # Rounds, and a worker ahead of others by some jobs.
    *(
        lambda k=k, mean=mean: (theory.expected_order_statistic(COIN, k=k, n=3), approx(mean, rel=1e-12))
        for k, mean in ((1, 1.125), (2, 1.5), (3, 1.875))
    ),
    *(
        lambda protocol=protocol, k=k: (
            theory.round_time_of_law(compute=TWO, workers=8, k=k, protocol=protocol),
            theory.round_time(8, k, 0.5, protocol),
        )
        for protocol, k in (("sync", None), ("k_sync", 3), ("k_batch_async", 9), ("async", None))
    ),
    lambda: (
        each(lambda s: theory.ssp_throughput(workers=2, slack=s, rate=3.0), SLACK),
        approx(3 * 2 * (2 * SLACK + 2) / (2 * SLACK + 3)),
    ),
    lambda: (
        each(lambda s: theory.ssp_staleness_mean(workers=2, slack=s), SLACK),
        approx((2 * SLACK + 1) / (2 * SLACK + 2)),
    ),
    lambda: (
        each(lambda n: theory.ssp_throughput(workers=n, slack=0, rate=1.0), N),
        approx(N / each(harmonic, N)),
    ),
    lambda: (each(lambda n: theory.ssp_staleness_mean(workers=n, slack=0), N), approx((N - 1) / 2)),
    # Errors by seconds.
    lambda: (curve(), approx(AT_TIMES, abs=5.1e-6)),
    lambda: (curve(TIMES[::-1])[::-1], approx(curve())),
    lambda: (curve([0.0, 1.0], noise=0.0, start=3.0), approx(9 * curve([0.0, 1.0], noise=0.0))),
    lambda: (curve([0.0], start=-3.0), approx([9.0])),
    lambda: (curve(protocol="k_async", k=8), approx(curve(protocol="sync"))),
    lambda: (curve(protocol="k_async", k=1), approx(curve())),
    lambda: (curve(workers=1, protocol="sync"), approx(curve(workers=1))),
    *(
        lambda protocol=protocol: (curve(workers=1, protocol=protocol, k=1), approx(curve(workers=1)))
        for protocol in ("k_async", "k_sync", "k_batch_sync")
    ),
    *(
        lambda workers=workers, protocol=protocol, k=k: (
            curve([500.0], kappa=0.4, protocol=protocol, k=k)[0],
            approx(0.0025 * theory.exponential_noise_floor(0.4, workers, k)),
        )
        for workers, protocol, k in ((8, "async", 1), (8, "k_async", 4), (8, "sync", 8), (3, "k_batch_sync", 3))
    ),
    lambda: (theory.rennala_complexity(**ROOTS), approx((107.59, 100), abs=5.1e-3)),
    lambda: (theory.minibatch_complexity(**ROOTS), approx(200.0)),
    lambda: (theory.asynchronous_complexity(**ROOTS), approx(107.59, abs=5.1e-3)),
    # Costs.
    lambda: (
        theory.useful_share(compute=ONE, **OF_16, k=4),
        approx(sum(harmonic(16, 16 - i) for i in range(1, 5)) / (16 * harmonic(16, 12))),
    ),
    lambda: (
        theory.useful_share(compute=GAMMA, **OF_16, k=16),
        approx(theory.useful_share(compute=GAMMA, workers=16, protocol="sync")),
    ),
    lambda: (theory.repeated_job_seconds(compute=GAMMA, preemption_rate=4.0), np.inf),
    # The longest of a group over the mean.
    lambda: (theory.rollouts.longest_over_mean(LENGTHS, group=4), approx(1.99460, abs=1e-5)),
    lambda: (theory.rollouts.longest_over_mean(LENGTHS, group=8), approx(2.65650, abs=1e-5)),
    lambda: (theory.rollouts.longest_over_mean(ONE, group=3), approx(1 + 1 / 2 + 1 / 3)),
    lambda: (
        theory.rollouts.longest_over_mean(Pareto(0.3, 2.5), group=6),
        approx(1.5 / 2.5 * math.gamma(7) * math.gamma(0.6) / math.gamma(6.6)),
    ),
    # Workers with variables of their own: what is left of their distance, its noise, and what regions report.
    lambda: (theory.pair_consensus(1 - np.eye(8), 1), approx(0.85714, abs=5e-6)),
    lambda: (theory.partition_consensus(2, 8), approx(0.14286, abs=5e-6)),
    lambda: (0.2**2 * theory.pair_noise_floor(0.2, 8).consensus, approx(0.02771, abs=5e-6)),
    lambda: (0.2**2 * theory.local_drift(0.2, 5, 8), approx(0.08678, abs=5e-6)),
    lambda: (8 * theory.noloco_noise_floor(0.7, 0.5, 0.3, 8), approx(4.186047, abs=5e-7)),
    lambda: (theory.reported_share(2, 4 / 0.995, 0.6157), approx(0.4469, abs=5e-5)),
    lambda: (theory.push_rate(2, 4 / 0.995, 0.6157), approx(0.8983, abs=5e-5)),
    # Workers whose data differ.
    lambda: (theory.weighted_minimum([[0.0, 3.0], [4.0, 3.0]], [1, 1]), approx([2.0, 3.0])),
    lambda: (theory.weighted_minimum([0.0, 4.0], [1, 1], curvatures=[[1.0], [3.0]]), approx([3.0])),
    # Mean paths: one worker has nothing to attenuate, and the kernel is exact for geometric staleness.
    lambda: (theory.attenuated_momentum(0.5, 1), approx((0.0, 1.0))),
    lambda: (
        theory.expected_quadratic_path(0.3, workers=5, compute=Exponential(7.0), commits=30),
        approx(path(5, 0.3, 30)),
    ),
    lambda: (
        theory.kernel_path(GEOMETRIC / GEOMETRIC.sum(), kappa=0.4, commits=60),
        approx(path(4, 0.4, 60), abs=1e-9),
    ),
    # Limits, floors and energies.
    *(lambda case=case: (theory.exponential_limit(*case), approx(LIMITS[case], abs=1e-6)) for case in LIMITS),
    lambda: (each(lambda n: theory.exponential_limit(n, n), N), approx(2.0 + 0 * N)),
    lambda: (each(lambda n: theory.exponential_noise_floor(0.3, n, n), N), approx(1 / (N * 0.3 * 1.7))),
    lambda: (theory.stability_limit(workers=8, compute=EIGHT), approx(0.6917, abs=5e-5)),
    lambda: (theory.stability_limit(workers=4, compute=Erlang(1.0, 2)), approx(0.69358, abs=5e-6)),
    lambda: (theory.stability_limit(workers=3, compute=Gamma(1.0, 3**-0.5)), approx(0.81802, abs=5e-6)),
    lambda: (
        theory.exponential_moments(0.2, 4, 500, noise=2.0)[-1],
        approx(4 * theory.exponential_noise_floor(0.2, 4)),
    ),
    lambda: (each(lambda n: theory.drift_energy(workers=n, compute=ONE), N), approx(N * (2 * N - 1) / 2)),
    lambda: (each(lambda n: theory.drift_energy(workers=n, compute=Constant(1.0)), N), approx(N**2 / 2)),
    lambda: (theory.proxy_drift_energy(0.9), approx((0.9 ** np.arange(400)).sum() ** 2 / 2)),
    lambda: (each(lambda mu: theory.proxy_kinetic_energy(1e-9, mu), MU), approx(each(theory.proxy_noise_energy, MU))),
    lambda: (each(lambda mu: theory.most_workers_on_quadratic(1e-9, mu), MU), approx(1 / (1 - MU**2))),
    lambda: (theory.energy_ratio(0.6, workers=8, compute=ONE), math.inf),
    lambda: (theory.proxy_noise_floor(3.9, 0.9), math.inf),
    lambda: (theory.proxy_kinetic_energy(3.9, 0.9), math.inf),
    lambda: (theory.most_workers_on_quadratic(3.9, 0.9), math.inf),
    # GEM.
    lambda: (
        theory.gem_velocity(workers=10**6, compute=ONE, cap=math.inf),
        approx(10 * math.sqrt(10**6 / 2), rel=1e-3),
    ),
    lambda: (
        each(lambda n: theory.gem_velocity(workers=n, compute=Constant(1.0), cap=math.inf), N),
        approx(N * each(lambda n: theory.gem_round_robin_scaling(workers=n), N)),
    ),
    # Calls by position.
    lambda: (
        theory.staleness_pmf(GAMMA, 3, 5).tolist(),
        theory.staleness_pmf(workers=3, size=5, compute=GAMMA).tolist(),
    ),
    lambda: (theory.staleness_variance(GAMMA, 3), theory.staleness_variance(workers=3, compute=GAMMA)),
    lambda: (theory.knee(1.0, 8.0), 9.0),
    lambda: (theory.round_time(16, 4, 1.0, "k_sync"), approx(harmonic(16, 12))),
    lambda: (theory.round_time(16, 4, 2.0, "k_batch_async"), approx(4 / 32)),
    lambda: (theory.round_time(workers=16, rate=2.0, protocol="async"), approx(1 / 32)),
    lambda: (theory.stability_limit(8, Exponential(3.0)), approx((1 + 65**0.5) / 16)),
    lambda: (theory.noise_floor(0.1, 8, Exponential(3.0)), approx(1.8 / (0.1 * (2.1 - 0.08)))),
    lambda: (theory.kinetic_energy(0.5, 4, Exponential(3.0)), approx(4.0)),
]


@pytest.mark.parametrize("ask", KNOWN)
def test_what_is_known(ask):
    found, known = ask()
    assert found == known


@pytest.mark.parametrize("predict", [theory.throughput, theory.queue_length, theory.utilisation])
def test_rates_have_their_own_places(predict):
    """Exchanging the two changes the answer: the order is not arbitrary."""
    rates = {"workers": 8, "compute_rate": 1.5, "service_rate": 40.0}
    assert predict(8, 1.5, 40.0) == predict(**rates) != approx(predict(8, 40.0, 1.5), rel=0.01)
