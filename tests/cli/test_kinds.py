"""`asyncsim staleness` of rollouts and pipelines: flags, numbers next to theory, and mistakes."""

import json
from pathlib import Path

import pytest


def test_rollouts_have_the_staleness_that_admission_fixes(command):
    flags = "--cluster rollouts --slots 24 --group 2 --batch 4 --lead 2 --generate lognormal:mean=1:cv=1 --commits 2000"
    done = command("staleness", *flags.split(), "--json")
    numbers = json.loads(done.out)
    (bound,) = numbers["predicted"]["group_staleness"]
    assert bound["relation"] == "≤"
    assert numbers["measured"]["group_staleness"] == pytest.approx(bound["value"], abs=0.01)
    assert Path("runs/staleness/staleness.png").stat().st_size > 10_000


def test_a_pipeline_has_the_staleness_of_its_stages(command):
    done = command("staleness", "--cluster", "pipeline", "--stages", 3, "--commits", 300, "--json")
    numbers = json.loads(done.out)
    for stage in range(3):
        (one,) = numbers["predicted"][f"stage{stage}"]
        assert numbers["measured"][f"stage{stage}"] == one["value"] == 2 - stage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--cluster pipelines", "Did you mean 'pipeline'"),
        ("--cluster pipeline --lead 3", "`lead` is not a field of this scenario"),
        ("--cluster rollouts --generate gama:mean=1", "neither a mean nor a law"),
        ("--cluster rollouts --slots 0", "`slots` must be an integer of at least 1"),
    ],
)
def test_mistakes(arguments, message, command):
    status, _, err = command("staleness", *arguments.split())
    assert status == 2
    assert message in err
