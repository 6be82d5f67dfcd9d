"""Scenarios on their way to other processes: small, whole, and the same function each time."""

import dataclasses
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.study import transport
from asyncsim.study.transport import Packer, unpack
from asyncsim.study.units import units_of
from tests.study.problems import scenario

DIGITS = asim.workloads.softmax(asim.datasets.digits(), batch_size=16)


def there_and_back(value, folder):
    return unpack(Packer(folder).pack(value), folder)


def test_a_scenario_comes_back(tmp_path):
    again = there_and_back(scenario(), tmp_path)
    assert again == scenario()
    assert again.rule == scenario().rule
    assert not list(tmp_path.iterdir())


def test_data_travel_by_name(tmp_path):
    """A data set and its reshaped views are one file; a task holds none of it."""
    digits = dataclasses.replace(scenario(), workload=DIGITS, record=())
    assert digits.workload.device_data is not None  # which does not travel
    content = Packer(tmp_path).pack(digits)
    assert len(content) < 20_000 < len(pickle.dumps(digits))
    files = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert len(files) == 2  # inputs to train with and to test with
    again = unpack(content, tmp_path)
    assert again.digest == digits.digest
    np.testing.assert_array_equal(again.workload.data[0], DIGITS.data[0])
    assert again.workload.dataset.fingerprint == DIGITS.dataset.fingerprint


def test_what_scenarios_share_is_packed_once_and_is_one_object_again(tmp_path):
    """So that its data are moved to the device once, and not for every task."""
    both = asim.grid(dataclasses.replace(scenario(), workload=DIGITS, record=()), seed=[0, 1])
    packer = Packer(tmp_path)
    one, other = (unpack(packer.pack(value), tmp_path) for value in both)
    assert one.workload is other.workload
    assert one.cluster is other.cluster
    assert one.workload.device_data is other.workload.device_data
    again = unpack(Packer(tmp_path).pack(asim.grid(both[0], workers=[5])[0]), tmp_path)
    assert again.workload is one.workload  # asked for by another sweep
    assert again.cluster != one.cluster


@pytest.mark.parametrize("cloudpickle", [False, True])
def test_networks_travel_by_the_names_of_their_functions(tmp_path, monkeypatch, cloudpickle):
    """A compiled function, left to pickle, takes 200 kB of the inside of JAX with it, or does not travel at all."""
    if cloudpickle:
        pytest.importorskip("cloudpickle", reason="functions by value")
    else:
        monkeypatch.setattr(transport, "_cloudpickle", lambda: None)
    network = asim.workloads.mlp(asim.datasets.digits(), hidden=(8,), batch_size=4)
    content = Packer(tmp_path).pack(network)
    assert len(content) < 20_000
    again = unpack(content, tmp_path)
    assert again.init.func is network.init.func
    assert again.describe() == network.describe()


def test_compiled_functions_of_ones_own(tmp_path):
    pytest.importorskip("cloudpickle", reason="functions by value")
    scale = 3.0
    own = jax.jit(lambda x: scale * x)
    packer = Packer(tmp_path)
    one, other = (unpack(packer.pack([own, number]), tmp_path)[0] for number in (1, 2))
    assert one is other
    assert one(2.0) == 6.0


def test_damaged_and_missing_data_are_noticed(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(100, 60))
    content = Packer(tmp_path).pack(numbers)
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"x" * path.stat().st_size)
    transport._bytes.cache_clear()
    with pytest.raises(ValueError, match="holds a damaged array"):
        unpack(content, tmp_path)
    path.unlink()
    transport._bytes.cache_clear()
    with pytest.raises(ValueError, match="lacks the array"):
        unpack(content, tmp_path)


def test_functions_of_ones_own_are_made_once(tmp_path):
    """A new function for each task would be a new program for each."""
    pytest.importorskip("cloudpickle", reason="functions by value")
    scale = 3.0

    def loss(params, batch, key):
        return scale * helper(params["x"])

    def helper(x):
        return jnp.sum(x**2)

    own = dataclasses.replace(
        scenario(), workload=asim.Workload(init=lambda key: {"x": jnp.ones(2)}, loss=loss), record=()
    )
    packer = Packer(tmp_path)
    one, other = (unpack(packer.pack(value), tmp_path) for value in asim.grid(own, seed=[0, 1]))
    assert one.workload.loss is other.workload.loss
    assert one.workload.init is other.workload.init
    assert float(one.workload.loss({"x": jnp.ones(2)}, None, None)) == 6.0
    assert one.digest == own.digest


def test_a_function_that_calls_itself(tmp_path):
    pytest.importorskip("cloudpickle", reason="functions by value")

    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    assert there_and_back(even, tmp_path)(10)


def test_what_cannot_travel(tmp_path):
    with pytest.raises(ValueError, match="`scenarios` cannot be sent to other processes"):
        Packer(tmp_path).pack(threading.Lock())


@pytest.mark.parametrize("fields", [{"learning_rate": [0.1, 0.2], "kappa": [1.0, 2.0]}, {"seed": [3, 4]}], ids=str)
def test_a_unit_comes_back(tmp_path, fields):
    (unit, *_) = units_of(asim.grid(scenario(schedule_seed=3), **fields))
    again = there_and_back(unit, tmp_path)
    assert again.scenarios == unit.scenarios
    assert [one.rule for one in again.scenarios] == [one.rule for one in unit.scenarios]
    assert [one.describe() for one in again.scenarios] == [one.describe() for one in unit.scenarios]
    assert [one.seed for one in again.scenarios] == [one.seed for one in unit.scenarios]
    assert again.name == unit.name
