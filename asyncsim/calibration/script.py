"""The scenario script that `asyncsim calibrate` writes."""

import re

TEMPLATE = '''"""What the cluster that was calibrated from {log} would do with another number of workers.

    asyncsim run {folder}/scenario.py --workers 40

The band holds what the log leaves open. `FIT.with_workers(n)` is the fitted cluster for scenarios of your own:
`asim.Scenario(rule=…, workload=…, cluster=FIT.with_workers(40))`.
"""

from pathlib import Path

import numpy as np

import asyncsim as asim
from asyncsim import plots
from asyncsim.calibration import ladder, what_if

FIT = asim.Calibration.load(Path(__file__).with_name("fit.json"))


def compute(
    workers={workers}, least=1, points=6, draws=16, seed=0, fit=str(Path(__file__).with_name("fit.json"))
) -> dict[str, np.ndarray]:
    """Throughput and staleness of clusters drawn from the fit, against the number of workers.

    Args:
        workers: The largest number of workers.
        least: The smallest.
        points: How many numbers of workers.
        draws: Clusters for each of them.
        seed: Of the simulations.
        fit: The calibration.
    """
    return what_if(asim.Calibration.load(fit), ladder(least, workers, points), draws=draws, seed=seed)


def draw(figure, numbers) -> None:
    """Throughput and staleness, with the band of the fit."""
    for ax, name, label in zip(
        figure.subplots(1, 2), ("throughput", "staleness"), ("commits per second", "mean staleness"), strict=True
    ):
        predicted = numbers[f"predicted_{{name}}"]
        ends = [numbers[f"{{name}}{{end}}"] for end in ("_low", "", "_high")]
        plots.draw_band(ax, numbers["workers"], *ends, theory=predicted if np.isfinite(predicted).all() else None)
        ax.set(ylabel=label, ylim=(0, None))
        ax.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="The fitted cluster with other numbers of workers", size=(9.6, 4.6))

if __name__ == "__main__":
    asim.main(experiment)
'''


def scenario_script(log: str, folder: str, workers: int) -> str:
    """The text of the script.

    Args:
        log: Name of the log.
        folder: Where the script is, as somebody types it.
        workers: Number of workers of the log.

    Example:
        >>> compile(scenario_script("log.csv", "runs/mine", 12), "scenario.py", "exec").co_consts[0][:30]
        'What the cluster that was cali'
    """
    safe = [text.replace("\\", "/").replace('"', "'") for text in (log, folder)]
    return TEMPLATE.format(log=safe[0], folder=safe[1], workers=workers)


def own_part(script: str) -> str:
    """A script without what differs from log to log, so that one that somebody changed is noticed.

    Example:
        >>> first, second = scenario_script("a.csv", "runs/a", 4), scenario_script("b.csv", "runs/b", 5)
        >>> own_part(first) == own_part(second), own_part(first) == own_part(first + "x = 1")
        (True, False)
    """
    return re.sub(r"workers=\d+, least", "", script[script.find("from pathlib") :])
