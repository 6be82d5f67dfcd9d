"""Adam under delay on rotated quadratics: does it matter that the axes of the loss are not those of the parameters?

Each quadratic has the same curvatures, once along the parameters' axes and once turned by a random rotation, together
with its start. Plain SGD makes the same steps in both, whatever the delay, and its loss is that of one recurrence for
each curvature. Every optimiser has its own best step size for each quadratic, with gradients that are 8 versions old
and with fresh ones. A ratio is the loss turned over the loss along the axes. In the eigenbasis of the gradients
(`optimiser="soap"`) the parameters are a matrix of one column.

    asyncsim run scenarios/rotations.py
    asyncsim run scenarios/rotations.py --spacing linear --rotations 24 --out runs/rotations_of_a_linear_spectrum
"""

import jax.numpy as jnp
import numpy as np
from scipy import stats

import asyncsim as asim
from asyncsim import rules, theory
from asyncsim.plots.style import BLUE, GREY, VERMILION
from asyncsim.reports.replicates import mean_and_error

SHARES = 2.0 ** np.arange(-6, 0.5, 0.25)  # of SGD's largest stable step size
STEP_SIZES = 2.0 ** np.arange(-13, 1, 0.5)  # of Adam, for which theory has no limit
SPACINGS = {"log": np.geomspace, "linear": np.linspace}
STARTS = ("signs", "normal")
LEVEL = 0.95  # of the intervals


def compute(
    dimension=10, least=0.01, spacing="log", delay=8, commits=400, rotations=12, seed=0
) -> dict[str, np.ndarray]:
    """Losses at the end, of SGD, Adam and Adam in the eigenbasis, along the axes and rotated.

    Args:
        dimension: Number of parameters.
        least: Smallest curvature. The largest one is 1.
        spacing: Spacing of the curvatures: "log" or "linear".
        delay: Versions by which gradients are late, from the commit on at which so many have been made.
        commits: Length of a run.
        rotations: Number of rotations, each with a start of its own of either kind.
        seed: Seed of rotations and starts.
    """
    if spacing not in SPACINGS:
        raise ValueError(f"`spacing` must be one of {', '.join(SPACINGS)}; got {spacing!r}.")
    curvatures = SPACINGS[spacing](1.0, least, dimension)
    hessians, starts = problems(curvatures, rotations, np.random.default_rng(seed))
    rows, losses, steps, edges = [], [], [], []
    for late in (delay, 0):
        trace = asim.Trace.from_commits(np.arange(commits) % (late + 1))
        for name in ("sgd", "adam", "soap"):
            grid = SHARES * theory.constant_delay_limit(late) if name == "sgd" else STEP_SIZES
            every = replayed(name, grid, trace, hessians, starts)
            best = np.nanargmin(every, axis=0)
            losses += [*np.min(np.nan_to_num(every, nan=np.inf), axis=0)]
            steps += [*grid[best]]
            edges += [*((best == 0) | (best == len(grid) - 1)).sum(axis=(1, 2))]
            rows += [(name, late, start) for start in STARTS]
    losses, steps = np.array(losses), np.array(steps)  # (rows, rotations, turned)
    ratios = losses[..., 1] / losses[..., 0]
    mean, error = mean_and_error(np.log(ratios), axis=1)
    half = stats.t.ppf((1 + LEVEL) / 2, rotations - 1) * error if rotations > 1 else error
    optimiser, late, start = (np.array(column) for column in zip(*rows, strict=True))
    return {
        "optimiser": optimiser,
        "delay": late,
        "start": start,
        "along_axes": np.median(losses[..., 0], axis=1),
        "predicted": predicted(curvatures, starts, steps, optimiser, late, commits),
        "rotated": np.median(losses[..., 1], axis=1),
        "ratio": np.median(ratios, axis=1),
        "smallest": ratios.min(axis=1),
        "largest": ratios.max(axis=1),
        "mean_ratio": np.exp(mean),  # geometric
        "low": np.exp(mean - half),
        "high": np.exp(mean + half),
        "best_at_edge": np.array(edges),
        "ratios": ratios,
        "losses": losses,
        "step_size": steps,
    }


def problems(curvatures: np.ndarray, rotations: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Hessians (kinds of starts, rotations, 2, d, d), along the axes and rotated, and starts (…, d), likewise."""
    d = len(curvatures)
    bases = [np.linalg.qr(rng.normal(size=(d, d))) for _ in range(rotations)]
    turns = np.array([q * np.sign(np.diag(r)) for q, r in bases])  # uniform over all rotations and reflections
    turns = np.stack([np.broadcast_to(np.eye(d), turns.shape), turns], axis=1)
    hessians = turns @ np.diag(curvatures) @ np.swapaxes(turns, -1, -2)
    starts = np.stack([rng.choice([-1.0, 1.0], (rotations, d)), rng.normal(size=(rotations, d))])
    return np.stack([hessians] * 2), np.einsum("rtij,krj->krti", turns, starts)


def replayed(name: str, grid: np.ndarray, trace: asim.Trace, hessians: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(step sizes, kinds, rotations, 2): loss at the end, the mean of the last round, with NaN where it diverged.

    All problems are parts of one loss, because none of the optimisers lets one part act on another.
    """
    shape, d = hessians.shape[:-2], hessians.shape[-1]
    flat, first = (part.astype(np.float32) for part in (hessians.reshape(-1, d, d), starts.reshape(-1, d)))

    def init(key):
        return {"x": jnp.asarray(first)} if name != "soap" else [jnp.asarray(x)[:, None] for x in first]

    def loss(params, batch, key):
        x = params["x"] if name != "soap" else jnp.stack(params)[..., 0]
        return jnp.einsum("pi,pij,pj->", x, flat, x) / 2

    def make(rate):
        return rules.Downpour(rate) if name == "sgd" else rules.ServerOptimiser(rate, optimiser=name)

    workload, settings = asim.Workload(init, loss), {"record": ("central",), "stop_on_divergence": False}
    if name == "soap":  # Batched, every step size would compute a basis at each step and drop most of them.
        paths = np.stack([asim.replay(trace, make(rate), workload, **settings).records["central"] for rate in grid])
    else:
        paths = asim.replay(trace, make(grid), workload, [0] * len(grid), **settings).records["central"]
    x = paths[:, -trace.workers :].reshape(len(grid), -1, len(flat), d).astype(float)
    return np.einsum("gcpi,pij,gcpj->gp", x, flat.astype(float), x).reshape(-1, *shape) / (2 * x.shape[1])


def predicted(curvatures, starts, steps, optimiser, late, commits) -> np.ndarray:
    """Median loss of SGD at the step sizes that were best, by x_{t+1} = x_t - η·h·x_{t-τ}, and NaN for the others."""
    medians = np.full(len(optimiser), np.nan)
    for row in np.flatnonzero(optimiser == "sgd"):
        delay, x = late[row], [starts[row % len(STARTS), :, 0]]
        for t in range(commits):
            x.append(x[-1] - steps[row, :, 0, None] * curvatures * x[max(0, t - delay)])
        heights = [(curvatures * each**2).sum(axis=1) / 2 for each in x[-delay - 1 :]]
        medians[row] = np.median(np.mean(heights, axis=0))
    return medians


def draw(figure, numbers) -> None:
    """All ratios, one dot for each rotation."""
    ax = figure.subplots()
    late = numbers["delay"] > 0
    names = [f"{name}\n{start}" for name, start in zip(numbers["optimiser"], numbers["start"], strict=True)]
    colors = {"sgd": GREY, "adam": VERMILION, "soap": BLUE}
    ax.axhline(1, color=GREY, linewidth=0.9)
    for aside, which, fill in ((-0.15, late, True), (0.15, ~late, False)):
        for place, row in enumerate(np.flatnonzero(which)):
            color = colors[str(numbers["optimiser"][row])]
            ratios, mean, low, high = (numbers[name][row] for name in ("ratios", "mean_ratio", "low", "high"))
            where = np.full(len(ratios), place + aside)
            ax.scatter(where, ratios, s=22, edgecolors=color, facecolors=color if fill else "none")
            ax.errorbar(place + aside, mean, [[mean - low], [high - mean]], color="black", capsize=4, zorder=3)
    ax.set_xticks(range(late.sum()), [name for name, is_late in zip(names, late, strict=True) if is_late])
    ax.set(yscale="log", ylabel="loss rotated / loss along the axes", title="Filled: late gradients. Open: fresh ones.")


experiment = asim.Experiment(compute, draw, title="Rotated quadratics", size=(8.0, 4.6))

if __name__ == "__main__":
    asim.main(experiment)
