"""DiLoCo with a language model: are late messages worse than rounds, and is Muon the better optimiser in the windows?

Workers make windows of 10 local steps, and an outer optimiser with Nesterov momentum moves the server by their
displacements. All rows have the tokens of 60 rounds, where the workers share the 32 sequences of a local step. A
transformer of 3 632 parameters learns a Markov source, so that the *excess loss* is known: the test loss less the least
expected loss of any model. Each row has the best pair of an outer and an inner step size, of a cross of five.

With 12 seeds asynchronous Nesterov has a higher loss than rounds, by 0.0084 ± 0.0019 nats at 0.0533, after 0.3 of the
simulated time. Delayed Nesterov with windows by speed has not the loss of rounds: it is 0.0183 ± 0.0012 higher. With
Muon in the windows the loss is lower than with AdamW, by 0.0037 ± 0.0012 with one worker, 0.0059 ± 0.0016 with four and
0.0103 ± 0.0017 with eight. The run takes four minutes of CPU time.

    asyncsim run scenarios/language_diloco.py
    asyncsim run scenarios/language_diloco.py --seeds 3 --rounds 30
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.plots.style import BLUE, GREEN, GREY, INK, SKY, VERMILION
from asyncsim.reports.replicates import mean_and_error

STEP_SECONDS = (0.58, 0.75, 1.51, 3.33)  # of a local step, as in the toy of asynchronous DiLoCo's authors
WINDOW, MOMENTUM = 10, 0.9
SEQUENCES = 32  # in one local step of all workers together
LEVEL = 0.95  # of the intervals
CROSS = np.array([(1, 1), (0.5, 1), (2, 1), (1, 0.5), (1, 2)])  # factors of the outer and the inner step size
FORMAT = "{:+.4f} ± {:.4f} ({:+.4f} to {:+.4f})"


class Row(NamedTuple):
    """An inner optimiser, the middles of both step sizes, and how the workers' displacements reach the server."""

    inner: str
    outer_step: float
    inner_step: float
    workers: int = 4
    outer: Any = rules.SharedNesterov
    protocol: Any = protocols.Synchronous()
    windows: Any = WINDOW


LAWS = [asim.delays.Constant(seconds) for seconds in STEP_SECONDS]
BY_SPEED = asim.delays.fleet.windows_by_speed(LAWS, WINDOW)
LATE = protocols.Asynchronous()
ROWS = {  # the middles began as the best pairs of seed 0, and moved to the best of all seeds
    "AdamW, 1 worker": Row("adamw", 0.125, 0.032, 1),
    "AdamW, 4 workers": Row("adamw", 0.25, 0.032, 4),
    "AdamW, 8 workers": Row("adamw", 0.35, 0.032, 8),
    "Muon, 1 worker": Row("muon", 0.0625, 0.05, 1),
    "Muon, 4 workers": Row("muon", 0.125, 0.04, 4),
    "Muon, 8 workers": Row("muon", 0.25, 0.04, 8),
    "asynchronous": Row("adamw", 0.0156, 0.032, protocol=LATE),
    "delayed": Row("adamw", 0.2, 0.032, 4, rules.DelayedNesterov, LATE),
    "delayed, by speed": Row("adamw", 0.1, 0.032, 4, rules.DelayedNesterov, LATE, BY_SPEED),
}
COLOURS = dict(zip(ROWS, (SKY, SKY, SKY, BLUE, BLUE, BLUE, VERMILION, GREEN, INK), strict=True))
DIFFERENCES = {  # of excess losses, paired by seed: those of the first row less those of the second
    "late_less_rounds": ("asynchronous", "AdamW, 4 workers"),
    "delayed_less_rounds": ("delayed", "AdamW, 4 workers"),
    "delayed_by_speed_less_rounds": ("delayed, by speed", "AdamW, 4 workers"),
    "delayed_by_speed_less_late": ("delayed, by speed", "asynchronous"),
    "muon_less_adamw_with_1_worker": ("Muon, 1 worker", "AdamW, 1 worker"),
    "muon_less_adamw_with_4_workers": ("Muon, 4 workers", "AdamW, 4 workers"),
    "muon_less_adamw_with_8_workers": ("Muon, 8 workers", "AdamW, 8 workers"),
}


def compute(rounds=60, seeds=12, width=16, context=16) -> dict[str, np.ndarray]:
    """Excess losses of all rows at their best step sizes, and differences with 95 % intervals.

    Args:
        rounds: Rounds of the synchronous rows. The others make as many local steps.
        seeds: Seeds of first parameters and mini-batches, each with all step sizes.
        width: Numbers that represent a symbol.
        context: Symbols that the model sees at most.
    """
    source = asim.datasets.Markov(order=2, symbols=8, context=context, sequences=20_000)
    least = np.mean([source.conditional_entropy(symbols) for symbols in range(1, context + 1)])
    tables = {name: measure(row, source, width, rounds, seeds) - least for name, row in ROWS.items()}
    places = {name: int(table.mean(axis=1).argmin()) for name, table in tables.items()}
    best = {name: tables[name][place] for name, place in places.items()}
    mean, error = mean_and_error(list(best.values()), axis=1)
    steps = np.array([(row.outer_step, row.inner_step) * CROSS[places[name]] for name, row in ROWS.items()])
    pairs = {name: best[first] - best[second] for name, (first, second) in DIFFERENCES.items()}
    gains = [pairs[f"muon_less_adamw_with_{workers}"] for workers in ("8_workers", "1_worker")]
    pairs["muons_gain_with_8_less_that_with_1"] = np.subtract(*gains)
    return {
        "row": np.array(list(ROWS)),
        "excess_loss": mean,
        "error": error,
        "outer_step": steps[:, 0],
        "inner_step": steps[:, 1],
        "best_is_the_middle": np.array([place == 0 for place in places.values()]),
        "seconds": np.array([schedule(row, rounds).seconds for row in ROWS.values()]),
        **{name: np.array(FORMAT.format(*judge(values))) for name, values in pairs.items()},
        "least_loss": np.array(least),
        "losses": np.array(list(best.values())),
        "tables": np.array(list(tables.values())),
        "cross": CROSS,
    }


def measure(row: Row, source: asim.datasets.Markov, width: int, rounds: int, seeds: int) -> np.ndarray:
    """Return the (step sizes, seeds) test losses of a row, infinite where a run diverged, from one program."""
    model = asim.workloads.Transformer(source, layers=1, width=width, batch_size=SEQUENCES // row.workers)
    outer_steps, inner_steps = np.repeat((row.outer_step, row.inner_step) * CROSS, seeds, axis=0).T
    outer = row.outer(outer_steps, momentum=MOMENTUM)
    rule = rules.local(outer, window=row.windows, learning_rate=inner_steps, optimiser=row.inner)
    run = asim.replay(schedule(row, rounds), rule, model, seed=list(range(seeds)) * len(CROSS))
    losses = np.reshape(run.evaluate()["test_loss"], (len(CROSS), seeds)).astype(float)
    return np.where(np.isfinite(losses), losses, np.inf)


def schedule(row: Row, rounds: int) -> asim.Trace:
    """Return a schedule with as many local steps as in so many rounds, up to the last window."""
    laws = LAWS if row.workers == len(LAWS) else asim.delays.Constant(1.0)  # whose time is compared with no other
    cluster = asim.Cluster(row.workers, laws, protocol=row.protocol, local_steps=row.windows)
    windows, steps = np.broadcast_to(row.windows, row.workers), row.workers * rounds * WINDOW
    longest = asim.simulate(cluster, commits=steps // windows.min())
    return asim.simulate(cluster, commits=1 + int(np.searchsorted(windows[longest.worker].cumsum(), steps)))


def judge(differences: np.ndarray) -> tuple[float, float, float, float]:
    """Return mean, standard error and the interval of Student's t distribution."""
    mean, error = mean_and_error(differences)
    reach = stats.t.ppf((1 + LEVEL) / 2, max(1, len(differences) - 1)) * error
    return float(mean), float(error), float(mean - reach), float(mean + reach)


def draw(figure, numbers) -> None:
    """The excess losses of all seeds, and their means."""
    ax = figure.subplots()
    for height, (name, losses) in enumerate(zip(numbers["row"], numbers["losses"], strict=True)):
        ax.plot(losses, [-height] * len(losses), "o", color=COLOURS[str(name)], markersize=3)
        ax.plot(losses.mean(), -height, "|", color=INK, markersize=14)
    ax.set_yticks(-np.arange(len(numbers["row"])), numbers["row"])
    ax.axhline(-5.5, color=GREY, linewidth=1)
    ax.set(xlabel="excess loss, nats per symbol", xlim=(0, None))


experiment = asim.Experiment(compute, draw, title="DiLoCo with a language model", size=(7.2, 4.0))

if __name__ == "__main__":
    asim.main(experiment)
