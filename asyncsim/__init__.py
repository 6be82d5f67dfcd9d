"""asyncsim simulates asynchronous SGD on one accelerator.

A cluster model is scheduled with SimPy (`simulate`), the schedule becomes plain columns (`Trace`), and JAX
replays them, compiled and vectorised (`replay`).
"""

import importlib
import sys

from asyncsim.version import __version__ as __version__

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all else that the command needs at first
if TYPE_CHECKING:  # what `__getattr__` does, for type checkers and editors
    from typing import Any

    from asyncsim import calibration, compressors, datasets, delays, energy, plots, rules, theory, workloads
    from asyncsim.animation import Movie, animate
    from asyncsim.calibration import Calibration, calibrate
    from asyncsim.cli import main
    from asyncsim.cluster import Cluster, Network, Pipeline, Server, faults, protocols, simulate
    from asyncsim.components import static
    from asyncsim.engine import CommitView, Progress, ReplayInterrupted, Run, replay, use_all_cores
    from asyncsim.folders import tags
    from asyncsim.rules import Rule
    from asyncsim.rules.citations import citation
    from asyncsim.scenario import Scenario
    from asyncsim.study import (
        Comparison,
        Experiment,
        Result,
        Sweep,
        best,
        central_against_time,
        compare,
        grid,
        load,
        loss_against_time,
        run,
        sample,
        sweep,
        trainers,
    )
    from asyncsim.trace import Trace, TraceError, statistics
    from asyncsim.workloads import Workload

__all__ = [
    "Calibration",
    "Cluster",
    "CommitView",
    "Comparison",
    "Experiment",
    "Movie",
    "Network",
    "Pipeline",
    "Progress",
    "ReplayInterrupted",
    "Result",
    "Rule",
    "Run",
    "Scenario",
    "Server",
    "Sweep",
    "Trace",
    "TraceError",
    "Workload",
    "animate",
    "best",
    "calibrate",
    "calibration",
    "central_against_time",
    "citation",
    "compare",
    "compressors",
    "datasets",
    "delays",
    "energy",
    "faults",
    "grid",
    "load",
    "loss_against_time",
    "main",
    "plots",
    "protocols",
    "replay",
    "rules",
    "run",
    "sample",
    "simulate",
    "static",
    "statistics",
    "sweep",
    "tags",
    "theory",
    "trainers",
    "use_all_cores",
    "workloads",
]

_NAMES = {
    "animation": ("Movie", "animate"),
    "calibration": ("Calibration", "calibrate"),
    "cli": ("main",),
    "cluster": ("Cluster", "Network", "Pipeline", "Server", "faults", "protocols", "simulate"),
    "components": ("static",),
    "engine": ("CommitView", "Progress", "ReplayInterrupted", "Run", "replay", "use_all_cores"),
    "folders": ("tags",),
    "rules": ("Rule",),
    "rules.citations": ("citation",),
    "scenario": ("Scenario",),
    "study": (
        "Comparison",
        "Experiment",
        "Result",
        "Sweep",
        "best",
        "central_against_time",
        "compare",
        "grid",
        "load",
        "loss_against_time",
        "run",
        "sample",
        "sweep",
        "trainers",
    ),
    "trace": ("Trace", "TraceError", "statistics"),
    "workloads": ("Workload",),
}
_MODULES = ("calibration", "compressors", "datasets", "delays", "energy", "plots", "rules", "theory", "workloads")
_INNER_MODULES = ("cluster", "engine", "reports", "scenario", "study", "trace")  # for `asyncsim.engine.…` and the like
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> "Any":
    """A public name, imported when it is first used: JAX and SciPy take a second, which `--help` does not need."""
    if name in _HOMES:
        value = getattr(importlib.import_module(f"asyncsim.{_HOMES[name]}"), name)
    elif name in _MODULES or name in _INNER_MODULES:
        value = importlib.import_module(f"asyncsim.{name}")
    else:  # with `obj`, Python suggests the nearest name
        raise AttributeError(f"module 'asyncsim' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
