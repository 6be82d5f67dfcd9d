"""Numbers that change only together with the library's revision, which is part of every digest."""

import numpy as np
import pytest

from asyncsim._version import REVISION
from tests.golden import RUNS, as_kept, numbers_of

AGAIN = "compute the kept numbers again by `python -m tests.golden`"
CHANGED = (
    "This run has other numbers than the kept ones. If that is intended, raise REVISION in asyncsim/_version.py, so "
    f"that nobody finds stored results of the old code, and {AGAIN}. If not, find the mistake."
)


def test_the_kept_numbers_are_of_this_revision() -> None:
    kept = as_kept()
    assert kept["revision"] == REVISION, f"REVISION was changed: {AGAIN}."
    assert kept["runs"].keys() == RUNS.keys(), f"There are other runs than kept ones: {AGAIN}."


@pytest.mark.networks
@pytest.mark.parametrize("name", RUNS)
def test_no_number_has_changed(name: str) -> None:
    kept, now = as_kept()["runs"][name], numbers_of(name)
    assert now["schedule"] == kept["schedule"], CHANGED
    for part in ("times", "loss", "central"):
        np.testing.assert_allclose(now[part], kept[part], rtol=3e-8, atol=1e-12, err_msg=CHANGED)
