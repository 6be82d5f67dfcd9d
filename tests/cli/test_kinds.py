"""`asyncsim staleness` of rollouts and pipelines: flags, numbers next to theory, and mistakes."""

import json
from pathlib import Path

import pytest

import asyncsim as asim
from asyncsim.cli._options import flag_of
from asyncsim.cli._theory import PRESETS
from asyncsim.reports import rollouts


@pytest.mark.whole_pages
def test_a_library_has_its_own_words(command):
    """Mean and largest staleness, idle shares, waste and a picture of a configuration of verl, with one command."""
    system = "--cluster verl --staleness-threshold 0.5 --trigger-parameter-sync-step 2 --partial-rollout false"
    flags = ("--slots", 24, "--generate", "lognormal:mean=2:cv=0.5", "--commits", 800, "--json")
    numbers = json.loads(command("staleness", *system.split(), *flags).out)
    made = asim.rollouts.verl(
        staleness_threshold=0.5, trigger_parameter_sync_step=2, partial_rollout=False, slots=24, group=4, batch=8,
        generate=asim.delays.LogNormal(mean=2.0, cv=0.5), train=asim.delays.Constant(0.25),
    )  # fmt: skip
    assert numbers["measured"] == made.ledger(commits=800).summary(warm_up=10)
    assert {"staleness", "staleness_max", "trainer_idle", "slots_idle", "wasted"} <= set(numbers["measured"])
    assert numbers["predicted"]["group_staleness"][0]["value"] == 1.5
    assert Path("runs/staleness/staleness.png").stat().st_size > 10_000


def test_every_library_has_its_flags(command):
    shown = {name: command("staleness", "--cluster", name, "--help").out for name in PRESETS}
    for name, usual in PRESETS.items():
        assert all(flag_of(word) in shown[name] for word in usual), name
    assert "--max-head-offpolicyness" in shown["areal"]
    assert "--lead " not in shown["areal"]  # which the flag above decides
    assert "--prompt" not in shown["areal"]  # which takes a function


@pytest.mark.whole_pages
def test_the_limit_of_stale_policy_gradients(command, monkeypatch):
    """Which limit is predicted and measured is tested with the reports."""
    report = {
        "staleness": {"mean": 2.0, "shares": [0.0, 0.0, 1.0]},
        "same": True,
        "curvature": 0.03,
        "predicted": {"staleness": 2.0, "kappa": 0.618, "learning_rate": 17.89, "mixture": 17.89},
        "measured": {"learning_rate": 17.7, "error": 0.21},
        "growth": [(10.0, 0.5), (20.0, 2.0)],
    }
    asked = []
    monkeypatch.setattr(rollouts, "rollouts_stability", lambda *args, **more: asked.append((args, more)) or report)
    flags = "--cluster areal --max-head-offpolicyness 2 --batch 2 --seeds 1 --bits 4 --least 3"
    out = command("stability", *flags.split()).out
    assert ["limit", "of", "the", "step", "size", "17.89", "17.7", "±", "0.21"] in [
        line.split() for line in out.splitlines()
    ]
    assert "The curvature of bits is 0.03. Theory: the limit 2·sin(π/(2(2τ + 1))) is exact" in out
    assert json.loads(command("stability", *flags.split(), "--json").out)["growth"] == [[10.0, 0.5], [20.0, 2.0]]
    (engines, bits), runs = asked[0]
    assert (engines.lead, engines.batch, bits.bits, bits.least, runs["seeds"]) == (2.0, 2, 4, 3, 1)
    assert Path("runs/stability/stability.png").stat().st_size > 10_000


@pytest.mark.whole_pages
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
        ("--cluster areal --lead 3", "`lead` is not a field of this scenario"),
        ("--cluster areal --max-head-offpolicynes 3", "No such option"),
        ("--cluster nemo_rl --sampling in_ordr", "`sampling` must be one of 'in_order'"),
        ("--cluster rollouts --slots 0", "`slots` must be an integer of at least 1"),
    ],
)
def test_mistakes(arguments, message, command):
    status, _, err = command("staleness", *arguments.split())
    assert status == 2
    assert message in err
