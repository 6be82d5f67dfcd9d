"""The best of a sweep: medians over the seeds, and the best of each group."""

import numpy as np
import pytest

from asyncsim.study._sweep import best, medians
from asyncsim.study.table import SweepTable

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


def test_medians():
    found = medians(TABLE)
    assert found["runs"].tolist() == [3] * 4
    np.testing.assert_array_equal(found["median"], [0.5, 0.6, 0.3, NAN])
    np.testing.assert_array_equal(found["lower_quartile"], [0.4, 0.1, 0.2, 0.1])
    np.testing.assert_array_equal(found["upper_quartile"], [0.9, NAN, 0.4, NAN])


def test_the_median_of_an_even_number_is_between_two():
    columns = {"learning_rate": [0.1] * 4, "final_loss": [0.4, 0.1, NAN, 0.2]}
    found = medians(SweepTable(columns, ["learning_rate"]))
    assert [found[name].item() for name in ("lower_quartile", "median", "upper_quartile")] == pytest.approx(
        [0.1, 0.3, 0.4]
    )


def test_the_best_of_all():
    (row,) = range(best(TABLE).rows)
    found = best(TABLE)
    assert (found["workers"][row], found["learning_rate"][row], found["median"][row]) == (4, 0.1, 0.3)


def test_the_best_of_each_group():
    found = best(TABLE, per="workers")
    assert found["workers"].tolist() == [2, 4]
    assert found["learning_rate"].tolist() == [0.1, 0.1]
    assert found["at_the_edge"].tolist() == [True, True]


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


def test_an_accuracy_is_best_when_it_is_largest():
    found = best(TABLE, by="test_accuracy", per=["workers"])
    assert found["learning_rate"].tolist() == [0.2, 0.1]
    assert best(TABLE, by="test_accuracy", largest=False)["workers"].tolist() == [4]


def test_what_is_missing_is_the_worst_in_either_direction():
    assert np.isnan(medians(TABLE, "test_accuracy", largest=False)["median"][3])
    columns = {"learning_rate": [0.1, 0.1, 0.2, 0.2], "f1": [0.9, NAN, 0.8, 0.7]}
    table = SweepTable(columns, ["learning_rate"])
    assert best(table, "f1", largest=True)["learning_rate"].tolist() == [0.2]
    assert best(table, "f1", largest=False)["learning_rate"].tolist() == [0.2]


def test_an_unknown_direction_is_asked_for():
    table = SweepTable({"learning_rate": [0.1, 0.2], "f1": [0.9, 0.8], "train_error": [0.1, 0.2]}, ["learning_rate"])
    for ask in (medians, best):
        with pytest.raises(ValueError, match="`largest` must be given for 'f1'"):
            ask(table, "f1")
    assert best(table, "f1", largest=True)["learning_rate"].tolist() == [0.1]
    assert best(table, "f1", largest=False)["learning_rate"].tolist() == [0.2]
    assert best(table, "train_error")["learning_rate"].tolist() == [0.1]


def test_the_middle_of_three_is_not_at_the_edge():
    columns = {"learning_rate": np.array([0.1, 0.2, 0.4]), "final_loss": np.array([0.5, 0.2, 0.4])}
    assert best(SweepTable(columns, ["learning_rate"]))["at_the_edge"].tolist() == [False]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"by": "final_los"}, "Did you mean 'final_loss'"), ({"per": "worker"}, "Did you mean 'workers'")],
)
def test_what_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        best(TABLE, **arguments)
