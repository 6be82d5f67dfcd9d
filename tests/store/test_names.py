"""Default names of folders: different for different changes, and possible on any file system."""

from math import inf, nextafter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.store._places import MOST_BYTES, folder_name, value_text

NUMBERS = st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text("aZ09_.,+=-~ \t\n\0/\\:*?\"'<>|&;$`é実\u202e", max_size=30)
VALUES = NUMBERS | st.lists(NUMBERS, max_size=6) | TEXTS
FIELDS = st.sampled_from(["workers", "learning_rate", "record", "hidden", "eigenvalues", "log"])


@settings(max_examples=40)
@given(st.dictionaries(FIELDS, VALUES), st.text("0123456789abcdef", min_size=16, max_size=16))
def test_possible_names(changes: dict[str, Any], digest: str) -> None:
    name = folder_name("study", changes, digest)
    assert len(name.encode()) <= MOST_BYTES
    assert not set(name) & set("/\\ \0:*?\"'<>|&;$`")
    assert name.startswith("study")
    assert (name == "study") == (not changes)


@given(*(st.dictionaries(FIELDS, NUMBERS | TEXTS, max_size=3) for _ in range(2)))
def test_other_changes_have_another_name(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Studies that differ have different digests; where the changes are all that the name tells, it tells them."""

    def text(changes: dict[str, Any]) -> str:
        return repr(sorted((name, float(v) if isinstance(v, int) else v) for name, v in changes.items()))

    order = sorted({**one, **other})
    names = [
        folder_name("study", {k: c[k] for k in order if k in c}, digest)
        for c, digest in ((one, "a" * 16), (other, "b" * 16))
    ]
    if text(one) != text(other):
        assert names[0] != names[1] or "0.0" in text(one) + text(other)  # 0 and -0 differ in their sign alone


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_all_their_digits(number: float) -> None:
    one, next_one = (folder_name("study", {"learning_rate": x}, "a" * 16) for x in (number, nextafter(number, inf)))
    assert one != next_one


def test_values_in_a_name() -> None:
    texts = {"2": 2.0, "0.30000000000000004": 0.1 + 0.2, "true": True, "none": [], "pi_mean": {"pi_mean": None}}
    assert [*map(value_text, texts.values())] == [*texts]
