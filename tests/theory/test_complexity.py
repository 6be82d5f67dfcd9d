"""Time complexities: worked examples, their order, and the collection lemma."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim import theory

SETTING = {"gap": 1.0, "noise": 10.0, "accuracy": 0.1}
fleets = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20)


def test_square_roots() -> None:
    seconds = np.sqrt(np.arange(1, 101)).tolist()
    order, useful = theory.rennala_complexity(seconds=seconds, **SETTING)
    assert (round(order, 2), useful) == (107.59, 100)
    assert theory.minibatch_complexity(seconds=seconds, **SETTING) == pytest.approx(200.0)
    assert theory.asynchronous_complexity(seconds=seconds, **SETTING) == pytest.approx(107.59, abs=5.1e-3)


@given(seconds=fleets, noise=st.floats(0.0, 100.0))
def test_rennala_is_never_above_the_others(seconds: list[float], noise: float) -> None:
    case = {"seconds": seconds, "gap": 2.0, "noise": noise, "accuracy": 0.5}
    optimal = theory.rennala_complexity(**case)[0] * (1 - 1e-12)
    asynchronous = theory.asynchronous_complexity(**case)
    assert optimal <= asynchronous
    assert asynchronous <= theory.minibatch_complexity(**case) * (1 + 1e-12)


@given(seconds=fleets, gradients=st.integers(1, 50))
def test_collection(seconds: list[float], gradients: int) -> None:
    time = theory.collection_time(seconds=seconds, gradients=gradients)
    assert time <= theory.collection_bound(seconds=seconds, gradients=gradients) * (1 + 1e-9)
    tau = np.array(seconds)
    assert np.floor(time / tau * (1 + 1e-9)).sum() >= gradients
    assert np.floor(time / tau * (1 - 1e-9)).sum() < gradients


def test_the_bound_is_attained() -> None:
    for workers, gradients in ((1, 7), (4, 1), (4, 9)):
        case = {"seconds": [2.0] * workers, "gradients": gradients}
        assert theory.collection_bound(**case) == pytest.approx(theory.collection_time(**case))


def test_errors() -> None:
    with pytest.raises(ValueError, match="`seconds`"):
        theory.minibatch_complexity(seconds=[], **SETTING)
    with pytest.raises(ValueError, match="`accuracy`"):
        theory.rennala_complexity(seconds=[1.0], gap=1.0, noise=1.0, accuracy=0.0)
