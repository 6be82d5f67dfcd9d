"""The zoo: every update rule on one schedule and one task, each at its own best step size, in a league table.

Twenty workers learn the digits, which all of them have. In the column `differing` each has equally many but of few
labels, in a mix of its own that is drawn from Dirichlet(0.1), and every rule is at its own best step size there. Every
rule gets the same trace, the same mini-batches and the same grid of step sizes, with all seeds. A rule whose workers
make a window of λ local steps gets 1/λ of the commits, so that every rule takes the same number of gradients. Rules
made for rounds get the synchronous schedule of the same cluster, which takes longer. Hyper-parameters other than the
step size have their published values if there are any; they are listed below.

    asyncsim run scenarios/zoo.py
    asyncsim run scenarios/zoo.py --only downpour,gem,agn --workers 40 --out runs/three_of_forty
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.components import built_in_classes
from asyncsim.plots.style import BLUE, GREY, VERMILION
from asyncsim.study.table import SweepTable

ALL, PLAIN = "all", "downpour"
ELSEWHERE = {"exact_diffusion", "noloco"}  # rules of workers on a graph: around a server nobody meets a neighbour
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
    alpha=0.1,
    only=ALL,
    store=None,
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
        alpha: Concentration of the labels of each worker where their data differ; 0 to leave that out.
        only: Constructors to compare, separated by commas, or "all".
        store: Where runs are kept until all are done.
    """
    usual = asim.delays.Gamma(mean=1.0, cv=cv)
    compute_time = asim.delays.fleet.two_classes(usual, workers, slow, factor) if slow else usual
    plain = asim.Scenario(
        asim.Cluster(workers, compute_time),
        asim.rules.Downpour(1.0),
        asim.workloads.MLP(asim.datasets.Digits(), hidden=(hidden,), batch_size=batch_size, training_loss=True),
        commits=workers * batches,
        schedule_seed=0,
        record=(),
    )
    every = [name for name in built_in_classes("rules") if name not in ELSEWHERE]
    names = every if only == ALL else [name.strip() for name in only.split(",")]
    table = swept(names, plain, step_sizes, seeds, store)
    differing = None
    if alpha:
        shared = plain.override(partition="mixture", partition_alpha=alpha, partition_least=batch_size)
        differing = swept(names, shared, step_sizes, seeds, store)
    return league(table, differing)


def swept(
    names: Sequence[str], plain: asim.Scenario, step_sizes: Sequence[float], seeds: int, store: Any
) -> SweepTable:
    """All rows of these constructors with all step sizes and seeds."""
    grids = {
        label: asim.grid(one, **{SWEPT.get(name, "learning_rate"): step_sizes, "seed": range(seeds)})
        for name, label, one in entries(names, plain)
    }
    results = asim.sweep([scenario for grid in grids.values() for scenario in grid], store)
    labels = np.repeat(list(grids), len(step_sizes) * seeds)
    return results.table(label=labels, step_size=np.tile(np.repeat(step_sizes, seeds), len(grids)))


def entries(names: Sequence[str], plain: asim.Scenario) -> Iterator[tuple[str, str, asim.Scenario]]:
    """(constructor, label, scenario) of every row of the table that these constructors fill."""
    for unknown in sorted(set(names) - set(built_in_classes("rules"))):
        raise ValueError(f"`only` must name rules; got {unknown!r}. `asyncsim rules` lists them.")
    for name in names:
        for label, settings in ROWS.get(name, {name: {}}).items():
            workers = plain.workers
            given = {key: workers if value == "workers" else value for key, value in settings.items()}
            rule = built_in_classes("rules")[name](**{SWEPT.get(name, "learning_rate"): 1.0}, **given)
            protocol = "synchronous" if name in ROUNDS or label == "synchronous" else "asynchronous"
            one = dataclasses.replace(plain, rule=rule, commits=(plain.commits or 0) // rule.window)
            yield name, label, one.override(protocol=protocol)


def league(table: SweepTable, differing: SweepTable | None = None) -> dict[str, np.ndarray]:
    """The table, best median first: quartiles at the best step size, and how far one may be from it.

    `better_seeds` is the share of the seeds with which the rule ends below DOWNPOUR. `differing` is the same sweep
    where the workers' data differ.
    """
    other = None if differing is None else asim.best(differing, by="training_loss", per="label")
    best = asim.best(table, by="training_loss", per="label")
    grid = np.unique(table["step_size"])
    runs = (best.rows, len(grid), -1)  # the last axis is that of the seeds
    losses = np.nan_to_num(table["training_loss"], nan=np.inf).reshape(runs)
    medians, place = np.median(losses, axis=2), (np.arange(best.rows), np.searchsorted(grid, best["step_size"]))
    there = np.isfinite(best["median"])
    plain = losses[place][best["label"] == PLAIN] if PLAIN in best["label"] else np.full((1, losses.shape[2]), np.nan)
    found = {
        "rule": best["label"],
        "loss": best["median"],
        "lower_quartile": best["lower_quartile"],
        "upper_quartile": best["upper_quartile"],
        "accuracy": np.median(np.nan_to_num(table["test_accuracy"]).reshape(runs)[place], axis=1),
        "better_seeds": np.where(np.isnan(plain), np.nan, losses[place] < plain).mean(axis=1),
        "step_size": np.where(there, best["step_size"], np.nan),
        "differing": np.full(best.rows, np.nan) if other is None else other["median"],
        "forgives": np.array([forgiven(grid, row) for row in medians]),
        "at_the_edge": best["at_the_edge"],
        "losses": losses[place],
        "medians": medians,
    }
    order = best["median"].argsort(kind="stable")
    return {name: values[order] for name, values in found.items()} | {"grid": grid}


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
    """Medians and quartiles, the best at the top, with rings for data that differ; next to them, good step sizes."""
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
        left.text(plain[0], len(place), f" {PLAIN}", fontsize=7.5, color=GREY, va="bottom")
    rings = np.isfinite(numbers["differing"])
    left.plot(numbers["differing"][rings], place[rings], "o", color=GREY, markersize=3.5, fillstyle="none", zorder=1)
    told = "training loss, median and quartiles" + ("; rings: data that differ" if rings.any() else "")
    left.set(xscale="log", xlabel=told, ylim=(-1, len(place)))
    left.set_yticks(place, numbers["rule"], fontsize=7.5)
    for y, medians, step in zip(place, numbers["medians"], numbers["step_size"], strict=True):
        good = grid[medians <= 2 * medians.min()] if np.isfinite(medians.min()) else grid[:0]
        right.plot(good, np.full(len(good), y), color=BLUE, linewidth=1.6, marker="|", markersize=5)
        right.plot([step], [y], "o", color=VERMILION, markersize=3.5)
    right.set(xscale="log", xlabel="best step size, and those within twice its loss")


experiment = asim.Experiment(compute, draw, title="The zoo: every rule at its best step size", size=(9.0, 10.5))

if __name__ == "__main__":
    asim.main(experiment)
