"""Which outer optimiser is the least stable if displacements are late? The largest stable outer steps by age.

Each commit has the displacement of a window that reaches the minimum of a quadratic (c = 1), a fixed number of commits
late. `theory.outer_limit` predicts the largest stable outer step of plain steps, damped Nesterov, Nesterov and heavy
ball exactly, and replays on a grid of 1 % measure it. In the long run momentum moves the parameters by more than the
step, so limits are compared at equal gain as well: times 1 + μ for damped Nesterov, and 1/(1 - μ) for the last two.

    asyncsim run scenarios/outer_age.py
    asyncsim run scenarios/outer_age.py --momentum 0.5 --out runs/outer_age_with_less_momentum
"""

import numpy as np

import asyncsim as asim
from asyncsim import rules, theory
from asyncsim.plots.style import BLUE, GREEN, GREY, VERMILION

STEP = 0.01  # relative, of the grid
AROUND = np.exp(STEP * np.arange(-9.5, 10))  # step sizes, relative to the predicted limit
REST = 1e-20  # distance from the minimum at which a run of single precision counts as converged
COLORS = {"plain": GREY, "damped": GREEN, "nesterov": BLUE, "heavy_ball": VERMILION}


def compute(momentum=0.9, ages=(0, 1, 2, 4, 8), commits=8000) -> dict[str, np.ndarray]:
    """Largest stable outer step sizes, predicted and measured, by optimiser and age.

    Args:
        momentum: Momentum μ of the outer optimisers.
        ages: Commits by which displacements are late.
        commits: Length of a replay, after which growth is told from decay.
    """
    kinds = {
        "plain": (rules.Downpour, {}, 1.0),
        "damped": (rules.DampedNesterov, {"momentum": momentum}, 1 + momentum),
        "nesterov": (rules.SharedNesterov, {"momentum": momentum}, 1 / (1 - momentum)),
        "heavy_ball": (rules.HeavyBall, {"momentum": momentum}, 1 / (1 - momentum)),
    }
    rows = []
    for age in ages:
        trace = asim.Trace.from_commits(np.arange(commits) % (age + 1))
        for name, (make, settings, gain) in kinds.items():
            limit = theory.outer_limit(momentum, age, name) if settings else theory.outer_limit(0.0, age)
            stable = is_stable(trace, make(limit * AROUND, **settings))
            most = int(stable.argmin())  # the first on the grid that is not, between which and the last the limit lies
            rows.append((name, age, limit, np.sqrt(AROUND[most - 1] * AROUND[most]) * limit, limit * gain))
    names = ("optimiser", "age", "predicted", "measured", "at_equal_gain")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def is_stable(trace: asim.Trace, rule: asim.Rule) -> np.ndarray:
    """Whether the distance from the minimum falls from the second quarter of a replay to its last one."""
    workload, seeds = asim.workloads.Quadratic([1.0]), [0] * len(AROUND)
    run = asim.replay(trace, rule, workload, seeds, record=("central",), stop_on_divergence=False)
    quarters = np.array_split(abs(run.records["central"][..., 0]), 4, axis=1)
    second, last = (np.nan_to_num(quarters[place], nan=np.inf).max(axis=1) for place in (1, 3))
    return (last < second) | (second < REST)


def draw(figure, numbers) -> None:
    """Limits over ages, lines for theory and dots for replays, as they are and at equal gain."""
    for ax, values, title in zip(
        figure.subplots(1, 2, sharex=True),
        (numbers["predicted"], numbers["at_equal_gain"]),
        ("largest stable outer step", "the same at equal gain"),
        strict=True,
    ):
        for name, color in COLORS.items():
            row = numbers["optimiser"] == name
            ax.plot(numbers["age"][row], values[row], color=color, label=name.replace("_", " "))
            measured = (values / numbers["predicted"] * numbers["measured"])[row]
            ax.plot(numbers["age"][row], measured, "o", color=color, markerfacecolor="none")
        ax.set(xlabel="age in commits", yscale="log", title=title)
    figure.axes[0].legend()


experiment = asim.Experiment(compute, draw, title="Late displacements", size=(8.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
