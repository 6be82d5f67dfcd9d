"""Busy shares, energy and preemption: closed forms against simulations, and against each other."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, faults, protocols, theory
from asyncsim.costs import cost
from tests.cluster.problems import over_seeds

EXPONENTIAL, GAMMA = delays.Exponential(1.0), delays.Gamma(1.0, 0.5)
POWER = asim.Power(busy=300.0, idle=60.0)
FREE = {"message_bytes": 0, "parameter_bytes": 0}
STANDARD_ERRORS = 3.5


def useful(trace):
    return asim.statistics(trace).utilisation


def busy(trace):
    return cost(trace, **FREE).busy_share


def up(trace):
    return 1 - cost(trace, **FREE).shares["down"]


def joules(trace):
    return cost(trace, **FREE, power=POWER).joules / len(trace)


def agree(cluster, commits, predicted):
    """Measure -> its prediction, all measured on the same traces."""
    mean, error = over_seeds(lambda trace: [measure(trace) for measure in predicted], cluster, commits)
    assert (error > 0).all()
    np.testing.assert_array_less(abs(mean - [*predicted.values()]), STANDARD_ERRORS * error)


@pytest.mark.parametrize(
    ("law", "protocol", "k", "latency"),
    [(GAMMA, "sync", None, 0.2), (GAMMA, "k_sync", 3, 0.0), (EXPONENTIAL, "k_sync", 3, 0.2)],
)
def test_energy_and_useful_share_of_rounds_agree_with_simulation(law, protocol, k, latency):
    """Whole rounds after a first one that downloads nothing: over 300 of them that is little beside the error."""
    kind = protocols.Synchronous() if k is None else protocols.KSync(k)
    network = asim.Network(latency=delays.Constant(latency))
    cluster = asim.Cluster(8, law, network, protocol=kind)
    commits = 300 * (k or 8)
    setting = {"compute": law, "workers": 8, "protocol": protocol, "k": k}
    predicted = {useful: theory.useful_share(**setting, latency=latency)}
    if k is None or not latency:
        predicted[joules] = theory.energy_per_gradient(**setting, busy=300, idle=60, latency=latency)
    agree(cluster, commits, predicted)


def test_asynchronous_workers():
    latency = delays.Exponential(0.3)
    cluster = asim.Cluster(8, GAMMA, asim.Network(latency=latency))
    setting = {"compute": GAMMA, "workers": 8, "latency": latency.mean}
    energy = theory.energy_per_gradient(**setting, busy=300.0, idle=60.0)
    agree(cluster, 4000, {busy: theory.useful_share(**setting), joules: energy})


LAWS = [EXPONENTIAL, GAMMA, delays.Constant(1.0), delays.LogNormal(1.0, 1.0)]


@pytest.mark.parametrize("law", [GAMMA, delays.Constant(1.0)], ids=lambda law: law.name)
def test_preemption_agrees_with_simulation(law):
    """Commits for a worker-second, and the useful share of the time up, with jobs that are lost."""
    rate, down, n = 0.25, 1.5, 4
    spot = faults.Sessions(online=delays.Exponential(1 / rate), offline=delays.Gamma(down, 0.5))
    cluster = asim.Cluster(n, law, faults=[spot])
    predicted = theory.preemption(compute=law, preemption_rate=rate, down=down)

    def commits(trace):
        return len(trace) / (n * trace.seconds)

    def useful_up(trace):
        return useful(trace) / up(trace)

    values = (predicted.commits_per_second, predicted.useful, predicted.available)
    agree(cluster, 3000, dict(zip((commits, useful_up, up), values, strict=True)))


@pytest.mark.quick
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("rate", [0.02, 0.5, 4.0])
def test_preemption_agrees_with_attempts_drawn_one_by_one(law, rate):
    """Attempts one by one: a compute time against an exponential time until the preemption."""
    generator = np.random.default_rng(0)
    needed, given = law.sample(generator, 200_000), generator.exponential(1 / rate, 200_000)
    done = needed < given
    found = theory.preemption(compute=law, preemption_rate=rate)
    seconds = np.minimum(needed, given)
    for value, counted in ((found.commits_per_second, done), (found.useful, done * needed)):
        error = np.std(counted - value * seconds) / seconds.mean() / len(seconds) ** 0.5
        assert abs(counted.sum() / seconds.sum() - value) < STANDARD_ERRORS * error + 1e-12


@pytest.mark.parametrize("law", [delays.Constant(1.0), delays.Uniform(0.5, 1.5), delays.Exponential(0.5), GAMMA])
def test_seconds_of_a_repeated_job_agree_with_samples(law):
    """Of one length, tried until a preemption does not come in time; the mean over lengths, given each, is exact."""
    rate = 0.4
    length = law.sample(np.random.default_rng(0), 400_000)
    given = np.expm1(rate * length) / rate
    found = theory.repeated_job_seconds(compute=law, preemption_rate=rate)
    assert abs(given.mean() - found) <= STANDARD_ERRORS * given.std() / len(given) ** 0.5 + 1e-9
