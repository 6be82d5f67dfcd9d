"""The scenarios about costs: four rankings, and the loss by preemption."""

import numpy as np

from tests.scenarios.run import run


def test_four_measures_have_four_winners():
    numbers = run("cost_ranking", commits=600, seeds=1)
    measures = ("seconds", "bytes", "joules", "money")
    assert all(np.isfinite(numbers[name]).all() for name in measures)
    best = {name: str(numbers["set_up"][numbers[name].argmin()]) for name in measures}
    assert len(set(best.values())) == 4, best
    for name in measures:
        assert sorted(numbers[f"rank_by_{name}"]) == [1, 2, 3, 4, 5, 6]
        assert numbers[name][numbers[f"rank_by_{name}"].argsort()].tolist() == sorted(numbers[name])
        assert (np.diff(numbers[f"{name}_curve"]) >= 0).all()


def test_spot_instances():
    numbers = run("spot_instances", rates=(0.2, 1.0), commits=1000, seeds=4, points=3)
    for name in ("gradients", "useful", "available"):
        away = abs(numbers[name] - numbers[f"{name}_predicted"])
        assert (away < 5 * numbers[f"{name}_error"]).all()  # eight numbers of few degrees of freedom
    of = {
        law: numbers["gradients"][(numbers["law"] == law) & (numbers["rate"] == 1.0)].item() for law in numbers["law"]
    }
    assert of["constant"] < of["gamma, cv 0.5"] < of["log-normal, cv 1"] < of["exponential"]
    np.testing.assert_allclose(numbers["price"], 0.3 / numbers["gradients"], rtol=1e-3)
