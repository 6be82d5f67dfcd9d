"""Why does asynchronous DiLoCo take a smaller outer step? The toy of its authors, in rounds and asynchronously.

Four workers whose local steps take 0.58, 0.75, 1.51 and 3.33 s make windows of 20 steps with AdamW, and an outer
optimiser moves the server by their displacements. They classify points around 32 centres, which are unit vectors of 512
dimensions with a noise of 0.5 in each, in 4 classes. Every row has as many local steps as any other, and its own best
outer step of a grid of factors of √2. The loss is that of 10 000 of the training examples, as the authors take it.

    asyncsim run scenarios/diloco_toy.py
    asyncsim run scenarios/diloco_toy.py --rounds 100 --seeds 6 --out runs/diloco_toy_as_published

The task is that of google-deepmind/asyncdiloco (Apache-2.0), the notebook to Liu et al. 2024, arXiv 2401.09135. Its
network has 65 000 hidden units, ours has 256 and ten times their inner step. Left out are the cosine schedule of the
inner step and the server's grace period: after a message it waits for those that arrive within 0.5 s, and their senders
read together. The notebook multiplies late displacements by 1/2 before its outer optimiser, so its step of 0.07 is one
of 0.035 here.

With 100 rounds and seeds 0 to 5 Nesterov's best outer step falls five times, from 0.247 to 0.0495, and its limits fall
by 24 (on this schedule) and 29 (messages three commits late). Its loss in rounds is lower by 0.007 ± 0.006, so that the
authors' second claim stays undecided at this size. Without momentum both are alike at their best steps (0.001 ± 0.004
apart), and asynchronous is lower by 0.044 ± 0.002 at the authors' steps, where it moves the server twice as much.
Delayed Nesterov repairs the limit but not the loss, which is higher by 0.018 ± 0.006.

Seconds until the asynchronous run has made so many local steps. With the grace period they are those printed, exactly:

| local steps | 800 | 1600 | 2400 | 3200 | 4000 | 4800 | 5600 | 6400 | 7200 | 8000 |
|---|---|---|---|---|---|---|---|---|---|---|
| printed | 209.0 | 406.4 | 603.8 | 801.4 | 999.0 | 1207.8 | 1404.2 | 1600.6 | 1800.2 | 1998.6 |
| simulated | 208.8 | 405.0 | 603.2 | 800.4 | 999.0 | 1200.0 | 1398.6 | 1600.6 | 1798.2 | 1995.2 |
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import asyncsim as asim
from asyncsim import protocols, rules, theory
from asyncsim.plots.style import BLUE, GREEN, GREY, INK, SKY, VERMILION
from asyncsim.reports.replicates import mean_and_error

STEP_SECONDS = (0.58, 0.75, 1.51, 3.33)
WORKERS, WINDOW, MOMENTUM = 4, 20, 0.9
CLASSES, CENTRES, DIMENSIONS, NOISE = 4, 32, 512, 0.5
JUDGED = 10_000  # examples on which the loss is measured
# The notebook's local steps, of all workers together, and when its asynchronous run, with a grace period, reaches them.
PRINTED_STEPS = np.arange(800, 8001, 800)
PRINTED_SECONDS = np.array([209.0, 406.4, 603.8, 801.4, 999.0, 1207.8, 1404.2, 1600.6, 1800.2, 1998.6])
PRINTED_ROUND = 66.6  # s
GRID = 2.0 ** (np.arange(-3, 4) / 2)  # of outer steps around the middle of a row


class Anew(rules.local):
    """Windows whose optimiser has forgotten its state, as that of the authors has. Adam's first state is 0."""

    def send(self, gradient, state, view):
        """Send what `rules.local` sends."""
        sent = super().send(gradient, state, view)
        state = sent.state._replace(added=jax.tree.map(jnp.zeros_like, sent.state.added))
        return rules.Sent(sent.message, state, sent.info)


class Row(NamedTuple):
    """A protocol, an outer rule, the middle of its grid of outer steps, what theory needs, and the windows."""

    protocol: Any
    rule: Any
    middle: float
    options: dict[str, float]
    momentum: float
    delay: int
    color: str
    windows: int | tuple[int, ...] = WINDOW


LAWS = [asim.delays.Constant(seconds) for seconds in STEP_SECONDS]
BY_SPEED = asim.delays.fleet.windows_by_speed(LAWS, WINDOW)
NESTEROV = {"momentum": MOMENTUM}
IN_ROUNDS, LATE = protocols.Synchronous(), protocols.Asynchronous()
TURNS = WORKERS - 1  # the delay of workers that commit in turn
ROWS = {
    "rounds, Nesterov": Row(IN_ROUNDS, rules.SharedNesterov, 0.35, NESTEROV, MOMENTUM, 0, SKY),
    "asynchronous, Nesterov": Row(LATE, rules.SharedNesterov, 0.035, NESTEROV, MOMENTUM, TURNS, VERMILION),
    "rounds, no momentum": Row(IN_ROUNDS, rules.Downpour, 1.4, {}, 0.0, 0, GREY),
    "asynchronous, no momentum": Row(LATE, rules.Downpour, 0.35, {}, 0.0, TURNS, BLUE),
    "asynchronous, delayed": Row(LATE, rules.DelayedNesterov, 0.175, NESTEROV, np.nan, TURNS, GREEN),
    "delayed, windows by speed": Row(LATE, rules.DelayedNesterov, 0.175, NESTEROV, np.nan, TURNS, INK, BY_SPEED),
}


def compute(rounds=15, seeds=2, hidden=256, learning_rate=2e-3, examples=128_000, batch_size=32) -> dict[str, Any]:
    """Loss over the outer step of all rows, claims of the authors, and the times that they print.

    Args:
        rounds: Rounds of the synchronous rows. The others make four times as many commits, one for each window.
        seeds: Seeds of first parameters and mini-batches, each with all outer steps.
        hidden: Hidden units of the network.
        learning_rate: Step size of AdamW, which begins anew in every window.
        examples: Training examples, of all workers together.
        batch_size: Examples in a mini-batch.
    """
    workload = asim.workloads.MLP(clusters(examples), hidden=(hidden,), batch_size=batch_size)
    losses = measure(workload, rounds, range(seeds), learning_rate)
    best = losses.mean(axis=1).argmin(axis=1)
    grids = np.stack([row.middle * GRID for row in ROWS.values()])
    steps = grids[np.arange(len(ROWS)), best]
    at_best = [losses_at(losses, name, step) for name, step in zip(ROWS, steps, strict=True)]
    mean, error = mean_and_error(at_best, axis=1)
    predicted = np.array([predicted_limit(row) for row in ROWS.values()])
    late = schedule(ROWS["asynchronous, Nesterov"], max(rounds, 100))
    simulated_steps = WINDOW * np.searchsorted(late.commit_time, PRINTED_SECONDS + 1e-6)  # a tie counts
    return {
        "row": np.array(list(ROWS)),
        "loss": mean,
        "error": error,
        "best_outer_step": steps,
        "at_the_edge": np.isin(best, (0, len(GRID) - 1)),
        "predicted_limit": predicted,
        "simulated_limit": np.array([simulated_limit(row) for row in ROWS.values()]),
        "seconds": np.array([schedule(row, rounds).seconds for row in ROWS.values()]),
        "the_step_falls": np.array(f"{steps[0] / steps[1]:.3g} times, limits {predicted[0] / predicted[1]:.3g} times"),
        **compare(losses, *at_best),
        "commits_off_the_printed_times": np.array(abs(simulated_steps - PRINTED_STEPS).max() // WINDOW),
        "outer_steps": grids,
        "losses": losses,
        "printed_steps": PRINTED_STEPS,
        "printed_seconds": PRINTED_SECONDS,
        "simulated_seconds": late.commit_time[PRINTED_STEPS // WINDOW - 1],
        "simulated_steps": simulated_steps,
        "curve_seconds": late.commit_time,
    }


def compare(losses, fresh, late, plain, plain_late, delayed, by_speed) -> dict[str, np.ndarray]:
    """Verdicts on the authors' claims, and two more comparisons, at each row's best outer step."""
    at_theirs = losses_at(losses, "asynchronous, no momentum", 0.35) - losses_at(losses, "rounds, no momentum", 0.7)
    differences = {
        "late_nesterov_is_worse_than_rounds": fresh - late,
        "without_momentum_late_is_better_than_rounds": plain_late - plain,
        "without_momentum_at_the_authors_step": at_theirs,
        "delayed_is_better_than_late_nesterov": delayed - late,
        "delayed_is_better_than_rounds": delayed - fresh,
        "windows_by_speed_are_better": by_speed - delayed,
    }
    return {name: np.array(verdict(values)) for name, values in differences.items()}


def losses_at(losses: np.ndarray, name: str, outer_step: float) -> np.ndarray:
    """(seeds,) losses of a row at the outer step of its grid that is next to this one."""
    row = [*ROWS].index(name)
    return losses[row][:, abs(ROWS[name].middle * GRID - outer_step).argmin()]


def measure(workload: asim.Workload, rounds: int, seeds: Any, learning_rate: float) -> np.ndarray:
    """(rows, seeds, outer steps) losses at the end. They are infinite where a run diverges."""
    inner = {"learning_rate": learning_rate, "optimiser": optax.adamw(1.0, weight_decay=1e-3)}
    losses = []
    for row in ROWS.values():
        steps = np.tile(row.middle * GRID, len(seeds))
        lanes = np.repeat(list(seeds), len(GRID)).tolist()
        rule = Anew(row.rule(steps, **row.options), window=row.windows, **inner)
        run = asim.replay(schedule(row, rounds), rule, workload, seed=lanes)
        losses.append(np.reshape(run.evaluate()["test_loss"], (len(seeds), len(GRID))))
    losses = np.stack(losses).astype(float)
    return np.where(np.isfinite(losses), losses, np.inf)


def clusters(examples: int) -> asim.datasets.Dataset:
    """Points around unit vectors, whose test examples are the first of those that are trained on."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CENTRES, DIMENSIONS))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    owner = rng.integers(CENTRES, size=examples)
    points = rng.standard_normal((examples, DIMENSIONS), np.float32) * np.float32(NOISE) + centres[owner]
    points, labels = points.astype(np.float32), owner * CLASSES // CENTRES
    return asim.datasets.Dataset("clusters", points, labels, points[:JUDGED], labels[:JUDGED], classes=CLASSES)


def schedule(row: Row, rounds: int) -> asim.Trace:
    """The schedule of constant times, with as many local steps as in so many rounds."""
    cluster = asim.Cluster(WORKERS, LAWS, protocol=row.protocol, local_steps=row.windows)
    windows, steps = np.broadcast_to(row.windows, WORKERS), WORKERS * rounds * WINDOW
    trace = asim.simulate(cluster, commits=steps // windows.min())
    return asim.simulate(cluster, commits=1 + int(np.searchsorted(windows[trace.worker].cumsum(), steps)))


def predicted_limit(row: Row) -> float:
    """The largest stable outer step of a row whose window ends at the minimum (c = 1), and whose delay is constant."""
    if np.isnan(row.momentum):
        return np.nan
    return theory.outer_limit(row.momentum, row.delay)


def simulated_limit(row: Row) -> float:
    """The largest stable outer step for c = 1 on the row's own schedule: x²/2 does not grow in the long run."""
    trace = schedule(row, 500)
    steps = row.middle * 2.0 ** np.arange(-4, 5, 1 / 8)
    rule = rules.local(row.rule(steps, **row.options), window=row.windows, learning_rate=1.0)
    loss = asim.replay(trace, rule, asim.workloads.Quadratic([1.0]), seed=[0] * len(steps)).loss
    quarter = len(trace) // 4
    late, early = loss[:, -quarter:].max(axis=1), loss[:, quarter : 2 * quarter].max(axis=1)
    return float(steps[np.cumprod(np.isfinite(late) & (late <= early)).sum() - 1])


def verdict(differences: np.ndarray) -> str:
    """Whether the first of two losses is lower, by the mean difference over the seeds and two standard errors."""
    mean, error = mean_and_error(differences)
    word = "holds" if mean < 0 else "does not hold"
    word = word if abs(mean) > 2 * error else "undecided"
    return f"{word}, {mean:+.4f} ± {error:.4f}"


def draw(figure, numbers) -> None:
    """Loss over the outer step with all seeds and the predicted limits, and the printed times."""
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    columns = (numbers["row"], numbers["outer_steps"], numbers["losses"], numbers["simulated_limit"])
    for name, steps, losses, limit in zip(*columns, strict=True):
        color = ROWS[str(name)].color
        left.plot(steps, losses.T, color=color, linewidth=0.6, alpha=0.4)
        left.plot(steps, losses.mean(axis=0), "o-", color=color, markersize=4, label=name)
        left.axvline(limit, color=color, linestyle=(0, (4, 3)), linewidth=1)
    left.set(xscale="log", xlabel="outer step", ylabel="loss at the end", ylim=(None, np.log(CLASSES)))
    left.set_xlim(left=1e-3)
    left.legend(fontsize="small", title="dashed: largest stable step, c = 1", title_fontsize="small")
    seconds = numbers["curve_seconds"]
    right.step(seconds, WINDOW * np.arange(1, len(seconds) + 1), where="post", color=BLUE, label="simulated")
    right.plot(numbers["printed_seconds"], numbers["printed_steps"], "o", color=INK, markersize=4, label="printed")
    right.set(xlabel="seconds", ylabel="local steps of all workers")
    right.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="Why a smaller outer step?", size=(10.4, 4.4))

if __name__ == "__main__":
    asim.main(experiment)
