"""The noise floor of asynchronous SGD: variance and kinetic energy, predicted and measured.

The measured variances and energies of 1, 4, 16 and 64 workers with exponential times lie within 1.8 standard errors
of the exact curves. At η·h = 0.05, the energy exceeds that of the proxy (momentum SGD with μ = 0.9: 2.667) between five
workers, 2.580 ± 0.003, and six, 3.090 ± 0.004; condition (12) is predicted to fail above 5.17 workers.

    asyncsim run scenarios/noise_floor.py
    asyncsim run scenarios/noise_floor.py --momentum 0.5 --out runs/slow_proxy
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

import asyncsim as asim
from asyncsim import theory
from asyncsim.delays import Exponential
from asyncsim.plots.style import GREY, INK
from asyncsim.reports.stability import Floor, simulated_floor

LAW = Exponential(1.0)
POINTS = 60  # per curve
MARKERS = "osD^vP"


def compute(
    workers=(1, 4, 16, 64),
    shares=(0.05, 0.1, 0.2, 0.35, 0.5, 0.65),
    kappa=0.05,
    ladder=(1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30),
    momentum=0.9,
    seeds=8,
    commits=20_000,
) -> dict[str, np.ndarray]:
    """Variance and energy against η·h, and energy against the number of workers.

    Args:
        workers: Numbers of workers, with exponential compute times.
        shares: Values of η·h = step size times curvature, as shares of the mean-square limit.
        kappa: The η·h at which energies are compared with the proxy's.
        ladder: Numbers of workers for this comparison.
        momentum: μ of the proxy.
        seeds: Schedules per number of workers, each with 32 coordinates that have independent noise.
        commits: Length of a run; the first fifth is left out as its warm-up.
    """
    simulated = partial(simulated_floor, compute=LAW, seeds=seeds, commits=commits, most=max(*workers, *ladder))
    limits = np.array([theory.exponential_limit(n) for n in workers])
    curve = limits[:, None] * np.geomspace(min(shares) / 2, 0.97, POINTS)
    points = limits[:, None] * np.array(shares)
    floors = [simulated(n, row) for n, row in zip(workers, points, strict=True)]
    steps = [simulated(n, [kappa]) for n in ladder]
    return {
        "ladder": np.array(ladder),
        "energy": np.array([floor.energy[0] for floor in steps]),
        "energy_error": np.array([floor.energy_error[0] for floor in steps]),
        "predicted_energy": np.array([theory.kinetic_energy(kappa, workers=n, compute=LAW) for n in ladder]),
        "proxy_energy": np.array(theory.proxy_kinetic_energy(kappa, momentum)),
        "most_workers": np.array(theory.most_workers_on_quadratic(kappa, momentum)),
        "largest_z": np.array(max(map(largest_score, workers, points, floors))),
        "workers": np.array(workers),
        "kappas": points,
        "variance_by_kappa": np.array([floor.variance for floor in floors]),
        "variance_errors": np.array([floor.variance_error for floor in floors]),
        "energy_by_kappa": np.array([floor.energy for floor in floors]),
        "energy_errors": np.array([floor.energy_error for floor in floors]),
        "curve_kappas": curve,
        "curve_variance": predicted(theory.exponential_noise_floor, workers, curve),
        "curve_energy": predicted(theory.exponential_kinetic_energy, workers, curve),
    }


def predicted(formula, workers: Sequence[int], kappas: np.ndarray) -> np.ndarray:
    """A formula of η·h and n, for the row of η·h of each number of workers."""
    return np.array([[formula(k, n) for k in row] for n, row in zip(workers, kappas, strict=True)])


def largest_score(workers: int, kappas: np.ndarray, floor: Floor) -> float:
    """The largest deviation of a measured variance or energy from its prediction, in standard errors."""
    pairs = (
        (theory.exponential_noise_floor, floor.variance, floor.variance_error),
        (theory.exponential_kinetic_energy, floor.energy, floor.energy_error),
    )
    misses = [abs(mean - predicted(formula, [workers], kappas[None])[0]) / error for formula, mean, error in pairs]
    return float(np.max(misses))


def draw(figure, numbers) -> None:
    """Variance and energy against η·h, energy against n."""
    left, middle, right = figure.subplots(1, 3)
    draw_against_kappa(left, numbers, "variance")
    draw_against_kappa(middle, numbers, "energy")
    left.set(title="Variance, exact and measured", ylabel="variance of x, over η²σ²")
    middle.set(title="Kinetic energy, exact and measured", ylabel="kinetic energy, over η²σ²")
    left.legend(loc="lower left")
    draw_against_workers(right, numbers)


def draw_against_kappa(ax, numbers, name: str) -> None:
    """Exact curves with the measured points on them, one colour per number of workers."""
    for row, (n, marker) in enumerate(zip(numbers["workers"], MARKERS, strict=False)):
        (line,) = ax.plot(numbers["curve_kappas"][row], numbers[f"curve_{name}"][row])
        look = {"fmt": marker, "color": line.get_color(), "markersize": 4.5, "label": f"n = {n}"}
        bars = 2 * numbers[f"{name}_errors"][row]
        ax.errorbar(numbers["kappas"][row], numbers[f"{name}_by_kappa"][row], bars, **look)
    ax.set(xscale="log", yscale="log", xlabel="η·h, step size × curvature")


def draw_against_workers(ax, numbers) -> None:
    """Energy against n, and the proxy's, which is the most that condition (12) allows."""
    n, proxy, most = numbers["ladder"], float(numbers["proxy_energy"]), float(numbers["most_workers"])
    ax.plot(n, numbers["predicted_energy"], label="DOWNPOUR, exact")
    ax.errorbar(n, numbers["energy"], 2 * numbers["energy_error"], fmt="o", color=INK, markersize=4, label="measured")
    ax.axhline(proxy, color=GREY, linewidth=1.2, label=f"proxy, {proxy:.3g}")
    dash = {"color": GREY, "linewidth": 1.2, "linestyle": (0, (3, 2)), "label": f"(12) fails above n = {most:.2f}"}
    ax.plot([most, most], [0, proxy], **dash)
    ax.set(xlabel="workers n", ylabel="kinetic energy, over η²σ²", ylim=(0, None), title="Energy against workers")
    ax.legend(loc="upper left")


experiment = asim.Experiment(compute, draw, title="The floor that noise leaves", size=(11.0, 4.4))

if __name__ == "__main__":
    asim.main(experiment)
