"""Arrays whose conversion would lose a mask, an imaginary part, a unit or digits of integers are refused."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, rules, theory
from tests.problems import assert_refused

TRACE = asim.Trace.from_commits([0, 1, 0, 1])
ONES, LABELS = np.ones((4, 1), np.float32), [0, 1, 0, 1]
VALUES = [1.0, 2.0, 3.0, 4.0]


def dataset(inputs=ONES, labels=LABELS, classes=8):
    return asim.datasets.Dataset("own", inputs, labels, ONES, LABELS, classes=classes)


def zero(key):
    return jnp.zeros(())


def distance(params, batch, key):
    return jnp.abs(params - jnp.asarray(batch)).mean()


def workload(**arguments):
    return asim.Workload(zero, distance, **arguments)


# Name -> a call that takes four real numbers.
REAL = {
    "inputs": lambda values: dataset(np.ma.asanyarray(values).reshape(4, 1) if np.ma.isMA(values) else values[:, None]),
    "weights": lambda values: workload(weights=values),
    "curvature": asim.workloads.Quadratic,
    "start": lambda values: asim.workloads.Quadratic(VALUES, start=values),
    "one value per seed": rules.GEM,
    "commit times": lambda values: asim.Trace.from_commits(LABELS, values),
    "column of a table": lambda values: asim.Trace.from_columns({"worker": LABELS, "commit_time": values}),
    "column": lambda values: dataclasses.replace(TRACE, commit_time=values),
    "rollouts": lambda values: asim.Trace.from_rollouts(opened=[0.0, 0.0, 0.0, 0.0], trained=values),
    "measured delays": delays.Empirical,
    "durations": delays.Gamma.fit,
    "censored durations": lambda values: delays.Gamma.fit(VALUES, values),
    "speeds": lambda values: delays.Profile(range(4), values),
    "factors": lambda values: delays.fleet.scaled(delays.Constant(1.0), values),
    "theory": lambda values: theory.heterogeneity(values, np.ones((2, 4))),
    "observations": lambda values: asim.calibration.avo(lambda key, theta: theta, values, 0.0, 1.0, steps=1, batch=2),
}
# Name -> a call that takes four integers from 0.
WHOLE = {
    "labels": lambda values: dataset(labels=values),
    "owners": lambda values: asim.datasets.partition(dataset(), 4, by=values),
    "part": lambda values: asim.datasets.Parts.of([values]),
    "order": lambda values: asim.datasets.Parts(values, [0, 4]),
    "workers of commits": asim.Trace.from_commits,
    "versions": lambda values: dataclasses.replace(TRACE, version=values),
    "limits": lambda values: rules.Ringmaster(0.1, limit=np.add(values, 1) if values.dtype.kind in "iu" else values),
}
LOSSY = {
    "mask": np.ma.array(VALUES, mask=[0, 0, 1, 0]),
    "imaginary part": np.array(VALUES) + 1j,
    "unit": np.array([1, 2, 3, 4], "m8[ms]"),
    "date": np.array(["2026-01-01"] * 4, "M8[s]"),
    "text": np.array(["a", "b", "c", "d"]),
    "nothing": np.array([1.0, 2.0, 3.0, None], object),
}
TOO_LARGE = {"int64": np.array([0, 1, 2, 2**32 + 3]), "uint64": np.array([0, 1, 2, 2**63 + 3], np.uint64)}
FRACTIONS = {"fraction": np.array([0.0, 1.0, 2.0, 3.5])}
MASKED = {"mask": np.ma.array([0, 1, 2, 3], mask=[0, 0, 1, 0])}


# Times of a log may be durations, and masked or missing where something never came. Masked durations are left out.
READ = {("column of a table", "unit"), ("durations", "mask"), ("censored durations", "mask")}
READ |= {("rollouts", kind) for kind in ("mask", "unit", "nothing")}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "kind"), [case for case in itertools.product(REAL, LOSSY) if case not in READ])
def test_real_numbers_are_no_others(name, kind):
    assert_refused(lambda: REAL[name](LOSSY[kind]), "`")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", LOSSY | TOO_LARGE | FRACTIONS)
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_are_no_others(name, kind):
    given = (LOSSY | TOO_LARGE | FRACTIONS | MASKED)[kind]
    assert_refused(lambda: WHOLE[name](given), "`")


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.float32])
def test_numbers_of_another_type_are_accepted(name, dtype):
    values = np.array(VALUES).astype(dtype)
    REAL[name](np.ma.array(values, mask=False) if dtype is np.float32 else values)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_labels_of_another_type_are_the_same_numbers(dtype):
    assert dataset(labels=np.array(LABELS, dtype)).train_labels.tolist() == LABELS


INPUTS = {
    "2**24": (2**24, True),
    "2**24 + 1": (2**24 + 1, False),
    "-2**24 - 1": (-(2**24) - 1, False),
    "2**40": (2**40, True),
    "2**40 + 1": (2**40 + 1, False),
    "-2**63": (-(2**63), True),
    "2**63 - 1": (2**63 - 1, False),
}


@pytest.mark.parametrize("name", INPUTS)
def test_integers_of_inputs_are_exact_or_refused(name):
    number, exact = INPUTS[name]
    inputs = np.array([[number], [0], [1], [2]])
    if exact:
        assert int(dataset(inputs).train_inputs[0, 0]) == number
    else:
        assert_refused(lambda: dataset(inputs), f"`train_inputs` must be exact as float32; {number} becomes")


def test_classes_are_no_more_than_labels_can_count():
    assert_refused(lambda: dataset(classes=2**31 + 1), "`classes` must be at most")


DATA = {
    "mask": (np.ma.array(VALUES, mask=[0, 0, 1, 0]), "`data` must not have masked numbers.*got 1 of them.*filled"),
    "int64": (np.array([0, 2**31]), "`data` must be from -2.147e.09 to 2.147e.09, as int32 is; got 2147483648.*x64"),
    "negative": (np.array([0, -(2**31) - 1]), "`data` must be from"),
    "uint64": (np.array([0, 2**32], np.uint64), "`data` must be from 0 to 4.295e.09, as uint32 is"),
    "float64": (np.array([0.0, 1e39]), "`data` must be from .* as float32 is; got 1e.39"),
    "complex128": (np.array([0.0, 1e39j]), "`data` must be from .* as complex64 is"),
    "date": (np.array(["2026-01-01"], "M8[s]"), "`data` must hold arrays of numbers.*datetime64"),
    "unit": (np.array([1], "m8[s]"), "`data` must hold arrays of numbers.*timedelta64"),
    "text": (np.array(["a"]), "`data` must hold arrays of numbers"),
    "object": (np.array([1.0, None]), "`data` must hold arrays of numbers"),
    "more digits": (np.array([1.0], np.longdouble), "`data` must hold arrays of numbers"),
}


@pytest.mark.parametrize("name", DATA)
def test_training_data_are_numbers_that_jax_has(name):
    data, message = DATA[name]
    assert_refused(lambda: workload(data=(data,)), message)


@pytest.mark.parametrize("name", ["int64", "uint64", "float64", "complex128"])
def test_training_data_fit_the_precision_in_which_they_are_used(name):
    data, message = DATA[name]
    with jax.enable_x64(True):
        made = workload(data=data, batch_size=2)
        assert np.asarray(dataclasses.replace(made).device_data)[-1] == data[-1]
    assert_refused(lambda: asim.replay(TRACE, rules.Downpour(0.1), made), message)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float16, np.float64, np.complex128, jnp.bfloat16])
def test_training_data_keep_their_numbers(dtype):
    given = np.array([0, 1, 1, 0]).astype(dtype)
    batch = workload(data=given, batch_size=4).batch(seed=0, worker=0, job=0)
    assert sorted(np.abs(np.asarray(batch).astype(np.complex64)).tolist()) == [0, 0, 1, 1]
