"""The picture of staleness, read off the artists, where the mark is a law of conservation, not a guess."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from asyncsim import plots
from asyncsim._metrics import number
from asyncsim.cluster import Cluster, Server, faults, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.trace import Fate, Trace
from tests.cluster.problems import clusters
from tests.problems import refusals

WORKERS = 5
TRACE = simulate(Cluster(WORKERS, Exponential(1.0)), commits=400, seed=2)
MANY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def texts(ax):
    return " ".join(text.get_text() for text in ax.texts)


def mark(ax):
    """Where the line stands, and what it is called."""
    line = ax.lines[-1]
    return line.get_xdata()[0], line.get_label()


def geometric(mean, size):
    return (mean / (1 + mean)) ** np.arange(size) / (1 + mean)


class TestHistogram:
    def test_shares_are_the_trace_s(self, ax):
        shares, edges, _ = plots.draw_staleness(ax, TRACE).get_data()
        assert shares.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(shares, np.bincount(TRACE.staleness) / len(TRACE))
        assert edges[0] == -0.5
        assert f"mean {number(TRACE.staleness.mean())}, longest {TRACE.staleness.max()}" in texts(ax)

    def test_long_tails_are_binned(self, ax):
        shares = plots.draw_staleness(ax, Trace.from_commits([0] * 500 + [1])).get_data()[0]
        assert shares.sum() == pytest.approx(1.0)
        assert len(shares) <= 80
        assert "per 7 versions" in ax.get_ylabel()

    @pytest.mark.parametrize("predicted", [None, [0.1, 0.8, 0.1]])
    def test_the_legend_hides_nothing(self, predicted):
        trace = simulate(Cluster(8, Gamma(1.0, 0.4), protocol=protocols.KBatchAsync(4)), commits=400)
        with plots.style():
            figure = Figure(figsize=(4, 3), layout="constrained")
            ax = figure.subplots()
            steps = plots.draw_staleness(ax, trace, predicted=predicted)
            figure.draw_without_rendering()
        legend = ax.get_legend().get_window_extent()
        top = max(*steps.get_data().values, *(predicted or ()))
        assert ax.transData.transform((0, top))[1] < legend.y0
        assert ax.transAxes.transform((0, ax.lines[-1].get_ydata()[1]))[1] < legend.y0


class TestMark:
    @pytest.mark.parametrize(
        ("cluster", "place", "label"),
        [
            (Cluster(5, Gamma(1.0, 0.5), server=Server(service=Exponential(0.3), slots=2)), 4, "n − 1"),
            (
                Cluster(8, Gamma(1.0, 0.4), protocol=protocols.KBatchAsync(4)),
                7 / 4,
                "other outstanding reads per commit",
            ),
            (Cluster(8, Exponential(1.0), protocol=protocols.KAsync(4)), 1, "other outstanding reads per commit"),
        ],
    )
    def test_is_the_mean_number_of_outstanding_reads(self, ax, cluster, place, label):
        plots.draw_staleness(ax, simulate(cluster, commits=400))
        assert mark(ax) == (pytest.approx(place), f"{label} = {number(place)}")

    def test_blocked_workers_lower_it(self, ax):
        plots.draw_staleness(ax, simulate(Cluster(6, Exponential(1.0), protocol=protocols.SSP(1)), commits=300))
        place, label = mark(ax)
        assert label == f"other outstanding reads = {number(place)}"
        assert place < 5

    @pytest.mark.parametrize(
        "cluster",
        [
            Cluster(6, Exponential(1.0), protocol=protocols.KSync(3)),
            Cluster(6, [Constant(1.0)] * 4 + [Exponential(6.0)] * 2, protocol=protocols.Ringmaster(5)),
            Cluster(6, Exponential(1.0), faults=[faults.Crash(0, 20.0, 5.0)]),
        ],
    )
    def test_discarded_jobs_take_their_ages_along(self, ax, cluster):
        trace = simulate(cluster, commits=300, seed=1)
        plots.draw_staleness(ax, trace)
        assert mark(ax) == (trace.staleness.mean(), f"mean = {number(trace.staleness.mean())}")

    @MANY
    @given(clusters(), st.integers(0, 3))
    def test_is_the_mean_of_a_long_run(self, cluster, seed):
        """All that is missing are the jobs in flight at the end, by the conservation law."""
        trace = simulate(cluster, commits=60, seed=seed)
        ax = Figure().subplots()
        plots.draw_staleness(ax, trace)
        place, label = mark(ax)
        flying = trace.unfinished.fate == Fate.IN_FLIGHT
        ages = (trace.steps - trace.unfinished.read_version)[flying].sum()
        if label.startswith("mean"):
            ages = 0
        assert place == pytest.approx(trace.staleness.mean() + ages / len(trace))


class TestPrediction:
    def test_is_drawn(self, ax):
        pmf = geometric(WORKERS - 1, 40)
        steps = plots.draw_staleness(ax, TRACE, predicted=pmf)
        values, edges, _ = ax.patches[-1].get_data()
        assert ax.patches[-1] is not steps
        np.testing.assert_allclose(values, pmf[: len(values)])
        np.testing.assert_array_equal(edges, steps.get_data().edges)

    def test_is_binned_as_the_histogram_is(self, ax):
        trace = simulate(Cluster(100, Exponential(1.0)), commits=3000)
        pmf = geometric(99, 2000)
        width = np.diff(plots.draw_staleness(ax, trace, predicted=pmf).get_data().edges)[0]
        values = ax.patches[-1].get_data().values
        assert width > 1
        np.testing.assert_allclose(
            values, [pmf[int(width * k) : int(width * (k + 1))].sum() for k in range(len(values))]
        )

    def test_is_seen_beyond_the_longest_staleness(self, ax):
        plots.draw_staleness(ax, Trace.from_commits([0, 1] * 10), predicted=np.full(20, 0.05))
        assert ax.patches[-1].get_data().values.sum() == pytest.approx(1.0)
        assert ax.get_xlim()[1] > 19

    @pytest.mark.parametrize(
        ("predicted", "expected"),
        [
            ([1 / 6, 1 / 6, 4 / 6], 0.0),
            ([1 / 6, 1 / 6], 0.0),  # the rest is expected beyond its end, and is there
            ([1.0], 5 / 6),
            ([0.0, 0.0, 0.0, 1.0], 1.0),
            ([0.5, 0.5, 0.0], 2 / 3),
        ],
    )
    def test_total_variation(self, ax, predicted, expected):
        plots.draw_staleness(ax, Trace.from_commits([0, 1, 2, 0, 1, 2]), predicted=predicted)
        words, value = texts(ax).rsplit(" ", 1)
        assert (words, float(value)) == ("mean 1.5, total variation", pytest.approx(expected, abs=1e-4))


test_what_is_no_distribution = refusals(
    *((pmf, "`predicted` must be P") for pmf in ([0.5, 0.6], [-0.1, 0.5], [[0.5, 0.5]], [], [np.nan], [3, 4])),
    call=lambda pmf: plots.draw_staleness(Figure().subplots(), TRACE, predicted=pmf),
)


class TestByWorker:
    def test_means_and_ranges(self, ax):
        means, ranges = plots.draw_staleness_by_worker(ax, TRACE)
        assert means.get_xdata().tolist() == list(range(WORKERS))
        for worker, segment in enumerate(ranges.get_segments()):
            own = TRACE.staleness[TRACE.worker == worker]
            assert means.get_ydata()[worker] == own.mean()
            np.testing.assert_allclose(segment[:, 1], np.quantile(own, [0.1, 0.9]))
            assert segment[:, 0].tolist() == [worker, worker]

    def test_workers_without_commits_are_not_drawn(self, ax):
        means, ranges = plots.draw_staleness_by_worker(ax, Trace.from_commits([2, 0, 2], workers=4))
        assert means.get_xdata().tolist() == [0, 2]
        assert len(ranges.get_segments()) == 2

    def test_predicted_means_of_workers_are_drawn(self, ax):
        expected = np.array([4.0, np.nan, 4.0, 4.0, 4.0])
        means, _, line = plots.draw_staleness_by_worker(ax, TRACE, predicted=expected)
        np.testing.assert_array_equal(line.get_ydata(), expected)
        difference = np.nanmax(np.abs(means.get_ydata() - expected))
        assert texts(ax) == f"largest difference {number(difference)}"
        plots.draw_staleness_by_worker(ax, TRACE, predicted=np.full(WORKERS, np.nan))
        assert texts(ax).endswith(" largest difference 0")
        with pytest.raises(ValueError, match=r"`predicted` must have shape \(5,\); got \(4,\)"):
            plots.draw_staleness_by_worker(ax, TRACE, predicted=np.ones(4))
