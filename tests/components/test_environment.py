"""Settings of JAX that change numbers belong to a scenario: one digest has one set of numbers."""

import copy
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.components._environment import JAX_SETTINGS, X64, environment, settings
from asyncsim.scenario._rebuild import rebuild
from tests.problems import assert_refused

OTHER = {
    X64: True,
    "jax_random_seed_offset": 7,
    "jax_default_prng_impl": "rbg",
    "jax_threefry_partitionable": False,
    "jax_high_dynamic_range_gumbel": True,
    "jax_default_matmul_precision": "highest",
    "jax_explicit_x64_dtypes": "allow",
    "jax_softmax_custom_jvp": True,
    "jax_allow_f16_reductions": False,
    "jax_disable_jit": True,
}
RANDOM = "jax_random_seed_offset", "jax_default_prng_impl", "jax_threefry_partitionable"
CONTEXTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "enable_x64": lambda: jax.enable_x64(True),
    "default_prng_impl": lambda: jax.default_prng_impl("rbg"),
    "threefry_partitionable": lambda: jax.threefry_partitionable(False),
    "default_matmul_precision": lambda: jax.default_matmul_precision("highest"),
    "disable_jit": jax.disable_jit,
}


@contextmanager
def setting(name: str) -> Iterator[Any]:
    """Give a setting of the process another value."""
    before = settings()[name]
    jax.config.update(name, OTHER[name])
    try:
        yield OTHER[name]
    finally:
        jax.config.update(name, before)


def scenario() -> asim.Scenario:
    workload = asim.workloads.Bits(least=1, bits=2, samples=4)
    cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
    return asim.Scenario(cluster, asim.rules.Downpour(0.5), workload, commits=16, record=())


def numbers(result: asim.Result) -> list[float]:
    return [*result.run.loss.tolist(), *np.ravel(result.run.central["theta"]).tolist()]


def test_every_setting_has_a_case() -> None:
    assert OTHER.keys() == {*JAX_SETTINGS, X64}


def test_a_usual_environment_is_the_precision_alone() -> None:
    assert environment() == {"precision": "float32"}


@pytest.mark.parametrize("name", OTHER)
def test_another_setting_is_another_digest(name: str) -> None:
    before = scenario().digest
    experiment = asim.Experiment(powers, draw=lambda figure, numbers: None)
    with setting(name) as value:
        assert scenario().digest != before
        assert scenario().describe()["precision" if name == X64 else name] == ("float64" if name == X64 else value)
        changed = experiment.current().digest
    assert scenario().digest == before
    assert experiment.current().digest != changed


def powers(base: float = 2.0) -> dict[str, np.ndarray]:
    """Powers of a number.

    Args:
        base: The number.
    """
    return {"power": base ** np.arange(3)}


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_counts_as_a_setting(name: str) -> None:
    before = scenario().digest
    with CONTEXTS[name]():
        assert scenario().digest != before


@pytest.mark.parametrize("name", [X64, *RANDOM])
def test_a_folder_does_not_hand_out_numbers_of_another_setting(name: str, tmp_path: Path) -> None:
    one = scenario()
    plain = asim.run(one, tmp_path / "plain", picture=False)  # which computes the digest
    if name == X64:
        values = r'`precision` is "float32" there and "float64" here', r"in float32.* in float64\. Unset JAX_ENABLE_X64"
    else:
        usual, other = (re.escape(json.dumps(value)) for value in (JAX_SETTINGS[name], OTHER[name]))
        said = re.escape(f"{name} {JAX_SETTINGS[name]!r}, and this process has {OTHER[name]!r}. Unset {name.upper()}.")
        values = f"`{name}` is {usual} there and {other} here", said
    with setting(name):
        assert_refused(lambda: asim.run(one, tmp_path / "plain"), values[0])
        assert_refused(lambda: asim.load(tmp_path / "plain", scenario=one), values[0])
        assert_refused(lambda: asim.load(tmp_path / "plain"), values[1])
        assert_refused(lambda: rebuild(one.describe()), values[1])
        changed = asim.run(one, tmp_path / "changed", picture=False)
        assert changed.scenario.digest != one.digest
        assert numbers(changed) != numbers(plain)
        assert numbers(asim.load(tmp_path / "changed")) == numbers(changed)
    assert_refused(lambda: asim.load(tmp_path / "changed"), "float64" if name == X64 else name.upper())
    assert numbers(asim.run(one, tmp_path / "plain", picture=False)) == numbers(plain)


def test_results_as_data_are_not_handed_out_either(tmp_path: Path) -> None:
    experiment = asim.Experiment(powers, draw=lambda figure, numbers: figure.subplots())
    experiment.run(tmp_path)
    with setting("jax_random_seed_offset"):
        assert_refused(lambda: asim.load(tmp_path), "JAX_RANDOM_SEED_OFFSET")
        assert_refused(lambda: experiment.run(tmp_path), "`jax_random_seed_offset` is 0 there and 7 here")


def test_processes_of_a_sweep_compute_with_the_settings_of_the_process_that_asks(tmp_path: Path) -> None:
    with setting("jax_random_seed_offset"), setting("jax_threefry_partitionable"), jax.enable_x64(True):
        alone, here = asim.run(scenario()), asim.sweep([scenario()], tmp_path / "here", jobs=0)
        swept = asim.sweep([scenario()], tmp_path / "swept", jobs=1)
        assert numbers(swept.result(scenario())) == numbers(here.result(scenario())) == numbers(alone)
    assert numbers(alone) != numbers(asim.run(scenario()))


def test_a_worker_with_other_settings_is_refused(tmp_path: Path) -> None:
    said = "asked to compute in float64, and this process computes in float32"
    with ThreadPoolExecutor(1) as executor, jax.enable_x64(True):  # of this thread alone
        assert_refused(lambda: asim.sweep([scenario()], tmp_path / "threads", executor=executor), said)
    with jax.enable_x64(True):
        late = asim.sweep([scenario()], tmp_path / "late", jobs=0, wait=False)
    assert_refused(lambda: [*late], said)


def test_a_comparison_made_before_the_setting_has_the_numbers_of_the_setting(tmp_path: Path) -> None:
    comparison = asim.Comparison({"one": scenario()})
    before = comparison.digest
    with setting("jax_random_seed_offset"):
        assert comparison.current().digest != before
        results = asim.compare(comparison)
        assert numbers(results["one"]) == numbers(asim.run(scenario()))


def test_one_workload_under_another_setting_has_other_numbers() -> None:
    """Neither first parameters nor compiled programs of the other setting are used again."""
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(2,), batch_size=2)
    one = dataclasses.replace(scenario(), workload=workload)
    before = asim.run(one).run.loss
    for name in RANDOM:
        with setting(name):
            changed = asim.run(dataclasses.replace(scenario(), workload=workload)).run.loss
            again = asim.run(dataclasses.replace(scenario(), workload=copy.copy(workload))).run.loss
        assert changed.tolist() != before.tolist()
        assert changed.tolist() == again.tolist()
    assert asim.run(one).run.loss.tolist() == before.tolist()


def test_rollouts_whose_prompts_are_drawn_with_another_setting_have_another_schedule() -> None:
    before = scenario().schedule_digest
    with setting("jax_random_seed_offset"):
        assert scenario().schedule_digest != before
