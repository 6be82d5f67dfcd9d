"""Kinetic energies of the central variable and of its proxy, the subject of the paper's theory but of no figure of it.

A worker reads s, and after its commit the central variable is θ: E_k(central) = ½(θ - s)², equation (11). Meanwhile its
proxy moves by m: E_k(proxy) = ½m². According to the paper, training is stable while E_k(central) ≤ E_k(proxy), (12),
and GEM is made for equality, (13). But it cannot brake: a worker that finds the central variable further away than its
proxy would go commits nothing, and the energy is due to the others. DOWNPOUR has no proxy; here each worker also
computes one, which changes nothing. The ratio of a run is the median over blocks of five commits per worker. On a
noisy quadratic, DOWNPOUR's ratio is known exactly.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim import theory
from asyncsim.plots import draw_seeds
from asyncsim.plots.style import BLUE, GREEN, GREY, INK, VERMILION
from figures.common import scales
from figures.common.averages import ends, record_curve
from figures.common.figure_set import UNCACHED, CachedRun, Claim, RunCache, each_n, numbers
from figures.common.paper import not_in_paper
from figures.common.quadratic import ENERGIES, KAPPA, LAWS, beside, on_quadratic
from figures.common.scales import FAILED
from figures.common.tables import Numbers, over_seeds, pack, stack, table, where

TITLE = "Kinetic energies of the central variable and its proxy, GEM and DOWNPOUR"
SIZE = (9.6, 7.4)
WORKERS = (5, 10, 20, 30)
SHOWN = 10  # number of workers for which energies are drawn: both rules learn with it
RULES = {"gem": "GEM", "downpour": "DOWNPOUR"}
COLOURS = {"gem": BLUE, "downpour": VERMILION}
COMMITS = {"quick": 5000, "paper": 40_000}  # on the quadratic
ERRORS = 5  # standard errors by which measured and exact ratio may differ
note = not_in_paper


def scenarios(scale: str, seed: int) -> dict[tuple[str, int], asim.Scenario]:
    """DOWNPOUR with a proxy, and GEM's runs of figure 1."""
    rate = scales.scale_of(scale).learning_rate
    rules = {"gem": scales.gem(rate), "downpour": beside(rate)}
    return {
        (name, n): scales.scenario(scale, rule, n, seed, record=None if name == "gem" else energies(n))
        for name, rule in rules.items()
        for n in WORKERS
    }


def energies(workers: int) -> dict[str, int | None]:
    """Both energies, as often as GEM's runs record them."""
    return {name: scales.gem_record(workers)[name] for name in ENERGIES}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Energies against commits per worker, and their ratios in training and on a quadratic."""
    curves, ratios = [], []
    for (name, n), scenario in scenarios(scale, seed).items():
        run = runs.get(scenario)
        central, proxy = (record_curve(run, energy) for energy in ENERGIES)
        which = {"rule": name, "workers": n}
        curves.append({**which, "worker_steps": ends(run), "central": central, "proxy": proxy})
        ratio = {"ratio": median_ratio(central, proxy), "share": share_allowed(run)}
        ratios.append({**which, **ratio, "training_loss": run.final_loss})
    quadratic = on_quadratic(COMMITS[scale], seed, WORKERS)
    return pack(curves=stack(curves), ratios=stack(ratios), quadratic=stack(quadratic))


def median_ratio(central: np.ndarray, proxy: np.ndarray) -> float:
    """The median of E_k(central)/E_k(proxy) where both are finite."""
    known = np.isfinite(central) & np.isfinite(proxy) & (proxy > 0)
    return float(np.median(central[known] / proxy[known])) if known.any() else np.nan


def share_allowed(run: CachedRun) -> float:
    """Share of the recorded commits at which (12) holds."""
    central, proxy = (run.records[name] for name in ENERGIES)
    return float((central <= proxy).mean())


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Condition (12) for GEM and DOWNPOUR, and the exact ratio on a quadratic."""
    del scale
    gem, downpour = (over_n(seeds, rule) for rule in RULES)
    row, score = quadratic_of(seeds), scores(seeds)
    obeying = over_n(seeds, "gem", "share").mean(axis=0)
    failed = (~learned(seeds, "downpour")).sum(axis=0)
    return [
        Claim(
            "GEM keeps E_k(central) ≤ E_k(proxy), equation (12)",
            "median ratio at most 1 with every number of workers, for every seed",
            f"{each_n(WORKERS, gem)}; share of commits that obey it: {numbers(obeying)}",
            bool((gem <= 1).all()),
        ),
        Claim(
            "without GEM, the energy grows with the number of workers, beyond the proxy's",
            "DOWNPOUR's median ratio above 1 from 10 workers on for every seed, and its mean rising with n",
            f"{each_n(WORKERS, downpour)}; seeds that did not learn: {numbers(failed)}",
            bool((downpour[:, 1:] > 1).all() and np.all(np.diff(downpour.mean(axis=0)) > 0)),
        ),
        Claim(
            "ours: GEM holds the energy back, though not as far as (12)",
            "GEM's median ratio below DOWNPOUR's of the same seed, with every number of workers",
            f"GEM's over DOWNPOUR's: {each_n(WORKERS, gem / downpour)}",
            bool((gem < downpour).all()),
        ),
        Claim(
            "ours: on a quadratic, DOWNPOUR's ratio is known exactly",
            f"measured within {ERRORS} standard errors of `theory.energy_ratio`",
            f"constant times: {beside_each_other(where(row, law='constant'))}; exponential: "
            f"{beside_each_other(where(row, law='exponential'))}; at most {score.max():.2g} standard errors",
            bool((score <= ERRORS).all()),
        ),
    ]


def over_n(seeds: Sequence[Numbers], rule: str, column: str = "ratio") -> np.ndarray:
    """(seeds, numbers of workers)."""
    return over_seeds(seeds, "ratios", column, rule=rule)


def learned(seeds: Sequence[Numbers], rule: str) -> np.ndarray:
    """(seeds, numbers of workers): whether the run ended below half the loss before training."""
    return over_n(seeds, rule, "training_loss") < FAILED


def quadratic_of(seeds: Sequence[Numbers]) -> dict[str, np.ndarray]:
    """The table of the quadratic, averaged over seeds, with the errors of the means."""
    tables = [table(one, "quadratic") for one in seeds]
    mean = {name: np.mean([one[name] for one in tables], axis=0) for name in ("ratio", "estimate")}
    errors = {name: np.array([one[name] for one in tables]) for name in ("error", "estimate_error")}
    pooled = {name: np.sqrt((rows**2).sum(axis=0)) / len(tables) for name, rows in errors.items()}
    return {**tables[0], **mean, **pooled}


def scores(seeds: Sequence[Numbers]) -> np.ndarray:
    """The deviation of each ratio on the quadratic from the exact one, in standard errors."""
    row = quadratic_of(seeds)
    return np.abs(row["ratio"] - row["predicted"]) / row["error"]


def beside_each_other(row: Mapping[str, np.ndarray]) -> str:
    """Measured and exact ratios, in the order of the numbers of workers."""
    triples = zip(row["ratio"], row["error"], row["predicted"], strict=True)
    return ", ".join(f"{ratio:.3g} ± {error:.1g} ({exact:.3g})" for ratio, error, exact in triples)


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """Energies of both rules, their ratio against n, and the ratio on a quadratic."""
    del scale
    panels = figure.subplots(2, 2)
    for ax, rule in zip(panels[0], RULES, strict=True):
        draw_energies(ax, seeds, rule)
    low, high = (f(ax.get_ylim()[i] for ax in panels[0]) for i, f in enumerate((min, max)))
    for ax in panels[0]:
        ax.set_ylim(low, high)
    panels[0, 0].legend()
    draw_ratios(panels[1, 0], seeds)
    draw_quadratic(panels[1, 1], seeds)


def draw_energies(ax: Any, seeds: Sequence[Numbers], rule: str) -> None:
    """Both energies against commits per worker."""
    steps = where(table(seeds[0], "curves"), rule=rule, workers=SHOWN)["worker_steps"]
    for column, label, colour in (("central", "central variable", INK), ("proxy", "proxy", GREEN)):
        draw_seeds(ax, steps, over_seeds(seeds, "curves", column, rule=rule, workers=SHOWN), label=label, color=colour)
    ax.set(xlabel="commits of each worker", ylabel="kinetic energy", yscale="log", title=f"{RULES[rule]}, n = {SHOWN}")


def draw_ratios(ax: Any, seeds: Sequence[Numbers]) -> None:
    """Ratios in training, with every seed as a point, and those of theory for a slope or noise alone."""
    for rule, label in RULES.items():
        ratios, good = over_n(seeds, rule), learned(seeds, rule)
        draw_seeds(ax, WORKERS, ratios, label=label, color=COLOURS[rule])
        n = np.broadcast_to(WORKERS, ratios.shape)
        ax.plot(n[good], ratios[good], "o", color=COLOURS[rule], markersize=4)
        failed = {"color": COLOURS[rule], "markersize": 4.5, "markerfacecolor": "white"}
        ax.plot(n[~good], ratios[~good], "o", label=f"{label}, did not learn" if (~good).any() else None, **failed)
    for (rule, label), values in limiting_ratios().items():
        dash = (0, (4, 2)) if "slope" in label else (0, (1, 1.4))
        ax.plot(WORKERS, values, color=COLOURS[rule], linewidth=1.1, linestyle=dash, label=f"{RULES[rule]}, {label}")
    draw_condition(ax)
    ax.set(title="Ratio of energies in training", ylabel="E(central) / E(proxy)")
    ax.legend(fontsize=8, loc="lower right")


def limiting_ratios() -> dict[tuple[str, str], np.ndarray]:
    """(rule, label) -> ratios for each number of workers, on a constant gradient or on noise alone."""
    law, momentum = scales.NEARLY_EQUAL, scales.MOMENTUM
    drift, noise = theory.proxy_drift_energy(momentum), theory.proxy_noise_energy(momentum)
    formulas = {
        ("downpour", "slope alone"): lambda n: theory.drift_energy(workers=n, compute=law) / drift,
        ("downpour", "noise alone"): lambda n: theory.noise_energy(workers=n) / noise,
        ("gem", "slope alone, about"): lambda n: theory.gem_energy_ratio(workers=n, compute=law, momentum=momentum),
    }
    return {name: np.array([ratio(n) for n in WORKERS]) for name, ratio in formulas.items()}


def draw_quadratic(ax: Any, seeds: Sequence[Numbers]) -> None:
    """The exact ratio as a line, the measured one as points, and that to the workers' proxies as crosses."""
    row = quadratic_of(seeds)
    for (law, delay), colour in zip(LAWS.items(), (BLUE, VERMILION), strict=True):
        own, n = where(row, law=law), np.arange(WORKERS[0], WORKERS[-1] + 1)
        exact = [theory.energy_ratio(KAPPA, workers=k, compute=delay, momentum=scales.MOMENTUM) for k in n.tolist()]
        ax.plot(n, exact, color=colour, label=f"{law} times, exact")
        ax.errorbar(own["workers"], own["ratio"], 2 * own["error"], fmt="o", color=colour, markersize=5)
        ax.plot(own["workers"], own["estimate"], "x", color=colour)
    ax.plot([], [], "o", color=INK, markersize=5, label="measured")
    ax.plot([], [], "x", color=INK, label="with the proxies that workers keep")
    draw_condition(ax)
    ax.set(title=f"DOWNPOUR on a noisy quadratic, η·h = {KAPPA:g}", ylabel="E(central) / E(proxy)")
    ax.legend(fontsize=8, loc="lower right")


def draw_condition(ax: Any) -> None:
    """The largest ratio that (12) allows, and both axes."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    ax.axhline(1.0, color=GREY, linewidth=1.0)
    ax.annotate("(12) holds below", (WORKERS[0], 1.0), (0, -3), textcoords="offset points", ha="left", va="top")
    ax.set(xlabel="workers", xticks=WORKERS, yscale="log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.set_ylim(bottom=0.12)
