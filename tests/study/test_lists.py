"""Grids, random draws and batches: which scenarios share a replay, and that sharing changes nothing."""

import dataclasses
import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.calibration._priors import LogUniform, Uniform
from asyncsim.engine import _chunks as chunks
from asyncsim.study._batches import batches_of
from asyncsim.study._grid import with_shared_schedules
from asyncsim.study._replay import Preparation, compute, stacked
from tests.problems import refusals, tree_workload
from tests.study.problems import assert_same_result, scenario


def test_a_grid_is_the_product_in_order():
    made = asim.grid(scenario(), workers=[2, 4], learning_rate=np.array([0.1, 0.2]), seed=range(2))
    found = [(one.cluster.workers, one.rule.learning_rate, one.seed) for one in made]
    assert found == list(itertools.product([2, 4], [0.1, 0.2], [0, 1]))
    assert asim.grid(scenario(), rule=["gem", "downpour"], commits=[8, 9])[3] == scenario(rule="downpour", commits=9)
    assert [one.rule.batch for one in asim.grid(scenario(), rule=["rennala"], rule_batch=[2, 3])] == [2, 3]
    assert asim.grid(scenario()) == (scenario(),)


test_what_a_grid_refuses = refusals(
    ({"wokers": [2]}, "`wokers` is not a field of this scenario. Did you mean `workers`?"),
    ({"workers": []}, "`workers` must have at least one value; got an empty list"),
    ({"workers": range(0)}, "empty range"),
    ({"workers": 4}, r"must be given as a list of values; got 4. Write \[4\]"),
    ({"rule": "gem"}, "must be given as a list of values; got 'gem'"),
    ({"workers": [2, 4, 0]}, "`workers` does not take its value number 3, 0: .*at least 1"),
    ({"workers": [2], "learning_rate": [0.1, -0.1]}, "`learning_rate` does not take its value number 2, -0.1"),
    ({"seed": [0, 1.5]}, "`seed` does not take its value number 2, 1.5"),
    call=lambda fields: asim.grid(scenario(), **fields),
)


class TestSample:
    def draws(self, count, **more):
        return asim.sample(scenario(), count=count, learning_rate=LogUniform(1e-3, 1.0), **more)

    def test_each_draw_depends_on_its_place_its_field_and_the_seed_alone(self):
        four = self.draws(4)
        assert four[:3] == self.draws(3)
        assert [one.rule for one in four] == [one.rule for one in self.draws(4, workers=[2, 8])]
        assert self.draws(3, seed=1) != four[:3]

    def test_draws_share_their_seeds(self):
        made = self.draws(2, seeds=[3, 4])
        assert [one.seed for one in made] == [3, 4, 3, 4]
        assert made[0].rule == made[1].rule
        assert made[1].rule != made[2].rule

    def test_whole_numbers_stay_whole(self):
        made = asim.sample(scenario(), count=20, workers=Uniform(2, 40))
        workers = [one.cluster.workers for one in made]
        assert all(isinstance(n, int) and 2 <= n <= 40 for n in workers)
        assert len(set(workers)) > 5


test_what_a_sample_refuses = refusals(
    ({"count": 0}, "`count` must be an integer of at least 1"),
    ({"count": 2, "learnin_rate": [0.1]}, "Did you mean `learning_rate`?"),
    ({"count": 2, "workers": Uniform(-4, -2)}, "`workers` does not take its value number 1"),
    ({"count": 2, "seeds": []}, "`seeds` must have at least one value"),
    call=lambda arguments: asim.sample(scenario(), **arguments),
)


def computed(scenarios, lanes=None):
    found = []
    for batch in batches_of(scenarios, lanes):
        trace, prepare = batch.scenarios[0].simulate(), Preparation()
        found += [result for one in batch.without(()) for result, _ in compute(one, trace, prepare=prepare)]
    return found


class TestWhichShare:
    def sizes(self, *scenarios, **options):
        return [len(batch.scenarios) for batch in batches_of(scenarios, **options)]

    def test_numbers_of_the_rule_do(self):
        many = asim.grid(scenario(), learning_rate=[0.1, 0.2, 0.3], kappa=[1.0, 2.0])
        assert self.sizes(*many) == self.sizes(*many, lanes=8) == [6]
        assert batches_of(many)[0].in_turn
        assert not batches_of(many, lanes=8)[0].in_turn
        assert self.sizes(*many, *many, lanes=4) == [4, 2]  # twice the same counts once

    @pytest.mark.parametrize(
        "fields",
        [
            {"seed": [0, 1]},
            {"workers": [2, 4]},
            {"variant": ["paper", "script"]},
            {"commits": [8, 9]},
        ],
        ids=lambda fields: next(iter(fields)),
    )
    def test_what_changes_the_schedule_or_the_program_does_not(self, fields):
        """Seeds do over one schedule. Batches of one program say so."""
        made = batches_of(asim.grid(scenario(), **fields))
        assert [len(batch.scenarios) for batch in made] == [1, 1]
        assert (made[0].program == made[1].program) == (fields.keys() <= {"seed", "commits"})
        shared = with_shared_schedules(asim.grid(scenario(), **{**fields, "seed": range(3)}))
        assert self.sizes(*shared) == ([3] if "seed" in fields else [3, 3])

    def test_short_runs_of_a_network_are_replayed_in_turn(self):
        """Seed by seed, as far as they have one schedule; a long one is a batch of its own."""
        workload = asim.workloads.Softmax(asim.datasets.Digits(), batch_size=16)
        network = dataclasses.replace(scenario(), workload=workload, record=(), schedule_seed=0)
        (batch,) = batches_of(asim.grid(network, learning_rate=[0.1, 0.2], seed=[0, 1]))
        assert batch.in_turn
        assert [one.seed for one in batch.scenarios] == [0, 0, 1, 1]
        long = network.override(commits=10**6)
        assert self.sizes(*asim.grid(long, learning_rate=[0.1, 0.2])) == [1, 1]
        assert not any(batch.in_turn for batch in batches_of([network]))


class TestInTurn:
    def test_each_is_its_own_run_and_what_is_there_is_left_out(self):
        base = dataclasses.replace(scenario(commits=60), workload=tree_workload(), record=(), schedule_seed=0)
        many = asim.grid(base, seed=[0, 1], learning_rate=[0.01, 0.1])
        (batch,) = batches_of(many, lanes=1)
        assert batch.in_turn
        assert [one.scenarios for one in batch.without({many[0].digest})] == [(one,) for one in batch.scenarios[1:]]
        for result, lane in zip(computed(many), computed(many, 8), strict=True):
            assert_same_result(result, asim.run(result.scenario))
            np.testing.assert_allclose(lane.run.loss, result.run.loss, rtol=1e-5)

    def test_only_numbers_may_differ_in_a_replay_that_is_prepared_once(self):
        replayer = asim.engine.Replayer(asim.Trace.from_commits([0, 1]), asim.rules.GEM(0.1), scenario().workload)
        assert replayer.restarted_with(asim.rules.GEM(0.2)).rule == asim.rules.GEM(0.2)
        with pytest.raises(ValueError, match="in numbers alone"):
            replayer.restarted_with(asim.rules.GEM(0.2, variant="paper"))
        with pytest.raises(ValueError, match="learning_rate"):
            replayer.restarted_with(asim.rules.GEM(1e300))


def test_a_lane_that_diverges_stops_where_it_would_alone(short_chunks):
    many = asim.grid(scenario(rule="downpour", commits=400, noise=0.0), learning_rate=[0.1, 50.0, 2.0])
    together = computed(many, lanes=3)
    assert together[1].run.diverged_at is not None
    assert together[1].run.commits < 400
    for one, result in zip(many, together, strict=True):
        own = asim.run(one)
        assert (result.run.commits, result.run.digest) == (own.run.commits, own.run.digest)
        assert (result.run.diverged_at is None) == (own.run.diverged_at is None)


def wide_noise(key):
    return jax.random.normal(key, (500,))


def noisy_start(key):
    del key
    return {"x": jnp.ones(1)}


def noisy_loss(params, noise, key):
    del key
    return (0.5 * params["x"] ** 2).sum() + 1e-3 * noise.mean()


def distance(params):
    return {"distance": abs(params["x"][0])}


# Each chooses the length of a chunk by something else than the number of parameters.
CHUNKS = {
    "noise": {"workload": asim.Workload(noisy_start, noisy_loss, noise=wide_noise)},
    "records": {"record": {"central": 1}},
    "evaluations": {
        "workload": asim.Workload(noisy_start, noisy_loss, noise=wide_noise, evaluate=distance),
        "record": {"distance": 90},
    },
}


@pytest.mark.parametrize("kind", CHUNKS)
@pytest.mark.parametrize("rates", [(5.0, 0.1), (5.0, 3.5), (2.5, 50.0, 0.01)], ids=str)
def test_a_lane_that_diverges_stops_where_it_would_alone_however_chunks_are_chosen(kind, rates, monkeypatch):
    monkeypatch.setattr(chunks, "RECORDED_BYTES", 2**12)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2**18)
    base = scenario(rule="downpour", commits=700, noise=0.0)
    many = asim.grid(dataclasses.replace(base, **{"record": (), **CHUNKS[kind]}), learning_rate=rates)
    for one, result in zip(many, computed(many, lanes=len(rates)), strict=True):
        own = asim.run(one)
        assert (result.run.commits, result.run.digest) == (own.run.commits, own.run.digest)
        assert (own.run.diverged_at is None) == (one.rule.learning_rate < 1)
        assert result.run.diverged_at == own.run.diverged_at


def test_what_differs_is_stacked():
    rules = [asim.rules.GEM(0.1, kappa=1.0), asim.rules.GEM(0.1, kappa=2.0)]
    one = stacked(rules)
    assert one.learning_rate == 0.1
    assert one.kappa.tolist() == [1.0, 2.0]


def test_a_number_that_was_not_given_is_not_that_of_another_scenario():
    """The same once they know the number of workers, and yet not to be told apart by a number alone."""
    base = scenario(commits=8)
    given = [asim.rules.DelayedNesterov(0.1), asim.rules.DelayedNesterov(0.1, interval=2)]
    asked = [dataclasses.replace(base, rule=rule) for rule in given]
    found = [one for batch in batches_of(asked) for one in pickle.loads(pickle.dumps(batch)).scenarios]
    assert {one.digest: one.rule for one in found} == {one.digest: one.rule for one in asked}
