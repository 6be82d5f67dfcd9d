"""What commands say of runs without one server: workers on a graph, and regions with servers of their own."""

import json
from pathlib import Path

import pytest

import asyncsim as asim
from asyncsim.cluster._gossip import EXCHANGES
from asyncsim.costs import sizes
from asyncsim.costs._usage import sizes_in
from tests.cli.commands import Command

LAW = asim.delays.Exponential(1.0)
SLOW = asim.Network(latency=asim.delays.Constant(0.1), bandwidth=100.0, message_bytes=3)
REGIONS = asim.Hierarchy(regions=[asim.Cluster(2, LAW), asim.Cluster(3, LAW)], commits_per_push=4)
KINDS = {
    **{exchange: asim.Gossip(4, LAW, exchange=exchange) for exchange in EXCHANGES},
    **{f"slow {exchange}": asim.Gossip(4, LAW, exchange=exchange, network=SLOW) for exchange in EXCHANGES},
    "regions": REGIONS,
}
COMMANDS = (("run", "study.py", "--out", "one"), ("show", "one"), ("cost", "one"), ("trace", "info", "one"), ("runs",))


@pytest.fixture(scope="module")
def results() -> dict[str, asim.Result]:
    rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0, 0.5])
    return {name: asim.run(asim.Scenario(kind, rule, workload, commits=40)) for name, kind in KINDS.items()}


@pytest.mark.parametrize("name", KINDS)
def test_the_cost_of_a_kept_run_has_the_bytes_of_its_summary(name: str, results: dict[str, asim.Result]) -> None:
    trace, summary = results[name].trace, results[name].summary
    again, spent = asim.cost(trace, **sizes_in(trace, summary)), asim.cost(trace, **sizes(results[name]))
    assert again.summary() == spent.summary()
    assert (again.bytes_up, again.bytes_down) == (summary["bytes_up"], summary["bytes_down"]) != (0, 0)


@pytest.mark.parametrize("exchange", ["pair", "adapt_then_combine"])
def test_no_text_about_workers_on_a_graph_has_a_server(exchange: str, command: Command) -> None:
    Path("study.py").write_text(
        "import asyncsim as asim\n"
        f"cluster = asim.Gossip(4, asim.delays.Exponential(1.0), exchange={exchange!r})\n"
        "scenario = asim.Scenario(cluster, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=40)\n"
    )
    for words in COMMANDS:
        done = command(*words)
        assert done.status == 0, done.err
        # The one line that would have a server for every run is about bytes from a server, which are 0.
        lines = [line for line in done.out.splitlines() if "server" in line]
        assert all(line.split()[:3] == ["bytes", "down", "0"] for line in lines), lines
    summary = json.loads(Path("one/summary.json").read_text())
    assert f"bytes between workers {summary['bytes_up']}" in " ".join(command("cost", "one").out.split())


def test_regions_have_several_servers(command: Command) -> None:
    asim.run(asim.Scenario(REGIONS, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=40), out="one")
    for words in COMMANDS[1:]:
        assert "the server" not in command(*words).out
    assert "at a server" in command("cost", "one").out
