"""Values and texts in messages."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from asyncsim import _checks as checks


class WithoutRepr:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.quick
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", "'a'"),
        (0.1, "0.1"),
        (2**64 - 1, "18446744073709551615"),
        (10**20, "1.00e+20"),
        (-(10**308), "-1.00e+308"),
        (123 * 10**5000, "1.23e+5002"),
        (np.ones(3), "array([1., 1., 1.])"),
        (np.ones((3, 4)), "shape (3, 4)"),
        (jnp.ones(10), "shape (10,)"),
        (np.arange(4).reshape(2, 2), "array([[0, 1], [2, 3]])"),
        ("x" * 100, "'" + "x" * 78 + "…"),
    ],
    ids=checks.brief,
)
def test_a_value_is_brief(value: object, expected: str) -> None:
    assert checks.brief(value) == expected


@pytest.mark.parametrize("value", [[10**5000], {"n": 10**5000}, WithoutRepr(), [WithoutRepr()]], ids=type)
def test_a_value_without_repr_is_named_by_its_class(value: object) -> None:
    assert re.fullmatch(rf"<.*{type(value).__name__} object at 0x\w+>", checks.brief(value))


@pytest.mark.parametrize("length", [1, 2, 9, 10, 11])
@pytest.mark.parametrize("tail", [0, 1])
def test_a_truncated_text_has_the_length(length: int, tail: int) -> None:
    text = "0123456789"
    truncated = checks.truncate(text, length, min(tail, length - 1))
    assert len(truncated) == min(length, 10)
    assert (truncated == text) == (length >= 10)


def test_the_end_of_a_long_text_is_kept() -> None:
    assert checks.truncate("x" * 500 + " The remedy.", 40, tail=20).endswith("xx The remedy.")


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\n    ", "\u2028"], ids=ascii)
def test_a_text_has_no_line_breaks(line_break: str) -> None:
    assert checks.truncate(f"one{line_break}two  three") == "one two  three"
