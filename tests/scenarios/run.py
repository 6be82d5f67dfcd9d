"""Running a scenario script that is an experiment, on small settings."""

import runpy
from pathlib import Path

from matplotlib.figure import Figure

from asyncsim.study._load import importable

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def load(name, **other):
    """Everything that a script defines, where its functions may find other values under some of its names."""
    path = SCENARIOS / f"{name}.py"
    with importable(str(path)):
        script = runpy.run_path(str(path))
    script["compute"].__globals__.update(other)
    return script


def run(name, **settings):
    """The numbers of a script's experiment with other settings."""
    return run_loaded(load(name), **settings)


def run_loaded(script, **settings):
    """The same of what `load` gave, whose tables may have been made shorter.

    The picture is drawn without its layout and pixels, which take half a second. `test_movies.py` keeps whole reports.
    """
    experiment = script["experiment"].override(**settings)
    numbers = experiment.run().numbers
    experiment.draw(figure := Figure(experiment.size), numbers)
    assert figure.axes
    return numbers
