"""Running a scenario script that is an experiment, on small settings."""

import runpy
from pathlib import Path

from asyncsim.study._load import importable

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def load(name):
    """Everything that a script defines."""
    path = SCENARIOS / f"{name}.py"
    with importable(str(path)):
        return runpy.run_path(str(path))


def run(name, out, **settings):
    """The numbers of a script's experiment with other settings, and in the folder `out`, its report."""
    return run_loaded(load(name), out, **settings)


def run_loaded(script, out, **settings):
    """The same of what `load` gave, whose tables may have been made shorter."""
    numbers = script["experiment"].override(**settings).run(out).numbers
    assert out is None or (out / "report.png").stat().st_size > 10_000
    return numbers
