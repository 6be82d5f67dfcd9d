"""Pipelines: staleness by stage and bubbles are the closed forms, and refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, theory
from asyncsim.engine.reference import replay_plainly
from asyncsim.trace._invariants import conservation
from tests.problems import refusals

pytestmark = pytest.mark.quick

RANDOM = {"forward": delays.Exponential(1.0), "transfer": delays.Uniform(0.0, 2.0)}


def constant(f=1.0, b=1.0, c=0.0, **settings):
    times = {"forward": delays.Constant(f), "backward": delays.Constant(b), "transfer": delays.Constant(c)}
    return asim.Pipeline(**times, **settings)


@pytest.mark.parametrize("schedule", ["pipedream", "concurrent"])
@pytest.mark.parametrize("stages", [1, 2, 5])
@pytest.mark.parametrize("times", [(1.0, 1.0, 0.0), (1.0, 0.5, 0.0), (1.0, 1.0, 0.3), (2.0, 1.0, 0.7)])
def test_staleness_by_stage_is_the_closed_form(schedule, stages, times):
    trace = asim.simulate(constant(*times, stages=stages, schedule=schedule), commits=60)
    expected = theory.pipeline_staleness(
        stages, schedule, **dict(zip(("forward", "backward", "transfer"), times, strict=True))
    )
    assert (trace.group_staleness[-20:] == expected).all()
    assert (trace.group_staleness <= expected).all()
    assert trace.workers == expected[0] + 1
    assert trace.steps == len(trace)


def test_pipemare_counts_stages_from_one():
    assert theory.pipeline_staleness(6, "concurrent").tolist() == [2 * (6 - i) + 1 for i in range(1, 7)]


def test_one_forward_one_backward_has_the_same_staleness_for_any_times():
    trace = asim.simulate(asim.Pipeline(stages=4, **RANDOM), commits=200, seed=1)
    m = np.arange(200)[:, None]
    assert (trace.group_staleness == np.minimum(m, theory.pipeline_staleness(4))).all()


def test_concurrent_passes_of_random_times():
    """Never more under way than allowed; the first stage's staleness obeys the conservation law."""
    trace = asim.simulate(asim.Pipeline(stages=4, schedule="concurrent", in_flight=7, **RANDOM), commits=300, seed=1)
    assert trace.staleness.max() <= 6
    assert trace.group_staleness[:, -1].max() < trace.group_staleness[:, 0].max()
    assert (np.diff(trace.group_read_version, axis=1) >= 0).all()  # later stages read later
    assert len(set(conservation(trace))) == 1


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(4, 6), (4, 2), (1, 3)])
def test_synchronous_pipelines_wait(schedule, stages, micro_batches):
    pipeline = constant(1.0, 2.0, stages=stages, schedule=schedule, micro_batches=micro_batches)
    trace, table = asim.simulate(pipeline, commits=5 * micro_batches), pipeline.timetable(5 * micro_batches)
    assert trace.staleness.max() == 0
    assert not trace.groups
    assert trace.steps == 5
    assert table.idle == pytest.approx(theory.pipeline_bubble(stages, micro_batches), abs=1e-12)
    assert trace.seconds == 5 * 3.0 * (micro_batches + stages - 1)


class TestDoubleBuffering:
    """PipeDream-2BW: no bubble, two versions, and a constant delay of one step."""

    PIPELINE = asim.Pipeline(stages=3, schedule="2bw", micro_batches=4, **RANDOM)

    @pytest.mark.parametrize("micro_batches", [3, 4, 7])
    def test_every_gradient_is_one_version_old_in_every_stage_for_any_times(self, micro_batches):
        trace = asim.simulate(dataclasses.replace(self.PIPELINE, micro_batches=micro_batches), commits=60, seed=1)
        trace.check()
        expected = theory.pipeline_staleness(3, "2bw")
        assert set(expected) == {1}
        assert (trace.staleness[micro_batches:] == 1).all()
        assert (trace.staleness[:micro_batches] == 0).all()  # the first mini-batch knows no older version
        assert not trace.groups
        assert len(set(conservation(trace))) == 1

    def test_a_stage_never_waits_for_the_end_of_a_mini_batch(self):
        """All passes are at the times of PipeDream, which updates after each micro-batch."""
        pipedream = asim.Pipeline(stages=3, **RANDOM)
        tables = [pipeline.timetable(60, seed=1) for pipeline in (self.PIPELINE, pipedream)]
        np.testing.assert_array_equal(*tables)
        assert constant(stages=3, schedule="2bw", micro_batches=4).timetable(4000).idle < 2e-3

    def test_a_micro_batch_begins_after_its_version_is_there(self):
        """And it knows no newer one than W(t - 1) = W(t) minus the last step, though that has been made by then."""
        trace = asim.simulate(self.PIPELINE, commits=60, seed=1)
        assert (trace.read_time <= trace.start_time).all()
        newest = np.searchsorted(trace.commit_time[trace.closes_step], trace.start_time, side="right")
        assert (trace.read_version <= newest).all()
        assert (trace.read_version < newest).any()

    def test_it_is_gradient_descent_with_a_delay_of_one(self, x64):
        """W(t + 1) = W(t) - η·∇f(W(t - 1)), equation (1) of Narayanan et al. 2021 without momentum."""
        h, rate = np.array([1.0, 0.4]), 0.3
        trace = asim.simulate(self.PIPELINE, commits=40, seed=1)
        run = asim.replay(trace, asim.rules.Downpour(rate), asim.workloads.Quadratic(h))
        before, now = np.ones(2), np.ones(2)
        for _ in range(10):
            before, now = now, now - rate * h * before
        np.testing.assert_allclose(run.central["x"], now, rtol=1e-12)

    def test_it_allows_a_larger_step_than_the_delays_of_pipedream(self):
        """The first of four stages is three versions late there: η·h < 2·sin(π/14), and here η·h < 1."""
        assert theory.constant_delay_limit(1) == pytest.approx(1.0)
        law = delays.Constant(1.0)
        ends = [
            abs(asim.replay(asim.simulate(pipeline, commits=1600), asim.rules.Downpour(0.8), one_stage()).central[0])
            for pipeline in (asim.Pipeline(4, law, schedule="2bw", micro_batches=4), asim.Pipeline(4, law))
        ]
        assert ends[0] < 1e-3
        assert not ends[1] < 1e3


def one_stage():
    """Four stages, of which the first alone has a loss, of curvature 1."""
    return asim.Workload(lambda key: [jnp.ones(()) for _ in range(4)], lambda params, batch, key: params[0] ** 2 / 2)


class TestWithoutWeightStashing:
    """The backward pass with the newest parameters, through the activations of the forward pass."""

    STAGES, RATE, COMMITS = 3, 0.05, 30

    @staticmethod
    def layer(newest, stashed, x):
        """The value is that of the forward pass, and its derivative that of the layer as it is at the backward pass."""
        forward, backward = stashed * x, newest * x
        return jax.lax.stop_gradient(forward - backward) + backward

    @classmethod
    def workload(cls):
        def loss(params, batch, key, behaviour):
            out = jnp.ones(())
            for newest, stashed in zip(params, behaviour, strict=True):
                out = cls.layer(newest, stashed, out)
            return (out - 2.0) ** 2 / 2

        return asim.Workload(init_stages, loss)

    def test_a_replay_equals_stages_that_compute_on_their_own(self, x64):
        """A stage's gradient is that of its input's forward value and of the later stages' newest parameters."""
        pipeline = asim.Pipeline(stages=self.STAGES, **RANDOM)
        table, trace = pipeline.timetable(self.COMMITS, seed=3), asim.simulate(pipeline, commits=self.COMMITS, seed=3)
        run = replay_plainly(trace, asim.rules.Downpour(self.RATE), self.workload())
        versions = [[1.0 + 0.1 * stage] for stage in range(self.STAGES)]
        moments = ((False, table.backward_end), (True, table.forward_start))
        activations, slopes = {}, {}
        for _, forwards, m, s in sorted(
            (time, way, *place) for way, times in moments for place, time in np.ndenumerate(times)
        ):
            if forwards:
                activations[m, s + 1] = activations.get((m, s), 1.0) * versions[s][-1]
            else:
                slope = slopes.get((m, s), activations[m, self.STAGES] - 2.0)
                slopes[m, s - 1] = slope * versions[s][-1]
                versions[s].append(versions[s][-1] - self.RATE * slope * activations.get((m, s), 1.0))
        np.testing.assert_allclose([run.central[s] for s in range(3)], [own[-1] for own in versions], rtol=1e-10)
        stashed = replay_plainly(trace, asim.rules.Downpour(self.RATE), asim.Workload(init_stages, product_loss))
        assert max(abs(np.subtract(run.central, stashed.central))) > 1e-4

    @pytest.mark.parametrize("schedule", [{"stages": 1}, {"stages": 3, "schedule": "1f1b", "micro_batches": 4}])
    def test_without_staleness_stashing_changes_nothing(self, schedule, x64):
        trace = asim.simulate(constant(**schedule), commits=12)
        runs = [
            replay_plainly(trace, asim.rules.Downpour(self.RATE), workload).central
            for workload in (self.workload(), asim.Workload(init_stages, product_loss))
        ]
        np.testing.assert_allclose(*runs, rtol=1e-12)


def test_a_stage_does_one_pass_at_a_time_and_in_order():
    table = asim.Pipeline(stages=3, **RANDOM).timetable(50, seed=2)
    for stage in range(3):
        starts = np.concatenate([table.forward_start[:, stage], table.backward_start[:, stage]])
        ends = np.concatenate([table.forward_end[:, stage], table.backward_end[:, stage]])
        place = np.argsort(starts)
        assert (starts[place][1:] >= ends[place][:-1]).all()
    assert (np.diff(table.backward_end, axis=0) > 0).all()
    assert (table.forward_start[:, 1:] >= table.forward_end[:, :-1]).all()
    assert (table.backward_start[:, :-1] >= table.backward_end[:, 1:]).all()


def test_a_longer_run_begins_with_the_shorter_one():
    pipeline = asim.Pipeline(stages=3, **RANDOM)
    long, short = (asim.simulate(pipeline, commits=n, seed=4) for n in (40, 15))
    assert (long.commit_time[:15] == short.commit_time).all()
    timed = asim.simulate(pipeline, seconds=float(long.commit_time[29]), seed=4)
    assert (timed.commit_time == long.commit_time[:30]).all()
    assert (timed.group_read_version == long.group_read_version[:30]).all()


def test_a_replay_equals_stages_that_compute_on_their_own(x64):
    """Each stage on its own: it keeps its own versions, reads the newest at each forward pass, and updates in order."""
    stages, rate, commits = 3, 0.1, 30
    table = asim.Pipeline(stages=stages, **RANDOM).timetable(commits, seed=3)
    trace = asim.simulate(asim.Pipeline(stages=stages, **RANDOM), commits=commits, seed=3)
    run = replay_plainly(trace, asim.rules.Downpour(rate), asim.Workload(init_stages, product_loss))
    versions = [[1.0 + 0.1 * s] for s in range(stages)]  # of each stage
    moments = ((False, table.backward_end), (True, table.forward_start))  # an update, then who reads it
    stashed, losses = {}, {}
    for _, reads, m, s in sorted(
        (time, way, *place) for way, times in moments for place, time in np.ndenumerate(times)
    ):
        if reads:
            stashed[m, s] = versions[s][-1]
        else:
            read = [stashed[m, other] for other in range(stages)]
            losses[m] = (np.prod(read) - 2.0) ** 2 / 2
            slope = (np.prod(read) - 2.0) * np.prod(read) / read[s]
            versions[s].append(versions[s][-1] - rate * slope)
    np.testing.assert_allclose(run.loss, [losses[m] for m in range(commits)], rtol=1e-10)
    np.testing.assert_allclose([run.central[s] for s in range(stages)], [own[-1] for own in versions], rtol=1e-10)


def init_stages(key):
    del key
    return [1.0 + 0.1 * s for s in range(3)]


def product_loss(params, batch, key):
    del batch, key
    return (params[0] * params[1] * params[2] - 2.0) ** 2 / 2


LAW = delays.Constant(1.0)


test_invalid_arguments_are_refused = refusals(
    ({"stages": 0, "forward": LAW}, "`stages` must be an integer of at least 1; got 0"),
    ({"stages": 2, "forward": [LAW]}, "`forward` must have one law per stage; got 1 for 2 stages"),
    ({"stages": 2, "forward": LAW, "backward": delays.Constant(0.0)}, "`backward` must take time"),
    ({"stages": 2, "forward": LAW, "schedule": "pipdream"}, "Did you mean 'pipedream'"),
    ({"stages": 2, "forward": LAW, "schedule": "1f1b"}, "`micro_batches` must be an integer of at least 1; got None"),
    (
        {"stages": 2, "forward": LAW, "micro_batches": 3},
        "`micro_batches` must be left out with the schedule 'pipedream'",
    ),
    (
        {"stages": 4, "forward": LAW, "schedule": "2bw", "micro_batches": 3},
        "`micro_batches` must be at least the number of stages, 4, with the schedule '2bw'; got 3.",
    ),
    ({"stages": 2, "forward": LAW, "schedule": "2bw"}, "`micro_batches` must be an integer of at least 1; got None"),
    ({"stages": 2, "forward": LAW, "in_flight": 3}, "`in_flight` must be left out with the schedule 'pipedream'"),
    call=lambda settings: asim.Pipeline(**settings),
)


def test_a_pipeline_prints_in_one_line():
    pipeline = asim.Pipeline(stages=2, forward=[LAW, LAW], transfer=LAW, schedule="gpipe", micro_batches=3)
    laws = "forward of each stage its own, backward of each stage its own, transfer Constant(value=1.0)"
    assert repr(pipeline) == f"Pipeline(2 stages, gpipe, 3 micro-batches, {laws})"


@pytest.mark.parametrize("schedule", ["pipedream", "concurrent"])
def test_a_time_too_short_for_a_micro_batch_is_an_empty_trace(schedule):
    trace = asim.simulate(asim.Pipeline(3, delays.Constant(1.0), schedule=schedule), seconds=4.0)
    assert len(trace) == 0
    assert trace.unfinished.read_time[0] == 0
