"""The public names of the package: what `dir` shows, what type checkers see, and that they are imported when used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import asyncsim


def names_for_type_checkers():
    """Module -> names, as the block for type checkers imports them."""
    tree = ast.parse(Path(asyncsim.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {node.module: [alias.name for alias in node.names] for node in block.body if node.module != "typing"}


def test_type_checkers_see_what_there_is():
    found = names_for_type_checkers()
    assert sorted(name for names in found.values() for name in names) == sorted(asyncsim.__all__)
    for module, names in found.items():
        for name in names:
            __import__(module)
            assert getattr(asyncsim, name) is getattr(sys.modules[module], name)


def test_dir_shows_what_is_public():
    assert dir(asyncsim) == sorted([*asyncsim.__all__, "__version__"])


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
        ("asyncsim.main(arguments=['completion', 'zsh'])", "jax scipy matplotlib rich"),
        ("asyncsim.main(arguments=['path', '--help'])", "jax scipy matplotlib rich"),
        ("asyncsim.main(arguments=['tag', '--help'])", "jax scipy matplotlib rich"),
        ("asyncsim.datasets.digits()", "jax scipy matplotlib sklearn pandas click rich pooch"),
        ("asyncsim.delays", "jax matplotlib sklearn pandas click rich pooch"),
        ("import asyncsim.cli.run", "matplotlib scipy optax asyncsim.calibration asyncsim.animation"),
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
