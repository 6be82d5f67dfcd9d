"""Fleets: the mean of each worker, the family, and the quantities that no seed changes."""

import math

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.delays import Constant, Delay, Exponential, Gamma, Profile, Straggler, VariableSpeed, fleet
from tests.problems import refusals

LAW = Gamma(mean=2.0, cv=0.5)
MAKERS = {
    "linear": lambda n: fleet.linear(LAW, n),
    "square_root": lambda n: fleet.square_root(LAW, n),
    "two_classes": lambda n: fleet.two_classes(LAW, n, slow=1, factor=3.0),
    "gamma_machines": lambda n: fleet.gamma_machines(n, mean=2.0, task_cv=0.5, machine_cv=0.6, seed=4),
}


def means(laws: tuple[Delay, ...]) -> list[float]:
    return [law.mean for law in laws]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_every_fleet_makes_a_cluster_of_the_same_family(name: str, workers: int) -> None:
    laws = MAKERS[name](workers)
    assert asim.Cluster(workers, laws).laws == laws
    assert all(isinstance(law, Gamma) and law.cv == 0.5 for law in laws)


@pytest.mark.parametrize("name", ["linear", "square_root", "gamma_machines"])
def test_one_more_worker_leaves_the_others_alone(name: str) -> None:
    assert MAKERS[name](9)[:8] == MAKERS[name](8)


def test_means_worker_by_worker() -> None:
    assert means(fleet.linear(LAW, 4)) == [2.0, 4.0, 6.0, 8.0]
    assert means(fleet.square_root(LAW, 4)) == pytest.approx([2.0, 2 * math.sqrt(2), 2 * math.sqrt(3), 4.0])
    assert means(fleet.two_classes(LAW, 4, slow=0, factor=3.0)) == [2.0] * 4
    assert means(fleet.two_classes(LAW, 4, slow=3, factor=3.0)) == [2.0, 6.0, 6.0, 6.0]
    assert means(fleet.scaled(LAW, (0.5, 1))) == [1.0, 2.0]


def test_windows_by_speed_take_as_long_as_that_of_the_fastest() -> None:
    laws = fleet.scaled(LAW, [3.0, 1.0, 2.0, 7.0])
    assert fleet.windows_by_speed(laws, 42) == (14, 42, 21, 6)
    assert fleet.windows_by_speed(laws, 3) == (1, 3, 2, 1)  # 1.0, 3.0, 1.5 and 0.43, but at least one step
    assert fleet.windows_by_speed([LAW] * 3, 5) == (5, 5, 5)
    slow = VariableSpeed(LAW, Profile((0.0,), (0.5,)))
    assert fleet.windows_by_speed((LAW, slow), 10) == (10, 5)
    jobs = asim.Cluster(4, laws, local_steps=fleet.windows_by_speed(laws, 42)).laws
    assert means(jobs) == pytest.approx([84.0] * 4)


test_windows_by_speed_refuse = refusals(
    (lambda: fleet.windows_by_speed(LAW, 5), "`compute` must be a sequence; got Gamma"),
    (lambda: fleet.windows_by_speed([], 5), "`compute` must be a law of delays or a sequence of them"),
    (lambda: fleet.windows_by_speed([Constant(0.0), LAW], 5), "`mean` must be"),
    (lambda: fleet.windows_by_speed([LAW], 0), "`window` must be an integer of at least 1; got 0"),
    (lambda: fleet.windows_by_speed([LAW], [1, 2]), "`window` must be an integer of at least 1"),
)


def test_any_law_can_be_a_fleet() -> None:
    straggler = Straggler(Exponential(1.0), 0.1, 5.0)
    assert fleet.linear(straggler, 2)[1] == Straggler(Exponential(2.0), 0.1, 5.0)
    law = VariableSpeed(Constant(1.0), Profile((0.0,), (0.5,)))
    assert [law.mean for law in fleet.linear(law, 3)] == [2.0, 4.0, 6.0]
    assert fleet.linear(law, 3)[2].speed == law.speed


def test_gamma_machines_have_gamma_means() -> None:
    laws = fleet.gamma_machines(4000, mean=2.0, task_cv=0.1, machine_cv=0.6, seed=1)
    measured = np.array(means(laws))
    assert abs(measured.mean() - 2.0) <= 5 * 1.2 / math.sqrt(4000)
    squares = (measured - 2.0) ** 2
    assert abs(squares.mean() - 1.2**2) <= 5 * squares.std() / math.sqrt(4000)
    assert np.mean(measured > 2.5) == pytest.approx(0.2796, abs=5 * math.sqrt(0.2796 * 0.7204 / 4000))
    assert {law.cv for law in laws if isinstance(law, Gamma)} == {0.1}
    assert fleet.gamma_machines(3, mean=2.0, task_cv=0.1, machine_cv=0.6, seed=0) != laws[:3]


def test_equal_machines_and_tasks() -> None:
    assert fleet.gamma_machines(3, mean=2.0, task_cv=0.0, machine_cv=0.0, seed=0) == (Constant(2.0),) * 3


test_invalid_arguments_are_named = refusals(
    (lambda: fleet.scaled(LAW, 2.0), r"`factors` must be a sequence; got 2\.0\. Give one factor per worker"),
    (lambda: fleet.scaled(LAW, [1.0, 0.0]), r"`factor` must be finite and positive; got 0\.0"),
    (lambda: fleet.two_classes(LAW, 3, slow=4, factor=2.0), "`slow` must be at most `workers`, 3; got 4"),
    start="^",
)
