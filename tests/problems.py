"""Small problems and traces that several tests share."""

import dataclasses
import errno
import itertools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine.reference import replay_plainly
from asyncsim.trace import NEVER, Fate, Unfinished
from asyncsim.trace._columns import UNFINISHED_COLUMNS
from tests.tables import CORE as CORE
from tests.tables import RULES as RULES

EXAMPLES = 40
CURVATURE = (1.0, 0.5, 0.1)
INPUTS = np.random.default_rng(0).normal(size=(EXAMPLES, 3))


def refusals(*rows, call=lambda make: make(), start=""):
    """A test with one case for each row: what `call` is given, and how the error begins or reads, in one line."""

    @pytest.mark.parametrize(("given", "message"), rows)
    def test(given, message):
        assert_refused(lambda: call(given), start + message)

    return test


def full_disk(*args):
    """In place of a function of `os` that writes."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupt(*args, **kwargs):
    """In place of a function during which somebody presses Ctrl-C."""
    raise KeyboardInterrupt


def assert_close(actual, expected, rtol=1e-10, atol=1e-13):
    """Equal up to rounding, leaf by leaf."""
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def assert_refused(ask, message):
    """A call raises this error, in one line."""
    with pytest.raises(ValueError, match=message) as caught:
        ask()
    assert "\n" not in str(caught.value)


def compare(trace, rule, workload, lanes=None, plain=None, rtol=1e-10):
    """The compiled engine equals the plain loop."""
    plain = plain or replay_plainly(trace, rule, workload, seed=3)
    run = asim.replay(trace, rule, workload, seed=3, lanes=lanes)
    assert run.loss.dtype == np.float64
    assert_close(run.loss, plain.loss, rtol)
    assert_close(run.central, plain.central, rtol)


def init_tree(key):
    return {"bias": jnp.zeros(()), "layers": [jax.random.normal(key, (3, 2)), jnp.ones(())]}


def tree_loss(params, batch, key):
    inputs, targets = batch
    outputs = jnp.tanh(inputs @ params["layers"][0] + params["bias"]) * params["layers"][1]
    bits = jax.random.key_data(key)[-1] >> jnp.arange(outputs.size, dtype=jnp.uint32)  # the key must matter
    keep = (bits % 4 > 0).reshape(outputs.shape)
    return jnp.mean(jnp.where(keep, outputs - targets, 0.0) ** 2)


# Compiled once: the plain loop would otherwise differentiate the loss anew at every commit.
TREE_GRADIENT = jax.jit(asim.Workload(init_tree, tree_loss).loss_and_gradient)


def tree_workload(batch_size=8):
    """A small non-convex problem on a nested pytree, with data and with a loss that uses its key."""
    data = (INPUTS, np.sin(INPUTS[:, :2]))
    return asim.Workload(init_tree, tree_loss, data=data, batch_size=batch_size, gradient=TREE_GRADIENT)


def init_quadratic(key):
    del key
    return {"x": jnp.ones(3)}


@jax.jit
def draw_bytes(key):
    """Noise with a standard deviation of 0.3, each number a byte of the key: normals take longest of all to compile."""
    three = jax.random.key_data(key)[-1] >> jnp.arange(0, 24, 8, dtype=jnp.uint32) & 255
    return 0.3 * (three - 127.5) / 73.9


@jax.jit
def noisy_gradient(params, batch, key):
    del key
    slope = jnp.asarray(CURVATURE, params["x"].dtype) * params["x"]
    return (params["x"] * slope).sum() / 2, {"x": slope + batch}


def evaluate_quadratic(params):
    return {"test_loss": (params["x"] ** 2).sum()}


def noisy_quadratic():
    """A workload that draws its mini-batches; `workloads.Quadratic` draws normals."""
    return asim.Workload(
        init_quadratic, loss=None, gradient=noisy_gradient, noise=draw_bytes, evaluate=evaluate_quadratic
    )


def gamma_trace(workers=5, commits=60, seed=1, cv=0.5):
    return asim.simulate(asim.Cluster(workers, asim.delays.Gamma(mean=1.0, cv=cv)), commits=commits, seed=seed)


def round_robin(workers, commits):
    return asim.simulate(asim.Cluster(workers, asim.delays.Constant(1.0)), commits=commits)


def random_trace(seed=0, workers=5, commits=60, *, closing=1.0, waiting=0.0, early=0.0, crashing=0.0, owning=0.0):
    """Any valid trace: every second one random worker reads, commits or gives up its job.

    `closing`, `waiting`, `early` and `crashing` are the probabilities that a commit closes its step, that a worker
    reads later than at once (or, as often, that its job is cancelled), that it pulls before it commits, that it
    crashes, and that it goes on from its own value after a commit.
    """
    rng = np.random.default_rng(seed)
    rows, ended, version, lost = [], [], 0, [False] * workers
    closed_at = [0]  # of each version
    jobs = {w: begun(w, 0, 0) for w in range(workers) if rng.random() >= waiting}
    for time in itertools.count(1):
        if len(rows) == commits:
            break
        w = int(rng.integers(workers))
        if w in jobs:
            job, knows = jobs.pop(w)
            crashes = rng.random() < crashing
            if crashes or rng.random() < waiting / 2:
                fate, lost[w] = Fate.CRASHED if crashes else Fate.CANCELLED, lost[w] or crashes
                ended.append(job | {"end_version": version, "end_time": time, "fate": fate})
            else:
                pull = rng.integers(knows, version + 1) if rng.random() < early else version
                job |= {"version": version, "pull_version": pull, "state_lost": lost[w]}
                rows.append(job | {"commit_time": time, "closes_step": rng.random() < closing})
                version, lost[w] = version + rows[-1]["closes_step"], False
                closed_at += [time] * int(rows[-1]["closes_step"])
                if rng.random() < owning:
                    pull_time = max(closed_at[pull], job["start_time"])
                    jobs[w] = begun(w, pull + rows[-1]["closes_step"], pull_time, start=time, knows=version, own=True)
                    continue
            if rng.random() < waiting:
                continue
        jobs[w] = begun(w, version, time)
    return make_trace(workers, rows, ended + [job for _, (job, _) in sorted(jobs.items())])


def begun(worker, version, time, *, start=None, knows=None, own=False):
    """A job that has begun, and the version of which its worker knows."""
    job = {"worker": worker, "read_version": version, "read_time": time, "resumes_own": own}
    return job | {"start_time": time if start is None else start}, version if knows is None else knows


def make_trace(workers, rows, ended=()):
    """A checked trace from dictionaries; the computation fills the time from read to commit."""
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    columns |= dict.fromkeys(("finish_time", "arrive_time"), columns["commit_time"])
    flying = {"end_version": NEVER, "end_time": np.inf, "fate": Fate.IN_FLIGHT, "resumes_own": False}
    names = ("worker", "read_version", "read_time", *flying)
    rest = {name: np.array([(flying | job)[name] for job in ended], UNFINISHED_COLUMNS[name]) for name in names}
    if "start_time" in columns:
        rest["start_time"] = np.array([job["start_time"] for job in ended], float)
    columns = {"start_time": columns["read_time"]} | columns
    trace = asim.Trace(workers=workers, unfinished=Unfinished(**rest), **columns)
    trace.check()
    return trace


# Every kind of trace, and what it requires of the engine beyond the ordinary.
TRACES = {
    "ordinary": (gamma_trace, ()),
    "buffered": (lambda closing=0.4, **kwargs: random_trace(closing=closing, **kwargs), ("buffer",)),
    "waiting": (lambda **kwargs: random_trace(waiting=0.5, **kwargs), ("resume", "begin")),
    "crashing": (lambda **kwargs: random_trace(crashing=0.2, **kwargs), ("begin",)),
    "early_pulls": (lambda **kwargs: random_trace(early=0.6, **kwargs), ("pull",)),
    "own": (lambda **kwargs: random_trace(early=0.6, owning=0.8, **kwargs), ("own", "pull")),
    "everything": (
        lambda closing=0.4, owning=0.5, **kwargs: random_trace(
            closing=closing, waiting=0.4, early=0.5, crashing=0.1, owning=owning, **kwargs
        ),
        ("buffer", "own", "resume", "begin", "pull"),
    ),
}


def by_group(trace, groups=("first", "second"), seed=0):
    """The trace with parameter groups that are read at random between the beginning of a job and its pull."""
    rng = np.random.default_rng(seed)
    reads = rng.integers(trace.read_version[:, None], trace.pull_version[:, None] + 1, (len(trace), len(groups)))
    reads[np.arange(len(trace)), rng.integers(len(groups), size=len(trace))] = trace.read_version
    trace = dataclasses.replace(trace, groups=groups, group_read_version=reads)
    trace.check()
    return trace


def varied(rule, **attributes):
    """The rule as one of a class of its own, with other methods or class attributes."""
    kind = type(type(rule).__name__, (type(rule),), attributes, named=False)
    changed = object.__new__(kind)
    vars(changed).update(vars(rule))
    return changed


def in_few_programs(rule):
    """The rule with compiled methods: quicker in the plain loop if they have many operations."""
    methods = ("send", "apply", "local_step") if rule.steps_locally else ("send", "apply")
    return varied(rule, **{name: jax.jit(getattr(type(rule), name)) for name in methods})


def trace_for(rule, kind, **kwargs):
    """A trace of this kind that the rule accepts: a rule that collects commits itself needs each to be a step."""
    make, traits = TRACES[kind]
    return make(closing=1.0, **kwargs) if rule.collect and "buffer" in traits else make(**kwargs)


# Unclamped π divides by updates near zero and so amplifies rounding from commit to commit: only a few commits.
COMMITS = {"gem_paper": 25}

# The trace on which a rule must solve a quadratic, unless it is that of five workers with gamma compute times.
SOLVED_ON = {
    # Without its clamp GEM diverges as soon as commits come in random order: two workers in turn.
    "gem_paper": lambda: round_robin(2, 3000),
    # Without noise gradients vanish, and with them its estimate of the curvature: a short trace.
    "yellowfin": lambda: gamma_trace(workers=3, commits=100),
    "yellowfin_open": lambda: gamma_trace(workers=3, commits=100),
}
