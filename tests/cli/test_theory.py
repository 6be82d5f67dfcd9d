"""`asyncsim staleness` and `stability`: output, files and mistakes, of workers, of rollouts and of pipelines."""

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, theory
from asyncsim.cli._kinds import PRESETS
from asyncsim.cli._options import flag_of
from asyncsim.cli._progress import StageBar
from asyncsim.cli._staleness import cluster_of
from asyncsim.cluster import Cluster, Network, Server, protocols
from asyncsim.cluster.rollouts._presets import DERIVED_ARGUMENTS
from asyncsim.reports import rollouts
from asyncsim.reports import stability as reports
from asyncsim.reports import staleness as module
from asyncsim.reports.staleness import staleness_report, total_variation_by_chance
from tests.cli.commands import assert_one_line

GAMMA = delays.Gamma(1.0, 0.3)
NUMBERS = ["mean", "sd", "median", "p99"]
PREDICTED = {"stability_limit", "mean_limit", "constant_delay_limit", "kappa", "noise_floor", "kinetic_energy"}
ERRORS = {"almost_sure_limit_error", "noise_floor_error", "kinetic_energy_error"}
SIMULATED = ERRORS | {"almost_sure_limit", "kappa", "noise_floor", "kinetic_energy", "bounded_kappa", "bounded_share"}


@pytest.fixture
def staleness(command):
    """`asyncsim staleness …` in a fresh folder."""
    return partial(command, "staleness")


@pytest.fixture
def stability(command, monkeypatch):
    """`asyncsim stability …` in a fresh folder, with few simulations."""
    for name in ("REPORT_SCHEDULES", "MAP_COLUMNS", "MAP_SCHEDULES"):
        monkeypatch.setattr(reports, name, 2)
    monkeypatch.setitem(reports.simulated_floor.__kwdefaults__, "commits", 1000)
    monkeypatch.setattr("asyncsim.cli._progress.QUIET_SECONDS", math.inf)  # however slow the machine is
    return partial(command, "stability")


def only(name):
    """The file of this name in the only default folder."""
    (path,) = Path("runs").glob(f"*/{name}")
    return path


def found(staleness, *arguments):
    status, out, err = staleness(*arguments, "--json")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) == 1
    return json.loads(out)


def test_staleness_as_json(staleness):
    numbers = found(staleness, "--commits", 2000)
    assert list(numbers)[:3] == ["predicted", "simulated", "total_variation"]
    assert list(numbers["predicted"]) == list(numbers["simulated"]) == NUMBERS
    assert (numbers["workers"], numbers["commits"], numbers["seed"]) == (20, 2000, 0)
    assert json.loads(only("staleness.json").read_text()) == numbers


def test_the_largest_outer_step_around_windows(stability):
    """Asynchronous DiLoCo: predicted for rounds and for a round robin, simulated for the law."""
    cluster, rule = ("--workers", 2, "--compute", "constant"), ("--outer", "nesterov", "--momentum", 0.9)
    flags = (*cluster, *rule, "--window", 5, "--curvatures", ".1,1")
    status, out, _ = stability(*flags, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["predicted"]["limit"]["fresh"] == pytest.approx(theory.outer_limit(0.9, 0))
    step = theory.outer_limit(0.9, 1) / theory.window_curvature(0.1, 5)
    assert report["predicted"]["outer_step"]["in_turn"] == pytest.approx(step)
    assert report["simulated"]["outer_step"] == pytest.approx(step, rel=0.05)
    table = stability(*flags, "--out", "here").out
    for words in ("largest stable outer step α, of a round robin", "almost-sure limit", "0.6181"):
        assert words in table
    assert Path("here/stability.png").is_file()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--window 5", "`window` is of windows of local steps. Name their optimiser, as in --outer nesterov."),
        ("--outer damped --kappa .1", "`kappa` must be left out with `outer`"),
        ("--outer damped --where worker", "`where` must be left out with `outer`"),
        ("--outer damped --local-learning-rate 3", "`learning_rate` times the largest curvature must be less than 2"),
        ("--outer damped --slack 2", "--slack"),
    ],
)
def test_mistakes_with_an_outer_step(stability, flags, message):
    done = stability(*flags.split())
    assert done.status == 2
    assert message in done.err


def test_the_table_compares_prediction_and_simulation(staleness):
    status, out, err = staleness("--compute", "gamma", "--cv", "0.3", "--commits", 2000, "--out", "here")
    assert (status, err) == (0, "")
    for words in ("predicted", "simulated", "standard deviation", "Total variation", "exact", "here"):
        assert words in out
    assert Path("here/staleness.png").is_file()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"compute": "exponential", "mean": 2.0}, Cluster(20, delays.Exponential(2.0))),
        ({"compute": "lognormal"}, Cluster(20, delays.LogNormal(1.0, 0.3))),  # cv is kept
        ({"workers": 6, "compute": "weibull", "shape": 0.8}, Cluster(6, delays.Weibull(1.0, 0.8))),
        ({"service": 0.25}, Cluster(20, GAMMA, server=Server(service=delays.Exponential(0.25)))),
        ({"service": 0.0}, Cluster(20, GAMMA)),
        ({"protocol": "k_async", "k": 2}, Cluster(20, GAMMA, protocol=protocols.KAsync(2))),
        ({"workers": 6, "slow": 2, "slowness": 3.0}, Cluster(6, delays.fleet.two_classes(GAMMA, 6, 2, 3.0))),
        ({"latency": 0.2}, Cluster(20, GAMMA, network=Network(latency=delays.Constant(0.2)))),
    ],
)
def test_flags_make_the_cluster(given, expected):
    """Predictions for clusters are tested among the reports."""
    assert cluster_of(given) == expected


@pytest.mark.whole_pages
def test_two_panels_where_workers_differ(staleness):
    assert found(staleness, "--workers", 6, "--slow", 2, "--commits", 2000)["predicted"]["mean"] == 5.0
    assert only("staleness.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("flags", "mean", "words"),
    [
        (["--protocol", "ssp", "--slack", 1], None, "at most (n - 1)(2 slack + 1) = 57"),
        (["--protocol", "k_async", "--k", 4], 4.0, "n/K - 1 = 4"),
        (["--protocol", "k_async", "--k", 4, "--bound", 2], None, "steps wait for the oldest; at most 2"),
        (["--protocol", "periodic", "--every", 2], None, "nothing is known for steps at fixed times, but"),
        (["--latency", 0.2], 19.0, "n - 1 = 19"),
        (["--compute", "weibull", "--mean", 1, "--shape", 0.1], 19.0, "too heavy"),
        (["--protocol", "ringmaster", "--limit", 9], None, "nothing is known for this protocol"),
    ],
)
def test_a_protocol_without_theory_is_simulated(staleness, flags, mean, words):
    status, out, err = staleness(*flags, "--commits", 500)
    assert (status, err) == (0, "")
    assert words in out.replace("\n", " ")
    numbers = json.loads(only("staleness.json").read_text())
    assert numbers["predicted"] is None
    assert numbers["total_variation"] is None
    assert numbers["predicted_mean"] == mean
    assert list(numbers["simulated"]) == NUMBERS


def test_steps_at_fixed_times_are_predicted(staleness):
    numbers = found(
        staleness, "--protocol", "periodic", "--every", 0.5, "--compute", "exponential", "--commits", 40_000
    )
    mean = theory.periodic_staleness_mean(workers=20, rate=1.0, every=0.5)
    assert numbers["predicted"]["mean"] == mean
    assert numbers["predicted"]["sd"] == pytest.approx(np.sqrt(mean * (1 + mean)))
    assert numbers["simulated"]["mean"] == pytest.approx(mean, rel=0.05)


def test_the_prediction_does_not_depend_on_the_simulation():
    cluster = cluster_of({"compute": "exponential", "workers": 8})
    short, long = (staleness_report(cluster, commits, 0).numbers["predicted"] for commits in (1, 5000))
    assert short == pytest.approx(long)


def test_infinite_variance_is_null():
    known = module.staleness_theory(Cluster(4, delays.Pareto(1.0, 1.9)))
    assert known.mean == 3.0
    assert module._summarise(known, np.array([0.6, 0.4]))["sd"] is None


def test_a_warm_up_that_is_too_short_is_noted(staleness, monkeypatch):
    monkeypatch.setattr(module, "MOST_WARM_UP_COMMITS", 100)
    status, out, _ = staleness("--cv", 0.05, "--commits", 500)
    assert status == 0
    assert "too short" in out
    assert "warm-up of 100," in out


def test_by_chance_is_what_independent_values_give():
    pmf, generator = theory.staleness_pmf(delays.Exponential(1.0), 8, 200), np.random.default_rng(0)
    measured = [np.abs(generator.multinomial(5000, pmf / pmf.sum()) / 5000 - pmf).sum() / 2 for _ in range(200)]
    assert total_variation_by_chance(pmf, 5000) == pytest.approx(np.mean(measured), rel=0.05)


@pytest.mark.whole_pages
def test_flags_of_a_library_have_its_words(command):
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
    assert only("staleness.png").stat().st_size > 10_000


@pytest.mark.whole_pages
@pytest.mark.parametrize(("flags", "binding"), [("--slots 8", "slots"), ("--train 9", "trainer"), ("", "lead")])
def test_the_bound_that_binds_is_named_and_all_are_shown(command, flags, binding):
    system = f"--cluster areal --max-head-offpolicyness 0.5 --commits 160 {flags}"
    out = command("staleness", *system.split()).out
    assert f"Binding: {binding}, the smallest of the bounds" in out
    numbers = json.loads(command("staleness", *system.split(), "--json", "--force").out)
    bounds = {one["reason"]: one["value"] for one in numbers["predicted"]["samples_per_second"]}
    assert list(bounds) == ["slots", "trainer", "lead"]
    assert numbers["binding"] == min(bounds, key=bounds.get) == binding
    assert numbers["measured"]["samples_per_second"] <= 1.05 * bounds[binding]


@pytest.mark.whole_pages
@pytest.mark.parametrize(
    ("system", "left_out"),
    [
        ("openrlhf", "the wait for the last sample before new weights"),
        ("torchtitan --window 2", "the wait for the oldest group"),
        ("tinker --reward 1", "groups that are dropped, the time of rewards"),
        ("areal", None),
    ],
)
def test_what_the_bounds_leave_out_is_named(command, system, left_out):
    """A system that is far below the smallest bound is slow for another reason."""
    out = command("staleness", "--cluster", *system.split(), "--commits", 160).out
    assert f"The bounds leave out {left_out}\n" in out if left_out else "leave out" not in out
    assert ("lead none" in out) == system.startswith("tinker")


def test_every_library_has_its_flags(command):
    shown = {name: command("staleness", "--cluster", name, "--help").out for name in PRESETS}
    for name, usual in PRESETS.items():
        assert all(flag_of(word) in shown[name] for word in usual), name
    assert "--max-head-offpolicyness" in shown["areal"]
    assert "--lead " not in shown["areal"]  # which the flag above decides
    assert "--prompt" not in shown["areal"]  # which takes a function
    for name, decided in DERIVED_ARGUMENTS.items():
        assert not [word for word in decided if f"{flag_of(word)} " in shown[name]], name
    twice = ("--cluster", "slime", "--num-steps-per-rollout", 4, "--sync-every", 2)
    assert_one_line(command("staleness", *twice), 2, "`sync_every` is not a field of this scenario")


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
    assert only("stability.png").stat().st_size > 10_000


@pytest.mark.whole_pages
def test_a_pipeline_has_the_staleness_of_its_stages(command):
    done = command("staleness", "--cluster", "pipeline", "--stages", 3, "--commits", 300, "--json")
    numbers = json.loads(done.out)
    for stage in range(3):
        (one,) = numbers["predicted"][f"stage{stage}"]
        assert numbers["measured"][f"stage{stage}"] == one["value"] == 2 - stage


@pytest.mark.whole_pages
@pytest.mark.parametrize("exchange", ["pair", "rounds"])
def test_workers_on_a_graph_have_their_staleness_and_consensus(command, exchange):
    flags = ["--graph", "star", "--exchange", exchange, "--workers", 5, "--compute", "exponential", "--commits", 2000]
    done = command("staleness", "--cluster", "gossip", *flags)
    assert (done.status, done.err) == (0, "")
    assert "distance left" in done.out
    numbers = json.loads(only("staleness.json").read_text())
    assert numbers["predicted"]["mean"] == (exchange == "pair")
    assert numbers["simulated"]["mean"] == pytest.approx(numbers["predicted"]["mean"], abs=0.02)
    (left,) = numbers["consensus"]["predicted"]["distance_left"]
    assert left["value"] == pytest.approx(numbers["consensus"]["measured"]["distance_left"], rel=0.2)


@pytest.mark.whole_pages
@pytest.mark.parametrize("compute", ["exponential", "gamma"])
def test_regions_have_the_staleness_of_both_levels_and_their_pushes(command, compute):
    """Three regions of four workers, whose pushes and answers take 2 s: 1/(K/λ + D) pushes, K/(K + λ·D) reported."""
    flags = ["--regions", 3, "--workers", 4, "--commits-per-push", 8, "--latency", 1, "--compute", compute]
    done = command("staleness", "--cluster", "hierarchy", *flags, "--commits", 4000)
    assert (done.status, done.err) == (0, "")
    numbers = json.loads(only("staleness.json").read_text())
    predicted = {name: one["value"] for name, (one,) in numbers["predicted"].items()}
    expected = {
        "staleness_of_pushes": 2.0,
        "pushes_per_second": 0.75,
        "reported_share": 0.5,
        "commits_per_second": 12.0,
    }
    assert predicted == {**{f"staleness_in_region_{r}": 3.0 for r in range(3)}, **expected}
    # Some 300 cycles of a push have relative errors of .4/√300 each.
    for name, value in predicted.items():
        assert numbers["measured"][name] == pytest.approx(value, rel=3.5 * 0.4 / 300**0.5), name


@pytest.mark.whole_pages
def test_stability_as_json(stability, tmp_path):
    done = stability("--workers", "3", "--kappa", "0.2", "--json", "--out", "here")
    assert (done.status, done.err) == (0, "")
    report = json.loads(done.out)
    assert set(report) == {"workers", "compute", "momentum", "where", "predicted", "simulated", "note"}
    assert set(report["predicted"]) == PREDICTED
    assert set(report["simulated"]) == SIMULATED
    assert report["predicted"]["stability_limit"] == pytest.approx(theory.exponential_limit(3))
    assert report["predicted"]["noise_floor"][1] == pytest.approx(theory.exponential_noise_floor(0.2, 3))
    assert json.loads((tmp_path / "here" / "stability.json").read_text()) == report
    assert (tmp_path / "here" / "stability.png").stat().st_size > 10_000


def test_a_law_without_a_result_is_no_failure(stability):
    status, out, err = stability("--workers", "3", "--compute", "uniform", "--low", "0.5", "--high", "1.5")
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert "Theory: no limit in mean square, floor or energy is known for this law" in words
    assert "They are known for exponential times" in words
    assert "limit of η·h, of single runs" in words
    assert only("stability.png").exists()


def test_a_long_computation_reports_now_and_then_without_a_terminal(monkeypatch, capsys):
    seconds = iter(range(100))
    monkeypatch.setattr("asyncsim.cli._progress.time.monotonic", lambda: next(seconds))
    with StageBar() as bar:
        for number in range(99):
            bar.update("limits" if number < 50 else "map", number / 100)
    out, err = capsys.readouterr()
    told = [("Limits", 3), ("Limits", 9), ("Limits", 27), ("Map", 81)]
    lines = [f"{stage}, {after - 1}% done after {after} s." for stage, after in told]
    assert (out, err.splitlines()) == ("", lines)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("staleness --compute exponential --cv 0.3", "`cv`"),
        ("staleness --protocol k_async", "`k`"),
        (f"staleness --workers {10**12}", "`workers` of 1000000000000 takes at least 200 TB"),
        ("staleness --commits 0", "`commits`"),
        ("staleness --seed -1", "`seed`"),
        ("staleness --service -1", "`service`"),
        ("staleness --slow 21", "`slow`"),
        ("staleness --cluster pipelines", "Did you mean 'pipeline'"),
        ("staleness --cluster pipeline --lead 3", "`lead` is not a field of this scenario"),
        ("staleness --cluster gossip --graph rings", "Did you mean 'ring'"),
        ("staleness --cluster gossip --service 1", "`service` is not a field of this scenario"),
        ("staleness --cluster hierarchy --regions 0", "`regions` must be an integer of at least 1; got 0"),
        ("staleness --cluster hierarchy --graph ring", "`graph` is not a field of this scenario"),
        ("staleness --cluster hierarchy --merge-weight 2", "`merge_weight` must be above 0 and at most 1"),
        ("staleness --cluster rollouts --generate gama:mean=1", "neither a mean nor a law"),
        ("staleness --cluster areal --lead 3", "`lead` is not a field of this scenario"),
        ("staleness --cluster areal --max-head-offpolicynes 3", "No such option"),
        ("staleness --cluster nemo_rl --sampling in_ordr", "`sampling` must be one of 'in_order'"),
        ("staleness --cluster rollouts --slots 0", "`slots` must be an integer of at least 1"),
        (f"stability --workers {10**12}", "`workers` of 1000000000000 takes at least 200 TB"),
        ("stability --cv 0.3", "`cv` is not a field of compute 'exponential'"),
        (
            "stability --service 0.1",
            "`service` has no place here: theory knows the limits of workers that commit at once",
        ),
        ("stability --protocol k_async", "`asyncsim staleness --protocol k_async` shows the staleness with it"),
        ("stability --momentum 0.5", "`where` must be 'server' or 'worker' with momentum"),
        ("stability --momentum 1 --where server", "`momentum` must be at least 0 and less than 1"),
        ("stability --kappa 0", "`kappa` must be finite and positive; got 0.0"),
        ("stability --out /dev/null", "'/dev/null' is a file"),
        ("stability --out /dev/null/here", "would be in the file '/dev/null'"),
        ("stability --out a\0b", "holds a NUL byte"),
        (f"stability --out {'x' * 300}", "cannot be one: File name too long"),
    ],
)
def test_wrong_usage_is_one_line(command, line, words):
    name, *flags = line.split()
    assert_one_line(command(name, *flags), 2, words, f"asyncsim {name} --help")
