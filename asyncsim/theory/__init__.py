"""Closed forms and exact numerics to compare with the simulator's measurements: NumPy and SciPy only.

Arguments that need an array of more than 4 million numbers, or some ten seconds, are refused with a remedy.

Neighbours use `_numerics` (roots, integrals, quantiles and bounds of a computation), `_parameters` (types and checks of
parameters) and `_phases` (laws as chains of exponential phases).
"""

from asyncsim._arguments import check_arguments
from asyncsim.theory import rollouts
from asyncsim.theory._asynchronous import (
    gap_staleness_mean,
    gap_staleness_pmf,
    gap_staleness_variance,
    mean_rescaling,
    staleness_limit_cdf,
    staleness_mean,
    staleness_pmf,
    staleness_variance,
    worker_staleness,
)
from asyncsim.theory._constant_delay import (
    constant_delay_limit,
    constant_delay_moments,
    constant_delay_rate,
    constant_gap_limit,
    constant_gap_rate,
    fastest_constant_delay,
)
from asyncsim.theory._cost import Preemption, energy_per_gradient, preemption, repeated_job_seconds, useful_share
from asyncsim.theory._energies import (
    drift_energy,
    energy_ratio,
    most_workers_on_quadratic,
    noise_energy,
    proxy_drift_energy,
    proxy_kinetic_energy,
    proxy_noise_energy,
    proxy_noise_floor,
)
from asyncsim.theory._estimators import (
    MomentumEstimate,
    attenuated_momentum,
    averaged_momentum,
    instrumental_momentum,
    least_squares_momentum,
)
from asyncsim.theory._gem import (
    gem_energy_ratio,
    gem_round_robin_scaling,
    gem_single_worker_limit,
    gem_velocity,
    signed_gem_limit,
)
from asyncsim.theory._heterogeneous import commit_shares, heterogeneity, weighted_minimum
from asyncsim.theory._lyapunov import almost_sure_limit, lyapunov_exponent
from asyncsim.theory._mean_path import (
    expected_path,
    expected_quadratic_path,
    implicit_momentum,
    kernel_path,
    kernel_rate,
    mean_stability_limit,
)
from asyncsim.theory._outer import outer_limit, window_curvature
from asyncsim.theory._protocols import (
    batched_staleness_mean,
    batched_staleness_pmf,
    pipeline_bubble,
    pipeline_staleness,
    ssp_staleness_bound,
    ssp_staleness_mean,
    ssp_throughput,
)
from asyncsim.theory._queue import (
    ClosedNetwork,
    knee,
    mean_value_analysis,
    queue_length,
    queue_staleness_pmf,
    queue_staleness_variance,
    saturated_staleness_variance,
    separate_pull_staleness_mean,
    throughput,
    utilisation,
)
from asyncsim.theory._rounds import (
    asynchronous_complexity,
    collection_bound,
    collection_time,
    error_curve,
    expected_order_statistic,
    minibatch_complexity,
    rennala_complexity,
    round_time,
    round_time_of_law,
)
from asyncsim.theory._stationary import (
    exponential_kinetic_energy,
    exponential_limit,
    exponential_moments,
    exponential_noise_floor,
    kinetic_energy,
    noise_floor,
    stability_limit,
)

__all__ = [
    "ClosedNetwork",
    "MomentumEstimate",
    "Preemption",
    "almost_sure_limit",
    "asynchronous_complexity",
    "attenuated_momentum",
    "averaged_momentum",
    "batched_staleness_mean",
    "batched_staleness_pmf",
    "collection_bound",
    "collection_time",
    "commit_shares",
    "constant_delay_limit",
    "constant_delay_moments",
    "constant_delay_rate",
    "constant_gap_limit",
    "constant_gap_rate",
    "drift_energy",
    "energy_per_gradient",
    "energy_ratio",
    "error_curve",
    "expected_order_statistic",
    "expected_path",
    "expected_quadratic_path",
    "exponential_kinetic_energy",
    "exponential_limit",
    "exponential_moments",
    "exponential_noise_floor",
    "fastest_constant_delay",
    "gap_staleness_mean",
    "gap_staleness_pmf",
    "gap_staleness_variance",
    "gem_energy_ratio",
    "gem_round_robin_scaling",
    "gem_single_worker_limit",
    "gem_velocity",
    "heterogeneity",
    "implicit_momentum",
    "instrumental_momentum",
    "kernel_path",
    "kernel_rate",
    "kinetic_energy",
    "knee",
    "least_squares_momentum",
    "lyapunov_exponent",
    "mean_rescaling",
    "mean_stability_limit",
    "mean_value_analysis",
    "minibatch_complexity",
    "most_workers_on_quadratic",
    "noise_energy",
    "noise_floor",
    "outer_limit",
    "pipeline_bubble",
    "pipeline_staleness",
    "preemption",
    "proxy_drift_energy",
    "proxy_kinetic_energy",
    "proxy_noise_energy",
    "proxy_noise_floor",
    "queue_length",
    "queue_staleness_pmf",
    "queue_staleness_variance",
    "rennala_complexity",
    "repeated_job_seconds",
    "rollouts",
    "round_time",
    "round_time_of_law",
    "saturated_staleness_variance",
    "separate_pull_staleness_mean",
    "signed_gem_limit",
    "ssp_staleness_bound",
    "ssp_staleness_mean",
    "ssp_throughput",
    "stability_limit",
    "staleness_limit_cdf",
    "staleness_mean",
    "staleness_pmf",
    "staleness_variance",
    "throughput",
    "useful_share",
    "utilisation",
    "weighted_minimum",
    "window_curvature",
    "worker_staleness",
]

check_arguments(__name__)
