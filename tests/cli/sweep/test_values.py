"""Values of fields, as `--grid` lists them."""

import pytest

from asyncsim._fields import Field
from asyncsim.cli._sweep import parse_values

pytestmark = pytest.mark.quick


def test_values():
    assert parse_values(Field("seed", "integer", ""), "4:0:-2") == [4, 2]
    assert parse_values(Field("on", "switch", ""), "true,false") == [True, False]
    assert parse_values(Field("rule", "text", "", choices=("gem", "agn")), "agn, gem") == ["agn", "gem"]
