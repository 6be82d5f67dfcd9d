"""Values of fields, as `--grid` lists them."""

import pytest

from asyncsim.cli.sweep.values import parse_values
from asyncsim.scenario.fields import Field

pytestmark = pytest.mark.quick


def test_values():
    assert parse_values(Field("seed", "integer", ""), "4:0:-2") == [4, 2]
    assert parse_values(Field("on", "switch", ""), "true,false") == [True, False]
    assert parse_values(Field("rule", "text", "", choices=("gem", "agn")), "agn, gem") == ["agn", "gem"]
