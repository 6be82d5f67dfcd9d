"""A sweep of the command line that is computed in this process, and a store that holds one."""

import json

import pytest

from asyncsim.study._sweep import sweep
from tests.cli.commands import GRID


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Computed in this process, which has compiled already."""
    from asyncsim.cli import _sweep as module

    monkeypatch.setattr(
        module, "sweep", lambda scenarios, store, jobs, executor, **more: sweep(scenarios, store, 0, **more)
    )


@pytest.fixture
def script(scripts):
    return "study.py"


@pytest.fixture
def done(command, script):
    found = command("sweep", script, *GRID, "--store", "store", "--json")
    assert found.status == 0, found.err
    return json.loads(found.out)
