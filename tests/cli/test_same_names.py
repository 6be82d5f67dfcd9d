"""A number of a run has one name and one format in all that shows it: commands, reports, tables and files."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from asyncsim._metrics import ABSENT, METRICS, SHORT, is_notable, metric, metric_text
from tests.animation.test_movie import film_in
from tests.cli.commands import Command

# A workload with every number that a summary may have, one of its own (f1) included.
SCRIPT = """
import asyncsim as asim
import jax.numpy as jnp

def loss(params, batch, key):
    return 0.5 * params["x"] ** 2

def evaluate(params):
    score = jnp.exp(-abs(params["x"]))
    return {"test_loss": loss(params, None, None), "test_accuracy": score, "f1": 0.9 * score}

scenario = asim.Scenario(
    cluster=asim.Cluster(workers=4, compute=asim.delays.Gamma(mean=1.0, cv=0.3)),
    rule=asim.rules.GEM(learning_rate=0.05),
    workload=asim.Workload(init=lambda key: {"x": jnp.ones(())}, loss=loss, evaluate=evaluate),
    commits_per_worker=50,
)
"""
COMPARISON = 'comparison = asim.Comparison({"gem": scenario, "downpour": scenario.override(rule="downpour")})'
OWN = "f1"


@pytest.fixture(autouse=True)
def scripts(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")  # so that no head is broken
    Path("study.py").write_text(SCRIPT)
    Path("both.py").write_text(SCRIPT + COMPARISON)


def cells_of(out: str) -> list[list[str]]:
    """The cells of each line, which are two blanks apart or more."""
    return [re.split(r" {2,}", line.strip()) for line in out.splitlines()]


def table_in(out: str, first: str) -> dict[str, list[str]]:
    """Head -> cells, of the table whose first head is this."""
    lines = cells_of(out)
    start = next(place for place, line in enumerate(lines) if line[0] == first)
    end = next((place for place, line in enumerate(lines) if place > start and line == [""]), None)
    return {head: [*column] for head, *column in zip(*lines[start:end], strict=True)}


def numbers_of(folder: str) -> dict[str, Any]:
    numbers = json.loads(Path(folder, "summary.json").read_text())
    return {name: value for name, value in numbers.items() if not name.startswith("@")}


def test_show_and_compare_use_the_same_names(command: Command) -> None:
    summaries = {}
    for name, rate in (("one", ".05"), ("two", "1e6"), ("six", "1e-9")):  # learns, diverges, is stuck
        ran = command("run", "study.py", "--learning-rate", rate, "--html", "--out", name).out
        summary = summaries[name] = numbers_of(name)
        assert summary.keys() == {*METRICS, OWN}
        expected = {metric(key).label: metric_text(key, value) for key, value in summary.items()}
        for out in (ran, command("show", name).out):
            assert {line[0]: line[1] for line in cells_of(out) if len(line) == 3} == expected
        assert dict(film_in(Path(name, "report.html").read_text())["tables"][0]["rows"]) == expected
        listed = table_in(command("runs", name).out, "name")
        for key in ("commits", *SHORT):
            if metric_text(key, summary[key]) != ABSENT and is_notable(key, summary[key]):
                assert listed[metric(key).label] == [expected[metric(key).label]]
    results = table_in(command("compare", *summaries).out, "result")
    known = {key for key in (*METRICS, OWN) if any(one[key] is not None for one in summaries.values())}
    for name, summary in summaries.items():
        compared = dict(zip(results["result"], results[name], strict=True))
        assert compared == {metric(key).label: metric_text(key, summary[key]) for key in known}


def test_a_comparison_uses_the_same_names(command: Command) -> None:
    together = table_in(command("run", "both.py", "--out", "both").out, "scenario")
    both = [numbers_of(f"both/{name}") for name in together["scenario"]]
    for name in ("commits", "mean_staleness", "final_loss", "test_accuracy", OWN, "commits_per_second"):
        assert together[metric(name).label] == [metric_text(name, summary[name]) for summary in both]


def test_a_sweep_uses_the_same_names(command: Command) -> None:
    swept = command("sweep", "study.py", "--grid", "learning_rate=.05,1e6,1e-9", "--store", "store", "--jobs", "0")
    assert swept.status == 0, swept.err
    columns = json.loads(command("sweep", "table", "store", "--json").out)["columns"]
    summaries = [numbers_of(f"store/{digest}") for digest in columns["digest"]]
    table = table_in(command("sweep", "table", "store").out, "learning rate")
    for name in SHORT:
        assert table[metric(name).label] == [metric_text(name, summary[name]) for summary in summaries]
    command("sweep", "table", "store", "--csv", "all.csv")
    with open("all.csv", newline="") as file:
        for row, summary in zip(csv.DictReader(file), summaries, strict=True):
            assert {name: row[name] for name in summary} == {
                name: "" if value is None else str(value) for name, value in summary.items()
            }
    settings = table_in(swept.out, "learning rate")["median"]
    assert sorted(settings) == sorted(metric_text("final_loss", summary["final_loss"]) for summary in summaries)
    for out in (swept.out, command("sweep", "plot", "store", "--x", "learning_rate").out):
        assert metric("final_loss").label in out.lower()
