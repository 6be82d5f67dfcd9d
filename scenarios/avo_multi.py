"""Adversarial Variational Optimization, the paper's second experiment: two of five mixed sources.

x = R z in five dimensions; z0 ~ N(α, 1) and z1 ~ N(β, 3) have unknown means, the other three are a mixture of two
normal variables and two exponential ones. 20 000 observations with (α, β) = (1, -1); the proposal begins at 0 ± 1.
Seeds 0 to 4 end at α = 1.00, 1.02, .85, .96, 1.01 and β = -.91, -.96, -.83, -.97, -.95, each ± .2 or .3.

    asyncsim run scenarios/avo_multi.py
    asyncsim run scenarios/avo_multi.py --entropy 0
"""

import numpy as np

import asyncsim as asim
from asyncsim import plots
from asyncsim.plots.style import BLUE, GREY, VERMILION

TRUTH = (1.0, -1.0)
NAMES = ("α", "β")
SHOWN = 4000
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
    """The proposal, its way, and the critic's value.

    Args:
        points: Observations.
        entropy: Weight γ of the entropy.
        epochs: Of version 1.
        seed: Of data, network and simulations.
    """
    generator = np.random.default_rng([seed, 7])
    data = simulator(generator, np.tile(TRUTH, (points, 1)))
    options = {"version": 1, "steps": epochs, "entropy": entropy, "betas": (0.9, 0.999), "seed": seed}
    run = asim.calibration.avo(simulator, data, [0.0, 0.0], [1.0, 1.0], **options)
    theta = generator.normal(run.mean, run.sd, (SHOWN, 2))
    return {
        "parameter": np.array(NAMES),
        "truth": np.array(TRUTH),
        "mean": run.mean,
        "sd": run.sd,
        "data": data[:SHOWN],
        "simulated": simulator(generator, theta),
        "mean_history": run.history.mean,
        "sd_history": run.history.sd,
        "critic": run.history.critic,
    }


def draw(figure, numbers) -> None:
    """Proposals before and after, two marginals of data and simulation, the critic's value."""
    proposals, first, second, critic = figure.subplots(2, 2).ravel()
    for place, (name, colour) in enumerate(zip(NAMES, (BLUE, VERMILION), strict=True)):
        mean, sd = numbers["mean"][place], numbers["sd"][place]
        plots.draw_proposal(proposals, mean, sd, label=f"{name}: {mean:.2f} ± {sd:.2f}", color=colour)
        proposals.axvline(numbers["truth"][place], color=colour, linestyle=":")
    plots.draw_proposal(proposals, 0.0, 1.0, label="before", color="0.6")
    proposals.set(xlabel="parameter", ylabel="density, peak at 1", title="Proposals (no posteriors)")
    for ax, column in ((first, 0), (second, 1)):
        low, high = np.quantile(numbers["data"][:, column], [0.002, 0.998]).tolist()
        bins = np.linspace(low, high, 50)
        ax.hist(numbers["data"][:, column], bins, density=True, color="0.8", label="data")
        simulated = numbers["simulated"][:, column]
        ax.hist(simulated, bins, density=True, histtype="step", color=BLUE, label="simulated")
        ax.set(xlabel=f"x{column}", ylabel="density", title=f"Data and simulation, x{column}")
        ax.legend(fontsize="small")
    critic.plot(numbers["critic"], color=GREY, linewidth=0.8)
    critic.set(xlabel="epoch", ylabel="critic's value", title="Wasserstein critic")
    proposals.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="Adversarial Variational Optimization: sources", size=(10.4, 8.0))

if __name__ == "__main__":
    asim.main(experiment)
