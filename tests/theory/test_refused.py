"""Questions that theory cannot answer: one line that names the argument and the value."""

from functools import partial

import numpy as np
import pytest

from asyncsim import theory
from asyncsim.delays import Constant, Empirical, Erlang, Exponential, Gamma, LogNormal, Mixture
from tests.problems import refusals

pytestmark = pytest.mark.quick

ONE, GAMMA, LOG_NORMAL, ALIKE = Exponential(1.0), Gamma(1.0, 0.5), LogNormal(1.0, 1.0), [Constant(1.0)] * 3
SETTING = {"gap": 1.0, "noise": 10.0, "accuracy": 0.1}
CURVE = partial(theory.error_curve, workers=8, kappa=0.1, rate=1.0, noise=0.0025)
BATCHED = partial(theory.batched_staleness_mean, workers=4)
GAP = partial(theory.gap_staleness_pmf, workers=3, size=3)
ENERGY = partial(theory.energy_per_gradient, compute=GAMMA, workers=4, busy=2.0, idle=1.0)
MOMENTUM = theory.instrumental_momentum
STABLE = {"workers": 4, "compute": ONE, "momentum": 0.5, "where": "server"}
ALMOST = {"order": np.zeros(200, int), "low": 1.0, "high": 3.0}
ATOMS = (
    Empirical([1.0, 2.0, 3.5]),
    Mixture((0.5, 0.5), (Constant(1.0), Constant(2.0))),
    Mixture((0.99, 0.01), (ONE, Constant(2.0))),
    [Constant(1.0), Constant(1.0), Constant(2.0)],
)
WHAT_REMAINS = r"must have no atoms.*worker_staleness"


test_what_has_no_answer = refusals(
    # staleness
    *((partial(theory.staleness_variance, compute=law, workers=3), WHAT_REMAINS) for law in ATOMS),
    *((partial(theory.mean_rescaling, compute=law, workers=3), WHAT_REMAINS) for law in ATOMS),
    *((partial(theory.staleness_pmf, compute=law, workers=3, size=5), "must have no atoms") for law in ATOMS),
    (lambda: theory.worker_staleness(compute=Constant(0.0), workers=2), "`mean` must be finite and positive"),
    (lambda: GAP(compute=ONE, pull_to_commit=ONE), "`pull_to_commit` must be constant; got Exponential"),
    (lambda: GAP(compute=Constant(1.0), pull_to_commit=Constant(0.5)), "`compute` must have no atoms"),
    (lambda: theory.pipeline_staleness(2, "concurrent", backward=2.0), "`backward` must be at most `forward` with"),
    # protocols, rounds and queues
    (lambda: BATCHED(protocol="k_asinc", k=2), "Did you mean 'k_async'"),
    (lambda: BATCHED(protocol="k_async", k=5), "`k` must be at most `workers`"),
    (lambda: BATCHED(protocol="async", k=2), "Leave it out"),
    (lambda: BATCHED(protocol="k_sync", k=None), "`k` must be an integer"),
    (lambda: theory.ssp_throughput(workers=20, slack=10, rate=1.0), "got 20 and 10, 5.46e.07 states. Use 2 workers"),
    (lambda: theory.expected_order_statistic(ONE, k=3, n=2), "`k` must be at most `n`"),
    (lambda: theory.rollouts.longest_over_mean(Constant(0.0), group=2), "`mean` must be finite and positive"),
    (lambda: theory.round_time_of_law(compute=GAMMA, workers=4, k=2, protocol="k_async"), "`round_time` for expon"),
    (lambda: theory.round_time_of_law(compute=GAMMA, workers=4, k=2, protocol="k_batch_sync"), "`round_time` for"),
    (lambda: CURVE([0.25, 16.0], protocol="k_batch_async", k=2), "Simulate and replay"),
    (lambda: CURVE([-1.0]), "`seconds`"),
    (lambda: theory.minibatch_complexity(seconds=[], **SETTING), "`seconds`"),
    (lambda: theory.mean_value_analysis(workers=2, service=GAMMA, delays=[ONE]), "`service` must be exponential"),
    # costs
    (lambda: theory.useful_share(compute=GAMMA, workers=4, protocol="k_async", k=2), "`protocol` must be one of"),
    (lambda: ENERGY(protocol="k_sync", k=2, latency=0.1), "`latency` must be 0"),
    (lambda: theory.repeated_job_seconds(compute=LOG_NORMAL, preemption_rate=1.0), "`compute` must be constant"),
    # workers whose data differ
    (lambda: theory.weighted_minimum([0.0, 1.0], [1.0]), "`weights` must be one number per worker, here 2"),
    (lambda: theory.weighted_minimum([0.0, 1.0], [0.0, 0.0]), "`weights` must be one number per worker, here 2"),
    (lambda: theory.weighted_minimum([0.0, 1.0], [1, -1]), "`weights` must not be negative"),
    (lambda: theory.weighted_minimum([0.0, 1.0], [1, 1], curvatures=[1, 2, 3]), "`curvatures` must be a scalar"),
    (lambda: theory.weighted_minimum([0.0, 1.0], [1, 1], curvatures=0.0), "`curvatures` must be positive in every"),
    (lambda: theory.heterogeneity([1.0, 2.0], [0.0, 1.0]), r"`minima` must have shape \(workers, 2\)"),
    # mean paths and momentum
    (lambda: theory.kernel_path([0.5, 0.4], kappa=0.1, commits=3), r"with sum 1; got shape \(2,\) and sum 0.9"),
    (lambda: theory.expected_quadratic_path(0.1, workers=2, compute=GAMMA, commits=3), "`compute` must be expon"),
    (lambda: MOMENTUM(np.ones((2, 3, 40)), np.ones((2, 3, 40)), lags=2), "`x` must have the shape"),
    (lambda: MOMENTUM(np.ones(5), np.ones(5), lags=2), "at least 6 commits"),
    (lambda: MOMENTUM(np.ones(40), np.ones(39), lags=2), "`gradients` must have the shape of `x`"),
    (lambda: MOMENTUM(np.ones(40), np.ones(40), lags=1), "`lags` must be an integer of at least 2"),
    (lambda: theory.attenuated_momentum(0.9, 4), r"`kappa` must be below the stability limit 0\.84307"),
    (lambda: theory.gem_velocity(workers=2, compute=Constant(1.0), cap=0), "`cap` must be positive; got 0"),
    (lambda: theory.exponential_noise_floor(0.1, 4, 5), "`k` must not exceed `workers`; got 5 > 4"),
)

test_limits_that_are_not_known = refusals(
    ({"compute": [ONE] * 3}, "one law per worker"),
    ({"compute": [*ALIKE, Constant(2.0)]}, "no closed form"),
    ({"compute": Erlang(1.0, 40), "workers": 8}, "moments"),
    ({"compute": Gamma(1.0, 0.3)}, r"`compute` has no closed form.*Exponential.*lyapunov_exponent"),
    ({"where": "sever"}, "Did you mean 'server'"),
    ({"where": "none"}, "`where` must be 'server' or 'worker'"),
    call=lambda bad: theory.stability_limit(**STABLE | bad),
)

test_almost_sure_limits_that_cannot_be_meant = refusals(
    ({"order": np.zeros(100, int)}, "at least 160 commits"),
    ({"order": np.zeros(200)}, "`order` must hold worker numbers"),
    ({"order": np.arange(200) % 4, "workers": 3}, "`order` must hold numbers from 0 to `workers` - 1"),
    ({"rule": "gme"}, "Did you mean 'gem'"),
    ({"low": 0.1, "high": 0.2}, "the exponent is negative"),
    ({"low": 5.0, "high": 6.0}, "the exponent is positive"),
    call=lambda change: theory.almost_sure_limit(**ALMOST | change),
)
