"""A fitted system with other numbers of workers, or other leads, with the band that the fit leaves open."""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration._fit import Fit, Unanswered
from asyncsim.components._checked import checked

TEMPLATE = '''"""The system that was calibrated from {log}, with other values of `{varied}`.

    asyncsim run {folder}/scenario.py --{varied} {most}

The band holds what the log leaves open. `FIT.cluster` is the fitted system for scenarios of your own:
`asim.Scenario(rule=…, workload=…, cluster=FIT.cluster)`. Its jobs are those of the log: if the rule has a window and
your jobs have H local steps, give the cluster the law of one step, with 1/H of the mean and √H times the cv.
"""

from pathlib import Path

import numpy as np

import asyncsim as asim
from asyncsim import plots
from asyncsim.calibration import ladder, what_if

FIT = asim.Fit.load(Path(__file__).with_name("fit.json"))


def compute(
    {varied}={most}, least={least}, points=6, draws=16, seed=0, fit=str(Path(__file__).with_name("fit.json"))
) -> dict[str, np.ndarray]:
    """Simulate systems drawn from the fit, with several values of `{varied}`.

    Args:
        {varied}: The largest value.
        least: The smallest.
        points: How many values.
        draws: Simulations for each of them.
        seed: Of the simulations.
        fit: The calibration.
    """
    return what_if(asim.Fit.load(fit), ladder(least, {varied}, points), draws=draws, seed=seed)


def draw(figure, numbers) -> None:
    """Medians, with the band of the fit."""
    for ax, (name, label) in zip(figure.subplots(1, 2), FIT.model.labels.items()):
        ends = [numbers[f"{{name}}{{end}}"] for end in ("_low", "", "_high")]
        predicted = numbers.get(f"predicted_{{name}}", np.array(np.nan))
        plots.draw_band(ax, numbers["{varied}"], *ends, theory=predicted if np.isfinite(predicted).all() else None)
        ax.set(xlabel="{varied}", ylabel=label, ylim=(0, None))
        ax.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="The fitted system with other values of {varied}", size=(9.6, 4.6))

if __name__ == "__main__":
    asim.main(experiment)
'''

ENDS = ("", "_low", "_high")  # of the names of an `Interval`'s numbers, in its order


@checked
def what_if(
    fit: Fit, values: Sequence[float], *, add: Mapping[str, int] | None = None, draws: int = 16, seed: int = 0
) -> dict[str, NDArray[np.float64]]:
    """Predict throughput and staleness for numbers of workers or, for rollouts, speed and staleness for leads.

    Args:
        fit: The calibration.
        values: Numbers of workers, where more than the log's repeat its workers in order. Or leads (`inf`: no bound).
        add: Workers that join each of these numbers, by class, such as `{"fast": 12}`: see `Fit.with_workers`.
        draws: Simulations for each of them (see `Fit.what_if`).
        seed: Seed of the simulations.

    Returns:
        Arrays of the length of `values`. "workers" (with those that join), "throughput" (the median, in commits per
        second), "throughput_low" and "throughput_high" (5 and 95 %), the same three for "staleness",
        "predicted_throughput" by theory (NaN if there is a service that is not exponential) and "predicted_staleness",
        n - 1. Of rollouts: "lead", and medians, 5 and 95 % of "group_staleness", "steps_per_second", "staleness_max",
        "trainer_idle", "slots_idle" and "wasted",
        as `Rollouts.ledger(…).summary` defines them. Values that cannot be answered have NaN, with a warning that says
        why, if others can be.

    Raises:
        ValueError: As by `Fit.what_if`, if no value can be answered.

    Example:
        >>> import asyncsim as asim
        >>> log = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=1000)
        >>> answers = what_if(asim.calibrate(log, law="exponential"), [4, 8], draws=4)
        >>> answers["throughput"].round().tolist(), answers["predicted_staleness"].tolist()
        ([4.0, 8.0], [3.0, 7.0])
    """
    if not len(values):
        raise ValueError(f"`values` must be values of `{fit.model.varied}`; got none. Give one or more.")
    rows: list[dict[str, float]] = []
    refusals: list[Unanswered] = []
    for value in values:
        try:
            rows.append(_predict(fit, value, add, draws, seed))
        except Unanswered as refusal:
            rows.append({fit.model.varied: value + (sum(add.values()) if add else 0)})
            refusals.append(refusal)
    if len(refusals) == len(rows):
        raise refusals[-1]
    for refusal in refusals:
        warnings.warn(str(refusal), stacklevel=3)
    names = max(rows, key=len)
    return {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}


def _predict(fit: Fit, value: float, add: Mapping[str, int] | None, draws: int, seed: int) -> dict[str, float]:
    """Return the row of one value: the value, medians with their ends, and predictions of theory."""
    change: Any = {fit.model.varied: None if value == math.inf else value}
    joined = {} if add is None else {"add": add}
    answer = fit.what_if(draws=draws, seed=seed, **joined, **change)
    ends = {f"{name}{end}": answer[name][i] for i, end in enumerate(ENDS) for name in fit.model.labels}
    model, count = (fit.model, value) if add is None else fit._joined_by(round(value), add)
    predicted = {f"predicted_{name}": number for name, number in model.predicted(count).items()}
    return {fit.model.varied: count, **ends, **predicted}


def scenario_script(fit: Fit, log: str, folder: str) -> str:
    """Write the text of a script that simulates the fit."""
    safe = [text.replace("\\", "/").replace('"', "'") for text in (log, folder)]
    values = [int(value) for value in fit.model.ladder(fit.workers) if value < math.inf]
    return TEMPLATE.format(log=safe[0], folder=safe[1], varied=fit.model.varied, least=values[0], most=values[-1])


def common_part(script: str) -> str:
    """Return a script without the parts that differ from log to log, so that a changed script is noticed."""
    return re.sub(r"\w+=\d+, least=\d+", "", script[script.find("from pathlib") :])
