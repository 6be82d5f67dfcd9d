"""Measured timings: the law of a list, and reading them from a file."""

import errno
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.delays import Empirical

TIMINGS = st.lists(st.floats(0.0, 1e6, allow_subnormal=False), min_size=1, max_size=30)


@settings(max_examples=40)
@given(TIMINGS)
def test_moments_and_steps_are_those_of_the_values(values: list[float]) -> None:
    law = Empirical(values)
    assert law.mean == pytest.approx(np.mean(values))
    assert law.variance == pytest.approx(np.var(values), abs=1e-9 * max(values) ** 2 + 1e-300)
    for value in values:
        assert law.cdf(value) == sum(other <= value for other in values) / len(values)
        assert law.cdf(np.nextafter(value, -1)) == sum(other < value for other in values) / len(values)


@settings(max_examples=40)
@given(TIMINGS, st.randoms())
def test_order_does_not_matter(values: list[float], random) -> None:
    shuffled = random.sample(values, len(values))
    assert Empirical(shuffled) == Empirical(tuple(values)) == Empirical(np.array(values))


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "timings.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "text",
    ["worker,seconds\n0,1.5\n1, 2e-1\n", "\ufeffseconds,worker\r\n1.5,0\r\n\r\n0.2,1\r\n", 'seconds\n"1.5"\n.2'],
)
def test_reads_a_column(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    assert Empirical.from_csv(path, column="seconds") == Empirical([0.2, 1.5])
    assert Empirical.from_csv(str(path), column="seconds").mean == pytest.approx(0.85)


ROW_3 = r"`path` 'timings\.csv', row 3, column 'seconds', must be a finite .*; got "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("worker,seconds\n0,1.5\n1,abc\n", ROW_3 + r"'abc'\. Correct"),
        ("worker,seconds\n0,1.5\n1,\n", ROW_3 + "''"),
        ("worker,seconds\n0,1.5\n1,-0.1\n", ROW_3 + "'-0.1'"),
        ("worker,seconds\n0,1.5\n1,inf\n", ROW_3 + "'inf'"),
        ("worker,seconds\n0,1.5\n1\n", ROW_3 + "None"),
        ("worker,second\n0,1.5\n", r"`column` must be one of 'worker', 'second'; .* Did you mean 'second'"),
        ("", r"`path` '.*timings\.csv' holds no timings\. Give a CSV file"),
        ("seconds\n", r"`path` '.*timings\.csv' holds no timings\. Give a CSV file"),
        (b"\x89PNG\xff\xfe", r"`path` '.*timings\.csv' is not a CSV file in UTF-8: .* Give a CSV"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Empirical.from_csv(write(tmp_path, content), column="seconds")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`path` '.*none\.csv' could not be read: No such.*\. Give") as caught:
        Empirical.from_csv(tmp_path / "none.csv", column="seconds")
    assert caught.value.errno == errno.ENOENT
