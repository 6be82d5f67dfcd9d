"""`asyncsim stability`: its numbers, its errors, its files."""

import json
import math
from functools import partial

import pytest

from asyncsim import theory
from asyncsim.cli._progress import StageBar
from asyncsim.reports import stability as reports
from tests.cli.commands import assert_one_line

PREDICTED = {"stability_limit", "mean_limit", "constant_delay_limit", "kappa", "noise_floor", "kinetic_energy"}
ERRORS = {"almost_sure_limit_error", "noise_floor_error", "kinetic_energy_error"}
SIMULATED = ERRORS | {"almost_sure_limit", "kappa", "noise_floor", "kinetic_energy", "bounded_kappa", "bounded_share"}


@pytest.fixture
def command(command, monkeypatch):
    """`asyncsim stability …` in a fresh folder, with few simulations."""
    for name in ("REPORT_SCHEDULES", "MAP_COLUMNS", "MAP_SCHEDULES"):
        monkeypatch.setattr(reports, name, 2)
    monkeypatch.setitem(reports.simulated_floor.__kwdefaults__, "commits", 1000)
    monkeypatch.setattr("asyncsim.cli._progress.SILENT", math.inf)  # however slow the machine is
    return partial(command, "stability")


@pytest.mark.whole_pages
def test_json_is_one_object_and_a_picture_is_kept(command, tmp_path):
    done = command("--workers", "3", "--kappa", "0.2", "--json", "--out", "here")
    assert (done.status, done.err) == (0, "")
    report = json.loads(done.out)
    assert set(report) == {"workers", "compute", "momentum", "where", "predicted", "simulated", "note"}
    assert set(report["predicted"]) == PREDICTED
    assert set(report["simulated"]) == SIMULATED
    assert report["predicted"]["stability_limit"] == pytest.approx(theory.exponential_limit(3))
    assert report["predicted"]["noise_floor"][1] == pytest.approx(theory.exponential_noise_floor(0.2, 3))
    assert json.loads((tmp_path / "here" / "stability.json").read_text()) == report
    assert (tmp_path / "here" / "stability.png").stat().st_size > 10_000


def test_a_law_without_a_result_is_no_failure(command, tmp_path):
    status, out, err = command("--workers", "3", "--compute", "uniform", "--low", "0.5", "--high", "1.5")
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert "Theory: `compute` has no closed form; got Uniform" in words
    assert "There are results for equal `Constant` laws" in words
    assert "limit of η·h, of single runs" in words
    assert (tmp_path / "runs" / "stability" / "stability.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workers", str(10**12)], "`workers` of 1000000000000 takes at least 200 TB"),
        (["--cv", "0.3"], "`cv` is not a field of compute 'exponential'"),
        (["--service", "0.1"], "`service` has no place here: theory knows the limits of workers that commit at once"),
        (["--protocol", "k_async"], "`asyncsim staleness --protocol k_async` shows the staleness with it"),
        (["--momentum", "0.5"], "`where` must be 'server' or 'worker' with momentum"),
        (["--momentum", "1", "--where", "server"], "`momentum` must be at least 0 and less than 1"),
        (["--kappa", "0"], "`kappa` must be finite and positive; got 0.0"),
        (["--out", "/dev/null"], "'/dev/null' is a file"),
        (["--out", "/dev/null/here"], "would be in the file '/dev/null'"),
        (["--out", "a\0b"], "holds a NUL byte"),
        (["--out", "x" * 300], "cannot be one: File name too long"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(command, arguments, words):
    assert_one_line(command(*arguments), 2, words, "asyncsim stability --help")


def test_a_long_computation_reports_now_and_then_without_a_terminal(monkeypatch, capsys):
    seconds = iter(range(100))
    monkeypatch.setattr("asyncsim.cli._progress.time.monotonic", lambda: next(seconds))
    with StageBar() as bar:
        for number in range(99):
            bar.update("limits" if number < 50 else "map", number / 100)
    out, err = capsys.readouterr()
    told = [("Limits", 3), ("Limits", 9), ("Limits", 27), ("Map", 81)]
    lines = [f"{stage}, {after - 1}% done after {after} s." for stage, after in told]
    assert (out, err.splitlines()) == ("", lines)
