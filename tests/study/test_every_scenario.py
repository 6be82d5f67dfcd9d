"""Every scenario that can be made can be kept, whatever its fields say."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim.store._entry import Folder
from asyncsim.study._run import FILES, LABEL
from tests.study.problems import contents, scenario

POSITIVE = st.one_of(
    st.floats(0.01, 2.0), st.sampled_from([1, 5, 1e300, np.float64(0.5), np.float32(0.25), np.int64(2)])
)
NUMBERS = st.one_of(POSITIVE, st.sampled_from([np.inf, 0.0, -0.0, -1.0, np.nan]))
VALUES = {
    "number": NUMBERS,
    "integer": st.one_of(st.integers(1, 9), st.sampled_from([0, -1, np.int32(3)])),
    "switch": st.booleans(),
    "numbers": st.lists(NUMBERS, min_size=1, max_size=3),
    "integers": st.lists(st.integers(1, 9), min_size=1, max_size=3),
    "names": st.sampled_from([(), ("energy_central",), {"energy_central": 3}]),
}
COMPONENTS = {
    field.name: field.choices for field in scenario().fields() if field.name in ("compute", "protocol", "rule")
}


@st.composite
def scenarios(draw: st.DrawFn) -> asim.Scenario:
    """A scenario of any components, in which some fields have any values that they accept."""
    chosen = {name: draw(st.sampled_from(choices)) for name, choices in COMPONENTS.items()}
    made = scenario(rule="downpour")  # which has no option that another rule could refuse
    for name, component in chosen.items():
        spread = {"cv": 0.5} if name == "compute" and component not in ("constant", "exponential") else {}
        made = if_possible(made, {name: component, **spread})
    fields = [field for field in made.fields() if field.name not in (*COMPONENTS, "workload")]
    for field in draw(st.lists(st.sampled_from(fields), max_size=4)):
        values = st.sampled_from(field.choices) if field.choices else VALUES.get(field.kind)
        if values is not None:
            made = if_possible(made, {field.name: draw(values)})
    return made


def if_possible(made: asim.Scenario, changes: dict[str, Any]) -> asim.Scenario:
    """With these changes, unless they are refused: such a scenario cannot run."""
    try:
        return made.override(**changes)
    except ValueError:
        return made


@settings(max_examples=12, phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(made=scenarios())
def test_is_kept_and_found_again(made: asim.Scenario) -> None:
    with tempfile.TemporaryDirectory() as out:
        folder = Folder(Path(out), LABEL, FILES)
        for _ in range(2):
            with folder.lease(made) as work:
                assert work.path == folder.path
        assert contents(folder.path).keys() == {LABEL}
        label = json.loads((folder / LABEL).read_text(), parse_constant=pytest.fail)
        assert label["digest"] == made.digest


def test_delays_without_a_finite_bandwidth(tmp_path: Path) -> None:
    made = scenario(rule="downpour", record=(), latency=0.1)
    asim.run(made, tmp_path, picture=False)
    assert not asim.run(made, tmp_path, picture=False).recomputed
    with pytest.raises(ValueError, match=r"`cluster\.network\.latency\.value` is 0\.1 there and 0\.2 here"):
        asim.run(made.override(latency=0.2), tmp_path, picture=False)
