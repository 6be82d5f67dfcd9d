"""A wrong value of any argument of any public name is refused, in a line that names the argument.

Valid calls are made of one usual value per argument, as an argument means the same everywhere. Where it does not, or a
name needs more, `OTHER` says so. Everything else is generated: a new public name is tested as soon as there is one.
"""

import inspect
import math
import re
import types
import typing
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim import (
    _checks,
    calibration,
    compressors,
    costs,
    datasets,
    delays,
    faults,
    plots,
    protocols,
    rules,
    theory,
    trainers,
    workloads,
)
from asyncsim._checks import require_count, require_positive
from asyncsim.components._checked import checked
from asyncsim.delays import fleet
from tests.problems import assert_refused

MODULES = (
    *(asim, rules, workloads, datasets, delays, fleet, protocols, faults, compressors, theory, plots, calibration),
    trainers,
    costs,
)
WRONG = {"None": None, "text": "wrong", "True": True, "nan": math.nan, "-1": -1, "[]": [], "object": object()}
RESULTS = {  # that the library makes, parts of a user's own rule, which `replay` tries, and protocols for type checkers
    *("CommitView", "Fit", "Movie", "Progress", "ReplayInterrupted", "Result", "Run", "Sweep", "TraceError"),
    *(
        "StoredSweep",
        "Avo",
        "Check",
        "Checks",
        "ClosedNetwork",
        "GossipFloor",
        "Cost",
        "Ensemble",
        "Estimator",
        "Simulations",
        "MomentumEstimate",
        "Parameter",
        "Preemption",
    ),
    *("Dataset", "Partition", "Parts", "Sequences", "Terms", "Trace"),
    *("Info", "Rule", "Sent", "StepSchedule", "View", "Weight", "static"),
    *("CommitProtocol", "Compressor", "Delay", "FloatArray", "Speed"),
    "main",
}
FITTING = {
    ("WeightPrediction", "horizon", "None"),
    ("Muon", "exclude", "text"),
    *(("differences", "baseline", case) for case in WRONG),
}
LONG = {  # or with results, or an open file: what is valid is not computed
    *(
        "animate",
        "avo",
        "best",
        "differences",
        "calibrate",
        "learn_posterior",
        "simulate_prior",
        "compare",
        "load",
        "Recorder",
        "replay",
        "run",
        "sample",
        "sweep",
        "what_if",
    ),
    *("almost_sure_limit", "averaging_trainer", "ensemble_trainer", "single_trainer"),
    *("CIFAR10", "ImageFolder", "MNIST"),
}
MOST_CHARACTERS = 700  # of a message: the names of all rules are nearly 600
MANY = {
    **{"text": "x" * 5000, "words": ["word"] * 2000, "mapping": {n: n for n in range(2000)}},
    **{"digits": 10**307, "more digits than Python writes": 10**5000},
}
LAW = delays.Gamma(1.0, 0.3)


def nothing() -> dict[str, object]:
    return {}


def look_up(times: np.ndarray) -> np.ndarray:
    return np.ones(len(times))


@cache
def usual() -> dict[str, object]:
    """Argument -> a value with which most that have it can be called."""
    cluster = asim.Cluster(4, LAW)
    trace = asim.simulate(cluster, commits=40)
    workload, rule = workloads.Quadratic([1.0, 0.5]), rules.GEM(0.05)
    record = ("energy_central", "energy_proxy", "pi_mean", "pi_median", "central")
    run = asim.replay(trace, rule, workload, record=record)
    scenario = asim.Scenario(cluster, rule, workload, commits=40, record=())
    series = np.random.default_rng(0).normal(size=(3, 50))
    return {
        **{"cluster": cluster, "trace": trace, "workload": workload, "rule": rule, "run": run, "scenario": scenario},
        **{"title": "Title", "subtitle": "", "log": trace, "base": scenario},
        **{"scenarios": [scenario], "comparison": asim.Comparison({"a": scenario}), "results": [], "name": "central"},
        **alike(LAW, "compute", "law", "fast", "slow", "work", "online", "offline", "forward", "backward"),
        **{"laws": [LAW, LAW], "delays": [LAW], "before_read": [LAW], "after_read": [LAW], "pull_to_commit": LAW},
        **{"service": delays.Exponential(0.01), "speed": delays.Profile((0.0, 1.0), (1.0, 0.5)), "times": [0.0, 1.0]},
        **{"speeds": [1.0, 2.0], "timer": delays.steady(), "windows": [(0.0, 1.0, 2.0)], "segments": [(0.0, 1.0)]},
        **{"mean": 1.0, "cv": 0.5, "shape": 2, "value": 1.0, "low": 0.5, "high": 1.5, "values": [1.0, 2.0]},
        **{"spread": 0.5, "minimum": 1.0, "tail": 1.0, "shift": 0.5, "scale": 2.0, "factor": 2.0, "probability": 0.1},
        **{"probabilities": [0.5, 0.5], "means": [1.0, 2.0], "weights": [0.5, 0.5], "factors": [1.0, 2.0], "seed": 0},
        **{"task_cv": 0.3, "machine_cv": 0.3, "durations": [1.0, 2.0], "batch_size": 8, "per_sample": 0.1},
        **{"workers": 4, "learning_rate": 0.1, "momentum": 0.5, "kappa": 0.1, "k": 2, "n": 4, "delay": 2, "gap": 2},
        **{"where": "none", "size": 8, "commits": 10, "order": [0, 1] * 100, "seconds": [1.0, 2.0], "gradients": 3},
        **{"noise": 1.0, "accuracy": 0.1, "x": series, "start": 0.0, "rate": 1.0, "pmf": [0.2, 0.8], "lags": 3},
        **{"compute_rate": 1.0, "service_rate": 8.0, "micro_batches": 4, "stages": 4, "ratio": [0.5, 1.0], "slack": 2},
        **{"every": 1.0},
        **{"minima": [0.0, 1.0], "eigenvalues": [1.0], "protocol": "k_async", "batch": 4},
        **{
            "limit": 3,
            "timeout": 1.0,
            "time": 1.0,
            "worker": 0,
            "window": 2,
            "anneal": 10,
            "oldest": 3,
            "count": 2,
            "steps": 10,
        },
        **{
            "server_learning_rate": 0.1,
            "by": rules.Polynomial(0.5),
            "step": 0.1,
            "compressor": compressors.Identity(),
            "params": {"x": jnp.zeros(3)},
        },
        **{"losses": {"a": [(1, 0.5), (2, 0.4)]}, "counts": [[1, 2], [3, 4]], "draws": np.linspace(0.5, 1.0, 50)},
        **{"prior": (0.0, 2.0), "interval": (0.6, 0.9), "measured": [1.0, 2.0], "predicted": [1.0, 2.0], "sd": 1.0},
        **{"ys": [[1.0, 2.0], [2.0, 3.0]], "shares": [0.25] * 4, "middle": [1.0, 2.0], "throughput": [1.0, 2.0]},
        **{"path": "nowhere", "least": 1, "most": 4, "edges": [0.0, 5.0], "epochs": 1, "models": 2, "hidden": (4,)},
        **alike(look_up, "init", "loss", "function", "build"),
        **{"draw": Figure.clear, "send": rule.send, "of": scenario, "preemption_rate": 0.1},
        **{"message_bytes": 4, "parameter_bytes": 4, "busy": 2.0, "idle": 1.0, "per_hour": 1.0},
        **{"cost": asim.cost(trace, message_bytes=4, parameter_bytes=4)},
        **{"regions": [cluster, cluster], "commits_per_push": 4, "round_trip": 1.0, "merge_weight": 0.5},
        **{"pairs": [[0, 1], [1, 0]], "mixing": [[0.5, 0.5], [0.5, 0.5]]},
        **{"outer_step": 0.7, "curvature": 0.3, "groups": 2},
        **{"hyper": {"learning_rate": 0.1}, "data": datasets.Digits(), "per_example": 0.1, "kappas": [1.0, 2.0]},
    }


def alike(arguments: dict[str, object], *names: str) -> dict[str, dict[str, object]]:
    return dict.fromkeys(names, arguments)


@cache
def other() -> dict[str, dict[str, object]]:
    """Public name -> the arguments that are another matter there, or that it needs as well."""
    by_jobs = asim.Workload(init=look_up, loss=look_up, data=np.zeros((8, 1)), batch_size=2, counts="jobs", workers=4)
    classes = {"workload": workloads.Softmax(datasets.Digits(), 8)}
    images = np.zeros((20, 28, 28), np.float32)
    labels = np.zeros(20, int)
    mnist_like = datasets.Dataset("images", images, labels, images, labels, 10)
    exponential = {"compute": delays.Exponential(1.0)}
    teaching = {"values": np.ones((300, 4)), "statistics": np.ones((300, 9))}
    two = {"workers": [1, 2], "low": [1.0, 2.0], "high": [1.0, 2.0]}
    trace, model = usual()["trace"], calibration.default_model(4)
    return {
        "differences": {"of": "rule"},
        **alike(classes, "single_trainer", "averaging_trainer", "ensemble_trainer"),
        **alike({"k": 2}, "batched_staleness_mean", "batched_staleness_pmf"),
        **alike({"k": 2, "protocol": "k_sync"}, "round_time_of_law", "useful_share", "energy_per_gradient"),
        **alike(exponential, "energy_ratio", "expected_quadratic_path"),
        **alike(exponential, "kinetic_energy", "noise_floor", "stability_limit"),
        **alike({"seconds": 1.0}, "Slowdown", "ServerPause"),
        **alike({"fraction": 0.5}, "TopK", "RandK"),
        **alike({"gradients": SERIES}, "averaged_momentum", "least_squares_momentum", "instrumental_momentum"),
        "ByJob": {"times": look_up},
        "Erlang": {"shape": 2},
        "Experiment": {"compute": nothing},
        **alike({"pull_to_commit": delays.Constant(0.1)}, "gap_staleness_pmf", "gap_staleness_variance"),
        "HalfNormal": {"base": 1.0},
        "Model": {"prior": model.prior, "build": model.build},
        "Scenario": {"commits": 40},
        "Timer": {"segments": [(0.0, 1.0)]},
        "AlexNet": {"data": datasets.AsColour(mnist_like)},
        "avo": {"mean": [0.0], "sd": [1.0], "data": np.zeros((40, 1)), "simulate": look_up},
        "ConvNet": {"data": mnist_like},
        "Transformer": {"data": datasets.Markov(1, 4, sequences=100, context=4)},
        "delay_adaptive": {"concurrency": 4},
        "draw_band": two,
        "draw_seeds": {"x": [1.0, 2.0]},
        "draw_stability": {"workers": [1, 2], "kappas": [1.0, 2.0], "outcome": [[1.0, 1.0], [0.5, 1.0]]},
        "draw_throughput": {"workers": [1, 2]},
        "draw_timetable": {"timetable": asim.Pipeline(2, LAW).timetable(3)},
        "draw_worker_losses": {"losses": [1.0, 2.0, 3.0, 4.0]},
        "error_curve": {"seconds": [0.0, 1.0], "noise": 0.0},
        "expected_path": {"gradient": np.asarray},
        "heterogeneity": {"minima": [[0.0], [1.0]]},
        "job_times": {"workload": by_jobs},
        "learn_posterior": {"model": calibration.default_model(4), **teaching},
        "simulate_prior": {"model": calibration.default_model(4), "count": 1, "commits": 40, "jobs": 0},
        "load": {"run": "nowhere"},
        "most_workers_on_quadratic": {"kappa": 0.01},
        "by_name": {"name": "gem"},
        "datasets.by_name": {"name": "digits"},
        "workloads.by_name": {"name": "mlp"},
        "compressors.by_name": {"name": "top_k"},
        "delays.by_name": {"name": "gamma"},
        "protocols.by_name": {"name": "ssp"},
        "graphs.by_name": {"name": "ring"},
        "running_mean": {"window": 3},
        "Rollouts": {"slots": 4, "group": 2, "generate": LAW, "train": LAW},
        "Scheduled": {"by": rules.CosineDecay(10)},
        "save_png": {"size": (1.0, 1.0)},
        "simulate": {"commits": 10},
        "two_classes": {"slow": 1},
        "windows_by_speed": {"compute": [LAW, LAW]},
        "what_if": {"fit": asim.calibrate(trace), "values": [2, 4]},
    }


SERIES = np.random.default_rng(1).normal(size=(3, 50))


def public() -> dict[str, Callable[..., object]]:
    """Name, unique also where two modules have it -> function or class."""
    found: dict[str, Callable[..., object]] = {}
    for module in MODULES:
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        for name in getattr(module, "__all__", [name for name in own if not name.startswith("_")]):
            value = getattr(module, name)
            if callable(value) and name not in RESULTS and value not in found.values():
                found[name if name not in found else f"{module.__name__.rpartition('.')[2]}.{name}"] = value
    return found


PUBLIC = public()


def arguments_of(make: Callable[..., object]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(make).parameters.values()
    return {one.name: one for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}


def valid(name: str) -> dict[str, object]:
    """Arguments with which the name can be called."""
    make = PUBLIC[name]
    given = other().get(name, {})
    needed = [one.name for one in arguments_of(make).values() if one.default is one.empty and one.name not in given]
    fresh = {"figure": Figure, "ax": Figure().subplots}
    return {**{one: fresh[one]() if one in fresh else usual()[one] for one in needed}, **given}


def admits(annotation: object, value: object) -> bool:
    """Whether a value is of the type that an annotation says, as a type checker would have it."""
    if annotation in (typing.Any, inspect.Parameter.empty):
        return False  # numbers, or one per seed
    options = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    options = typing.get_args(annotation) if typing.get_origin(annotation) is typing.Union else options
    kinds = [typing.get_origin(option) or option for option in options]
    takes_arrays = "SupportsArray" in str(annotation) or "ArrayLike" in str(annotation)  # before and since numpy 2.5
    if value is None:
        return types.NoneType in kinds
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, float):
        return False  # NaN
    if isinstance(value, int):
        return bool({int, float} & {*kinds}) or takes_arrays
    if isinstance(value, str):
        return str in kinds and not takes_arrays
    if isinstance(value, list):
        return not {*kinds} <= {bool, int, float, str, types.NoneType} and callable(getattr(kinds[0], "__iter__", None))
    return False


@pytest.mark.parametrize("name", sorted({*PUBLIC} - LONG))
def test_the_calls_are_valid(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PUBLIC[name](**valid(name))


@pytest.mark.parametrize("name", PUBLIC)
def test_wrong_values_are_refused_by_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of the right type may be valid: then nothing is demanded, but whatever is refused is named."""
    monkeypatch.chdir(tmp_path)
    make, base = PUBLIC[name], valid(name)
    let_through = []
    for argument, parameter in arguments_of(make).items():
        for label, value in WRONG.items():
            fits = admits(parameter.annotation, value) or value is parameter.default
            fits = fits or (name, argument, label) in FITTING
            if fits and (name in LONG or value is None or isinstance(value, bool)):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    make(**{**base, argument: value})
                except ValueError as error:
                    if f"`{argument}" not in str(error) or "\n" in str(error):
                        let_through.append(f"{argument}={label}: {error}")
                except Exception as error:
                    let_through.append(f"{argument}={label}: {type(error).__name__}: {error}")
                else:
                    if not fits and label not in ("-1", "[]"):
                        let_through.append(f"{argument}={label} passes")
    assert not let_through, "\n".join(let_through)


@pytest.mark.parametrize("name", sorted({*PUBLIC} - LONG - {"by_name"}))  # which lists rules, those of tests as well
def test_long_values_are_truncated_in_messages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, base = PUBLIC[name], valid(name)
    messages = {}
    for argument in arguments_of(make):
        for label, value in MANY.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    make(**{**base, argument: value})
                except ValueError as error:
                    messages[argument, label] = str(error)
                except Exception:
                    pass  # The type of an error is tested elsewhere.
    assert not {where: text for where, text in messages.items() if len(text) > MOST_CHARACTERS}
    assert not {where: text for where, text in messages.items() if re.search(r"\d{25}|Exceeds the limit", text)}


CLUSTER, QUADRATIC = asim.Cluster(4, LAW), workloads.Quadratic([1.0])
SCENARIO = {"cluster": CLUSTER, "rule": rules.GEM(0.1), "workload": QUADRATIC, "commits": 8}
GIVE_GEM = r"Give asyncsim\.rules\.GEM\(learning_rate=…\)"
UNCALLED = [
    (lambda: asim.Scenario(**{**SCENARIO, "rule": "gem"}), "rule", rf"got 'gem'\. {GIVE_GEM}"),
    (lambda: asim.Scenario(**{**SCENARIO, "rule": "gen"}), "rule", rf"got 'gen'\. {GIVE_GEM}"),
    (lambda: asim.Scenario(**{**SCENARIO, "rule": rules.GEM}), "rule", r"got the class GEM\. Call it: GEM\("),
    (lambda: asim.replay(TRACE, "gem", QUADRATIC), "rule", rf"got 'gem'\. {GIVE_GEM}"),
    (lambda: asim.replay(TRACE, rules.GEM, SCENARIO["workload"]), "rule", r"got the class GEM\. Call it: GEM\("),
    (lambda: asim.Cluster(4, delays.Gamma), "compute", r"got the class Gamma\. Call it: Gamma\(mean=…, cv=…\)"),
    (lambda: asim.Cluster(4, "gamma"), "compute", r"got 'gamma'\. Give asyncsim\.delays\.Gamma\(mean=…, cv=…\)"),
    (lambda: asim.Cluster(4, LAW, protocol="sync"), "protocol", r"Give asyncsim\.protocols\.Synchronous\(\)"),
    (lambda: asim.rules.compressed(rules.GEM(0.1), "top_k"), "compressor", r"Give asyncsim\.compressors\.TopK\(\)"),
    (lambda: asim.statistics([0, 1]), "trace", r"Make one with Trace\.from_columns or from_commits or from_csv"),
]
TRACE = asim.Trace.from_commits([0, 1])


@pytest.mark.parametrize(("call", "argument", "remedy"), UNCALLED)
def test_what_should_have_been_called_is_said(call: Callable[[], object], argument: str, remedy: str) -> None:
    assert_refused(call, rf"^`{argument}` must be .*; .*{remedy}.*\.$")


@pytest.mark.parametrize(
    ("make", "given", "meant"),
    [
        (delays.LogNormal, {"mean": 1.0, "sigma": 2.0}, "cv"),
        (delays.Gamma, {"mena": 1.0, "cv": 2.0}, "mean"),
        (rules.GEM, {"lr": 0.1}, "learning_rate"),
        (asim.Cluster, {"n": 4, "compute": LAW}, "workers"),
        (asim.run, {"scenaro": None}, "scenario"),
        (workloads.Softmax, {"bs": 8}, "batch_size"),
        (theory.staleness_variance, {"nodes": 4}, "workers"),
        (plots.draw_loss, {"colour": "red"}, "color"),
    ],
)
def test_the_nearest_argument_is_said(make: Callable[..., object], given: dict[str, object], meant: str) -> None:
    match = rf"^`{make.__name__}` has no argument `\w+`, only .* Did you mean `{meant}`\?$"
    with pytest.raises(TypeError, match=match):
        make(**given)


@pytest.mark.parametrize(
    ("name", "meant"), [("lr", "learning_rate"), ("n", "workers"), ("bs", "batch_size"), ("mom", "momentum")]
)
def test_the_nearest_field_is_said(name: str, meant: str) -> None:
    workload = workloads.Softmax(datasets.Digits(), batch_size=8)
    with pytest.raises(ValueError, match=rf"`{name}` is not a field of this scenario\. Did you mean `{meant}`\?"):
        asim.Scenario(**{**SCENARIO, "workload": workload}).override(**{name: 0.2})


def test_numbers_of_numpy_are_numbers() -> None:
    assert delays.Gamma(np.float64(1), np.int64(1)) == delays.Gamma(1.0, 1.0)
    for numbers in ([True], []):  # which `admits` takes for values per seed
        assert_refused(partial(rules.GEM, numbers), "must be")


def test_a_check_holds_where_none_is_allowed_too() -> None:
    def twice(number: Annotated[int, require_count, "Give more."] | None = None) -> int | None:
        return number and 2 * number

    checked_twice = checked(twice)
    assert checked_twice(3) == 6
    assert checked_twice(None) is checked_twice() is None
    assert_refused(lambda: checked_twice("a"), "`number` must be an integer of at least 1; got 'a'")


CALLS: list[str] = []


@checked
def note(
    text: str,
    law: delays.Delay = LAW,
    rule: rules.Rule | None = None,
    numbers: Sequence[float] = (),
    k: Annotated[int, require_count, "Give more."] = 1,
) -> None:
    CALLS.append(text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": 1},
        {"law": delays.Gamma},
        {"law": 1.0},
        {"rule": "gem"},
        {"numbers": [1.0, "2"]},
        {"numbers": 1.0},
        {"k": 0},
        {"k": math.nan},
        {"k": 10**400},
        {"txet": "a"},
    ],
)
def test_a_refused_function_is_not_called(wrong: dict[str, object]) -> None:
    CALLS.clear()
    with pytest.raises((ValueError, TypeError), match=f"`{next(iter(wrong))}`"):
        note(**{"text": "called", **wrong})
    assert not CALLS


def test_a_function_receives_its_arguments_by_place_and_by_name_as_its_checks_return_them() -> None:
    @checked
    def both(k: Annotated[float, require_positive, "Give more."], *rest: int, **others: int) -> tuple[object, ...]:
        return k, rest, others

    assert both(1, 2, 3, l=4) == (1.0, (2, 3), {"l": 4})
    assert type(both(np.int64(1))[0]) is float
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'k'"):
        both()


CHECKS = [value for name, value in vars(_checks).items() if name.startswith("require_")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_check_is_called_with_a_name_a_value_and_keywords(check: Callable[..., object]) -> None:
    first, second, *others = inspect.signature(check).parameters.values()
    assert (first.name, second.name) == ("name", "value")
    assert {other.kind for other in others} <= {inspect.Parameter.KEYWORD_ONLY}


def test_classes_of_users_are_as_strict_as_their_explicit_checks() -> None:
    class Spring(asim.components.Component):
        path: Path
        length: float = 1.0
        coils: Annotated[int, require_count, "Give more."] = 1

    assert Spring("spring.csv").path == "spring.csv"
    assert_refused(lambda: Spring("spring.csv", length="a"), "`length` must be a number; got 'a'")
    assert_refused(lambda: Spring("spring.csv", coils=0), "`coils` must be an integer of at least 1; got 0")
    with pytest.raises(TypeError, match=r"`Spring` has no argument `lenght`, only .* Did you mean `length`\?"):
        Spring("spring.csv", lenght=1.0)
