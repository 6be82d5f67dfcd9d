"""How long it will take, before it begins: what is to be replayed, and how fast this machine is."""

import time
from collections.abc import Iterable
from typing import NamedTuple

import asyncsim as asim
from figures.common.figure import FigureModule
from figures.common.runs import Runs

COMPILING = 8.0  # seconds for one of the larger networks' programs
PROBED = 8  # workers and commits of each in a probe
SLOWER = 1.3  # GEM over DOWNPOUR, with what it records


class Estimate(NamedTuple):
    """What lies ahead.

    Attributes:
        runs: Replays that are not there yet.
        commits: Their commits in all.
        seconds: About how long they will take on this machine; 0 if there are none.
    """

    runs: int
    commits: int
    seconds: float


def estimate(figures: Iterable[tuple[FigureModule, int]], scale: str, runs: Runs) -> Estimate:
    """Count what these figures and seeds lack, and time a few commits of each kind of work.

    It takes some seconds itself, and is right to about a factor of two: runs with few workers are slower where
    several cores share a wave.
    """
    wanted = [scenario for module, seed in figures for scenario in module.scenarios(scale, seed).values()]
    todo = {scenario.digest: scenario for scenario in wanted if not runs.has(scenario)}
    works = {id(scenario.workload): scenario.workload for scenario in todo.values()}
    cost = {key: SLOWER * seconds_a_commit(workload) for key, workload in works.items()}
    commits = seconds = 0.0
    for scenario in todo.values():
        commits += scenario.total or 0
        seconds += (scenario.total or 0) * cost[id(scenario.workload)]
    programs = len({(s.rule.name, s.cluster.workers, id(s.workload)) for s in todo.values()})
    return Estimate(len(todo), int(commits), seconds + COMPILING * programs)


def seconds_a_commit(workload: asim.Workload) -> float:
    """Real time of one commit of DOWNPOUR with some workers, the second time that the program runs."""
    cluster = asim.Cluster(PROBED, asim.delays.Constant(1.0))
    trace = asim.simulate(cluster, commits=PROBED * PROBED)
    for _ in range(2):
        begun = time.perf_counter()
        asim.replay(trace, asim.rules.downpour(0.0), workload)
        spent = time.perf_counter() - begun
    return spent / len(trace)  # type: ignore[possibly-undefined]  # the loop ran


def in_words(seconds: float) -> str:
    """A duration as people say it.

    Example:
        >>> in_words(40), in_words(700), in_words(9000)
        ('less than a minute', 'about 12 minutes', 'about 2.5 hours')
    """
    if seconds < 60:
        return "less than a minute"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"
