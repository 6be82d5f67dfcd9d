"""A scenario: one study as one frozen object, its fields, and its parts.

Neighbours use `_scenario` (the class, and the settings that scenarios can have), `_tree` (settings of a cluster, a rule
and a workload at their paths) and `_rebuild` (a scenario from its description, also in a lane).
"""

from asyncsim.scenario._scenario import Scenario

__all__ = ["Scenario"]
