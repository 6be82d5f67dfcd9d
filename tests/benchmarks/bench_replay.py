"""The cost of asynchrony: replay over the same number of bare gradients in a compiled loop."""

import jax
import numpy as np
import pytest

import asyncsim as asim
from tests.benchmarks.loops import bare_loop, gamma_trace, traffic_loop

COMMITS = 20_000
MODELS = {  # parameters: hidden layers, most tax at (n = 30, cv .1) and (n = 100, cv 1)
    650: ((), 1.15, 1.4),
    2410: ((32,), 1.2, 1.6),
    17226: ((128, 64), 1.5, 2.0),
}
ABOVE_THE_FLOOR = 1.1  # or so close to what moving the bytes takes


def digits_workload(hidden):
    digits = asim.datasets.Digits()
    if not hidden:
        return asim.workloads.Softmax(digits, batch_size=32)
    return asim.workloads.MLP(digits, hidden=hidden, batch_size=32)


@pytest.mark.parametrize("rule", [asim.rules.GEM(0.001), asim.rules.Downpour(0.001)], ids=lambda rule: rule.name)
@pytest.mark.parametrize(("workers", "cv"), [(30, 0.1), (100, 1.0)])
@pytest.mark.parametrize("parameters", MODELS)
def test_asynchrony_tax(parameters, workers, cv, rule, versus, fastest, report, scaled):
    hidden, *most = MODELS[parameters]
    commits = scaled(COMMITS)
    workload, trace = digits_workload(hidden), gamma_trace(workers, cv, commits)
    bare = bare_loop(workload, commits)
    tax = versus(lambda: asim.replay(trace, rule, workload), bare)
    floor = 1 + fastest(traffic_loop(rule, workload, trace)) / fastest(bare)
    what = f"tax, {parameters} parameters, n = {workers}, cv = {cv}, {rule.name}"
    report(f"{what}, floor {floor:.2f}", tax, "×", at_most=max(most[workers == 100], ABOVE_THE_FLOOR * floor))


@pytest.mark.parametrize("workers", [100, 1000])
@pytest.mark.parametrize("parameters", MODELS)
def test_cost_does_not_grow_with_the_workers(parameters, workers, versus, report, scaled):
    workload, rule = digits_workload(MODELS[parameters][0]), asim.rules.GEM(0.001)
    few, many = gamma_trace(10, 0.1, scaled(COMMITS)), gamma_trace(workers, 0.1, scaled(COMMITS))
    growth = versus(
        lambda: asim.replay(many, rule, workload, lanes=1), lambda: asim.replay(few, rule, workload, lanes=1)
    )
    report(f"cost of a commit at n = {workers} over n = 10, {parameters} parameters", growth, "×", at_most=1.3)


@pytest.mark.parametrize("rule", [asim.rules.GEM(0.001), asim.rules.Downpour(0.001)], ids=lambda rule: rule.name)
@pytest.mark.parametrize(("size", "noise", "seeds", "least"), [(10, 0, 1, 700), (10, 0, 32, 2000), (1729, 1, 1, 150)])
def test_quadratic(size, noise, seeds, least, rule, benchmark, report, scaled):
    commits = scaled(1_000_000 if seeds * size == 10 else 100_000)
    trace = gamma_trace(30, 0.3, commits)
    workload = asim.workloads.Quadratic(np.linspace(0.1, 1.0, size), noise=noise)
    seed = tuple(range(seeds)) if seeds > 1 else 0
    run = benchmark.pedantic(asim.replay, args=(trace, rule, workload, seed), rounds=5, warmup_rounds=1)
    assert run.commits == commits
    assert jax.tree.leaves(run.diverged_at) == []
    rate = commits * seeds / benchmark.stats.stats.min / 1e3
    what = f"quadratic, {size} parameters, noise {noise}, {seeds} seeds, {rule.name}"
    report(what, rate, "k commits/s", at_least=least)
