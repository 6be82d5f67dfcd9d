"""Spot instances: how many gradients preemption loses, and when the lower price is worth it, predicted and measured.

Asynchronous workers are preempted at a constant rate, are away for a while, and then begin a new job. Exponential
compute times lose no gradients, because they are memoryless: a job that is lost had as much left to do as a new one.
Constant times lose most: at one preemption for each mean compute time, 42 % of the gradients. Log-normal times lose
little, because the jobs that are lost are mostly the long ones.

Spot instances cost nothing while they are away, so a gradient costs price / (gradients for each second up). At 30 % of
the price of an instance that is never preempted, spot instances with constant times are cheaper up to two preemptions
for each mean compute time. Curves are exact; points are simulations, with bars of two standard errors.

    asyncsim run scenarios/spot_instances.py
    asyncsim run scenarios/spot_instances.py --discount 0.6 --away 20 --out runs/spot_dear
"""

import numpy as np

import asyncsim as asim
from asyncsim import delays, faults, theory
from asyncsim.plots.style import BLUE, GREEN, GREY, VERMILION
from asyncsim.reports.replicates import mean_and_error

LAWS = {
    "constant": delays.Constant(1.0),
    "gamma, cv 0.5": delays.Gamma(1.0, 0.5),
    "log-normal, cv 1": delays.LogNormal(1.0, 1.0),
    "exponential": delays.Exponential(1.0),
}
COLOURS = (VERMILION, BLUE, GREEN, GREY)


def compute(
    rates=(0.1, 0.3, 1.0, 2.0), away=2.0, discount=0.3, workers=8, commits=2500, seeds=4, points=60
) -> dict[str, np.ndarray]:
    """Gradients for each second up, the useful share of that time, and the price of a gradient, for every law and rate.

    Args:
        rates: Preemptions for each mean compute time up.
        away: Mean time for which a preempted worker is away, in mean compute times.
        discount: Price of a spot instance over that of one that is never preempted.
        workers: Number of workers.
        commits: Length of each run.
        seeds: Number of runs for every law and rate.
        points: Rates for which the predicted curves are computed.
    """
    rows = []
    for name, law in LAWS.items():
        for rate in rates:
            measured = measure(law, rate, away, workers, commits, seeds)
            known = theory.preemption(compute=law, preemption_rate=rate, down=away)
            predicted = {
                "gradients_predicted": known.commits_per_second / known.available,
                "useful_predicted": known.useful,
                "available_predicted": known.available,
            }
            rows.append({"law": name, "rate": rate, **measured, **predicted})
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    fine = np.geomspace(min(rates) / 2, 1.5 * max(rates), points)
    curves = [[theory.preemption(compute=law, preemption_rate=x) for x in fine] for law in LAWS.values()]
    per_second = np.array([[one.commits_per_second for one in curve] for curve in curves])
    return {
        **table,
        "fine": fine,
        "gradients_curve": per_second,
        "useful_curve": np.array([[one.useful for one in curve] for curve in curves]),
        "price_curve": discount / per_second,
        "price": discount * table["price_at_full"],
        "price_error": discount * table["price_at_full_error"],
    }


def measure(
    law: delays.Delay, rate: float, away: float, workers: int, commits: int, seeds: int
) -> dict[str, np.ndarray]:
    """Means over the seeds and their standard errors; the price of a gradient is 1 without preemption."""
    spot = faults.Sessions(online=delays.Exponential(1 / rate), offline=delays.Exponential(away))
    cluster = asim.Cluster(workers, law, faults=[spot])
    price = asim.Price(per_hour=3600.0, spot=True)
    found: dict[str, list[float]] = {"gradients": [], "useful": [], "available": [], "price_at_full": []}
    for seed in range(seeds):
        trace = asim.simulate(cluster, commits=commits, seed=seed)
        spent = asim.cost(trace, message_bytes=0, parameter_bytes=0, price=price)
        assert spent.money is not None
        up = 1 - spent.shares["down"]
        found["gradients"].append(commits / (workers * spent.duration * up))
        found["useful"].append(asim.statistics(trace).utilisation / up)
        found["available"].append(up)
        found["price_at_full"].append(spent.money / commits)
    values = {name: mean_and_error(column) for name, column in found.items()}
    return {name: value for name, (value, _) in values.items()} | {
        f"{name}_error": error for name, (_, error) in values.items()
    }


def draw(figure, numbers) -> None:
    """Gradients for each second up, their useful share, and the price of a gradient."""
    panels = figure.subplots(1, 3)
    labels = ("gradients for each second up", "useful share of the time up", "price of a gradient")
    names = ("gradients", "useful", "price")
    for panel, name, label in zip(panels, names, labels, strict=True):
        for place, (law, color) in enumerate(zip(LAWS, COLOURS, strict=True)):
            panel.plot(numbers["fine"], numbers[f"{name}_curve"][place], color=color)
            of_law = numbers["law"] == law
            points = (numbers["rate"][of_law], numbers[name][of_law], 2 * numbers[f"{name}_error"][of_law])
            panel.errorbar(*points, fmt="o", color=color, markersize=4, label=law)
        panel.set(xscale="log", xlabel="preemptions for each mean compute time", ylabel=label, ylim=(0, None))
    panels[2].axhline(1.0, color=GREY, linestyle=(0, (4, 3)), linewidth=0.9)
    panels[2].set_ylim(0, 2)
    panels[0].legend()


experiment = asim.Experiment(compute, draw, title="Spot instances: the cost of preemption", size=(11.0, 3.8))

if __name__ == "__main__":
    asim.main(experiment)
