"""Adversarial Variational Optimization on the log of a cluster, next to the exact likelihood.

AVO compares independent observations, and a log is one dependent sequence. So we cut it into blocks of twenty commits a
worker, which hardly depend on each other, and give the critic seven statistics of each. The exact likelihood of this
log is far more precise and takes a second. After 5000 simulations AVO's errors of mean, cv and latency were 10, 3 and 9
times the exact standard errors (root mean square of four logs), so AVO is no method of `asim.calibrate`.

    asyncsim run scenarios/avo_log.py
    asyncsim run scenarios/avo_log.py --steps 400
"""

import numpy as np

import asyncsim as asim
from asyncsim.plots.style import BLUE

WORKERS = 5
BLOCK = 20 * WORKERS  # commits
TRUTH = {"mean": 2.0, "cv": 0.4}
START, SPREAD = np.log([1.0, 1.0]), [0.5, 0.5]
TINY = 1e-12  # of a second: the logarithm of equal times


def simulated(theta, commits, seed):
    """A log of the cluster with some logarithms of mean and cv."""
    mean, cv = np.exp(theta).tolist()
    return asim.simulate(asim.Cluster(WORKERS, asim.delays.Gamma(mean, cv)), commits=commits, seed=seed)


def blocks(trace, commits=BLOCK):
    """(blocks, 7) statistics of successive blocks of a trace; commits that do not fill a block are left out."""
    return np.array([of_block(trace, at, at + commits) for at in range(0, len(trace) - commits + 1, commits)])


def of_block(trace, begin, end):
    """Logarithms of rate, of the times between commits of a worker and of the gaps, and the staleness."""
    times, worker = trace.commit_time[begin:end] - trace.commit_time[begin], trace.worker[begin:end]
    within = np.concatenate([np.diff(times[worker == w]) for w in range(trace.workers)])
    staleness = trace.staleness[begin:end]
    low, middle, high = np.quantile(within, [0.1, 0.5, 0.9]) + TINY
    short, long = np.quantile(np.diff(times), [0.1, 0.9]) + TINY
    logs = np.log([(end - begin - 1) / (times[-1] + TINY), middle, high / low, short, long])
    return [logs[0], staleness.mean(), staleness.std(), *logs[1:]]


def compute(commits=8000, steps=150, seed=0) -> dict[str, np.ndarray]:
    """AVO's proposal and its way, and the intervals of the exact likelihood.

    Args:
        commits: Of the log.
        steps: Of the proposal, of 32 simulations each.
        seed: Of log, network and simulations.
    """
    log = simulated(np.log(list(TRUTH.values())), commits, seed)
    data = blocks(log)
    middle, spread = data.mean(axis=0), data.std(axis=0)

    def simulator(rng, theta):
        # The second block of a run: nobody starts in it.
        runs = [blocks(simulated(one, 2 * BLOCK, int(rng.integers(2**31))))[1] for one in theta]
        return (np.array(runs) - middle) / spread

    options = {"version": 2, "proposal_rate": 0.02, "critic_rate": 0.01, "steps": steps, "seed": seed}
    found = asim.calibration.avo(simulator, (data - middle) / spread, START, SPREAD, **options)
    exact = asim.calibrate(log, law="gamma", method="likelihood")
    ends = [exact.parameters[f"compute.{name}"] for name in TRUTH]
    return {
        "parameter": np.array(list(TRUTH)),
        "truth": np.array(list(TRUTH.values())),
        "mean_history": found.history.mean,
        "sd_history": found.history.sd,
        "found": np.exp(found.average()),
        "exact": np.array([one.estimate for one in ends]),
        "exact_low": np.array([one.low for one in ends]),
        "exact_high": np.array([one.high for one in ends]),
    }


def draw(figure, numbers) -> None:
    """The way of the proposal, and the interval of the exact likelihood, for each parameter."""
    axes = figure.subplots(1, 2)
    steps = np.arange(len(numbers["mean_history"]))
    for place, (ax, name) in enumerate(zip(axes, numbers["parameter"], strict=True)):
        middle, sd = numbers["mean_history"][:, place], numbers["sd_history"][:, place]
        low, centre, high = np.exp([middle - sd, middle, middle + sd])
        ax.fill_between(steps, low, high, color=BLUE, alpha=0.2, label="AVO's proposal, ± 1 sd (no posterior)")
        ax.plot(steps, centre, color=BLUE)
        ends = numbers["exact_low"][place], numbers["exact_high"][place]
        ax.axhspan(*ends, color="0.7", label="exact likelihood, 90 %")
        ax.axhline(numbers["truth"][place], color="0.3", linestyle=":", label="truth")
        ax.set(xlabel="step", ylabel=f"{name} of the compute times")
        ax.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="Adversarial Variational Optimization: a log", size=(9.6, 4.6))

if __name__ == "__main__":
    asim.main(experiment)
