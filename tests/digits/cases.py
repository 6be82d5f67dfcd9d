"""The known cases: name -> function that returns the numbers of each part. Only public names, for other revisions."""

import base64
import dataclasses
import inspect
import itertools
import json
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

import asyncsim as asim
from asyncsim import delays, faults, rules, theory, workloads
from asyncsim.calibration import LogUniform, Model, Uniform, avo
from tests import tables
from tests.digits.problems import WORKLOADS
from tests.tables import CLUSTERS, CORE, GAMMA, PIPELINES, RULES, WRAPPERS, cluster

try:
    from tests.delays.laws import LAWS
except AttributeError:  # an older library lacks one of them
    LAWS = []

Parts = dict[str, Any]
Make = Callable[[], Parts]

FEW_RULES = ("downpour", "gem_script", "aeasgd")  # where each workload takes seconds to compile
ALL_RULES: dict[str, Callable[[], asim.Rule]] = {name: make for name, (make, _) in RULES.items()} | WRAPPERS


def schedule_of(made: Any, commits: int = 60) -> Parts:
    """Simulate a cluster, and return the columns of its trace that are whole numbers, the times, and statistics."""
    trace = asim.simulate(made, commits=commits, seed=1)
    times = {name: value for name, value in columns(trace).items() if name.endswith("time")}
    # The workers of rollouts are places of groups, which have no power.
    power = None if isinstance(made, asim.Rollouts) else asim.Power(300.0, 60.0)
    return {
        "schedule": {name: value for name, value in columns(trace).items() if name not in times},
        "times": times,
        "unfinished": trace.unfinished,
        "statistics": asim.statistics(trace),
        "cost": asim.cost(trace, message_bytes=10, parameter_bytes=20, power=power),
    }


def columns(trace: asim.Trace) -> dict[str, Any]:
    """Return the columns of a trace with one row per commit."""
    found = {field.name: getattr(trace, field.name) for field in dataclasses.fields(trace)}
    # Columns without content, which older revisions do not have.
    new = ("variable", "from_version") if getattr(trace, "variables", 1) == 1 else ()
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray) and name not in new}


def schedules() -> Iterator[tuple[str, Make]]:
    """Yield every law, fleet, and product of network, server, protocol and faults."""
    for law in LAWS:
        yield repr(law), lambda law=law: schedule_of(cluster(compute=law))
    for name, make in tables.FLEETS.items():
        yield name, lambda make=make: schedule_of(cluster(compute=make()))
    names = itertools.product(tables.NETWORKS, tables.SERVERS, tables.PROTOCOLS, tables.FAULTS)
    yield from ((", ".join(some), partial(_product, *some)) for some in names)


def _product(network: str, server: str, protocol: str, faults: str) -> Parts:
    parts = {"network": tables.NETWORKS[network](), "server": tables.SERVERS[server]()}
    return schedule_of(cluster(**parts, protocol=tables.PROTOCOLS[protocol](), faults=tables.FAULTS[faults]()))


# Kinds of cluster for which the engine compiles another program, and the workloads that all rules learn on them.
REPLAYED = {
    "plain": ("quadratic", "own"),
    "server own": ("quadratic",),
    "protocol k_batch_async": ("quadratic",),
    "all at once": ("quadratic", "own"),
}


def replay(made: Any, rule: asim.Rule, workload: asim.Workload, commits: int = 60, seed: Any = 2, **how: Any) -> Parts:
    """Simulate and replay."""
    run = asim.replay(asim.simulate(made, commits=commits, seed=1), rule, workload, seed=seed, **how)
    return {
        "loss": run.loss,
        "central": jax.tree.leaves(run.central),
        "state": jax.tree.leaves(run.state),
        "records": run.records,
        "evaluation": run.evaluate(),
        "diverged at": run.diverged_at,
    }


def replays() -> Iterator[tuple[str, Make]]:
    """Yield rules × clusters × workloads, and what a replay can be asked for besides."""
    for rule, kind in itertools.product(ALL_RULES, REPLAYED):
        for workload in REPLAYED[kind]:
            yield f"{rule} on {workload}, {kind}", partial(_replayed, rule, kind, workload)
    for rule, workload in itertools.product(FEW_RULES, WORKLOADS):
        if workload not in REPLAYED["plain"]:
            yield f"{rule} on {workload}, plain", partial(_replayed, rule, "plain", workload)
    record = ("energy_central", "energy_proxy", "compliance", "pi_mean", "pi_median", "pi_median_by_tensor", "read")
    for rule in ("gem_script", "gem_paper", "gem_signed", "with_proxy"):
        yield f"{rule}, recorded", partial(_replayed, rule, "plain", "own", record=(*record, "central"))
    for rule in CORE:
        yield f"{rule}, three seeds", partial(_replayed, rule, "plain", "own", seed=(0, 1, 5))
        yield f"{rule}, lanes", partial(_replayed, rule, "plain", "own", lanes=4)
        yield f"{rule}, float64", partial(_in_double_precision, rule)


def _replayed(rule: str, kind: str, workload: str, **how: Any) -> Parts:
    return replay(CLUSTERS[kind](), ALL_RULES[rule](), WORKLOADS[workload](), **how)


def _in_double_precision(rule: str) -> Parts:
    with jax.enable_x64(True):
        return _replayed(rule, "plain", "own")


SYSTEM: dict[str, Any] = {"slots": 12, "group": 2, "batch": 4, "generate": delays.LogNormal(1.0, 1.0)}
ROLLOUTS: dict[str, tuple[Any, ...]] = {
    "order": ("completion", "submission", "window", "freshest"),
    "refill": ("sample", "group"),
    "lead": (None, 1.5),
    "stale": ("drop", "abort"),
    "max_age": (None, 2),
    "during_sync": ("pause", "continue", "drain"),
    "sync_every": (1, 2),
}
MORE: dict[str, dict[str, Any]] = {
    "newest": {"order": "newest"},
    "stalest": {"order": "stalest", "lead": 1.5},
    "steps of one take": {"steps_per_take": 2, "sync_every": 2, "lead": 0},
    "groups without a signal": {"signal": 0.6, "order": "submission", "lead": 1.5},
    "faults of engines": {"engines": 3, "faults": [faults.Crash(1, 2.0, 1.0)], "during_sync": "drain"},
}
PRESETS: dict[str, dict[str, Any]] = {
    "areal": {"max_head_offpolicyness": 2},
    "nemo_rl": {"sampling": "windowed", "max_trajectory_age_steps": 2},
    "blocking_queue": {"batches": 1},
    "openrlhf": {"async_queue_size": 2},
    "prime_rl": {"max_off_policy_steps": 2},
    "queue": {"batches": 2},
    "skyrl": {"max_staleness_steps": 1, "refill": "group"},
    "roll": {"async_generation_ratio": 1},
    "slime": {"num_steps_per_rollout": 2},
    "tinker": {"max_steps_off_policy": 3},
    "tinker_ahead": {"sampling_steps_ahead": 2},
    "trl": {"max_staleness": 2, "weight_sync_steps": 2},
    "torchtitan": {"target_off_policy_steps": 1, "window": 4},
    "verl": {"staleness_threshold": 0.5, "sync": delays.Constant(0.1)},
}


def rollouts() -> Iterator[tuple[str, Make]]:
    """Yield systems of rollouts, learning from them, and pipelines."""
    for values in itertools.product(*ROLLOUTS.values()):
        chosen = dict(zip(ROLLOUTS, values, strict=True))
        if chosen["stale"] == "drop" or chosen["max_age"] is not None:
            yield ", ".join(map(str, values)), partial(_rollouts, {"window": 2} | chosen)
    for name, words in MORE.items():
        yield name, partial(_rollouts, words)
    for name, words in PRESETS.items():
        yield name, partial(_preset, name, words)
    for estimator in ("none", "ppo", "truncated", "decoupled", "gspo"):
        yield f"policy gradients, {estimator}", partial(_policy, estimator)
    for name, make in PIPELINES.items():
        yield f"pipeline {name}", lambda make=make: schedule_of(make())
        yield f"timetable {name}", partial(_timetable, name)
        for rule in ("pipemare", "spectrain"):
            yield f"{rule}, pipeline {name}", partial(_piped, name, rule)


def _rollouts(chosen: dict[str, Any]) -> Parts:
    if chosen.get("order") != "window":
        chosen = chosen | {"window": 1}
    times = {"train": delays.Gamma(0.3, 0.5), "reward": delays.Exponential(0.1), "sync": delays.Constant(0.1)}
    return _system(asim.Rollouts(**SYSTEM, **times, **chosen))


def _preset(name: str, words: dict[str, Any]) -> Parts:
    return _system(getattr(asim.rollouts, name)(**SYSTEM, train=delays.Gamma(0.3, 0.5), **words))


def _system(made: asim.Rollouts) -> Parts:
    ledger = made.ledger(commits=60, seed=1)
    return schedule_of(made) | {"ledger": ledger}


def _policy(estimator: str) -> Parts:
    made = asim.Rollouts(**SYSTEM, train=delays.Constant(0.3), lead=1.5)
    return replay(made, rules.MomentumSGD(0.5), workloads.Bits(least=[2, 3], bits=4, samples=6, estimator=estimator))


def gossip() -> Iterator[tuple[str, Make]]:
    """Yield workers on graphs, and rules on their variables."""
    for exchange, graph in itertools.product(("pair", "rounds", "adapt_then_combine"), ("ring", "complete", "star")):
        yield f"{exchange}, {graph}", partial(_gossip, exchange, graph)
    for rule in ("downpour", "gem_script", "heavy_ball", "agn_adam", "server_adam"):
        yield f"{rule}, pair, ring", partial(_on_variables, rule)


def _gossip(exchange: str, graph: str) -> Parts:
    made = asim.Gossip(5, GAMMA, graph=graph, exchange=exchange)
    return schedule_of(made) | {"mixings": asim.simulate(made, commits=60, seed=1).mixings}


def _on_variables(rule: str) -> Parts:
    return replay(asim.Gossip(5, GAMMA), ALL_RULES[rule](), WORKLOADS["mlp"](), commits=40)


def _timetable(name: str) -> Parts:
    return {"times": PIPELINES[name]().timetable(20)}


def _piped(name: str, rule: str) -> Parts:
    scenario = asim.Scenario(PIPELINES[name](), ALL_RULES[rule](), WORKLOADS["mlp"](), commits=40, seed=2)
    run = asim.run(scenario).run
    return {"loss": run.loss, "central": jax.tree.leaves(run.central), "records": run.records}


# Arguments of functions of `theory`, by their names, and those with which a name means something else.
ARGUMENTS: dict[str, Any] = {
    "accuracy": 0.1, "after_read": 1.0, "batch": 8, "batches": 2, "before_read": 0.2, "busy": 300.0, "cap": 4.0,
    "commits": 40, "compute_rate": 1.0, "curvatures": 2.0, "delay": 3, "delays": [GAMMA, delays.Constant(0.2)],
    "down": 0.5, "eigenvalues": [1.0, 0.5, 0.1], "gap": 2, "gpus": 8, "gradient": np.sin, "gradients": 12, "group": 2,
    "high": 1.5, "idle": 60.0, "in_queue": 3, "k": 2, "kappa": 0.05, "lags": 4, "latency": 0.1, "lead": 2,
    "learning_rate": 0.05, "load": 1.2, "longest": 1.5, "low": 0.1, "max_age": 3, "mean": 1.0, "micro_batches": 6,
    "minima": np.arange(12.0).reshape(4, 3) % 5, "momentum": 0.5, "n": 5, "noise": 0.3,
    "order": [0, 1, 2, 0, 2, 1, 0, 1, 1, 2] * 20, "outstanding": 20, "pause": 0.1, "pmf": [0.2, 0.3, 0.4, 0.1],
    "preemption_rate": 0.1, "pull_to_commit": delays.Constant(0.2), "rate": 1.0, "ratio": [0.2, 0.5, 1.0, 2.0],
    "rollout_rate": 1.0, "samples": 8, "seconds": [1.0, 1.5, 2.0, 4.0], "service": delays.Exponential(0.1),
    "service_rate": 6.0, "size": 30, "slack": 2, "slots": 12, "stages": 4, "start": 1.5, "steps_per_second": 2.0,
    "sync_every": 2, "train": 0.5, "train_rate": 2.0, "weights": [0.4, 0.3, 0.2, 0.1], "window": 2,
    "worker_momentum": 0.3, "workers": 4, "x": np.cos(np.arange(120).reshape(2, 60) / 3),
}  # fmt: skip
SERIES = {"gradients": np.sin(np.arange(120).reshape(2, 60) / 3)}
OTHERWISE: dict[str, dict[str, Any]] = {
    "averaged_momentum": SERIES,
    "instrumental_momentum": SERIES,
    "least_squares_momentum": SERIES,
    "mean_value_analysis": {"slots": 2},
    "in_order_steps": {"longest": [1.0, 2.0, 1.5, 3.0, 0.5]},
    "largest_staleness": {"order": "window"},
    "expected_path": {"start": [1.5, 0.5]},
    "almost_sure_limit": {"workers": 3},
    "lyapunov_exponent": {"workers": 3},
}
LAW_CHOICES = (
    *(GAMMA, delays.Exponential(1.0), delays.Constant(1.0), delays.LogNormal(1.0, 0.8), delays.Uniform(0.5, 1.5)),
    delays.fleet.two_classes(GAMMA, 4, slow=1, factor=3.0),
)
CHOICES = {
    "protocol": ("async", "sync", "k_sync", "k_async", "k_batch_sync", "k_batch_async"),
    **dict.fromkeys(("compute", "law", "generate"), LAW_CHOICES),
    "where": ("none", "worker", "server"),
    "schedule": ("pipedream", "concurrent"),
    "rule": ("downpour", "gem"),
    "forward": (1.0, 2.0),
}


def theories() -> Iterator[tuple[str, Make]]:
    """Yield every function of `theory`, with the required arguments and with all, for each choice of laws and names."""
    for module in (theory, theory.rollouts):
        for name in module.__all__:
            function = getattr(module, name)
            if not inspect.isfunction(function):
                continue
            every = inspect.signature(function).parameters
            needed = [one for one, parameter in every.items() if parameter.default is parameter.empty]
            for wanted in (needed, list(every)) if len(every) > len(needed) else (needed,):
                chosen = [one for one in wanted if one in CHOICES]
                for values in itertools.product(*(CHOICES[one] for one in chosen)):
                    text = ", ".join([f"{len(wanted)} arguments", *map(_brief, values)])
                    yield f"{name}, {text}", partial(_value, function, wanted, dict(zip(chosen, values, strict=True)))


def _brief(value: Any) -> str:
    return "two classes" if isinstance(value, tuple) else str(value)


def _value(function: Callable[..., Any], wanted: list[str], chosen: dict[str, Any]) -> Parts:
    known = ARGUMENTS | OTHERWISE.get(function.__name__, {}) | chosen
    names = {*wanted}
    if "protocol" in chosen:
        names = names | {"k"} if chosen["protocol"].startswith("k_") else names - {"k"}
    if chosen.get("where") == "none":
        known["momentum"] = 0.0
    return {"value": function(**{name: known[name] for name in sorted(names) if name in known})}


def whole(p: dict[str, float]) -> asim.Cluster:
    """Build the cluster of a calibration's model."""
    network = asim.Network(latency=delays.Exponential(p["latency"]))
    return cluster(compute=delays.Gamma(p["mean"], p["cv"]), network=network, server=_served(p))


def simple(p: dict[str, float]) -> asim.Cluster:
    """Build a smaller one, for calibration by simulation."""
    return cluster(compute=delays.Gamma(p["mean"], p["cv"]), server=_served(p))


def _served(p: dict[str, float]) -> asim.Server:
    return asim.Server(service=delays.Exponential(p["service"]))


PRIOR = {"mean": LogUniform(0.1, 10), "cv": Uniform(0.05, 1.0), "service": LogUniform(1e-3, 1)}
TRUTH = {"mean": 2.0, "cv": 0.3, "service": 0.2, "latency": 0.1}
LOGS: dict[str, Callable[[], asim.Cluster]] = {
    **{name: CLUSTERS[name] for name in ("plain", "in turn", "fleet two_classes", "fleet gamma_machines")},
    **{name: CLUSTERS[name] for name in ("network latency", "server queue", "server pulls", "server own")},
    "network and server": partial(whole, TRUTH),
    "stragglers": lambda: cluster(compute=delays.Straggler(GAMMA, probability=0.1, factor=5.0)),
}
FITTED = ("gamma", "lognormal", "weibull", "exponential", "shifted_exponential", "half_normal", "hyperexponential")


def calibrations() -> Iterator[tuple[str, Make]]:
    """Yield fits by likelihood, of models, of rollouts, by AVO, and by simulation."""
    for name in LOGS:
        yield f"likelihood, {name}", partial(_fit, name)
    for law in FITTED:
        yield f"likelihood, {law}", partial(_fit, "plain", law=law)
    yield "likelihood, equal workers", partial(_fit, "fleet two_classes", by_worker=False)
    yield "likelihood, commits alone", partial(_fit, "plain", alone=True, method="likelihood")
    model = Model(whole, PRIOR | {"latency": LogUniform(1e-3, 1)})
    yield "model", partial(_fit, "network and server", model=model, method="likelihood")
    yield "rollouts", _fit_rollouts
    for version, baseline in itertools.product((1, 2), ("none", "mean", "optimal")):
        yield f"avo {version}, {baseline}", partial(_avo, version, baseline)
    yield "simulation", partial(_fit, "server queue", alone=True, model=Model(simple, PRIOR), simulations=500, jobs=0)


def _fit(name: str, alone: bool = False, **how: Any) -> Parts:
    log = asim.simulate(LOGS[name](), commits=200, seed=3)
    if alone:
        log = asim.Trace.from_commits(log.worker, log.commit_time, workers=log.workers)
    return _fitted(asim.calibrate(log, seed=1, **how))


def _fit_rollouts() -> Parts:
    made = asim.Rollouts(**SYSTEM | {"batch": 8}, train=delays.Gamma(0.3, 0.5), lead=2.0)
    trace = asim.simulate(made, commits=300, seed=3)
    times = {"opened": trace.start_time, "ready": trace.arrive_time, "taken": trace.serve_time}
    return _fitted(asim.calibrate(asim.Trace.from_rollouts(**times, trained=trace.commit_time), made, seed=1))


def _fitted(fit: asim.Fit) -> Parts:
    with tempfile.TemporaryDirectory() as folder:
        fit.save(Path(folder, "fit.json"))
        again = asim.Fit.load(Path(folder, "fit.json"))
    return {
        "estimates": _estimates(fit),
        "draws": fit.draws,
        "sample": [asim.simulate(one, commits=20, seed=0).commit_time for one in fit.sample(3)],
        "check": _compared(fit.check(8)),
        "evidence": [_compared(fit.evidence.laws), fit.evidence.widths, fit.evidence.coverage],
        "file": [_estimates(again), again.draws],
    }


def _compared(checks: Mapping[str, Any]) -> dict[str, list[float]]:
    return {name: [check.log, check.mean, check.sd, check.p_value] for name, check in checks.items()}


def _estimates(fit: asim.Fit) -> list[list[float]]:
    found = {name: fit.parameters[name] for name in sorted(fit.parameters)}
    return [[one.estimate, one.low, one.high, one.identifiable] for one in found.values()]


def _avo(version: int, baseline: str) -> Parts:
    data = np.random.default_rng(0).poisson(4.0, (256, 1)).astype(float)
    steps = {"steps": 4, "critic_steps": 4, "pretraining": 4} if version == 1 else {"steps": 20}
    found = avo(_poisson, data, [2.0], [0.5], version=version, baseline=baseline, seed=1, **steps)
    return {"found": found}


def _poisson(generator: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    return generator.poisson(np.maximum(theta, 0.1)).astype(float)


FILMED = (
    "plain", "in turn", "fleet two_classes", "network shared", "server queue", "server own", "protocol sync",
    "protocol ringmaster, stopping", "protocol k_batch_async", "faults crash",
)  # fmt: skip


def movies() -> Iterator[tuple[str, Make]]:
    """Yield the view without a model of several clusters, and landscapes."""
    for name in FILMED:
        yield f"gravity, {name}", partial(_movie, name)
    for name in ("plain", "server queue", "faults crash"):
        yield f"landscape, {name}", partial(_landscape, name)
    yield "principal directions", _principal


def _movie(name: str) -> Parts:
    return _filmed(asim.animate(asim.simulate(CLUSTERS[name](), commits=40, seed=1), predicted=np.full(12, 1 / 12)))


def _landscape(name: str) -> Parts:
    trace = asim.simulate(CLUSTERS[name](), commits=40, seed=1)
    record = {"central": 1, "read": 1, "mechanism": asim.animation.mechanism}
    surface = workloads.Surface("booth", start=(8.0, 6.0))
    chosen = {"gem": rules.GEM(0.01), "downpour": rules.Downpour(0.01)}
    runs = {key: asim.replay(trace, rule, surface, record=record) for key, rule in chosen.items()}
    return _filmed(asim.animate(trace, runs))


def _principal() -> Parts:
    trace = asim.simulate(cluster(), commits=40, seed=1)
    run = asim.replay(trace, rules.GEM(0.02), WORKLOADS["quadratic"](), record=("central", "read"))
    return _filmed(asim.animate(trace, run, view="landscape", directions="principal"))


def _filmed(movie: asim.Movie) -> Parts:
    from PIL import Image, ImageSequence

    packed = re.search(r'id="film">([^<]*)<', movie.page())
    with tempfile.TemporaryDirectory() as folder:
        movie.gif(Path(folder, "movie.gif"), seconds=1.0, rate=3.0)
        with Image.open(Path(folder, "movie.gif")) as pictures:
            frames = [np.asarray(one.convert("RGB")) for one in ImageSequence.Iterator(pictures)]
    return {
        "page": packed and json.loads(zlib.decompress(base64.b64decode(packed[1]))),
        "frames": frames,
        "states": [movie.at(second) for second in (0.0, 2.5, 6.0)],
        "chapters": [chapter.seconds for chapter in movie.chapters],
    }


def _run() -> tuple[asim.Trace, asim.Run]:
    trace = asim.simulate(CLUSTERS["server queue"](), commits=200, seed=1)
    record = ("energy_central", "energy_proxy", "pi_mean", "pi_median")
    return trace, asim.replay(trace, rules.GEM(0.02), WORKLOADS["own"](), record=record)


def _of_run(name: str) -> Callable[[Any], Any]:
    return lambda ax: getattr(asim.plots, name)(ax, _run()[1])


def _of_trace(name: str) -> Callable[[Any], Any]:
    return lambda ax: getattr(asim.plots, name)(ax, _run()[0])


SHARES = [[1, 1, 0], [1, 0.5, 0]]
PICTURES: dict[str, Callable[[Any], Any]] = {
    "draw_band": lambda ax: asim.plots.draw_band(ax, [1, 2, 4], [0.9, 1.8, 3], [1, 2, 3.5], [1.1, 2.2, 4], [1, 2, 4]),
    "draw_energies": _of_run("draw_energies"),
    "draw_label_counts": lambda ax: asim.plots.draw_label_counts(ax, [[3, 0], [0, 5], [1, 1]]),
    "draw_loss": _of_run("draw_loss"),
    "draw_pi": _of_run("draw_pi"),
    "draw_proposal": lambda ax: asim.plots.draw_proposal(ax, 2.0, 0.5),
    "draw_report": lambda ax: _report(ax.figure),
    "draw_seeds": lambda ax: asim.plots.draw_seeds(ax, [1, 2], [[1.0, 2.0], [3.0, np.nan], [5.0, 4.0]]),
    "draw_stability": lambda ax: asim.plots.draw_stability(ax, [1, 2], [0.5, 1, 2], SHARES, limits={"a": [2.0, 1.28]}),
    "draw_staleness": _of_trace("draw_staleness"),
    "draw_staleness_by_worker": _of_trace("draw_staleness_by_worker"),
    "draw_throughput": lambda ax: asim.plots.draw_throughput(ax, [1, 2, 4], [1.0, 1.9, 3.1], knee=4.0, limit=4.0),
    "draw_time_budget": lambda ax: asim.plots.draw_time_budget(
        ax, asim.cost(_run()[0], message_bytes=0, parameter_bytes=0)
    ),
    "draw_timeline": _of_trace("draw_timeline"),
    "draw_timetable": lambda ax: asim.plots.draw_timetable(ax, PIPELINES["1f1b"]().timetable(8)),
    "draw_worker_losses": lambda ax: asim.plots.draw_worker_losses(ax, [0.1, 0.5], [0.75, 0.25]),
}


def _report(figure: Any) -> None:
    figure.clear()
    asim.plots.draw_report(figure, *_run(), "A title")


def pictures() -> Iterator[tuple[str, Make]]:
    """Yield every function that draws, and the pictures of a run and of a comparison."""
    for name in PICTURES:
        yield name, partial(_picture, name)
    yield "run", partial(_page, asim.run)
    yield "comparison", _comparison


def _picture(name: str) -> Parts:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with asim.plots.style():
        figure = Figure(figsize=(6, 4))
        canvas = FigureCanvasAgg(figure)
        PICTURES[name](figure.subplots())
        canvas.draw()
    return {"pixels": np.array(canvas.buffer_rgba())}


def _scenario(rule: asim.Rule) -> asim.Scenario:
    return asim.Scenario(cluster(), rule, WORKLOADS["quadratic"](), commits=200)


def _page(run: Callable[[asim.Scenario, Path], Any]) -> Parts:
    return _drawn(lambda folder: run(_scenario(rules.GEM(0.02)), folder))


def _comparison() -> Parts:
    compared = {"gem": _scenario(rules.GEM(0.02)), "downpour": _scenario(rules.Downpour(0.02))}
    return _drawn(lambda folder: asim.compare(asim.Comparison(compared), folder))


def _drawn(write: Callable[[Path], Any]) -> Parts:
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        result = write(Path(folder, "out"))
        with Image.open(Path(folder, "out", "report.png")) as picture:
            return {"pixels": np.asarray(picture), "summary": _without_clock(getattr(result, "summary", {}))}


def _without_clock(summary: Any) -> dict[str, Any]:
    """Return a summary's numbers without the seconds that this machine took."""
    return {name: value for name, value in summary.items() if not re.search("second|version|digest", name)}


GROUPS: dict[str, Callable[[], Iterator[tuple[str, Make]]]] = {
    "schedules": schedules,
    "replays": replays,
    "rollouts": rollouts,
    "gossip": gossip,
    "theory": theories,
    "calibrations": calibrations,
    "movies": movies,
    "pictures": pictures,
}


def all_cases() -> dict[str, Make]:
    """Return the cases of all groups by their full names."""
    return {f"{group}/{name}": make for group, cases in GROUPS.items() for name, make in cases()}
