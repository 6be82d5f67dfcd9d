"""Calls of every function of theory with an extreme argument, made from its signature."""

import inspect
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from asyncsim import delays, theory
from asyncsim.components._families import FAMILIES
from tests.delays.laws import LAWS

FUNCTIONS = [
    getattr(part, name)
    for part in (theory, theory.rollouts)
    for name in part.__all__
    if inspect.isfunction(getattr(part, name))
]
COUNTS = (1, 2, 10**3, 10**6, 10**9)
MANY = (1, 2, 40, 10**3, 10**6, 10**9)
POSITIVE = (1e-100, 1e-9, 1.0, 1e9, 1e100)
SECONDS = (0.0, *POSITIVE)
EXPONENTIAL = delays.Exponential(1.0)


def _of_cv(cv: float) -> Iterator[Any]:
    """The laws of mean 1 that have such a coefficient of variation, one of each class."""
    for kind in FAMILIES["delays"].values():
        try:
            law = kind(**kind.like(1.0, cv * cv))
        except (TypeError, ValueError):  # another class, or a spread that the class does not have
            continue
        if law.variance and math.isclose(law.variance, cv * cv, rel_tol=1e-6):
            yield law


EXTREME_LAWS = [law for cv in (1e-6, 1e-3, 10.0, 50.0, 1e3) for law in _of_cv(cv)]
EXTREME_LAWS += [
    delays.Erlang(1.0, 10**6),
    delays.HyperExponential((1e-6, 1 - 1e-6), (1e6, 1.0)),
    delays.Straggler(delays.Gamma(1.0, 1e-3), probability=1e-9, factor=1e9),
    delays.Exponential(1e-300),
    delays.Exponential(1e300),
    delays.Pareto(1.0, 1.01),
]
# Functions with numerics of their own see every law, those that call them a quarter of the extreme ones.
ALL_LAWS = {"staleness_variance", "stability_limit"}
LAW_NAMES = ("compute", "generate", "law", "pull_to_commit", "service")
USUAL: dict[str, Any] = {
    "workers": 4, "compute": EXPONENTIAL, "generate": EXPONENTIAL, "law": EXPONENTIAL, "service": EXPONENTIAL,
    "pull_to_commit": delays.Constant(0.5), "delays": [EXPONENTIAL], "before_read": [EXPONENTIAL],
    "after_read": [EXPONENTIAL], "kappa": 0.1, "momentum": 0.5, "where": "worker", "size": 20, "delay": 3, "gap": 1,
    "seconds": [1.0, 2.0], "noise": 0.1, "accuracy": 0.1, "gradients": 5, "n": 4, "k": 2, "rate": 1.0, "start": 1.0,
    "gradient": lambda x: x, "learning_rate": 0.1, "commits": 20, "eigenvalues": [1.0], "minima": [0.0, 1.0],
    "weights": [0.5, 0.5], "lags": 2, "pmf": [0.5, 0.5], "compute_rate": 1.0, "service_rate": 2.0, "slots": 8,
    "stages": 4, "micro_batches": 4, "preemption_rate": 0.1, "slack": 2, "ratio": [0.5, 1.0], "train": 0.1,
    "samples": 4, "max_age": 4, "gpus": 8, "train_rate": 4.0, "rollout_rate": 2.0, "mean": 1.0, "batches": 1,
    "outstanding": 4.0, "load": 1.5, "longest": [1.0, 2.0], "lead": 1, "batch": 4, "group": 2, "pause": 0.1,
    "in_queue": 0.5, "steps_per_second": 1.0, "busy": 300.0, "idle": 60.0, "protocol": "k_sync", "order": "window",
    "low": 1.0, "high": 3.0, "window": 4, "step": 0.1, "every": 0.5, "commits_per_push": 4, "round_trip": 1.0,
    "mixing": [[0.5, 0.5], [0.5, 0.5]], "pairs": [[0, 1], [1, 0]], "outer_step": 0.7, "curvature": 0.3, "groups": 2,
}  # fmt: skip
EXTREME: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("workers", "n", "slots", "samples", "group", "batch", "window", "sync_every", "gradients", "groups"), MANY
    ),
    **dict.fromkeys(("k", "size", "stages", "micro_batches", "batches", "steps_per_take", "commits_per_push"), COUNTS),
    **dict.fromkeys(("commits", "delay", "gap", "slack", "max_age", "lead"), (0, *COUNTS)),
    "lags": (2, 10**3, 10**9),
    **dict.fromkeys(("momentum", "worker_momentum"), (0.0, 0.999999, 1 - 2**-53)),
    **dict.fromkeys(("kappa", "accuracy", "rate", "compute_rate", "service_rate", "preemption_rate"), POSITIVE),
    **dict.fromkeys(
        ("mean", "gpus", "train_rate", "rollout_rate", "load", "cap", "forward", "learning_rate", "every"), POSITIVE
    ),
    **dict.fromkeys(("noise", "latency", "down", "train", "pause", "transfer", "busy", "idle", "step"), SECONDS),
    **dict.fromkeys(("outer_step", "curvature"), SECONDS),
    "signal": (1e-100, 0.5, 1.0),
    **dict.fromkeys(("outstanding", "in_queue", "steps_per_second", "round_trip"), SECONDS),
    "start": (0.0, 1e-100, 1e100),
    "backward": (1e-100, 1.0, 1e9),
    "low": (1e-9, 1e9),
    "high": (1e-9, 1e9),
    "seconds": ([0.0], [1e-100, 1.0], [1e-9, 1.0], [1.0, 1e9], [1e100], [1.0] * 1000),
    "longest": ([0.0], [1e-100, 1e100], [1.0] * 1000, 1e9),
    "where": ("none", "server", "worker"),
    "protocol": ("async", "sync", "k_async", "k_sync", "k_batch_async", "k_batch_sync"),
    "order": ("completion", "submission", "window", "newest", "freshest", "stalest"),
    "refill": ("sample", "group"),
    "kind": ("nesterov", "damped", "heavy_ball"),
    "rule": ("downpour", "momentum_sgd", "gem"),
    "schedule": ("pipedream", "concurrent", "2bw", "1f1b", "gpipe"),
    "ratio": ([0.0, 1e-300], [1e300]),
    "adapt_first": (False, True),
    "mixing": ([[1.0]], np.eye(300)),
    "pairs": (1 - np.eye(300),),
    **dict.fromkeys(LAW_NAMES, (*LAWS, *EXTREME_LAWS)),
    **{name: tuple([law] for law in (*LAWS, *EXTREME_LAWS)) for name in ("delays", "before_read", "after_read")},
    **dict.fromkeys(("x", "gradient", "eigenvalues", "minima", "weights", "curvatures", "pmf"), ()),
}
# Where a name has another meaning, or the usual values do not go together.
PATH = np.cumsum(np.random.default_rng(0).normal(size=(3, 60)), axis=1)
SPECIAL: dict[str, dict[str, Any]] = {
    "lyapunov_exponent": {"order": np.arange(200) % 4},
    "almost_sure_limit": {"order": np.zeros(400, int), "workers": 4},
    "averaged_momentum": {"x": PATH, "gradients": PATH},
    "least_squares_momentum": {"x": PATH, "gradients": PATH},
    "instrumental_momentum": {"x": PATH, "gradients": PATH},
    "attenuated_momentum": {"kappa": 0.1},
    "fluid": {"longest": 1.0},
    **{f"{name}_complexity": {"gap": 1.0} for name in ("minibatch", "rennala", "asynchronous")},
    "round_time_of_law": {"protocol": "k_sync"},
    "mean_value_analysis": {"slots": 1},
    "staleness_mean": {"commits": None},
}


def usual_arguments(function: Any) -> dict[str, Any]:
    """Arguments with which a function has an ordinary answer."""
    special = SPECIAL.get(function.__name__, {})
    values = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in special:
            values[name] = special[name]
        elif parameter.default is parameter.empty or name in ("momentum", "where"):
            values[name] = USUAL[name]
        elif name == "k" and "protocol" in inspect.signature(function).parameters:
            values["k"] = USUAL["k"]
    if "protocol" in inspect.signature(function).parameters:
        values["protocol"] = USUAL["protocol"]
    return values


def extreme_calls(function: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The usual arguments with an extreme one, and every law with few and many workers."""
    usual = usual_arguments(function)
    yield "", usual
    for name in inspect.signature(function).parameters:
        if name in ("order", "gradients", "gap") and name in SPECIAL.get(function.__name__, {}):
            continue
        for value in EXTREME_LAWS[::4] if name in LAW_NAMES and function.__name__ not in ALL_LAWS else EXTREME[name]:
            changed = {**usual, name: value}
            if name == "protocol" and value in ("sync", "async"):
                changed["k"] = None
            if name == "where" and value == "none":
                changed["momentum"] = 0.0
            if name == "momentum" and value == 0.0 and "where" in usual:
                changed["where"] = "none"
            yield f"{name}={value!r:.60}", changed
            if name == "compute" and function.__name__ in ALL_LAWS:
                yield f"{name}={value!r:.60}, workers=1000", {**changed, "workers": 1000}
