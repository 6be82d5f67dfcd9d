"""The picture of a run's report, read off the artists and not off the pixels."""

from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim import plots
from asyncsim.plots.style import save_png

WORKERS = 5
TRACE = asim.simulate(asim.Cluster(WORKERS, asim.delays.Exponential(1.0)), commits=400, seed=2)
QUADRATIC = asim.workloads.Quadratic([1.0, 0.1], noise=0.1)
NAMES = ("energy_central", "energy_proxy", "pi_median")


def replayed(rule: asim.Rule, record: tuple[str, ...] = (), seed: int | tuple[int, ...] = 0) -> asim.Run:
    return asim.replay(TRACE, rule, QUADRATIC, seed, record=record)


@cache
def gem() -> asim.Run:
    return replayed(asim.rules.GEM(0.05), NAMES)


def texts(ax: Axes) -> str:
    return " ".join(text.get_text() for text in ax.texts)


class TestRunningMean:
    @pytest.mark.parametrize(("size", "window"), [(50, 7), (3, 10), (0, 10)])
    def test_is_the_mean_of_the_last(self, size: int, window: int) -> None:
        values = np.random.default_rng(0).normal(size=size)
        expected = [values[max(0, k - window + 1) : k + 1].mean() for k in range(size)]
        np.testing.assert_allclose(plots.running_mean(values, window), expected)

    def test_ends_where_values_do(self) -> None:
        means = plots.running_mean(np.array([1.0, 1.0, np.inf, 1.0]), 2)
        np.testing.assert_array_equal(means, [1.0, 1.0, np.nan, np.nan])


class TestLoss:
    def test_against_the_commits_of_a_worker(self, ax: Axes) -> None:
        run = gem()
        line = plots.draw_loss(ax, run)
        np.testing.assert_allclose(line.get_xdata(), np.arange(1, 401) / WORKERS)
        np.testing.assert_allclose(line.get_ydata(), plots.running_mean(run.loss, 5 * WORKERS))
        assert ax.get_yscale() == "log"

    def test_several_seeds_give_their_mean(self, ax: Axes) -> None:
        run = replayed(asim.rules.Downpour(0.1), seed=(0, 1, 2))
        line = plots.draw_loss(ax, run)
        assert line.get_ydata()[-1] == pytest.approx(run.loss[:, -25:].mean())  # type: ignore[index]

    def test_divergence_is_said(self, ax: Axes) -> None:
        run = replayed(asim.rules.Downpour(8.0))
        line = plots.draw_loss(ax, run)
        assert f"diverged at commit {run.diverged_at:,}" in texts(ax)
        assert not np.isfinite(np.asarray(line.get_ydata())[-1])

    def test_long_runs_are_thinned_but_keep_their_ends(self, ax: Axes) -> None:
        trace = asim.simulate(asim.Cluster(2, asim.delays.Constant(1.0)), commits=9000)
        line = plots.draw_loss(ax, asim.replay(trace, asim.rules.Downpour(0.01), QUADRATIC))
        x = np.asarray(line.get_xdata())
        assert len(x) == 2000
        assert (x[0], x[-1]) == (0.5, 4500.0)

    def test_too_few_numbers(self, ax: Axes) -> None:
        with pytest.raises(ValueError, match="`x` must have a number for each of 400 commits"):
            plots.draw_loss(ax, gem(), x=[1.0, 2.0])


class TestEnergiesAndPi:
    def test_lines_are_the_records(self, ax: Axes) -> None:
        run = gem()
        central, proxy = plots.draw_energies(ax, run)
        for line, name in ((central, "energy_central"), (proxy, "energy_proxy")):
            expected = plots.running_mean(run.records[name], 5 * WORKERS)
            np.testing.assert_allclose(line.get_ydata(), expected)  # type: ignore[attr-defined]

    def test_pi_is_a_running_mean_over_commits_of_a_worker(self, ax: Axes) -> None:
        run = gem()
        line = plots.draw_pi(ax, run)
        np.testing.assert_allclose(line.get_xdata(), (run.recorded_at["pi_median"] + 1) / WORKERS)  # type: ignore
        np.testing.assert_allclose(line.get_ydata(), plots.running_mean(run.records["pi_median"], 5))  # type: ignore

    def test_a_panel_names_missing_records(self, ax: Axes) -> None:
        run = replayed(asim.rules.Downpour(0.1), ("energy_central",))
        assert len(plots.draw_energies(ax, run)) == 1
        assert "no proxy, or not recorded" in texts(ax)
        plots.draw_pi(ax, run)
        assert "No π in this run" in texts(ax)
        plots.draw_energies(ax, replayed(asim.rules.Downpour(0.1)))
        assert "No energies were recorded" in texts(ax)


class TestReport:
    def test_file_is_the_same_bytes_again_and_nothing_global_changes(self, tmp_path: Path) -> None:
        run, before = gem(), dict(mpl.rcParams)
        for name in ("one.png", "two.png"):
            save_png(tmp_path / name, lambda figure: plots.draw_report(figure, TRACE, run, "Title"), (8, 6))
        one = (tmp_path / "one.png").read_bytes()
        assert one == (tmp_path / "two.png").read_bytes()
        assert b"Software" not in one
        assert b"matplotlib" not in one
        assert dict(mpl.rcParams) == before

    def test_empty_run(self, tmp_path: Path) -> None:
        trace = asim.simulate(asim.Cluster(2, asim.delays.Constant(1.0)), seconds=0.5)
        run = asim.replay(trace, asim.rules.GEM(0.1), QUADRATIC, record=NAMES)
        save_png(tmp_path / "a.png", lambda figure: plots.draw_report(figure, trace, run, "Title"), (8, 6))
        assert (tmp_path / "a.png").stat().st_size > 10_000


def test_seeds_are_drawn_as_median_and_band_with_a_cross_where_all_have_ended(ax: Axes) -> None:
    seeds = [[1.0, 4.0, np.nan], [3.0, np.inf, np.nan], [8.0, 5.0, np.nan]]
    line = plots.draw_seeds(ax, [1, 2, 3], seeds, color="red")
    np.testing.assert_array_equal(line.get_ydata(), [3.0, 4.5, np.nan])
    band = ax.collections[0].get_paths()[0].get_extents()
    assert (band.ymin, band.ymax) == (1.0, 8.0)
    np.testing.assert_array_equal(ax.get_lines()[1].get_xydata(), [[2.0, 4.5]])


def test_the_last_panel_of_workers_on_a_graph_is_their_distance():
    trace = asim.simulate(asim.Gossip(workers=4, compute=asim.delays.Constant(1.0)), commits=40)
    workload = asim.workloads.Quadratic([1.0], noise=1.0)
    run = asim.replay(trace, asim.rules.Downpour(0.1), workload, record={"consensus_distance": 4})
    panels = plots.draw_report(Figure(), trace, run, "title")
    assert panels[3].get_title() == "Distance of the models from their mean"
    (line,) = panels[3].get_lines()
    np.testing.assert_array_equal(line.get_ydata(), run.records["consensus_distance"])
    assert panels[1].get_xlabel() == "staleness of a commit, in changes by others"
