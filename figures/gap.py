"""Pull and commit as two requests, with g commits of others between them: the first commits of a run.

In the paper, GEM with κ = 4 and DOWNPOUR with twice the step size fail at once, and GEM with 100 workers jumps before
it learns. With pull and commit in one critical section, as in the authors' script, the first two mostly learn
(`assumptions`), and the jump is lower. Here, g commits come between a worker's pull and its own commit, and it goes on
from the pulled value plus its own message; see `asyncsim.trace.with_gap`. A worker that comes back sooner than after g
commits of others pulls right after its own last one.

The same gap must not change the runs that do not fail in the paper: GEM with 5 and 10 workers. `gap_runs` shows whole
runs."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import asyncsim as asim
from asyncsim.plots import draw_seeds
from asyncsim.plots.style import GREY, INK
from figures.assumptions import LAWS as ALL_LAWS
from figures.common import scales
from figures.common.averages import BLOCK, ends, loss_curve, record_curve
from figures.common.curves import COLOURS, PAPER_COLOUR, draw_paper
from figures.common.figure_set import UNCACHED, CachedRun, Claim, RunCache, each, numbers
from figures.common.gap import apart
from figures.common.paper import paper_curves, why_no_curves
from figures.common.scales import FAILED, UNTRAINED
from figures.common.tables import Numbers, over_seeds, pack, stack, table, where
from figures.figure2 import SECONDS_PER_COMMIT

TITLE = "Pull and commit as two requests, with g commits between them: the first commits of a run"
SIZE = (12.0, 7.6)
GAPS = (0, 1, 2, 3, 5)
IN_TURN, NEARLY_EQUAL = "round robin", "gamma, cv .3"
SHADES = (INK, GREY, PAPER_COLOUR)  # of the laws, because colours are the gaps
LAWS = {name: ALL_LAWS[name] for name in (IN_TURN, "gamma, cv .1", NEARLY_EQUAL)}
note = why_no_curves


class Case(NamedTuple):
    """One rule on one cluster.

    Attributes:
        label: Rule and workers, in words.
        workers: Number of workers n.
        commits_per_worker: Length of the run, from which it is clear at the paper's scale whether it learns.
        laws: Names of the laws of compute times; those with which it does not fail without a gap already.
        drawn: The law whose curves are drawn.
        paper, rows: Of the paper's own curves, column -> file, and which rows of the files.
        block: Commits of each worker in a mean of the curves; one for figure 2, whose jump does not last longer.
        gaps: Commits between pull and commit.
    """

    label: str
    workers: int
    commits_per_worker: int
    laws: tuple[str, ...]
    drawn: str
    paper: Mapping[str, str]
    rows: Mapping[str, float] = MappingProxyType({})
    block: int = BLOCK
    gaps: tuple[int, ...] = GAPS


IN_FIGURES_1_AND_3 = {"training_loss": "figure1a_gem", "median_pi": "figure3_median_pi"}
IN_FIGURE_8 = {"training_loss": "figure8a_kappa_loss", "median_pi": "figure8b_kappa_median_pi"}
CASES = {
    "gem": Case("GEM, 5 workers", 5, 100, (IN_TURN, NEARLY_EQUAL), NEARLY_EQUAL, IN_FIGURES_1_AND_3, {"workers": 5}),
    "gem_ten": Case("GEM, 10 workers", 10, 100, (NEARLY_EQUAL,), NEARLY_EQUAL, IN_FIGURES_1_AND_3, {"workers": 10}),
    "gem_hundred": Case(
        "GEM, 100 workers",
        100,
        25,
        (IN_TURN,),
        IN_TURN,
        {"training_loss": "figure2_hundred_workers"},
        block=1,
        gaps=(0, 5),
    ),
    "gem_amplified": Case("GEM, κ = 4, 5 workers", 5, 100, tuple(LAWS), IN_TURN, IN_FIGURE_8, {"kappa": 4}),
    "downpour_large": Case(
        "DOWNPOUR, η doubled, 10 workers",
        10,
        250,
        (NEARLY_EQUAL,),
        NEARLY_EQUAL,
        {"training_loss": "figure6b_downpour_lr01"},
        {"workers": 10},
    ),
}
SHOWN = (  # besides the losses at the end
    ("gem_amplified", "training_loss"),
    ("gem_amplified", "median_pi"),
    ("downpour_large", "training_loss"),
    ("gem_hundred", "training_loss"),
    ("gem_ten", "median_pi"),
)


def scenarios(scale: str, seed: int) -> dict[tuple[str, str, int], asim.Scenario]:
    """Each case under its laws, with every gap."""
    usual = scales.scale_of(scale)
    rules = {
        **dict.fromkeys(("gem", "gem_ten", "gem_hundred"), scales.gem(usual.learning_rate)),
        "gem_amplified": scales.gem(usual.kappa_learning_rate, 4.0),
        "downpour_large": asim.rules.Downpour(usual.large_learning_rate),
    }
    runs = {}
    for name, case in CASES.items():
        commits = min(case.commits_per_worker, usual.commits_per_worker)
        for law in case.laws:
            one = scales.scenario(scale, rules[name], case.workers, seed, compute=LAWS[law], commits_per_worker=commits)
            runs |= {(name, law, gap): apart(one, gap) for gap in case.gaps}
    return runs


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Curves of loss and median π, and how each run ended."""
    curves, final = [], []
    for (case, law, gap), scenario in scenarios(scale, seed).items():
        run, which, block = runs.get(scenario), {"case": case, "law": law, "gap": gap}, CASES[case].block
        columns = {**loss_curve(run, block), "median_pi": median_of(run, block)}
        losses = columns["training_loss"]
        curves.append({**which, **columns})
        final.append({**which, "training_loss": losses[-max(1, len(losses) // 5) :].mean(), "highest": losses.max()})
    return pack(curves=stack(curves), final=stack(final))


def median_of(run: CachedRun, block: int) -> np.ndarray:
    """The median of π over all parameters, in the same means; NaN for a rule that has no π."""
    has = "pi_median" in run.records
    return record_curve(run, "pi_median", block) if has else np.full(len(ends(run, block)), np.nan)


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Whether the same settings fail with a gap as in the paper."""
    del scale
    gem, amplified = (last_losses(seeds, case, IN_TURN) for case in ("gem", "gem_amplified"))
    near = last_losses(seeds, "gem_amplified", NEARLY_EQUAL)
    downpour = last_losses(seeds, "downpour_large", NEARLY_EQUAL)
    highest = over_seeds(seeds, "final", "highest", case="gem_hundred", law=IN_TURN)
    pi = np.stack([median_of_gap(seeds, gap) for gap in GAPS], axis=1)
    papers, judged = (
        paper_curve("gem_ten", "median_pi"),
        f"mean loss over the last fifth of these runs above {FAILED:.3g}",
    )
    return [
        Claim(
            f"ours: with {GAPS[-1]} commits between pull and commit, in turn, κ = 4 fails and κ = 1 learns",
            f"{judged} for every seed with κ = 4, and for none with κ = 1",
            f"in turn, κ = 4: {of_gaps(amplified)}. κ = 1: {of_gaps(gem)}. {NEARLY_EQUAL}, κ = 4: {of_gaps(near)}",
            bool(failed(amplified[:, -1]).all() and not failed(gem[:, -1]).any()),
        ),
        Claim(
            "ours: without a gap, κ = 4 learns",
            f"{judged} for no seed with g = 0, in turn and with {NEARLY_EQUAL}",
            f"in turn {numbers(amplified[:, 0])}; {NEARLY_EQUAL} {numbers(near[:, 0])}",
            not (failed(amplified[:, 0]).any() or failed(near[:, 0]).any()),
        ),
        Claim(
            "ours: DOWNPOUR with 10 workers and η doubled fails with the gap and learns without it",
            f"{judged} for every seed with g = {GAPS[-1]}, and for none with g = 0; {NEARLY_EQUAL}",
            of_gaps(downpour),
            bool(failed(downpour[:, -1]).all() and not failed(downpour[:, 0]).any()),
        ),
        Claim(
            "ours: with the gap, the loss of 100 workers jumps as far as in figure 2, to 11",
            f"highest mean over a commit of each worker, in turn, g = {GAPS[-1]}: at least 11 for every seed",
            of_gaps(highest, CASES["gem_hundred"].gaps),
            bool((highest[:, -1] >= 11).all()),
        ),
        Claim(
            "ours: with the gap, π of 10 workers is as in figure 3",
            f"mean over these runs of the median over all parameters, g = {GAPS[-1]}, {NEARLY_EQUAL}: within a factor "
            f"of 2 of the paper's {papers[1].mean():.2f} for every seed",
            of_gaps(pi),
            bool((np.abs(np.log2(pi[:, -1] / papers[1].mean())) < 1).all()),
        ),
    ]


def median_of_gap(seeds: Sequence[Numbers], gap: int) -> np.ndarray:
    """(seeds,): π of 10 workers, mean over the run of the median over all parameters."""
    return over_seeds(seeds, "curves", "median_pi", case="gem_ten", gap=gap).mean(axis=1)


def paper_curve(case: str, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Commits of each worker, and the paper's values, as far as our runs go."""
    of = CASES[case]
    theirs = where(paper_curves(of.paper[column]), **of.rows)
    steps = theirs["seconds"] / SECONDS_PER_COMMIT if "seconds" in theirs else theirs["worker_steps"]
    shown = steps <= of.commits_per_worker
    return steps[shown], theirs[column][shown]


def last_losses(seeds: Sequence[Numbers], case: str, law: str) -> np.ndarray:
    """(seeds, gaps): the mean loss over the last fifth of the run."""
    return over_seeds(seeds, "final", "training_loss", case=case, law=law)


def failed(losses: np.ndarray) -> np.ndarray:
    """Which runs have not learned, or diverged."""
    return ~(losses < FAILED)


def of_gaps(values: np.ndarray, gaps: Sequence[int] = GAPS) -> str:
    """The numbers of all seeds for each gap."""
    return each((f"g = {gap}" for gap in gaps), values)


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """Losses against the gap and against commits; medians of π."""
    axes = figure.subplots(2, 3)
    draw_last(axes[0, 0], seeds)
    for ax, (case, column) in zip(axes.flat[1:], SHOWN, strict=True):
        draw_curves(ax, seeds, case, column, scale)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def draw_last(ax: Any, seeds: Sequence[Numbers]) -> None:
    """How the runs with κ = 4 ended against the gap, under each law."""
    for (law, marker), shade in zip(zip(LAWS, "os^", strict=True), SHADES, strict=True):
        losses = last_losses(seeds, "gem_amplified", law)
        drawn = np.where(np.isfinite(losses), losses, UNTRAINED)
        draw_seeds(ax, GAPS, drawn, label=law, color=shade, marker=marker)
    ax.axhline(UNTRAINED, color=INK, linewidth=0.8, linestyle=(0, (2, 1.5)))
    ax.set(title=f"{CASES['gem_amplified'].label}:\nloss at the end", xlabel="g, commits between pull and commit")
    ax.set(xticks=GAPS, ylim=(0, None))
    ax.legend(fontsize=8)


def draw_curves(ax: Any, seeds: Sequence[Numbers], case: str, column: str, scale: str) -> None:
    """One line for each gap, with the paper's curve behind them."""
    of, law = CASES[case], CASES[case].drawn
    if scale == "paper":
        draw_paper(ax, *paper_curve(case, column))
    for gap in of.gaps:
        colour = COLOURS[GAPS.index(gap)]
        steps = where(table(seeds[0], "curves"), case=case, law=law, gap=gap)["worker_steps"]
        values = over_seeds(seeds, "curves", column, case=case, law=law, gap=gap)
        draw_seeds(ax, steps, values, label=f"g = {gap}", color=colour)
    what = "loss" if column == "training_loss" else "median of π"
    ax.set(title=f"{of.label}:\n{what}, {law}", xlabel="commits of each worker", ylim=(0, None))
