"""Adversarial Variational Optimization, the paper's second experiment: two of five mixed sources.

x = R z in five dimensions; z0 ~ N(α, 1) and z1 ~ N(β, 3) have unknown means, the other three are a mixture of two
normal variables and two exponential ones. 20 000 observations with (α, β) = (1, -1); the proposal begins at 0 ± 1.
The algorithm runs as published, without a baseline, and once more with the mean of the critic's values subtracted from
each, which costs nothing. Where 20 seeds end, mean ± sd over seeds, how many of them are within 0.1 of the truth, and
how far from it the worst parameter of the worst seed ends:

    published                          α = 0.96 ± 0.05, β = -0.93 ± 0.07, 15 of 20, 0.20    (the paper's: 1.00, -1.02)
    mean subtracted                    α = 1.00 ± 0.03, β = -1.00 ± 0.04, 20 of 20, 0.08
    and averaged, the last quarter     α = 0.99 ± 0.02, β = -0.99 ± 0.03, 20 of 20, 0.05

    asyncsim run scenarios/avo_multi.py
    asyncsim run scenarios/avo_multi.py --entropy 0
"""

import numpy as np

import asyncsim as asim
from asyncsim import plots
from asyncsim.plots.style import BLUE, VERMILION

TRUTH = (1.0, -1.0)
NAMES = ("alpha", "beta")
BASELINES = {"published": "none", "mean subtracted": "mean"}
SHOWN = 4000
COLOURS = (BLUE, VERMILION)
MIXING = np.array(
    [
        (1.31229955, 0.10499961, 0.48310515, -0.3249938, -0.26387927),
        (0.10499961, 1.15833058, -0.55865473, 0.25275522, -0.39790775),
        (0.48310515, -0.55865473, 2.25874579, -0.52087938, -0.39271231),
        (0.3249938, 0.25275522, -0.52087938, 1.4034925, -0.63521059),
        (-0.26387927, -0.39790775, -0.39271231, -0.63521059, 1.0),
    ]
)


def simulator(rng, theta):
    """(m, 5) observations for (m, 2) parameters."""
    count = len(theta)
    low = rng.random(count) < 0.5
    sources = np.stack(
        [
            rng.normal(theta[:, 0], 1.0),
            rng.normal(theta[:, 1], 3.0),
            np.where(low, rng.normal(-2.0, 1.0, count), rng.normal(2.0, 0.5, count)),
            rng.exponential(1 / 3, count),
            rng.exponential(1 / 0.5, count),
        ],
        axis=1,
    )
    return sources @ MIXING.T


def compute(points=20_000, entropy=10.0, epochs=300, seed=0) -> dict[str, np.ndarray]:
    """Proposals, their way, and the critic's value, without a baseline and with one.

    Args:
        points: Observations.
        entropy: Weight γ of the entropy.
        epochs: Of version 1.
        seed: Of data, network and simulations.
    """
    generator = np.random.default_rng([seed, 7])
    data = simulator(generator, np.tile(TRUTH, (points, 1)))
    options = {"version": 1, "steps": epochs, "entropy": entropy, "betas": (0.9, 0.999), "seed": seed}
    runs = [
        asim.calibration.avo(simulator, data, [0.0, 0.0], [1.0, 1.0], baseline=baseline, **options)
        for baseline in BASELINES.values()
    ]
    numbers = {
        "run": np.array(list(BASELINES)),
        **{name: np.array([run.mean[place] for run in runs]) for place, name in enumerate(NAMES)},
        **{f"{name}_sd": np.array([run.sd[place] for run in runs]) for place, name in enumerate(NAMES)},
        **{f"{name}_average": np.array([run.average()[place] for run in runs]) for place, name in enumerate(NAMES)},
        "true_alpha": np.array(TRUTH[0]),
        "true_beta": np.array(TRUTH[1]),
        "data": data[:SHOWN],
        "critic": np.array([run.history.critic for run in runs]),
        "mean_history": np.array([run.history.mean for run in runs]),
        "sd_history": np.array([run.history.sd for run in runs]),
    }
    for place, run in enumerate(runs):
        numbers[f"simulated_{place}"] = simulator(generator, generator.normal(run.mean, run.sd, (SHOWN, 2)))
    return numbers


def draw(figure, numbers) -> None:
    """Both parameters' proposals before and after, a marginal of data and simulations, the critic's value."""
    first, second, data, critic = figure.subplots(2, 2).ravel()
    least, most = np.quantile(numbers["data"][:, 0], [0.002, 0.998])
    bins = np.linspace(least, most, 30)
    data.hist(numbers["data"][:, 0], bins, density=True, color="0.8", label="data")
    for ax, name, letter, truth in ((first, NAMES[0], "α", TRUTH[0]), (second, NAMES[1], "β", TRUTH[1])):
        plots.draw_proposal(ax, 0.0, 1.0, label="before", color="0.6")
        for run, mean, sd, colour in zip(numbers["run"], numbers[name], numbers[f"{name}_sd"], COLOURS, strict=True):
            plots.draw_proposal(ax, mean, sd, label=f"{run}: {mean:.2f} ± {sd:.2f}", color=colour)
        ax.axvline(truth, ymax=0.7, color="0.3", linestyle=":", label="truth")
        ax.set(xlabel=letter, ylabel="density, peak at 1", ylim=(0, 1.5), title="Proposals (no posteriors)")
    for place, (run, colour) in enumerate(zip(numbers["run"], COLOURS, strict=True)):
        simulated = numbers[f"simulated_{place}"][:, 0]
        data.hist(simulated, bins, density=True, histtype="step", color=colour, label=run)
        critic.plot(numbers["critic"][place], color=colour, linewidth=0.8, label=run)
    data.set(xlabel="x0", ylabel="density", title="Data and simulations, first of five dimensions")
    critic.set(xlabel="epoch", ylabel="critic's value", title="Wasserstein critic")
    for ax in (first, second):
        ax.legend(fontsize="small", ncols=2, loc="upper center")
    for ax in (data, critic):
        ax.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="Adversarial Variational Optimization: sources", size=(10.4, 8.0))

if __name__ == "__main__":
    asim.main(experiment)
