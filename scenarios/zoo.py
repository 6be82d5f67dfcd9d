"""The zoo: every update rule on one schedule and one task, each at its own best step size, in a league table.

Twenty workers learn the digits. Every rule gets the same trace, the same mini-batches and the same grid of step sizes;
all seeds and step sizes of a rule are replayed side by side. A rule whose workers make a window of λ local steps gets
1/λ of the commits, so that every rule takes the same number of gradients. Rules made for rounds get the synchronous
schedule of the same cluster, which takes longer. Hyper-parameters other than the step size have their published values
if there are any; they are listed below.

    asyncsim run scenarios/zoo.py
    asyncsim run scenarios/zoo.py --only downpour,gem,agn --workers 40 --out runs/three_of_forty
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import asyncsim as asim
from asyncsim import protocols
from asyncsim.engine import Replayer
from asyncsim.plots.style import BLUE, GREY, VERMILION
from asyncsim.reports.replicates import side_by_side
from asyncsim.rules import CONSTRUCTORS, Rule

ALL, PLAIN = "all", "downpour"
SWEPT = {"fadas": "server_learning_rate"}  # in place of `learning_rate`, to which the rule hardly responds
STEP_SIZES = tuple(2.0**k for k in range(-10, 3))
ROUNDS = {"local_sgd", "diloco", "easgd"}  # made for synchronous rounds
# Constructor -> row of the table -> arguments. A constructor that is not listed has one row and its own defaults.
ROWS: dict[str, dict[str, dict[str, Any]]] = {
    "agn": {"agn": {}, "agn, adam": {"optimiser": "adam"}},
    "dana": {f"dana, {variant}": {"variant": variant} for variant in ("zero", "slim", "dc")},
    "dc_asgd": {f"dc_asgd, {variance}": {"variance": variance} for variance in ("constant", "adaptive")},
    "diloco": {"diloco": {"window": 12}},  # 500 in its paper, whose runs are longer
    "downpour": {"downpour": {}, "downpour, windows": {"window": 5}, "synchronous": {}},
    "drop_stale": {"drop_stale": {"oldest": "workers"}},
    "fedasync": {f"fedasync, {kind}": {"weighting": kind} for kind in ("constant", "polynomial", "hinge")},
    "gem": {
        "gem": {},
        "gem, server": {"proxy": "server"},
        "gem, paper": {"variant": "paper"},
        "gem, signed": {"variant": "signed"},
    },
    "local_sgd": {"local_sgd": {"window": 12}},
    "malenia": {"malenia": {"batch": "workers"}},
    "pipemare": {"pipemare": {"anneal": 1000}},
    "rennala": {"rennala": {"batch": 10}},
    "server": {"server, adam": {"optimiser": "adam"}},
    "worker": {"worker, adam": {"optimiser": "adam"}},
}


class Entry(NamedTuple):
    """A row of the league table: its label, the rule with one step size per lane, and its schedule."""

    label: str
    rule: Rule
    trace: asim.Trace


def compute(
    workers=20,
    batches=150,
    seeds=10,
    step_sizes=STEP_SIZES,
    batch_size=16,
    hidden=16,
    cv=0.3,
    slow=0,
    factor=10.0,
    only=ALL,
) -> dict[str, np.ndarray]:
    """Training loss of every rule after the same number of gradients, at the best step size of a grid.

    Args:
        workers: Number of workers.
        batches: Average number of mini-batches per worker.
        seeds: Seeds of initial parameters and mini-batches, each with all step sizes.
        step_sizes: The grid.
        batch_size: Examples in a mini-batch.
        hidden: Units in the hidden layer.
        cv: Coefficient of variation of the gamma compute times.
        slow: Number of workers that are slower than the others.
        factor: How many times as long they take.
        only: Constructors to compare, separated by commas, or "all".
    """
    workload = asim.workloads.mlp(asim.datasets.digits(), hidden=(hidden,), batch_size=batch_size)
    usual = asim.delays.Gamma(mean=1.0, cv=cv)
    compute_time = asim.delays.fleet.two_classes(usual, workers, slow, factor) if slow else usual
    traces = {
        rounds: asim.simulate(asim.Cluster(workers, compute_time, protocol=protocol), commits=workers * batches)
        for rounds, protocol in ((False, protocols.Asynchronous()), (True, protocols.Synchronous()))
    }
    grid = np.asarray(step_sizes, float)
    lanes = side_by_side(grid, seeds)
    losses, accuracies, labels = [], [], []
    names = sorted(CONSTRUCTORS) if only == ALL else [name.strip() for name in only.split(",")]
    for entry in entries(names, traces, lanes.values):
        loss, accuracy = (lane.reshape(seeds, -1) for lane in final_scores(entry, workload, lanes.seeds))
        losses.append(loss)
        accuracies.append(accuracy)
        labels.append(entry.label)
    return league(labels, grid, np.array(losses), np.array(accuracies))


def entries(names: Sequence[str], traces: dict[bool, asim.Trace], step_sizes: np.ndarray) -> Iterator[Entry]:
    """Every row of the table that these constructors fill."""
    for unknown in sorted(set(names) - set(CONSTRUCTORS)):
        raise ValueError(f"`only` must name rules; got {unknown!r}. `asyncsim rules` lists them.")
    for name in names:
        for label, settings in ROWS.get(name, {name: {}}).items():
            trace = traces[name in ROUNDS or label == "synchronous"]
            given = {key: trace.workers if value == "workers" else value for key, value in settings.items()}
            yield Entry(label, CONSTRUCTORS[name](**{SWEPT.get(name, "learning_rate"): step_sizes}, **given), trace)


def final_scores(entry: Entry, workload: asim.Workload, seeds: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """(lanes,) training loss and test accuracy of the final central variable; infinite and 0 where it is not finite."""
    commits = len(entry.trace) // entry.rule.window
    replayer = Replayer(entry.trace, entry.rule, workload, seeds, commits=commits)
    while not replayer.finished():
        replayer.advance()
    central = replayer.central()  # not `run()`, which would search for the commit at which each lane diverged
    key, data = jax.random.key(0), workload.device_data
    loss = np.asarray(jax.jit(jax.vmap(lambda params: workload.loss(params, data, key)))(central))
    assert workload.evaluate is not None
    accuracy = np.asarray(jax.jit(jax.vmap(workload.evaluate))(central)["test_accuracy"])
    return np.where(np.isfinite(loss), loss, np.inf), np.where(np.isfinite(loss), accuracy, 0.0)


def league(labels: list[str], grid: np.ndarray, losses: np.ndarray, accuracies: np.ndarray) -> dict[str, np.ndarray]:
    """The table, best median first: quartiles at the best step size, and how far one may be from it.

    `better_seeds` is the share of the seeds with which the rule ends below DOWNPOUR.

    Args:
        labels: Labels of the rows.
        grid: (sizes,) step sizes.
        losses, accuracies: (rows, seeds, sizes).
    """
    medians = np.median(losses, axis=1)
    best = medians.argmin(axis=1)
    rows = np.arange(len(labels))
    chosen = losses[rows, :, best]
    low, high = np.quantile(chosen, (0.25, 0.75), axis=1, method="inverted_cdf")
    middle = medians[rows, best]
    order = middle.argsort(kind="stable")
    plain = chosen[labels.index(PLAIN)] if PLAIN in labels else np.full(losses.shape[1], np.nan)
    return {
        "rule": np.array(labels)[order],
        "loss": middle[order],
        "lower_quartile": low[order],
        "upper_quartile": high[order],
        "accuracy": np.median(accuracies[rows, :, best], axis=1)[order],
        "better_seeds": np.where(np.isnan(plain), np.nan, chosen < plain).mean(axis=1)[order],
        "step_size": np.where(np.isfinite(middle), grid[best], np.nan)[order],
        "forgives": np.array([forgiven(grid, row) for row in medians])[order],
        "at_the_edge": ((best == 0) | (best == len(grid) - 1))[order],
        "losses": chosen[order],
        "medians": medians[order],
        "grid": grid,
    }


def forgiven(grid: np.ndarray, medians: np.ndarray) -> float:
    """Largest over smallest step size around the best one with at most twice its loss; NaN if all runs diverged.

    Example:
        >>> forgiven(np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.5, 0.3, 0.2, np.inf]))
        2.0
    """
    if not np.isfinite(medians.min()):
        return float("nan")
    good = medians <= 2 * medians.min()
    first = last = int(medians.argmin())
    while first > 0 and good[first - 1]:
        first -= 1
    while last < len(grid) - 1 and good[last + 1]:
        last += 1
    return float(grid[last] / grid[first])


def draw(figure, numbers) -> None:
    """Medians and quartiles, the best at the top; beside them, the step sizes that are about as good."""
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    place = np.arange(len(numbers["rule"]))[::-1]
    loss, grid = numbers["loss"], numbers["grid"]
    there = np.isfinite(loss)
    upper = np.where(np.isfinite(numbers["upper_quartile"]), numbers["upper_quartile"], loss)
    left.hlines(place[there], numbers["lower_quartile"][there], upper[there], color=BLUE, linewidth=1.1)
    left.plot(loss[there], place[there], "o", color=BLUE, markersize=3.5)
    plain = loss[numbers["rule"] == PLAIN]
    if len(plain) and np.isfinite(plain[0]):
        left.axvline(plain[0], color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    left.set(xscale="log", xlabel="training loss, median and quartiles", ylim=(-1, len(place)))
    left.set_yticks(place, numbers["rule"], fontsize=7.5)
    for y, medians, step in zip(place, numbers["medians"], numbers["step_size"], strict=True):
        good = grid[medians <= 2 * medians.min()] if np.isfinite(medians.min()) else grid[:0]
        right.plot(good, np.full(len(good), y), color=BLUE, linewidth=1.6, marker="|", markersize=5)
        right.plot([step], [y], "o", color=VERMILION, markersize=3.5)
    right.set(xscale="log", xlabel="step sizes within twice the best loss")


experiment = asim.Experiment(compute, draw, title="The zoo: every rule at its best step size", size=(9.0, 10.5))

if __name__ == "__main__":
    asim.main(experiment)
