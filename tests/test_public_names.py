"""The public names of the package: each is there, and imported when it is first used."""

import subprocess
import sys
from pathlib import Path

import pytest

import asyncsim


@pytest.mark.parametrize("name", asyncsim.__all__)
def test_every_public_name_is_there(name):
    assert getattr(asyncsim, name) is vars(asyncsim)[name]


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="module 'asyncsim' has no attribute 'Clutser'"):
        asyncsim.Clutser  # noqa: B018
    assert not hasattr(asyncsim, "steps")


@pytest.mark.parametrize(
    ("line", "heavy"),
    [
        ("asyncsim.main(arguments=['--help'])", "jax scipy matplotlib rich"),
        ("asyncsim.main(arguments=['--version'])", "jax scipy matplotlib rich"),
        ("asyncsim.main(arguments=['tags', '--json'])", "jax scipy matplotlib rich"),
        ("asyncsim.main(arguments=['show', '--help'])", "jax scipy matplotlib"),
        ("asyncsim.main(arguments=['runs', '--json'])", "jax scipy matplotlib"),
        ("asyncsim.main(arguments=['completion', '--help'])", "jax scipy matplotlib rich"),
        ("asyncsim.main(arguments=['path', '--help'])", "jax scipy matplotlib rich"),
        ("asyncsim.main(arguments=['tag', '--help'])", "jax scipy matplotlib rich"),
        ("asyncsim.datasets.Digits()", "jax scipy matplotlib sklearn pandas click rich pooch"),
        ("asyncsim.delays", "jax matplotlib sklearn pandas click rich pooch"),
        ("import asyncsim.cli._run", "matplotlib scipy optax asyncsim.calibration asyncsim.animation"),
        ("from asyncsim import *", "matplotlib sklearn pandas click rich pooch"),
    ],
)
def test_nothing_is_imported_before_it_is_needed(line, heavy):
    lines = [
        "import atexit, sys, asyncsim",
        f"atexit.register(lambda: print(*set({heavy.split()}) & set(sys.modules), file=sys.stderr))",
        line,
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_module_is_private_or_lists_its_public_names():
    """A name that starts with an underscore is private, and so is all that is in such a module or package."""
    root = Path(asyncsim.__file__).parent
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).parts
        if parts[-1] not in ("__init__.py", "__main__.py") and not any(part.startswith("_") for part in parts):
            assert "\n__all__ = [" in path.read_text(encoding="utf-8"), path
