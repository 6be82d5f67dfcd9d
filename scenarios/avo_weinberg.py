"""Adversarial Variational Optimization, the paper's third experiment: electrons and positrons to muons.

The angle A between the incoming electron and the outgoing muon has x = cos A with density (1 + x²) + c·x on [-1, 1], up
to a constant, and c = 2 tanh(10 (2E - 90) / 90) G_f for the energy E of the beam and Fermi's constant G_f. 50 000
observations with (E, G_f) = (42, 0.9); the proposal begins at (45 ± 1, 1 ± 0.1). Both enter through c alone, so that
data cannot tell a larger E from a smaller G_f: the proposal ends near the curve of equal c, not at a point.

Where 20 seeds end, mean ± sd over seeds; the last column counts those within 0.7 of 42 and 0.1 of 0.9:

    γ = 0    E = 42.35 ± 0.35    G_f = 1.04 ± 0.11    c = -1.09 ± 0.03     7    (in the paper, one run: 42.5, 0.973)
    γ = 5    E = 42.2 ± 1.3      G_f = 1.00 ± 0.27    c = -1.04 ± 0.46     3    (in the paper, one run: 42.23, 0.926)

The truth has c = -1.05. With γ = 5 the entropy outweighs a critic of small values: the proposal shrinks by e³ whatever
the data say, its gradient becomes noise, and it strays, along the curve and across it. What the paper prints is one
draw from this spread. (In its code the critic sees the same hundred batches in every epoch; that changes nothing here.)

    asyncsim run scenarios/avo_weinberg.py
    asyncsim run scenarios/avo_weinberg.py --entropies 0
"""

import numpy as np

import asyncsim as asim
from asyncsim import plots
from asyncsim.plots.style import BLUE, VERMILION

TRUTH = (42.0, 0.9)
NAMES = ("beam energy", "Fermi's constant")
START, SPREAD = (45.0, 1.0), (1.0, 0.1)
ORIGIN, UNIT = np.array([40.0, 0.5]), np.array([10.0, 1.0])  # of what the proposal is over
HALVINGS = 30
SHOWN = 20_000


def asymmetry(theta):
    """(m,) c of (m, 2) parameters in the proposal's units, within the bounds of a density."""
    energy, fermi = (ORIGIN + UNIT * theta).T
    return np.clip(2 * np.tanh((2 * energy - 90) / 90 * 10) * fermi, -2.0, 2.0)


def simulator(rng, theta):
    """One cosine for each parameter, by exact inversion of (3 x + x³ + 3/2 c x² + 4 - 3/2 c) / 8."""
    c, share = asymmetry(theta), rng.random(len(theta))
    low, high = np.full(len(theta), -1.0), np.ones(len(theta))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = (3 * middle + middle**3 + 1.5 * c * (middle * middle - 1) + 4) / 8 < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def compute(points=50_000, entropies=(0.0, 5.0), epochs=300, seed=0) -> dict[str, np.ndarray]:
    """Proposals, their way, and the critic's value, for each weight of the entropy.

    Args:
        points: Observations.
        entropies: Weights γ.
        epochs: Of version 1.
        seed: Of data, network and simulations.
    """
    generator = np.random.default_rng([seed, 7])
    truth = (np.array(TRUTH) - ORIGIN) / UNIT
    data = simulator(generator, np.tile(truth, (points, 1)))
    options = {"version": 1, "steps": epochs, "betas": (0.9, 0.999), "penalty": 0.0025, "pretraining": 1000}
    start, spread = (np.array(START) - ORIGIN) / UNIT, np.array(SPREAD) / UNIT
    runs = [
        asim.calibration.avo(simulator, data, start, spread, entropy=entropy, seed=seed, **options)
        for entropy in entropies
    ]
    numbers = {
        "entropy": np.array(entropies),
        "energy": np.array([ORIGIN[0] + UNIT[0] * run.mean[0] for run in runs]),
        "energy_sd": np.array([UNIT[0] * run.sd[0] for run in runs]),
        "fermi": np.array([ORIGIN[1] + run.mean[1] for run in runs]),
        "fermi_sd": np.array([run.sd[1] for run in runs]),
        "asymmetry": np.array([asymmetry(run.mean[None])[0] for run in runs]),
        "true_energy": np.array(TRUTH[0]),
        "true_fermi": np.array(TRUTH[1]),
        "true_asymmetry": asymmetry(truth[None])[0],
        "data": data[:SHOWN],
        "critic": np.array([run.history.critic for run in runs]),
    }
    for place, run in enumerate(runs):
        numbers[f"simulated_{place}"] = simulator(generator, generator.normal(run.mean, run.sd, (SHOWN, 2)))
    return numbers


def draw(figure, numbers) -> None:
    """Proposals before and after, data and simulation, the critic's value."""
    energies, fermis, data, critic = figure.subplots(2, 2).ravel()
    bins = np.linspace(-1, 1, 41)
    data.hist(numbers["data"], bins, density=True, color="0.8", label="data")
    for ax, column, place in ((energies, "energy", 0), (fermis, "fermi", 1)):
        plots.draw_proposal(ax, START[place], SPREAD[place], label="before", color="0.6")
        for row, colour in enumerate((BLUE, VERMILION)[: len(numbers["entropy"])]):
            mean, sd = numbers[column][row], numbers[f"{column}_sd"][row]
            label = f"γ = {numbers['entropy'][row]:g}: {mean:.3g} ± {sd:.2g}"
            plots.draw_proposal(ax, mean, sd, label=label, color=colour)
        ax.axvline(TRUTH[place], color="0.3", linestyle=":", label="truth")
        ax.set(xlabel=NAMES[place], ylabel="density, peak at 1", title="Proposals (no posteriors)")
    for row, colour in enumerate((BLUE, VERMILION)[: len(numbers["entropy"])]):
        label = f"γ = {numbers['entropy'][row]:g}"
        data.hist(numbers[f"simulated_{row}"], bins, density=True, histtype="step", color=colour, label=label)
        critic.plot(numbers["critic"][row], color=colour, linewidth=0.8, label=label)
    data.set(xlabel="cos A", ylabel="density", title="Data and simulations")
    critic.set(xlabel="epoch", ylabel="critic's value", title="Wasserstein critic")
    for ax in (energies, fermis, data, critic):
        ax.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="Adversarial Variational Optimization: e⁺e⁻→μ⁺μ⁻", size=(10.4, 8.0))

if __name__ == "__main__":
    asim.main(experiment)
