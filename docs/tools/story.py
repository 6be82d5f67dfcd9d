"""Measure the numbers that the tutorials claim: `python docs/tools/story.py [QUESTION …]` writes reference/story.csv.

Each question has several settings, and each setting is measured at several step sizes, on six schedules, with twelve
seeds of initial parameters and mini-batches on each schedule. A row of the table has a column for each schedule. All
seeds and step sizes of a schedule run in one program, so the whole table takes about an hour on one core. The
pages read it with `docs/tools/measured.py`.
"""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

import asyncsim as asim
from asyncsim import compressors, delays, protocols, rules

TABLE = Path(__file__).parents[1] / "reference" / "story.csv"
SCHEDULES, SEEDS = 6, 12
KEYS = ("question", "setting", "quantity", "step size")
GAMMA = delays.Gamma(mean=1.0, cv=0.3)
DIGITS = asim.datasets.Digits()
ONE_PORT: dict[str, Any] = {"shared": True, "duplex": "full"}  # of a server on a switch, for all its workers

Row = tuple[str, str, str, float, list[float]]
Measure = Callable[[asim.Trace, asim.Run], dict[str, np.ndarray]]


def two_slow(workers: int = 16, slow: int = 2) -> Any:
    """Return the compute times of the story: some workers take three times as long."""
    return delays.fleet.two_classes(GAMMA, workers=workers, slow=slow, factor=3.0) if slow else GAMMA


def cluster(
    workers: int, slow: int, protocol: Any = None, collective: str = "none", latency: float = 0.01
) -> asim.Cluster:
    """Return the cluster of lesson 3 with a protocol, with its server or with a ring all-reduce instead."""
    network = asim.Network(
        latency=delays.Exponential(latency), bandwidth=1.25e9, message_bytes=20e6, collective=collective
    )
    server = asim.Server() if collective == "ring" else asim.Server(service=delays.Constant(0.05))
    chosen = protocol or protocols.Asynchronous()
    return asim.Cluster(workers, two_slow(workers, slow), network=network, server=server, protocol=chosen)


def grid(low: float, high: float) -> np.ndarray:
    """Return step sizes from `low` to `high`, each √2 times the one before."""
    return low * 2 ** (np.arange(round(2 * np.log2(high / low)) + 1) / 2)


def measure(
    question: str,
    setting: str,
    schedule: Callable[[int], asim.Trace],
    rule: Callable[[np.ndarray], Any],
    steps: np.ndarray,
    workload: Any,
    values: Measure,
) -> Iterator[Row]:
    """Replay every step size and seed on each schedule, and yield a row for each quantity and step size."""
    found: dict[str, list[np.ndarray]] = {}
    for seed in range(SCHEDULES):
        trace = schedule(seed)
        seeds = list(range(SEEDS)) * len(steps)
        run = asim.replay(trace, rule(np.repeat(steps, SEEDS)), workload, seed=seeds, stop_on_divergence=False)
        for quantity, each in values(trace, run).items():
            found.setdefault(quantity, []).append(each)
    for quantity, columns in found.items():
        for step, row in zip(steps, np.transpose(columns), strict=True):
            yield question, setting, quantity, step, row.tolist()


def by_seed(values: Any) -> np.ndarray:
    """Return (steps, seeds, …) of values whose first axis has all seeds of a step after another."""
    return np.asarray(values).reshape(-1, SEEDS, *np.shape(values)[1:])


def seconds_below(target: float, edges: np.ndarray) -> Measure:
    """Measure the end of the first interval in which the median loss over the seeds is below the target."""

    def values(trace: asim.Trace, run: asim.Run) -> dict[str, np.ndarray]:
        under = np.median(by_seed(asim.loss_against_time(trace, run, edges)), axis=1) < target
        return {"seconds": np.where(under.any(axis=1), edges[1 + under.argmax(axis=1)], np.inf)}

    return values


def loss_before(*ends: float, width: float = 5.0) -> Measure:
    """Measure the mean loss over the seeds in the last seconds before some times."""

    def values(trace: asim.Trace, run: asim.Run) -> dict[str, np.ndarray]:
        return {
            f"loss after {end:g} s": by_seed(asim.loss_against_time(trace, run, [end - width, end])[..., 0]).mean(
                axis=1
            )
            for end in ends
        }

    return values


def at_the_end(trace: asim.Trace, run: asim.Run) -> dict[str, np.ndarray]:
    """Measure the median final loss, the mean test accuracy and its standard deviation over the seeds."""
    accuracy = by_seed(run.evaluate()["test_accuracy"])
    return {
        "final loss": np.median(by_seed(run.final_loss()), axis=1),
        "test accuracy": accuracy.mean(axis=1),
        "its standard deviation": accuracy.std(axis=1, ddof=1),
        "learned": (by_seed(run.final_loss()) < 1).mean(axis=1),
    }


def story() -> Iterator[Row]:
    """Seconds to a loss of 0.1 on the cluster of lesson 3 (lessons 5 and 7)."""
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32)
    wait = protocols.Synchronous()
    ring: dict[str, Any] = {"protocol": wait, "collective": "ring"}
    settings = {
        "4, asynchronous": (cluster(4, 0), rules.Downpour, grid(0.025, 0.8)),
        "16, asynchronous": (cluster(16, 2), rules.Downpour, grid(0.0125, 0.4)),
        "14 fast, asynchronous": (cluster(14, 0), rules.Downpour, grid(0.0125, 0.4)),
        "16, 4-async": (cluster(16, 2, protocols.KAsync(4)), rules.Downpour, grid(0.05, 0.8)),
        "4, synchronous": (cluster(4, 0, wait), rules.Downpour, grid(0.2, 3.2)),
        "16, synchronous": (cluster(16, 2, wait), rules.Downpour, grid(0.2, 3.2)),
        "16, 2 backups": (cluster(16, 2, protocols.Synchronous(backup=2)), rules.Downpour, grid(0.2, 3.2)),
        "14 fast, synchronous": (cluster(14, 0, wait), rules.Downpour, grid(0.2, 3.2)),
        "4, all-reduce": (cluster(4, 0, **ring), rules.Downpour, grid(0.2, 3.2)),
        "16, all-reduce": (cluster(16, 2, **ring), rules.Downpour, grid(0.2, 3.2)),
        "14 fast, all-reduce": (cluster(14, 0, **ring), rules.Downpour, grid(0.2, 3.2)),
        "4, all-reduce, 0.1 ms": (cluster(4, 0, **ring, latency=1e-4), rules.Downpour, grid(0.2, 3.2)),
        "16, all-reduce, 0.1 ms": (cluster(16, 2, **ring, latency=1e-4), rules.Downpour, grid(0.2, 3.2)),
        "14 fast, all-reduce, 0.1 ms": (cluster(14, 0, **ring, latency=1e-4), rules.Downpour, grid(0.2, 3.2)),
        "4, GEM": (cluster(4, 0), rules.GEM, grid(0.05, 1.6)),
        "16, GEM": (cluster(16, 2), rules.GEM, grid(0.05, 1.6)),
    }
    values = seconds_below(0.1, np.arange(0, 401, 5))
    for name, (each, rule, steps) in settings.items():
        schedule = lambda seed, each=each: asim.simulate(each, seconds=400, seed=seed)  # noqa: E731
        yield from measure("story", name, schedule, rule, steps, workload, values)


def four_protocols() -> Iterator[Row]:
    """Losses after 15, 50 and 150 s under the four protocols of lesson 5."""
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32)
    kinds = {
        "synchronous": (protocols.Synchronous(), grid(0.2, 3.2)),
        "synchronous, 2 backups": (protocols.Synchronous(backup=2), grid(0.2, 3.2)),
        "4-async": (protocols.KAsync(4), grid(0.05, 0.8)),
        "asynchronous": (protocols.Asynchronous(), grid(0.0125, 0.4)),
    }
    for name, (protocol, steps) in kinds.items():
        each = asim.Cluster(16, two_slow(), protocol=protocol)
        schedule = lambda seed, each=each: asim.simulate(each, seconds=150, seed=seed)  # noqa: E731
        yield from measure("protocols", name, schedule, rules.Downpour, steps, workload, loss_before(15, 50, 150))


def steady() -> Iterator[Row]:
    """Seconds to a loss of 0.2 of equal workers with more or less irregular times (lesson 5)."""
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32)
    kinds = {
        "synchronous": (protocols.Synchronous(), grid(0.2, 3.2)),
        "asynchronous": (protocols.Asynchronous(), grid(0.0125, 0.4)),
    }
    for cv in (0.02, 0.1, 0.3):
        for name, (protocol, steps) in kinds.items():
            each = asim.Cluster(16, delays.Gamma(mean=1.0, cv=cv), protocol=protocol)
            schedule = lambda seed, each=each: asim.simulate(each, seconds=80, seed=seed)  # noqa: E731
            values = seconds_below(0.2, np.arange(0, 81, 2))
            yield from measure("steady", f"{name}, cv {cv:g}", schedule, rules.Downpour, steps, workload, values)


def two_rules() -> Iterator[Row]:
    """Losses and accuracies of GEM and DOWNPOUR after 100 commits of each of 16 workers (lesson 8)."""
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32)
    each = asim.Cluster(16, GAMMA)
    for name, rule, steps in (("GEM", rules.GEM, grid(0.05, 1.6)), ("DOWNPOUR", rules.Downpour, grid(0.0125, 0.4))):
        schedule = lambda seed: asim.simulate(each, commits=1600, seed=seed)  # noqa: E731
        yield from measure("rules", name, schedule, rule, steps, workload, at_the_end)


def tolerance() -> Iterator[Row]:
    """Accuracies of one machine, GEM and DOWNPOUR over step sizes, with equal and with own data (lesson 7)."""
    own = asim.datasets.partition(DIGITS, workers=20, by="dirichlet", alpha=0.1, least=32, seed=0)
    each, steps = asim.Cluster(20, GAMMA), np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.6])
    alone = asim.Trace.from_commits([0] * 4000)  # one schedule, whatever the seed
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32)
    yield from measure("tolerance", "one machine", lambda seed: alone, rules.MomentumSGD, steps, workload, at_the_end)
    kinds = {"same data": DIGITS, "own data": own}
    for label, data in kinds.items():
        workload = asim.workloads.MLP(data, hidden=(32,), batch_size=32)
        for name, rule in (("GEM", rules.GEM), ("DOWNPOUR", rules.Downpour)):
            schedule = lambda seed: asim.simulate(each, commits=4000, seed=seed)  # noqa: E731
            yield from measure("tolerance", f"{label}, {name}", schedule, rule, steps, workload, at_the_end)


def gaps() -> Iterator[Row]:
    """Final losses of GEM with commits of others between pull and commit (lesson 7)."""
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32)
    for seconds in (0.0, 0.25, 0.5, 1.0):
        apart = asim.Server(atomic=False, resume="own", pull_to_commit=delays.Constant(seconds))
        each = asim.Cluster(20, GAMMA, server=apart)
        schedule = lambda seed, each=each: asim.simulate(each, commits=3000, seed=seed)  # noqa: E731
        steps = np.array([0.1, 0.2, 0.4])
        yield from measure("gaps", f"{seconds:g} s", schedule, rules.GEM, steps, workload, at_the_end)


def shapes() -> Iterator[Row]:
    """Final losses of DOWNPOUR with one mean staleness and three shapes (lesson 4)."""
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32)
    laws = {"constant": delays.Constant(1.0), "gamma, cv 0.3": GAMMA, "exponential": delays.Exponential(1.0)}
    for workers, commits, steps in ((16, 3200, [0.05, 0.1, 0.2]), (40, 4000, [0.01, 0.02, 0.04, 0.08])):
        for name, law in laws.items():
            each = asim.Cluster(workers, law)
            schedule = lambda seed, each=each, commits=commits: asim.simulate(each, commits=commits, seed=seed)  # noqa: E731
            setting, sizes = f"{workers}, {name}", np.array(steps)
            yield from measure("shapes", setting, schedule, rules.Downpour, sizes, workload, at_the_end)


def tuned() -> Iterator[Row]:
    """Final losses after a minute of 16 GPUs, two of them slow (tune.md)."""
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=16)
    kinds = {
        "asynchronous": protocols.Asynchronous(),
        "4-async": protocols.KAsync(4),
        "synchronous": protocols.Synchronous(),
    }
    for name, protocol in kinds.items():
        for label, rule in (("DOWNPOUR", rules.Downpour), ("GEM", rules.GEM)):
            each = asim.Cluster(16, two_slow(), protocol=protocol)
            schedule = lambda seed, each=each: asim.simulate(each, seconds=60, seed=seed)  # noqa: E731
            yield from measure("tuned", f"{name}, {label}", schedule, rule, grid(0.025, 3.2), workload, at_the_end)


def more_workers() -> Iterator[Row]:
    """Seconds to a loss of 0.1 and losses after 60 s of 8 and 40 equal workers, also behind a busy server (tune.md)."""
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32)
    servers = {"": asim.Server(), ", busy server": asim.Server(service=delays.Constant(0.05))}
    low = {8: 0.025, 40: 0.00625}
    kinds: dict[str, tuple[Callable[..., Any], Any, dict[int, float]]] = {
        "plain": (rules.Downpour, protocols.Asynchronous(), low),
        "divided by staleness": (rules.AdaptiveStaleness, protocols.Asynchronous(), {8: 0.2, 40: 0.2}),
        "GEM": (rules.GEM, protocols.Asynchronous(), {8: 0.1, 40: 0.1}),
        "synchronous": (rules.Downpour, protocols.Synchronous(), {8: 0.2, 40: 0.2}),
    }

    def values(trace: asim.Trace, run: asim.Run) -> dict[str, np.ndarray]:
        return seconds_below(0.1, np.arange(0, 101, 2))(trace, run) | loss_before(60)(trace, run)

    for (where, server), (name, (rule, protocol, lows)) in product(servers.items(), kinds.items()):
        for workers, lowest in lows.items():
            if where and name in ("divided by staleness", "synchronous"):
                continue
            each = asim.Cluster(workers, GAMMA, server=server, protocol=protocol)
            schedule = lambda seed, each=each: asim.simulate(each, seconds=100, seed=seed)  # noqa: E731
            setting = f"{workers}, {name}{where}"
            yield from measure("more", setting, schedule, rule, grid(lowest, 16 * lowest), workload, values)


def fixed_batch() -> Iterator[Row]:
    """Seconds to a loss of 0.1 where 256 samples are divided among the workers of a ring or of a server (tune.md)."""
    links: dict[str, Any] = {"latency": delays.Constant(1e-4), "bandwidth": 1.25e9, "message_bytes": 20e6}
    for workers in (8, 16, 32):
        workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=256 // workers)
        law = delays.for_batch(256 // workers, per_sample=0.032, overhead=0.1, cv=0.1)
        one_by_one = (
            protocols.Asynchronous(),
            asim.Server(service=delays.Constant(0.005)),
            grid(0.25 / workers, 4 / workers),
        )
        kinds: dict[str, tuple[dict[str, Any], Any, Any, np.ndarray]] = {
            "all-reduce": ({"collective": "ring"}, protocols.Synchronous(), asim.Server(), grid(0.2, 3.2)),
            "asynchronous": ({}, *one_by_one),
            "one port": (ONE_PORT, *one_by_one),
        }
        until = 40 + 640 // workers
        for name, (sharing, protocol, server, steps) in kinds.items():
            network = asim.Network(**links, **sharing)
            each = asim.Cluster(workers, law, network=network, server=server, protocol=protocol)
            schedule = lambda seed, each=each, until=until: asim.simulate(each, seconds=until, seed=seed)  # noqa: E731
            values = seconds_below(0.1, np.arange(0, until + 1))
            yield from measure("batch", f"{name}, {workers}", schedule, rules.Downpour, steps, workload, values)


class Half(compressors.Compressor, named=False):
    """Every number in 16 bits, as DDP's fp16_compress_hook sends it."""

    def compress(self, key: Any, update: Any, state: Any) -> tuple[Any, Any]:
        """Round to float16 and back."""
        return jax.tree.map(lambda x: x.astype("float16").astype(x.dtype), update), state

    def bytes(self, params: Any) -> int:
        """Count half of those in float32."""
        return asim.compressors.bytes_of(params) // 2

    def delta(self, params: Any) -> float:
        """Return δ of eleven significant bits."""
        return 1 - 2.0**-22


def compression() -> Iterator[Row]:
    """Seconds to a loss of 0.1 of 16 ranks at 10 Gb/s and 400 MB with each compressor (frameworks.md)."""
    workload, workers = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32), 16
    params = jax.eval_shape(workload.init, jax.random.key(0))
    kinds = {
        "none": compressors.Identity(),
        "fp16": Half(),
        "rank 1": compressors.LowRank(1),
        "signs": compressors.ScaledSign(),
        "top 10 %": compressors.TopK(0.1),
        "top 1 %": compressors.TopK(0.01),
    }
    law, links = delays.Gamma(mean=0.25, cv=0.05), {"latency": delays.Constant(20e-6), "bandwidth": 1.25e9}
    for name, compressor in kinds.items():
        share = compressor.bytes(params) / compressors.bytes_of(params)
        # Places and signs of several ranks cannot be added: each rank gathers all messages, n·f/2 of a ring's bytes.
        sent = share * workers / 2 if name.startswith(("signs", "top")) else share
        ring = asim.Network(**links, message_bytes=400e6 * sent, collective="ring")
        apart = asim.Network(**links, message_bytes=400e6, compression=share)
        port = replace(apart, **ONE_PORT)
        clusters = {
            "all-reduce": (asim.Cluster(workers, law, ring, protocol=protocols.Synchronous()), grid(0.4, 3.2), 80),
            "asynchronous": (asim.Cluster(workers, law, apart), grid(0.025, 0.2), 80),
            "one port": (asim.Cluster(workers, law, port), grid(0.025, 0.2), 480),
        }
        for label, (each, steps, until) in clusters.items():
            rule = lambda rates, compressor=compressor: rules.compressed(rules.Downpour(rates), compressor)  # noqa: E731
            schedule = lambda seed, each=each, until=until: asim.simulate(each, seconds=until, seed=seed)  # noqa: E731
            values = seconds_below(0.1, np.arange(until + 1))
            yield from measure("compression", f"{label}, {name}", schedule, rule, steps, workload, values)


def quadratic() -> Iterator[Row]:
    """Seconds until the mean square error stays below 0.01, over 100 copies on each schedule (lesson 5)."""
    kinds = {
        "synchronous": (protocols.Synchronous(), 0.05 * 1.1 ** np.arange(38)),
        "asynchronous": (protocols.Asynchronous(), 0.05 / 16 * 1.1 ** np.arange(38)),
    }
    copies = 100
    for noise in (0.3, 1.0):
        for cv in (0.02, 0.1, 0.3):
            for name, (protocol, steps) in kinds.items():
                columns = []
                for seed in range(SCHEDULES):
                    each = asim.Cluster(16, delays.Gamma(mean=1.0, cv=cv), protocol=protocol)
                    trace = asim.simulate(each, seconds=30, seed=seed)
                    run = asim.replay(
                        trace,
                        rules.Downpour(np.repeat(steps, copies)),
                        asim.workloads.Quadratic([1.0], noise=noise),
                        seed=list(range(copies)) * len(steps),
                        record={"central": 1},
                        stop_on_divergence=False,
                    )
                    x = run.records["central"][..., 0].clip(-100, 100).reshape(len(steps), copies, -1)
                    below = (x**2).mean(axis=1) < 0.01
                    stays = np.logical_and.accumulate(below[:, ::-1], axis=1)[:, ::-1]
                    first = trace.commit_time[np.argmax(stays, axis=1)]
                    columns.append(np.where(stays[:, -1], first, np.inf))
                for step, row in zip(steps, np.transpose(columns), strict=True):
                    yield "quadratic", f"{name}, σ {noise:g}, cv {cv:g}", "seconds", step, row.tolist()


def limits() -> Iterator[Row]:
    """Largest stable η·h of almost every run, for fleets of five sizes (lesson 4). The schedules are the sample."""
    rare = delays.Straggler(delays.Gamma(mean=1 / 1.45, cv=0.2), probability=0.05, factor=10)
    irregular, busy = delays.Exponential(1.0), asim.Server(service=delays.Exponential(1 / 8))
    fleets: dict[str, Callable[[int], Any]] = {
        "constant": lambda n: delays.Constant(1.0),
        **{f"gamma, cv {cv:g}": lambda n, cv=cv: delays.Gamma(mean=1.0, cv=cv) for cv in (0.3, 0.5, 0.7, 1.0)},
        "stragglers": lambda n: rare,
        "half three times slower": lambda n: two_slow(n, n // 2),
        "one three times slower": lambda n: two_slow(n, 1),
        "two five times faster": lambda n: delays.fleet.two_classes(GAMMA, workers=n, slow=n - 2, factor=5.0),
        "worker i takes i times as long": lambda n: delays.fleet.linear(GAMMA, n),
    }
    clusters = {name: lambda n, law=law: asim.Cluster(n, law(n)) for name, law in fleets.items()}
    clusters["gamma, cv 1, 8 commits per second"] = lambda n: asim.Cluster(n, irregular, server=busy)
    for name, cluster in clusters.items():
        for n in (4, 8, 16, 40, 64):
            orders = (asim.simulate(cluster(n), commits=20_000, seed=seed).worker for seed in range(SCHEDULES))
            values = [asim.theory.almost_sure_limit(order, low=0.01, high=3.0) for order in orders]
            yield "limits", f"{n}, {name}", "limit", np.nan, values


def leads() -> Iterator[Row]:
    """Mean and largest staleness of 500 steps without the first 50 (lesson 11). A column combines two seeds."""
    for order in ("completion", "stalest", "submission"):
        for lead in (0, 1, 2, 4, 8, 16):
            yield from ages("leads", f"{order}, lead {lead}", lead=lead, order=order)


def knobs() -> Iterator[Row]:
    """Return the same as `leads` for each setting that may bound staleness (lesson 11)."""
    settings: dict[str, dict[str, Any]] = {
        "none": {},
        "lead": {"lead": 2},
        "lead, batch 32": {"lead": 2, "batch": 32, "train": delays.Constant(60.0)},
        "submission": {"lead": 2, "order": "submission"},
        "window 8": {"lead": 2, "order": "window", "window": 8},
        "window 16": {"lead": 2, "order": "window", "window": 16},
        "max_age, drop": {"max_age": 2},
        "max_age, abort": {"max_age": 2, "stale": "abort"},
        "max_age, takes of 4": {"max_age": 2, "steps_per_take": 4},
        "lead, max_age 4": {"lead": 2, "max_age": 4},
        "capacity": {"capacity": 16},
        "drain": {"lead": 2, "during_sync": "drain"},
        "pause": {"lead": 2, "during_sync": "pause", "sync": delays.Constant(2.0)},
        "continue": {"lead": 2, "during_sync": "continue", "sync": delays.Constant(2.0)},
    }
    for name, arguments in settings.items():
        yield from ages("knobs", name, **arguments)


def ages(question: str, setting: str, **arguments: Any) -> Iterator[Row]:
    """Yield staleness, throughput and waste of the engines of lesson 11 with these arguments."""
    usual = {"slots": 96, "group": 4, "batch": 8, "generate": delays.LogNormal(mean=30.0, cv=1.0)}
    system = asim.Rollouts(**usual | {"train": delays.Constant(15.0)} | arguments)
    commits = 500 * system.batch
    found = [system.ledger(commits=commits, seed=seed).summary(warm_up=50) for seed in range(2 * SCHEDULES)]
    pairs = list(zip(found[::2], found[1::2], strict=True))
    for name in ("group_staleness", "staleness_max", "samples_per_second", "wasted"):
        combine = np.max if name == "staleness_max" else np.mean
        yield question, setting, name, np.nan, [combine([a[name], b[name]]) for a, b in pairs]


def late_samples() -> Iterator[Row]:
    """Final losses of 1600 groups and losses after 3000 s, by the lead (lesson 11)."""
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=16)
    engines = {"slots": 96, "group": 4, "batch": 8}
    times = {"generate": delays.LogNormal(mean=30.0, cv=1.0), "train": delays.Constant(15.0)}
    after = loss_before(3000.0, width=600.0)
    for lead in (0, 1, 2, 4, 8):
        system = asim.Rollouts(**engines, **times, lead=lead, order="completion")
        schedule = lambda seed, system=system: asim.simulate(system, commits=1600, seed=seed)  # noqa: E731
        values = lambda trace, run: {**at_the_end(trace, run), **after(trace, run)}  # noqa: E731
        yield from measure("samples", f"lead {lead}", schedule, rules.Downpour, grid(0.05, 1.6), workload, values)


LOCAL_STEP = delays.Gamma(mean=0.025, cv=0.1)
NESTEROV: Callable[..., Any] = partial(rules.SharedNesterov, momentum=0.9)


def diloco() -> Iterator[Row]:
    """Seconds and local steps to a training loss of 0.01 with DiLoCo, in rounds and asynchronously (diloco.md)."""
    window, unequal = 32, delays.fleet.scaled(LOCAL_STEP, [1, 1, 2, 4])
    fleets: dict[str, tuple[Any, Any]] = {
        "equal": (LOCAL_STEP, window),
        "unequal": (unequal, window),
        "unequal, by speed": (unequal, delays.fleet.windows_by_speed(unequal, window)),
    }
    outer: dict[str, tuple[Callable[..., Any], float]] = {  # with the middle of the grid, the best step of six seeds
        "rounds, Nesterov": (NESTEROV, 0.5),
        "rounds, no momentum": (rules.Downpour, 1.0),
        "asynchronous, Nesterov": (NESTEROV, 0.025),
        "asynchronous, no momentum": (rules.Downpour, 0.25),
        "asynchronous, delayed Nesterov": (partial(rules.DelayedNesterov, momentum=0.9), 0.35),
    }
    for (fleet, of_fleet), (name, of_rule) in product(fleets.items(), outer.items()):
        yield from train_windows("diloco", f"{fleet}, {name}", *of_fleet, *of_rule)


def three_windows() -> Iterator[Row]:
    """Return the same as `diloco` for rounds of three lengths on equal machines (diloco.md)."""
    for window, middle in ((8, 0.25), (32, 0.5), (128, 0.5)):
        yield from train_windows("windows", f"{window}, rounds", LOCAL_STEP, window, NESTEROV, middle)


def train_windows(
    question: str, name: str, laws: Any, windows: Any, rule: Callable[..., Any], middle: float
) -> Iterator[Row]:
    """Yield the seconds and local steps to a training loss of 0.01 at outer steps around a middle.

    The step size is the outer one, and the name of a setting ends with its inner one. A schedule has four seeds of its
    own, of which the median counts.
    """
    workload = asim.workloads.MLP(DIGITS, hidden=(32,), batch_size=32, training_loss=True)
    factors, inner_steps, copies = 2.0 ** (np.arange(-2, 3) / 2), np.array([0.008, 0.016, 0.032, 0.064]), 4
    together = "rounds" in name
    network = asim.Network(bandwidth=1.25e8, message_bytes=4 * 30_846_720, collective="ring" if together else "none")
    protocol = protocols.Synchronous() if together else protocols.Asynchronous()
    each = asim.Cluster(4, laws, network, protocol=protocol, local_steps=windows)
    lanes = np.array(list(product(middle * factors, inner_steps)))
    columns = []
    for schedule in range(SCHEDULES):
        trace = asim.simulate(each, seconds=50, seed=schedule)
        rates = np.repeat(lanes, copies, axis=0)
        run = asim.replay(
            trace,
            rules.local(rule(rates[:, 0]), window=windows, learning_rate=rates[:, 1], optimiser="adamw"),
            workload,
            seed=[schedule * copies + seed for seed in range(copies)] * len(lanes),
            record={"training_loss": 4 if together else 1},
            stop_on_divergence=False,
        )
        loss = np.median(run.records["training_loss"].reshape(len(lanes), copies, -1), axis=1)
        under = loss < 0.01
        commit = run.recorded_at["training_loss"][under.argmax(axis=1)]
        done = np.broadcast_to(windows, 4)[trace.worker].cumsum()
        columns.append(np.where(under.any(axis=1), (trace.commit_time[commit], done[commit]), np.inf))
    for place, quantity in enumerate(("seconds", "local steps")):
        for (size, inner), row in zip(lanes, np.array(columns)[:, place].T, strict=True):
            yield question, f"{name}, inner {inner:g}", quantity, size, row.tolist()


QUESTIONS: dict[str, Callable[[], Iterable[Row]]] = {
    "story": story,
    "protocols": four_protocols,
    "steady": steady,
    "quadratic": quadratic,
    "rules": two_rules,
    "tolerance": tolerance,
    "gaps": gaps,
    "shapes": shapes,
    "tuned": tuned,
    "more": more_workers,
    "batch": fixed_batch,
    "compression": compression,
    "limits": limits,
    "leads": leads,
    "knobs": knobs,
    "samples": late_samples,
    "diloco": diloco,
    "windows": three_windows,
}


def main(*names: str) -> None:
    """Measure the named questions, or all, and replace their rows in the table."""
    chosen = names or tuple(QUESTIONS)
    header = [*KEYS, *(f"schedule {number}" for number in range(SCHEDULES))]
    old = list(csv.reader(TABLE.open(encoding="utf-8")))[1:] if TABLE.exists() else []
    rows = {name: [row for row in old if row[0] == name] for name in QUESTIONS}
    for name in chosen:
        rows[name] = [
            [question, setting, quantity, f"{step:.4g}", *(f"{value:.4g}" for value in values)]
            for question, setting, quantity, step, values in QUESTIONS[name]()
        ]
        print(f"{name}: {len(rows[name])} rows", flush=True)
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *(row for each in rows.values() for row in each)])


if __name__ == "__main__":
    main(*sys.argv[1:])
