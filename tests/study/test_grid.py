"""Grids and random draws of scenarios."""

import itertools

import numpy as np

import asyncsim as asim
from asyncsim._priors import LogUniform, Uniform
from tests.problems import refusals
from tests.study.problems import scenario


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
