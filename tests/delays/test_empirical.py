"""Measured timings: the law of a list, and reading them from a file."""

import errno
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim.delays import Empirical

TIMINGS = st.lists(st.floats(0.0, 1e6, allow_subnormal=False), min_size=1, max_size=30)


@given(TIMINGS)
def test_moments_and_steps_are_those_of_the_values(values: list[float]) -> None:
    law = Empirical(values)
    assert law.mean == pytest.approx(np.mean(values))
    assert law.variance == pytest.approx(np.var(values), abs=1e-9 * max(values) ** 2 + 1e-300)
    for value in values:
        assert law.cdf(value) == sum(other <= value for other in values) / len(values)
        assert law.cdf(np.nextafter(value, -1)) == sum(other < value for other in values) / len(values)


@given(TIMINGS, st.randoms())
def test_order_does_not_matter(values: list[float], random) -> None:
    shuffled = random.sample(values, len(values))
    assert Empirical(shuffled) == Empirical(tuple(values)) == Empirical(np.array(values))


class TestFromCsv:
    def write(self, folder: Path, text: str) -> Path:
        path = folder / "timings.csv"
        path.write_text(text, encoding="utf-8")
        return path

    @pytest.mark.parametrize(
        "text",
        ["worker,seconds\n0,1.5\n1, 2e-1\n", "\ufeffseconds,worker\r\n1.5,0\r\n\r\n0.2,1\r\n", 'seconds\n"1.5"\n.2'],
    )
    def test_reads_a_column(self, tmp_path: Path, text: str) -> None:
        assert Empirical.from_csv(self.write(tmp_path, text), column="seconds") == Empirical([0.2, 1.5])
        assert Empirical.from_csv(str(tmp_path / "timings.csv"), column="seconds").mean == pytest.approx(0.85)

    @pytest.mark.parametrize(
        ("cell", "got"), [("abc", "'abc'"), ("", "''"), ("-0.1", "'-0.1'"), ("nan", "'nan'"), ("inf", "'inf'")]
    )
    def test_bad_timings_are_named_by_row(self, tmp_path: Path, cell: str, got: str) -> None:
        path = self.write(tmp_path, f"worker,seconds\n0,1.5\n1,{cell}\n")
        message = rf"`path` 'timings\.csv', row 3, column 'seconds', must be a finite .*; got {got}\. Correct"
        with pytest.raises(ValueError, match=f"^{message}"):
            Empirical.from_csv(path, column="seconds")

    def test_a_row_that_is_too_short(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "worker,seconds\n0\n")
        with pytest.raises(ValueError, match=r"row 2, column 'seconds', .* got None"):
            Empirical.from_csv(path, column="seconds")

    def test_a_missing_column_suggests_another(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "worker,seconds\n0,1.5\n")
        with pytest.raises(ValueError, match=r"`column` must be one of 'worker', 'seconds'; .* Did you mean 'seconds'"):
            Empirical.from_csv(path, column="second")

    @pytest.mark.parametrize("text", ["", "seconds\n"])
    def test_a_file_without_timings(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(ValueError, match=r"`path` '.*timings\.csv' holds no timings\. Give a CSV file"):
            Empirical.from_csv(self.write(tmp_path, text), column="seconds")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(
            FileNotFoundError, match=r"`path` '.*none\.csv' could not be read: No such.*\. Give"
        ) as caught:
            Empirical.from_csv(tmp_path / "none.csv", column="seconds")
        assert caught.value.errno == errno.ENOENT

    def test_a_file_that_is_not_text(self, tmp_path: Path) -> None:
        path = tmp_path / "picture.png"
        path.write_bytes(b"\x89PNG\xff\xfe")
        with pytest.raises(ValueError, match=r"`path` '.*picture\.png' is not a CSV file in UTF-8: .* Give a CSV"):
            Empirical.from_csv(path, column="seconds")
