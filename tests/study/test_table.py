"""Tables of numbers: packed, stacked, selected and written; medians over the seeds, and the best of each group."""

import dataclasses

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.study.table import QUARTILES, SweepTable, best, medians
from figures.common.tables import columns_of, from_csv, names_of, over_seeds, pack, stack, table, to_csv, where
from tests.problems import refusals


def test_a_table_survives_its_file(tmp_path):
    columns = {"rule": np.array(["gem", "a,b"]), "workers": np.array([5, 10]), "loss": np.array([np.nan, 0.25])}
    (tmp_path / "a.csv").write_bytes(to_csv(columns))
    back = from_csv(tmp_path / "a.csv")
    assert list(back) == list(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(back[name], column)


def test_packed_tables_can_be_taken_out_again():
    packed = pack(one={"a": [1, 2]}, two={"a": [3.0], "b": ["x"]})
    assert names_of(packed) == ["one", "two"]
    assert {name: column.tolist() for name, column in table(packed, "two").items()} == {"a": [3.0], "b": ["x"]}


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"`curves` must have columns of equal length; got lengths .*'b': 1"):
        pack(curves={"a": [1, 2], "b": [1]})


def test_seeds_are_stacked_below_each_other_or_side_by_side():
    seeds = {s: pack(final=stack({"workers": n, "loss": s + n / 10} for n in (1, 2))) for s in (3, 7)}
    long = columns_of(seeds, "final")
    assert long["seed"].tolist() == [3, 3, 7, 7]
    assert where(long, seed=7, workers=2)["loss"].tolist() == [7.2]
    assert over_seeds([*seeds.values()], "final", "loss", workers=1).tolist() == [[3.1], [7.1]]


NAN = float("nan")
ROWS = [  # workers, step size, seed, loss, accuracy
    (2, 0.1, 0, 0.5, 0.7),
    (2, 0.1, 1, 0.4, 0.8),
    (2, 0.1, 2, 0.9, 0.6),
    (2, 0.2, 0, 0.6, 0.9),
    (2, 0.2, 1, 0.1, 0.9),
    (2, 0.2, 2, NAN, 0.0),
    (4, 0.1, 0, 0.3, 0.5),
    (4, 0.1, 1, 0.2, 0.5),
    (4, 0.1, 2, 0.4, 0.5),
    (4, 0.2, 0, NAN, NAN),
    (4, 0.2, 1, NAN, NAN),
    (4, 0.2, 2, 0.1, 0.9),
]
NAMES = ("workers", "learning_rate", "seed", "final_loss", "test_accuracy")
TABLE = SweepTable(dict(zip(NAMES, map(np.array, zip(*ROWS, strict=True)), strict=True)), NAMES[:3])


def test_quartiles_count_divergence_as_worst():
    found = medians(TABLE)
    assert found["runs"].tolist() == [3] * 4
    np.testing.assert_array_equal(found["median"], [0.5, 0.6, 0.3, NAN])
    np.testing.assert_array_equal(found["lower_quartile"], [0.4, 0.1, 0.2, 0.1])
    np.testing.assert_array_equal(found["upper_quartile"], [0.9, NAN, 0.4, NAN])


def test_a_field_that_some_do_not_have():
    """A law without a coefficient of variation is one setting, not one for each seed."""
    columns = {
        "compute": np.array(["gamma", "gamma", "exponential", "exponential"]),
        "cv": np.array([0.3, 0.3, NAN, NAN]),
        "final_loss": np.array([0.1, 0.2, 0.3, 0.4]),
    }
    found = best(SweepTable(columns, ["compute", "cv"]), per=["compute", "cv"])
    assert found["runs"].tolist() == [2, 2]
    assert found["compute"].tolist() == ["gamma", "exponential"]


def of_rates(rates, **columns):
    return SweepTable({"learning_rate": rates, **columns}, ["learning_rate"])


def test_the_median_of_an_even_number_is_between_two():
    found = medians(of_rates([0.1] * 4, final_loss=[0.4, 0.1, NAN, 0.2]))
    assert [found[name].item() for name in QUARTILES] == pytest.approx([0.1, 0.3, 0.4])


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ({}, [0.1]),
        ({"per": "workers"}, [0.1, 0.1]),
        ({"by": "test_accuracy", "per": ["workers"]}, [0.2, 0.1]),  # which is best when it is largest
        ({"by": "test_accuracy", "largest": False}, [0.1]),
    ],
)
def test_the_best_of_all_and_of_each_group(options, rates):
    found = best(TABLE, **options)
    assert found["workers"].tolist() == ([2, 4] if "per" in options else [4])
    assert found["learning_rate"].tolist() == rates


def test_where_the_best_may_lie_beyond():
    assert best(TABLE, per="workers")["at_the_edge"].tolist() == [True, True]
    assert best(of_rates([0.1, 0.2, 0.4], final_loss=[0.5, 0.2, 0.4]))["at_the_edge"].tolist() == [False]


@pytest.mark.parametrize("largest", [True, False])
def test_what_is_missing_is_the_worst_in_either_direction(largest):
    assert np.isnan(medians(TABLE, "test_accuracy", largest=largest)["median"][3])
    table = of_rates([0.1, 0.1, 0.2, 0.2], f1=[0.9, NAN, 0.8, 0.7])
    assert best(table, "f1", largest=largest)["learning_rate"].tolist() == [0.2]


def test_the_direction_is_known_by_the_name_or_given():
    table = of_rates([0.1, 0.2], f1=[0.9, 0.8], train_error=[0.1, 0.2])
    assert [best(table, "f1", largest=largest)["learning_rate"].item() for largest in (True, False)] == [0.1, 0.2]
    assert best(table, "train_error")["learning_rate"].tolist() == [0.1]


test_what_is_refused = refusals(
    ({"by": "final_los"}, "Did you mean 'final_loss'"),
    ({"per": "worker"}, "Did you mean 'workers'"),
    ({"by": "seed"}, "`largest` must be given for 'seed'"),
    call=lambda arguments: best(TABLE, **arguments),
)


@dataclasses.dataclass(frozen=True)
class Measured:
    """A cluster of the user's, with an array."""

    times: np.ndarray
    workers: int = 2

    def simulate(self, *, commits=None, seconds=None, seed=0):
        compute = [asim.delays.Constant(float(time)) for time in self.times]
        return asim.simulate(asim.Cluster(2, compute), commits=commits, seconds=seconds)


def test_a_sweep_over_arrays_has_a_table(tmp_path):
    rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0])
    times = [[1.0, 2.0], [5.0, 7.0]]
    made = [asim.Scenario(Measured(np.array(one)), rule, workload, commits=6) for one in times]
    assert asim.sweep(made, tmp_path, jobs=0).table()["times"].tolist() == ["[1. 2.]", "[5. 7.]"]
