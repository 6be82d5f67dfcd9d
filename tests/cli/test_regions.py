"""Settings inside the regions of a hierarchy: one address in Python, flags, grids, sweeps and lists of runs."""

import json
from typing import Any

import pytest

import asyncsim as asim
from asyncsim.components._settings import settings
from asyncsim.store import _listing as listing
from tests.problems import refusals

REGION = asim.Cluster(2, asim.delays.Exponential(1.0))
SCENARIO = asim.Scenario(
    asim.Hierarchy([REGION] * 3, 4, network=asim.Network(latency=asim.delays.Constant(1.0))),
    asim.rules.Downpour(0.05),
    asim.workloads.Quadratic([1.0]),
    commits=40,
)
SCRIPT = """
import asyncsim as asim
region = asim.Cluster(2, asim.delays.Exponential(1.0))
scenario = asim.Scenario(
    asim.Hierarchy([region] * 3, 4), asim.rules.Downpour(0.05), asim.workloads.Quadratic([1.0]), commits=40
)
"""
GAMMA = asim.delays.Gamma(mean=1.0, cv=0.5)
# Changes by name, and the region of which they change one argument, with its new value.
CHANGES = [
    ({"cluster.regions.0.workers": 5}, 0, "workers", 5),
    ({"regions.2.workers": 5}, 2, "workers", 5),
    ({"regions_1_workers": 5}, 1, "workers", 5),
    ({"regions_0_compute": "gamma", "regions_0_compute_cv": 0.5}, 0, "compute", GAMMA),
    ({"regions_1_compute": "gamma:mean=1:cv=0.5"}, 1, "compute", GAMMA),
    ({"regions_2_compute": GAMMA}, 2, "compute", GAMMA),
    ({"cluster.regions.2.compute.mean": 3.0}, 2, "compute", asim.delays.Exponential(3.0)),
    (
        {"regions_1_network_latency": asim.delays.Constant(0.5)},
        1,
        "network",
        asim.Network(latency=asim.delays.Constant(0.5)),
    ),
]


@pytest.mark.parametrize(("changes", "number", "argument", "value"), CHANGES)
def test_a_change_of_one_region_leaves_the_others(changes, number, argument, value):
    changed = SCENARIO.override(**changes)
    cluster: Any = changed.cluster
    for place, region in enumerate(cluster.regions):
        if place == number:
            assert getattr(region, argument) == value
        else:
            assert region == REGION
    assert changed.digest != SCENARIO.digest


def test_an_equal_value_is_no_change():
    assert SCENARIO.override(regions_1_workers=2).digest == SCENARIO.digest


def test_a_hierarchy_alone_has_the_same_names():
    assert asim.components.override(SCENARIO.cluster, regions_1_workers=5).regions[1].workers == 5


def test_lists_of_settings_do_not_have_those_of_regions():
    assert not [path for path, field in settings(SCENARIO.cluster).items() if field.listed and "regions" in path]
    assert not [field for field in SCENARIO.fields() if "regions" in field.name]


def test_grids_vary_a_region():
    scenarios = asim.grid(SCENARIO, regions_0_workers=[2, 4], regions_1_compute=["exponential", "constant"])
    clusters: list[Any] = [scenario.cluster for scenario in scenarios]
    shapes = [(c.regions[0].workers, type(c.regions[1].compute).__name__) for c in clusters]
    assert shapes == [(2, "Exponential"), (2, "Constant"), (4, "Exponential"), (4, "Constant")]


@pytest.fixture
def script(command, tmp_path):
    del command  # It changes to this folder.
    (tmp_path / "regions.py").write_text(SCRIPT)
    return "regions.py"


@pytest.mark.parametrize(
    "flags",
    [
        ["--regions-0-workers", "4"],
        ["--cluster.regions.0.workers=4"],
        ["--regions.0.workers", "4", "--regions-0-compute", "exponential"],
    ],
)
def test_flags_runs_and_lists_use_the_same_words(command, script, tmp_path, flags):
    done = command("run", script, *flags, "--out", "out", "--json")
    assert done.status == 0, done.err
    assert asim.load("out").scenario.cluster.regions[0].workers == 4
    (row,) = listing.rows(tmp_path, {})
    for start in ("cluster.regions.", "regions.", "regions_"):
        for number, holds in enumerate((True, False)):
            condition = listing.condition(f"{start}{number}{start[-1]}workers=4")
            path = listing.require_field("--where", condition.field, [row])
            assert path == f"cluster.regions.{number}.workers"
            assert condition._replace(field=path).holds(row.values) is holds
    for condition, count in (("regions_0_workers=4", 1), ("regions_1_workers=4", 0)):
        assert len(json.loads(command("runs", ".", "--where", condition, "--json").out)["runs"]) == count


def test_a_sweep_varies_a_region(command, script):
    done = command("sweep", script, "--grid", "regions_2_workers=2,4", "--store", "store", "--jobs", 1, "--json")
    assert done.status == 0, done.err
    table = json.loads(done.out)
    assert table["fields"] == ["regions_2_workers"]
    assert table["columns"]["regions_2_workers"] == [2, 4]


@pytest.mark.parametrize("flag", ["--cluster.regions.3.workers", "--regions-17-workers"])
def test_the_flag_of_a_region_that_does_not_exist_is_refused_with_those_that_do(command, script, flag):
    done = command("run", script, flag, "4")
    assert done.status == 2
    assert "0 to 2" in done.err


test_wrong_names_are_refused = refusals(
    ({"regions_3_workers": 4}, "`regions_3_workers` must have the number .* `regions`, 0 to 2. Write `regions_0"),
    ({"cluster.regions.-1.workers": 4}, "number of an entry of `regions`, 0 to 2"),
    ({"regions.x.workers": 4}, "number of an entry of `regions`, 0 to 2"),
    ({"regions.00.workers": 4}, "number of an entry of `regions`, 0 to 2"),
    ({"regions_0_worker": 4}, "no setting of entry 0 of `regions`. Did you mean `regions_0_workers`"),
    ({"workers": 4}, "`workers` is one of each entry of `regions`. Write `regions_0_workers`"),
    ({"compute": "gamma"}, "`compute` is one of each entry of `regions`. Write `regions_0_compute`"),
    ({"regions_0_compute": "gama"}, "must be one of .* got 'gama'. Did you mean 'gamma'"),
    ({"regions_0_workers": 0}, "`regions_0_workers` must be an integer of at least 1; got 0"),
    ({"regions_1_protocol": "synchronous"}, "entry 1, .* collects gradients"),
    call=lambda changes: SCENARIO.override(**changes),
)
