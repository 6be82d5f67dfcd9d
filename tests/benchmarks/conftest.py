"""Benchmarks report ratios inside one run next to their targets: `pytest tests/benchmarks`.

With `--smoke` each runs once on few commits, which only tests that they still run.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

TABLE = pytest.StashKey[list]()


class Row(NamedTuple):
    """A line of the closing table."""

    what: str
    measured: float
    unit: str
    target: float
    at_most: bool

    @property
    def met(self) -> bool:
        return self.measured <= self.target if self.at_most else self.measured >= self.target


def pytest_addoption(parser) -> None:
    parser.addoption("--smoke", action="store_true", help="run each benchmark once, on a hundredth of its commits")


@pytest.fixture
def smoke(request) -> bool:
    """Whether it is only tried that the benchmarks run."""
    return request.config.getoption("smoke")


@pytest.fixture
def scaled(smoke) -> Callable[[int], int]:
    """`scaled(commits)`: how many commits to measure."""
    return lambda commits: max(commits // 100, 30) if smoke else commits


@pytest.fixture
def benchmark(benchmark, smoke):
    """pytest-benchmark's fixture, of one round in a smoke test."""
    if smoke:
        pedantic = benchmark.pedantic
        benchmark.pedantic = lambda *args, **options: pedantic(*args, **{**options, "rounds": 1, "warmup_rounds": 0})
    return benchmark


@pytest.fixture
def report(request) -> Callable[..., None]:
    """`report(what, measured, unit, at_most=… or at_least=…)` puts a line into the closing table."""

    def add(what: str, measured: float, unit: str, at_most: float | None = None, at_least: float | None = None) -> None:
        target = at_most if at_most is not None else at_least
        request.config.stash.setdefault(TABLE, []).append(Row(what, measured, unit, target, at_most is not None))

    return add


@pytest.fixture
def versus(benchmark) -> Callable[..., float]:
    """`versus(function, baseline)`: best time of one over the other's, the two taken in turn."""

    def ratio(function: Callable[[], Any], baseline: Callable[[], Any], rounds: int = 7) -> float:
        times = []

        def time_baseline() -> None:
            start = time.perf_counter()
            baseline()
            times.append(time.perf_counter() - start)

        baseline()
        benchmark.pedantic(function, setup=time_baseline, rounds=rounds, warmup_rounds=1)
        benchmark.extra_info["baseline_seconds"] = min(times)
        return benchmark.stats.stats.min / min(times)

    return ratio


@pytest.fixture
def fastest(smoke) -> Callable[[Callable[[], Any]], float]:
    """`fastest(function)`: seconds of its best of seven calls, after one that compiles."""

    def seconds(function: Callable[[], Any]) -> float:
        function()
        times = []
        for _ in range(1 if smoke else 7):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
        return min(times)

    return seconds


def pytest_terminal_summary(terminalreporter, config) -> None:
    rows = config.stash.get(TABLE, [])
    if not rows or config.getoption("smoke"):  # what was measured then means nothing
        return
    terminalreporter.section("measured beside targets")
    for row in rows:
        sign, verdict = ("≤" if row.at_most else "≥"), ("met" if row.met else "NOT MET")
        line = f"{row.what:<74}{row.measured:>10.4g}  {sign} {row.target:<8.4g}{row.unit:<12}{verdict}"
        terminalreporter.write_line(line)
