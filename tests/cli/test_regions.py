"""Flags and axes of the regions of a hierarchy, by their numbers."""

from pathlib import Path

import asyncsim as asim
from asyncsim.delays import Gamma
from tests.cli.commands import assert_one_line

LAW = Gamma(1.0, 0.5)
SCRIPT = """
import asyncsim as asim
from asyncsim.delays import Gamma
region = asim.Cluster(4, Gamma(1.0, 0.5))
scenario = asim.Scenario(
    asim.Hierarchy([region, region]), asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=20
)
if __name__ == "__main__":
    asim.main(scenario)
"""


def test_flags_and_axes_have_the_same_names(command):
    Path("regions.py").write_text(SCRIPT)
    assert (
        command("run", "regions.py", "--regions-0-workers", 2, "--regions-1-compute-mean", 2, "--out", "here").status
        == 0
    )
    result = asim.load("here").scenario
    assert result.cluster.regions == (asim.Cluster(2, LAW), asim.Cluster(4, Gamma(2.0, 0.5)))
    assert_one_line(command("run", "regions.py", "--regions-2-workers", 2), 2, "No such option '--regions-2-workers'")
    done = command("sweep", "regions.py", "--grid", "regions_0_workers=2,3", "--jobs", 0, "--store", "kept")
    assert done.status == 0
    assert "--regions" not in command("run", "regions.py", "--help").out
