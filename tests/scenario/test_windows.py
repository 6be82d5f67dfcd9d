"""Windows by worker in a scenario: the gradients of its jobs, its settings, its digest and its files."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.components._component import static
from asyncsim.delays import Constant, fleet
from asyncsim.reports.staleness import run_prediction
from asyncsim.scenario._rebuild import hints, rebuild
from tests.problems import assert_refused

LAWS = fleet.scaled(Constant(1.0), [1.0, 2.0, 3.0, 6.0])
WINDOWS = fleet.windows_by_speed(LAWS, 12)  # 12, 6, 4, 2
QUADRATIC = asim.workloads.Quadratic([1.0, 0.5])
MADE: dict[str, Callable[[object], rules.Rule]] = {
    "a rule": lambda window: rules.AGN(0.1, window=window),  # type: ignore[arg-type]
    "around a rule": lambda window: rules.local(rules.Downpour(0.5), window=window, learning_rate=0.1),  # type: ignore[arg-type]
    "compressed": lambda window: rules.compressed(rules.Downpour(0.1, window=window), asim.compressors.TopK(0.5)),  # type: ignore[arg-type]
}
every_rule = pytest.mark.parametrize("make", MADE.values(), ids=MADE)


def scenario(rule: rules.Rule, commits: int = 24, **parts: object) -> asim.Scenario:
    return asim.Scenario(asim.Cluster(4, LAWS, **parts), rule, QUADRATIC, commits=commits)  # type: ignore[arg-type]


@every_rule
def test_jobs_have_the_gradients_of_their_workers(make: Callable[[object], rules.Rule]) -> None:
    """With windows by speed on constant times, every job takes 12 seconds."""
    trace = scenario(make(WINDOWS)).simulate()
    assert trace.local_steps is not None
    assert trace.local_steps.tolist() == [12, 6, 4, 2]
    np.testing.assert_array_equal(trace.finish_time - trace.start_time, 12.0)
    assert scenario(make(WINDOWS), local_steps=WINDOWS).simulate().digest == trace.digest


@every_rule
def test_equal_windows_are_the_same_scenario_as_one_window(make: Callable[[object], rules.Rule]) -> None:
    one, each = scenario(make(3)), scenario(make([3] * 4))
    assert (one.digest, one.schedule_digest) == (each.digest, each.schedule_digest)
    assert scenario(make([3, 3, 3, 2])).digest != one.digest
    ones, none = scenario(make((1,) * 4)), scenario(make(1))
    assert ones.schedule_digest == none.schedule_digest
    assert none.scheduled == none.cluster


@every_rule
def test_jobs_of_other_lengths_are_refused(make: Callable[[object], rules.Rule]) -> None:
    name = make(1).name
    for window, steps in ((WINDOWS, 12), (12, WINDOWS), (WINDOWS, (12, 6, 4, 3))):
        shown = [str(value).replace("(", r"\(").replace(")", r"\)") for value in (window, steps)]
        message = f"`local_steps` must be the window of '{name}', {shown[0]}; got {shown[1]}. Leave it out"
        assert_refused(lambda window=window, steps=steps: scenario(make(window), local_steps=steps), message)
    assert_refused(lambda: scenario(make((1, 2))), "`window` must have one number per worker; got 2 for 4 workers")


@every_rule
def test_windows_are_a_setting(make: Callable[[object], rules.Rule]) -> None:
    uneven = scenario(make(WINDOWS))
    fields = uneven.settings().items()  # Downpour inside has a window as well, of one step
    path, field = next((path, field) for path, field in fields if path.endswith(".window") and field.value != 1)
    assert (field.show(), list(field.value)) == ("12,6,4,2", [*WINDOWS])
    assert uneven.override(window=field.parse("5,4,3,2")) == scenario(make((5, 4, 3, 2)))
    assert uneven.override(window=field.parse("5")) == scenario(make(5))
    assert scenario(make(5)).override(window=scenario(make(5)).settings()[path].parse("12,6,4,2")) == uneven
    grid = asim.grid(uneven, window=[7, WINDOWS, [1, 2, 3, 4]])
    assert [one.rule.window for one in grid] == [7, WINDOWS, (1, 2, 3, 4)]
    assert_refused(lambda: uneven.override(window=[1, 2]), "`window` must have one number per worker; got 2 for 4")


@every_rule
def test_windows_keep_the_shares_of_a_fleet(make: Callable[[object], rules.Rule]) -> None:
    """As its laws and all else by worker do, so that windows by speed remain those."""
    uneven = scenario(make(WINDOWS))
    assert uneven.override(workers=2).rule.window == (12, 4)
    grown = uneven.override(workers=8)
    assert grown.rule.window == (12, 12, 6, 6, 4, 4, 2, 2)
    assert isinstance(grown.cluster, asim.Cluster)
    assert fleet.windows_by_speed(grown.cluster.compute, 12) == grown.rule.window  # type: ignore[arg-type]
    assert uneven.override(workers=3, window=(3, 2, 1)).rule.window == (3, 2, 1)
    assert uneven.override(workers=3, window=5).rule.window == 5


class OwnMean(rules.Elementwise):
    """A rule of a user, whose window nobody checks."""

    _: dataclasses.KW_ONLY
    window: int | Sequence[int] = static(default=1)

    def local_step(self, params, gradient, state):
        return params - self.learning_rate * gradient, state

    def send(self, gradient, state, view):
        return rules.Sent(gradient / view.window, state)


def test_a_rule_of_ones_own_has_windows_from_flags_and_lists() -> None:
    own, agn = scenario(OwnMean(0.1)), scenario(rules.AGN(0.1, window=WINDOWS))
    field = next(field for field in own.fields() if field.name == "window")
    changed = own.override(window=field.parse("12,6,4,2"))
    assert changed.override(window=1) == own
    assert changed.override(workers=2).rule.window in ([12, 4], (12, 4))
    assert changed.simulate().digest == agn.simulate().digest
    runs = [asim.run(one).run for one in (changed, scenario(OwnMean(0.1, window=np.array(WINDOWS))), agn)]
    np.testing.assert_array_equal(runs[0].loss, runs[1].loss)
    np.testing.assert_allclose(runs[0].loss, runs[2].loss, rtol=1e-6)
    assert_refused(lambda: own.override(window=[1, 2]), "`window` must have one number per worker; got 2 for 4 workers")
    assert (
        scenario(OwnMean(0.1, window=[3] * 4)).simulate().digest == scenario(OwnMean(0.1, window=3)).simulate().digest
    )


def test_another_rule_keeps_the_windows() -> None:
    assert scenario(MADE["a rule"](WINDOWS)).override(rule="dynsgd").rule == rules.DynSGD(0.1, window=WINDOWS)


@every_rule
def test_a_scenario_is_rebuilt_with_its_windows(make: Callable[[object], rules.Rule]) -> None:
    uneven = scenario(make(WINDOWS))
    described, hinted = json.loads(json.dumps([uneven.describe(), hints(uneven)]))
    again = rebuild(described, hinted, digest=uneven.digest)
    assert (again.rule, again) == (uneven.rule, uneven)


def test_a_run_is_kept_and_loaded(tmp_path: Path) -> None:
    uneven = scenario(MADE["a rule"](WINDOWS))
    done = asim.run(uneven, tmp_path / "run", picture=False)
    loaded = asim.load(tmp_path / "run")
    assert loaded.scenario == uneven
    assert loaded.trace.local_steps.tolist() == [*WINDOWS]
    np.testing.assert_array_equal(loaded.run.loss, done.run.loss)


def test_costs_and_gradients_count_the_own_window_of_each_worker() -> None:
    result = asim.run(scenario(MADE["a rule"](WINDOWS)))
    commits = np.bincount(result.trace.worker)
    assert commits.tolist() == [6] * 4
    spent = asim.cost(result.trace, message_bytes=1, parameter_bytes=1)
    np.testing.assert_array_equal(spent.seconds["compute"], commits * WINDOWS * [law.mean for law in LAWS])
    assert result.run.gradients[-1] == (commits * WINDOWS).sum()
    np.testing.assert_array_equal(np.diff(result.run.gradients), np.array(WINDOWS)[result.trace.worker[1:]])


def test_staleness_is_predicted_for_the_jobs_of_each_worker() -> None:
    laws = fleet.scaled(asim.delays.Gamma(1.0, 0.3), [1.0, 1.0, 2.0, 4.0])
    uneven = asim.Scenario(asim.Cluster(4, laws), MADE["a rule"]((1, 8, 2, 4)), QUADRATIC, commits=20_000)
    trace = uneven.simulate()
    measured = np.bincount(trace.staleness[1000:], minlength=200) / (len(trace) - 1000)

    def distance(cluster: object) -> float:
        predicted = run_prediction(cluster, trace)  # type: ignore[arg-type]
        assert predicted is not None
        return float(abs(np.pad(predicted, (0, len(measured) - len(predicted))) - measured).sum() / 2)

    assert distance(uneven.scheduled) < 0.03
    assert distance(uneven.cluster) > 0.1  # of jobs of one gradient each


def test_theory_of_one_window_refuses_several() -> None:
    assert_refused(
        lambda: asim.theory.window_curvature(0.1, (1, 2)),  # type: ignore[arg-type]
        "`window` must be an integer of at least 1; got \\(1, 2\\)",
    )


def test_lanes_and_batches_of_a_sweep_give_the_runs_alone(tmp_path: Path) -> None:
    grid = asim.grid(scenario(MADE["a rule"](WINDOWS)), window=[WINDOWS, 3], seed=[0, 1], learning_rate=[0.1, 0.2])
    alone = [asim.run(one).run.loss for one in grid]
    for lanes, rtol in ((None, 0.0), (4, 1e-5)):
        results = asim.sweep(grid, tmp_path / f"store{lanes}", jobs=0, lanes=lanes)
        for result, loss in zip(results, alone, strict=True):
            np.testing.assert_allclose(result.run.loss, loss, rtol=rtol)
