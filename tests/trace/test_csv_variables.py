"""A trace of several variables as CSV: it comes back, and damaged files are refused with their line."""

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.cluster import Hierarchy
from asyncsim.cluster._gossip import EXCHANGES

GAMMA = delays.Gamma(1.0, 0.5)
SLOW = asim.Network(latency=delays.Constant(0.2))


def simulated(exchange="pair", network=None, commits=50, **settings):
    given = {} if network is None else {"network": network}
    cluster = asim.Gossip(6, GAMMA, graph="ring", exchange=exchange, **given, **settings)
    return asim.simulate(cluster, commits=commits)


@pytest.mark.parametrize("network", [None, SLOW], ids=["at once", "messages"])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_trace_comes_back(exchange, network, tmp_path):
    trace = simulated(exchange, network, local_steps=3)
    trace.to_csv(tmp_path / "run.csv")
    back = asim.Trace.from_csv(tmp_path / "run.csv")
    assert back.digest == trace.digest
    assert (back.notes, back.derived, back.variables) == ((), (), 6)


def test_a_table_that_was_compressed_or_written_anew_comes_back(tmp_path):
    trace = simulated()
    trace.to_csv(tmp_path / "run.csv")
    text = (tmp_path / "run.csv").read_text()
    (tmp_path / "run.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert asim.Trace.from_csv(tmp_path / "run.csv.gz").digest == trace.digest
    for separator in (";", "\t"):
        (tmp_path / "run.csv").write_text(text.replace(",", separator))
        assert asim.Trace.from_csv(tmp_path / "run.csv").digest == trace.digest


def test_a_worker_that_the_table_does_not_name_has_a_number(tmp_path):
    named = dataclasses.replace(simulated(), names=tuple("abcdef"))
    named.to_csv(tmp_path / "run.csv")
    assert asim.Trace.from_csv(tmp_path / "run.csv", workers=6).names == named.names
    assert asim.Trace.from_csv(tmp_path / "run.csv", workers=7).names == (*named.names, "worker 6")


@pytest.mark.parametrize("commits", [1, 3])
def test_a_trace_before_its_first_mixing_comes_back(commits, tmp_path):
    trace = simulated("adapt_then_combine", commits=commits)
    assert not len(trace.mixings)
    trace.to_csv(tmp_path / "run.csv")
    assert asim.Trace.from_csv(tmp_path / "run.csv").digest == trace.digest


def test_times_may_have_another_origin_and_unit(tmp_path):
    trace = simulated()
    trace.to_csv(tmp_path / "run.csv")
    for path, columns in (("run.csv", 7), ("run.mixings.csv", 1)):
        _shift(tmp_path / path, columns)
    back = asim.Trace.from_csv(tmp_path / "run.csv", start=1e6, unit="ms")
    assert back.commit_time == pytest.approx(trace.commit_time)
    assert back.mixings.time == pytest.approx(trace.mixings.time)


def _shift(path, columns):
    """Write all times in milliseconds, 1000 s later."""
    names, *rows = (line.split(",") for line in path.read_text().splitlines())
    times = [place for place, name in enumerate(names) if name.endswith("time")]
    assert len(times) == columns
    for row in rows:
        for place in times:
            row[place] = repr(1000 * float(row[place]) + 1e6) if row[place] else ""
    path.write_text("\n".join(",".join(row) for row in (names, *rows)))


def test_the_mixings_of_an_earlier_trace_are_removed(tmp_path):
    simulated().to_csv(tmp_path / "run.csv")
    trace = asim.Trace.from_commits([0, 1, 0])
    trace.to_csv(tmp_path / "run.csv")
    assert not (tmp_path / "run.mixings.csv").exists()
    assert asim.Trace.from_csv(tmp_path / "run.csv").digest == trace.digest


def test_a_file_of_the_users_is_not_replaced(tmp_path):
    (tmp_path / "run.mixings.csv").write_text("flour,water\n")
    with pytest.raises(FileExistsError, match="holds no mixings of a trace"):
        simulated().to_csv(tmp_path / "run.csv")
    assert not (tmp_path / "run.csv").exists()


def damage(folder, name, before, after, line=3):
    path = Path(folder, name)
    lines = path.read_text().splitlines()
    header = lines[0].split(",")
    cells = lines[line - 1].split(",")
    assert before in header
    cells[header.index(before)] = after
    path.write_text("\n".join([*lines[: line - 1], ",".join(cells), *lines[line:]]))


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        ("run.mixings.csv", "weight", "0.7", "run.mixings.csv: `mixings.weight` must sum to 1"),
        ("run.mixings.csv", "target", "9", "run.mixings.csv: `mixings.target` must be from 0 to 5; line"),
        ("run.mixings.csv", "source", "1.5", "run.mixings.csv: `source` must be a whole number; line 3 has 1.5"),
        ("run.mixings.csv", "time", "", "run.mixings.csv: `time` must be finite; line 3"),
        ("run.mixings.csv", "own", "7", "run.mixings.csv: `own` must be true or false; line 3 has 7"),
        ("run.csv", "version", "40", "`pull_version` must be `version` where there are several variables; line 3"),
        ("run.csv", "read_version", "40", "`read_version` must be from 0 to `version`; line 3 has 40"),
        ("run.csv", "staleness", "9", "`staleness` must be version - read_version; line 3 has 9"),
        ("run.csv", "variable", "5.5", "`variable` must be a whole number; line 3 has 5.5"),
        ("run.csv", "variables", "7", "`variables` must be the same in all rows; line 3 has 7"),
    ],
)
def test_damaged_files_are_refused_with_their_line(name, column, value, message, tmp_path):
    simulated().to_csv(tmp_path / "run.csv")
    damage(tmp_path, name, column, value)
    with pytest.raises(asim.TraceError) as refused:
        asim.Trace.from_csv(tmp_path / "run.csv")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_trace_without_its_mixings_is_refused(tmp_path):
    simulated().to_csv(tmp_path / "run.csv")
    (tmp_path / "run.mixings.csv").unlink()
    with pytest.raises(asim.TraceError, match=r"Put 'run\.mixings\.csv' next to it"):
        asim.Trace.from_csv(tmp_path / "run.csv")


def test_a_flat_table_alone_has_no_place_for_mixings():
    with pytest.raises(ValueError, match="to_csv"):
        simulated().to_columns(unfinished=True)
    assert np.array_equal(simulated().to_columns()["variable"], simulated().variable)


def test_variables_that_several_workers_share_are_refused(tmp_path):
    trace = asim.simulate(Hierarchy(regions=[asim.Cluster(3, GAMMA), asim.Cluster(2, GAMMA)]), seconds=2)
    assert not (trace.from_variable >= 0).any()
    shared = dataclasses.replace(trace, pushes_from=None)
    with pytest.raises(ValueError, match="one for each worker, in CSV"):
        shared.to_csv(tmp_path / "run.csv")
    with pytest.raises(ValueError, match="one for each worker"):
        asim.animate(shared)
