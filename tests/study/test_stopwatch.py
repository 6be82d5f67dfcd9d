"""The stopwatch, which counts compilation separately."""

import pytest

from asyncsim.study.stopwatch import Stopwatch


def test_overlapping_spans_of_compilation_are_counted_once() -> None:
    watch = Stopwatch()
    watch._start = 0.0
    watch._end = 10.0
    watch._spans = [(2.0, 3.0), (1.0, 4.0), (3.5, 5.0), (-1.0, 0.5)]
    assert watch.compiling == pytest.approx(4.5)
