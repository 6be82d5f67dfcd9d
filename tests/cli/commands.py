"""Files that a command left behind, and the scripts that the tests of several commands run."""

from collections.abc import Callable
from typing import NamedTuple

SCRIPT = """
import asyncsim as asim

print("a script may print")
scenario = asim.Scenario(
    cluster=asim.Cluster(workers=4, compute=asim.delays.Gamma(mean=1.0, cv=0.3)),
    rule=asim.rules.GEM(learning_rate=0.05),
    workload=asim.workloads.Quadratic([1.0, 0.1], noise=0.1),
    commits_per_worker=50,
)

if __name__ == "__main__":
    asim.main(scenario)
"""
COMPARISON = SCRIPT.replace(
    "if __name__",
    """
comparison = asim.Comparison({"gem": scenario, "downpour": scenario.override(rule="downpour")})

if __name__""",
)
EXPERIMENT = """
import numpy as np
import asyncsim as asim


def powers(base: float = 2.0, count: int = 4, rule: str = "gem"):
    '''Powers of a number.

    Args:
        base: The number.
        count: How many.
        rule: A word that is no update rule.
    '''
    return {"power": base ** np.arange(count), "last": np.array(base ** (count - 1)), "rule": np.array(rule)}


experiment = asim.Experiment(powers, draw=lambda figure, numbers: figure.subplots().plot(numbers["power"]))
"""
GRID = ("--grid", "learning_rate=.02,.05", "--grid", "seed=0:3", "--commits", "40")  # of `asyncsim sweep study.py`


class Done(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str


Command = Callable[..., Done]


def assert_one_line(done: Done, status: int, *words: str) -> None:
    """An error is one line on standard error that holds these words."""
    assert (done.status, done.out) == (status, "")
    lines = [line for line in done.err.splitlines() if line != "a script may print"]
    assert len(lines) == 1, done.err
    assert lines[0].startswith("Error: ")
    for word in words:
        assert word in lines[0]
