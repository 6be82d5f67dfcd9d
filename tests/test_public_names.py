"""The public names of the package: each is there, imported when it is first used, and fit for a typed program."""

import inspect
import re
import runpy
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import asyncsim
from tests import public_use


def test_every_public_name_is_there():
    for name in asyncsim.__all__:
        assert getattr(asyncsim, name) is vars(asyncsim)[name]
    with pytest.raises(AttributeError, match="module 'asyncsim' has no attribute 'Clutser'"):
        asyncsim.Clutser  # noqa: B018
    assert not hasattr(asyncsim, "steps")


COMMANDS = {  # what a person waits for at the command line -> modules that it does without
    "--version": "jax scipy matplotlib rich",
    "--help": "jax scipy matplotlib rich",
    "tags --names": "jax scipy simpy matplotlib rich",  # which shells ask for
    "tag --help": "jax scipy matplotlib rich",
    "path --help": "jax scipy matplotlib rich",
    "completion --help": "jax scipy matplotlib rich",
    "show --help": "jax scipy matplotlib",
    "runs --json": "jax scipy matplotlib",
}
IMPORTS = {  # statement -> modules that it does without
    "import asyncsim.cluster": "jax scipy matplotlib sklearn pandas click rich pooch",
    "asyncsim.datasets.Digits()": "jax scipy matplotlib sklearn pandas click rich pooch",
    "asyncsim.delays": "jax matplotlib sklearn pandas click rich pooch",
    "from asyncsim import *": "matplotlib sklearn pandas click rich pooch",
}
LINES = (
    {f"asyncsim.main(arguments={command.split()})": without for command, without in COMMANDS.items()}
    | {"import asyncsim.cli._run": "matplotlib scipy optax asyncsim.calibration._calibrate asyncsim.animation"},
    IMPORTS,
)
PROGRAM = """
import sys, asyncsim

for line, without in eval(sys.argv[1]).items():
    try:
        exec(line)
    except SystemExit as end:
        assert not end.code
    assert not {*without.split()} & {*sys.modules}, (line, {*without.split()} & {*sys.modules})
"""


@pytest.mark.parametrize("lines", LINES, ids=["command", "library"])
def test_nothing_is_imported_before_it_is_needed(lines):
    """One process for all lines, those that need least first."""
    command = [sys.executable, "-c", PROGRAM, repr(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("cluster", public_use.clusters(), ids=repr)
def test_clusters_of_a_typed_program_are_simulated(cluster):
    """(pyright checks its types.)"""
    assert len(asyncsim.simulate(cluster, commits=8)) == 8


@pytest.mark.parametrize("numbers", [public_use.final_losses, public_use.costs])
def test_numbers_of_a_typed_program_are_finite(numbers):
    assert np.isfinite(list(numbers().values())).all()


def test_python_m_asyncsim(monkeypatch, capsys):
    """The command under its other name."""
    monkeypatch.setattr(sys, "argv", ["asyncsim", "--version"])
    with pytest.raises(SystemExit, match=r"^(0|None)$"):
        runpy.run_module("asyncsim", run_name="__main__")
    assert capsys.readouterr().out == f"asyncsim {asyncsim.__version__}\n"


ROOT = Path(__file__).parents[1]
EXAMPLES = {*ROOT.glob("scenarios/*.py"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("figures/*.py"), ROOT / "README.md"}
PRIVATE = re.compile(r"\b(asyncsim|asim)(\.\w+)*\._[a-z]|\bfrom asyncsim[\w.]* import .*\b_[a-z]")


@pytest.mark.parametrize(
    "line",
    [
        "from asyncsim.trace._statistics import total_variation",
        "    import asyncsim._checks as checks",
        "from asyncsim.files import _npz as npz",
        "from asyncsim import _checks",
        "asim.plots._page.draw_title(figure)",
    ],
)
def test_a_private_import_is_recognised(line):
    assert PRIVATE.search(line)
    assert not PRIVATE.search(line.replace("._", ".").replace(" _", " "))


def test_examples_import_public_names_only():
    """Scenarios, figures and pages show what a user may write."""
    lines = [(path.name, line) for path in EXAMPLES for line in path.read_text(encoding="utf-8").splitlines()]
    assert not [place for place in lines if PRIVATE.search(place[1])]


def test_a_module_is_private_or_lists_its_public_names():
    """A name that starts with an underscore is private, and so is all that is in such a module or package."""
    root = Path(asyncsim.__file__).parent
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).parts
        if parts[-1] not in ("__init__.py", "__main__.py") and not any(part.startswith("_") for part in parts):
            assert "\n__all__ = [" in path.read_text(encoding="utf-8"), path


def test_no_signature_shows_a_private_parameter():
    modules = [vars(asyncsim)[name] for name in asyncsim.__all__ if inspect.ismodule(getattr(asyncsim, name))]
    public = [getattr(module, name) for module in (asyncsim, *modules) for name in module.__all__]
    for obj in filter(inspect.isclass, public):
        with suppress(ValueError):  # Exceptions and built-in types have no signature.
            assert not [name for name in inspect.signature(obj).parameters if name.startswith("_")], obj
