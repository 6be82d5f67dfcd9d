"""Reading a log of a million commits, next to a loop that only takes the cells apart and makes numbers of them.

`python -m tests.benchmarks.log_against REVISION` compares reading and fitting with those of another revision.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import asyncsim as asim

COMMITS = 1_000_000
COLUMNS = ("worker", "read_time", "start_time", "finish_time", "arrive_time", "serve_time", "commit_time")


def simulated(commits: int) -> asim.Trace:
    """Return a trace that has every column."""
    gamma = asim.delays.Gamma
    network, server = asim.Network(latency=gamma(0.1, 0.5)), asim.Server(service=gamma(0.02, 0.2))
    return asim.simulate(asim.Cluster(16, gamma(1.0, 0.5), network=network, server=server), commits=commits)


def by_cells(path: Path) -> list[np.ndarray]:
    """Read numbers by Python's own module, as asyncsim did before it used pandas."""
    with open(path, newline="") as file:
        reader = csv.reader(file)
        next(reader)
        worker, *times = zip(*reader, strict=True)
    names = {name: number for number, name in enumerate(dict.fromkeys(worker))}
    return [np.array([names[name] for name in worker]), *(np.array([*map(float, column)]) for column in times)]


def by_lines(path: Path) -> pd.DataFrame:
    with open(path) as file:
        return pd.DataFrame([json.loads(line) for line in file])


@pytest.mark.parametrize("kind", ["CSV", "CSV with names of workers", "CSV of commits alone", "JSON lines"])
def test_reading(kind, tmp_path, versus, report, scaled):
    trace, columns = simulated(scaled(COMMITS)), COLUMNS[::6] if "alone" in kind else COLUMNS
    frame = pd.DataFrame({name: getattr(trace, name) for name in columns})
    if "names" in kind:
        frame["worker"] = np.array([f"node-{worker}" for worker in range(16)])[trace.worker]
    path, baseline = tmp_path / "log", by_lines if "JSON" in kind else by_cells
    frame.to_json(path, orient="records", lines=True) if "JSON" in kind else frame.to_csv(path, index=False)
    ratio = versus(lambda: asim.Trace.from_csv(path), lambda: baseline(path), rounds=3)
    report(f"reading {kind}, over a loop of Python", ratio, "", at_most=1.0)
