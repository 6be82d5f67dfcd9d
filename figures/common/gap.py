"""Scenarios whose workers pull some commits before their own: pull and commit as two requests."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import asyncsim as asim
from asyncsim.cluster._simulation import Simulated
from asyncsim.trace import with_gap


@dataclass(frozen=True, eq=False, repr=False)
class GapScenario(asim.Scenario):
    """A scenario in which commits of others come between a worker's pull and its own commit.

    The order of the commits is that of the scenario without the gap; see `asyncsim.trace.with_gap`.

    Attributes:
        gap: Commits between pull and commit, g.

    Example:
        >>> cluster = asim.Cluster(workers=3, compute=asim.delays.Constant(1.0))
        >>> scenario = asim.Scenario(cluster, asim.rules.GEM(0.1), asim.workloads.Quadratic([1.0]), commits=6)
        >>> apart(scenario, 1).simulate().staleness.tolist()
        [0, 1, 2, 2, 3, 3]
        >>> apart(scenario, 1) == scenario, apart(scenario, 0) is scenario
        (False, True)
    """

    gap: int = 0

    @cached_property
    def description(self) -> dict[str, Any]:
        """The scenario as plain data, the gap included."""
        return {**super().description, "gap": self.gap}

    def describe_schedule(self) -> dict[str, Any]:
        """What decides the schedule, the gap included."""
        return {**super().describe_schedule(), "gap": self.gap}

    def schedule(self, progress: Callable[[Simulated], None] | None = None) -> asim.Trace:
        """The schedule of this scenario; `progress` as in `asyncsim.simulate`."""
        return with_gap(super().schedule(progress), self.gap)

    def override(self, **changes: Any) -> asim.Scenario:
        """The scenario with some fields changed, and the same gap."""
        return apart(super().override(**changes), self.gap)


def apart(scenario: asim.Scenario, gap: int) -> asim.Scenario:
    """The scenario with some commits between pull and commit; itself if there are none."""
    if gap == 0:
        return scenario
    return GapScenario(**{field.name: getattr(scenario, field.name) for field in fields(asim.Scenario)}, gap=gap)
