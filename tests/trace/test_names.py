"""Names of workers and notes about a log: they stay with the trace wherever it goes, and change no number."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim.calibration._statistics import shorten
from asyncsim.files import _npz as npz
from asyncsim.plots import draw_staleness_by_worker, draw_timeline
from asyncsim.trace import Faults, Trace, with_gap
from asyncsim.trace._regroup import in_steps
from asyncsim.trace._trace import FORMAT_VERSION
from tests.problems import refusals

NAMES = ("node-8", "node-9", "node-10")
NOTES = ("Rows 3 and 4 are equal.",)
ORDER = [0, 1, 2, 1, 0, 2, 2, 1, 0, 1]


@pytest.fixture
def trace() -> Trace:
    return replace(Trace.from_commits(ORDER), names=NAMES, notes=NOTES)


def test_they_are_no_part_of_the_digest(trace: Trace) -> None:
    assert trace.digest == Trace.from_commits(ORDER).digest


def test_a_file_keeps_them(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "trace.npz", attributes={"origin": "here"})
    again = Trace.load(tmp_path / "trace.npz")
    assert (again.names, again.notes, again.digest) == (NAMES, NOTES, trace.digest)
    assert npz.read_notes(tmp_path / "trace.npz") == {"origin": "here"}


def write_as(path: Path, trace: Trace, version: int, leave_out: tuple[str, ...] = (), **more: object) -> Path:
    """Write the columns of a trace as another asyncsim would."""
    trace.save(path)
    columns = npz.read(path, kind="trace", version=FORMAT_VERSION)
    columns = {name: column for name, column in columns.items() if name not in leave_out} | more
    npz.write(path, columns, version=version)
    return path


@pytest.mark.parametrize("version", [6, 7])
def test_a_file_without_them_is_read(trace: Trace, tmp_path: Path, version: int) -> None:
    again = Trace.load(write_as(tmp_path / "trace.npz", trace, version, leave_out=("names", "notes")))
    assert (again.names, again.notes, again.digest) == ((), (), trace.digest)


def test_a_column_of_a_newer_asyncsim_is_refused(trace: Trace, tmp_path: Path) -> None:
    path = write_as(tmp_path / "trace.npz", trace, FORMAT_VERSION, mixings=np.zeros(3))
    with pytest.raises(ValueError, match=r"trace\.npz' has the column `mixings`, which no trace has here\. .* update"):
        Trace.load(path)


@pytest.mark.parametrize("faults", [False, True])
def test_a_csv_file_has_the_names_in_place_of_numbers(trace: Trace, tmp_path: Path, faults: bool) -> None:
    if faults:
        found = Faults(kind=[3, 4], worker=[1, -1], start_time=[1.0, 2.0], end_time=[1.5, 3.0])
        trace = replace(trace, faults=found)
    trace.to_csv(tmp_path / "run.csv")
    again = Trace.from_csv(tmp_path / "run.csv")
    assert (again.names, again.digest) == (NAMES, trace.digest)
    assert Trace.from_columns(trace.to_columns(unfinished=True), faults=trace.faults).digest == trace.digest
    assert trace.to_columns()["worker"].tolist() == [NAMES[worker] for worker in ORDER]


def test_a_log_gives_names_in_natural_order() -> None:
    log = {"worker": ["node-10", "node-9", "node-8"], "commit_time": [1.0, 2.0, 3.0]}
    trace = Trace.from_columns(log, workers=4)
    assert trace.worker.tolist() == [2, 1, 0]
    assert trace.names == (*NAMES, "worker 3")
    assert Trace.from_columns(log | {"worker": ["2", "1", "0"]}).names == ()


def test_the_same_commits_in_other_steps_keep_them(trace: Trace) -> None:
    for other in (in_steps(trace, 2), with_gap(trace, 1), shorten(trace, 2)):
        assert (other.names, other.notes) == (NAMES, NOTES)
    assert shorten(trace, 2).worker.tolist() == ORDER[:2]


def test_pictures_show_names(trace: Trace) -> None:
    """Also those with signs that matplotlib would read as a formula."""
    priced = replace(trace, names=("$1", "$2", "x" * 30))
    timeline, bars = Figure().subplots(1, 2)
    draw_timeline(timeline, priced)
    draw_staleness_by_worker(bars, priced)
    expected = ["$1", "$2", f"{'x' * 19}…"]
    assert [text.get_text() for text in timeline.get_yticklabels()] == expected
    assert [text.get_text() for text in bars.get_xticklabels()] == expected
    timeline.figure.draw_without_rendering()  # type: ignore[union-attr]


def test_other_viewers_show_names(trace: Trace, tmp_path: Path) -> None:
    trace.to_chrome(tmp_path / "trace.json")
    assert '"name":"node-10"' in (tmp_path / "trace.json").read_text().replace(" ", "")


def test_a_fit_repeats_the_notes() -> None:
    log = asim.simulate(asim.Cluster(2, asim.delays.Gamma(1.0, 0.5)), commits=60)
    fit = asim.calibrate(replace(log, notes=NOTES), law="gamma")
    assert fit.notes[:1] == NOTES


def test_notes_of_a_fit_name_workers() -> None:
    """Half of them take three times as long, and one has a clock of its own."""
    gamma = asim.delays.Gamma
    laws = [gamma(1.0, 0.3)] * 4 + [gamma(3.0, 0.3)] * 4
    network, server = asim.Network(latency=gamma(0.1, 0.2)), asim.Server(service=gamma(0.01, 0.2))
    cluster = asim.Cluster(8, laws, network=network, server=server)
    log = asim.simulate(cluster, commits=600)
    ahead = {name: getattr(log, name) + 0.02 * (log.worker == 2) for name in ("start_time", "finish_time")}
    log = replace(log, names=tuple(f"node-{number:02}" for number in range(1, 9)), **ahead)
    notes = "\n".join(asim.calibrate(log, law="gamma", by_worker=True).notes)
    assert "workers node-05, node-06, node-07, node-08 take 3" in notes
    assert "node-03's clock is 0.0" in notes
    assert not re.search(r"[Ww]orkers? \d", notes)


test_names_and_notes_that_do_not_fit_are_refused = refusals(
    ({"names": ("a", "b")}, "`names` must have one entry per worker; got 2 for 3 workers"),
    ({"names": ("a", "b", "a")}, "`names` must not name two workers alike; got 'a' twice"),
    ({"names": ("a", "b", " ")}, "`names` must be strings that are not empty; got ' '"),
    ({"names": ("a", "b", 3)}, "`names` must be .*3"),
    ({"names": "abc"}, "`names` must be a sequence of strings; got '"),
    ({"notes": ("",)}, "`notes` must be strings that are not empty; got ''"),
    ({"notes": "One note."}, "`notes` must be a sequence of strings; got '"),
    call=lambda changes: replace(Trace.from_commits(ORDER), **changes),
)
