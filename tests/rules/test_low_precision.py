"""Rules on parameters in bfloat16 and float16: they count, add up and decide as in single precision."""

from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.engine._layout import Packing
from asyncsim.engine.reference import average, replay_plainly
from tests.problems import CORE, RULES, gamma_trace, in_few_programs, trace_for

CURVATURE, MINIMUM = np.array([1.0, 0.5, 0.25]), np.array([1.0, -2.0, 3.0])
DTYPES = {"b": jnp.bfloat16, "h": jnp.float16, "s": jnp.float32}  # the first leaf is the least precise
PRECISION = {"b": 2.0**-8, "h": 2.0**-11}
AMPLIFIED = {"gem_paper": 60.0, "yellowfin": 60.0}  # divide by updates, or tune all together
ALIKE = (  # whose arithmetic is that of another row
    *("heavy_ball_negative", "rennala_batches", "fedasync_constant", "fedasync_windows", "fedbuff", "aeasgd_pulled"),
    *("worker", "server", "downpour_window", "muon_plain", "yellowfin_open", "gem_signed_server", "fadas", "agn"),
    *("multi_asgd", "staleness_aware", "local_sgd"),
)
USUALLY = 12.0  # roundings of one commit that remain at the end, in units of the precision


@cache
def in_precisions(names):
    """One quadratic, with a leaf of each precision."""

    def slopes(params, batch, key):
        gradient = {
            name: jnp.asarray(CURVATURE, x.dtype) * (x - jnp.asarray(MINIMUM, x.dtype)) for name, x in params.items()
        }
        return params[names[-1]].astype(jnp.float32).sum(), gradient

    return asim.Workload(lambda key: {name: jnp.zeros(3, DTYPES[name]) for name in names}, loss=None, gradient=slopes)


@pytest.mark.parametrize("name", [name for name in RULES if name not in ALIKE])
def test_every_rule_agrees_with_single_precision(name):
    """One replay of the same problem in two precisions, or three, whose parameters keep theirs."""
    rule, names = RULES[name][0](), "bhs" if name in CORE else "bs"
    plain = rule if rule.elementwise and not rule.collect else in_few_programs(rule)
    central = replay_plainly(trace_for(rule, "ordinary", commits=16), plain, in_precisions(names)).central
    assert {name: x.dtype for name, x in central.items()} == {name: DTYPES[name] for name in names}
    expected = np.asarray(central["s"], float)
    assert np.abs(expected).max() > 0
    for key in names[:-1]:
        error = np.abs(np.asarray(central[key], float) - expected).max() / np.abs(expected).max()
        assert error < AMPLIFIED.get(name, USUALLY) * PRECISION[key], key


def downhill(params, batch, key):
    return params[0].astype(jnp.float32), jnp.ones_like(params)


@cache
def falling(dtype):
    return asim.Workload(init=lambda key: jnp.zeros(1, dtype), loss=None, gradient=downhill)


def losses(rule, order, dtype):
    """x where each commit's gradient was taken, and at the end, on a slope of 1, where steps are of one step size."""
    workload = falling(dtype)
    trace = order if isinstance(order, asim.Trace) else asim.Trace.from_commits(order)
    run = asim.replay(trace, rule, workload)
    return np.append(run.loss, float(run.central[0]))


BEYOND = 300  # 256 + 1 is 256 in bfloat16
IN_TURN = list(range(BEYOND)) * 2
COUNTING = {
    "rennala": (rules.Rennala(1.0, batch=BEYOND), [0] * (2 * BEYOND), [0.0] * BEYOND + [-1.0] * BEYOND + [-2.0]),
    "ia2sgd": (rules.IA2SGD(0.5, workers=BEYOND), IN_TURN[: BEYOND + 2], [0.0] * (BEYOND + 2) + [-1.5]),
    "malenia": (rules.Malenia(1.0, workers=2, batch=2 * BEYOND), [0, 1] * BEYOND, [0.0] * 2 * BEYOND + [-1.0]),
    "ringleader": (rules.Ringleader(0.5, workers=BEYOND), IN_TURN[: BEYOND + 2], [0.0] * (BEYOND + 2) + [-1.5]),
}


@pytest.mark.parametrize("name", COUNTING)
def test_counting_goes_on_beyond_256(name):
    rule, order, expected = COUNTING[name]
    np.testing.assert_array_equal(losses(rule, order, jnp.bfloat16), expected)


def test_malenia_steps_with_the_very_gradient_that_completes_a_batch():
    """Of six workers in random order: sums of 1/B are exact enough, compared with fractions."""
    trace, batch, workers = gamma_trace(workers=6, commits=11_000, cv=1.0), 1800, 6
    made, version, counts, steps = [0], 0, [0] * workers, []  # steps: the rows that complete a batch
    for k, (worker, read) in enumerate(zip(trace.worker.tolist(), trace.read_version.tolist(), strict=True)):
        counts[worker] += made[read] == version
        if all(counts) and workers * workers >= batch * sum(Fraction(1, b) for b in counts):
            version, counts = version + 1, [0] * workers
            steps.append(k)
        made.append(version)
    found = losses(rules.Malenia(1.0, batch=batch), trace, jnp.bfloat16)
    assert len(steps) > 5
    assert found[-1] == -len(steps)
    # A loss is that of where its worker read: the first after a step is that of the worker that made it.
    for number, step in enumerate(steps[:-1], start=1):
        assert (found == -number).argmax() == (trace.read_version > step).argmax()


def test_a_row_with_integers_is_at_least_float32():
    row = {"count": jnp.int32(257), "x": jnp.ones(1, jnp.bfloat16)}
    packing = Packing.of(row)
    assert packing.dtype == jnp.float32
    assert int(packing.unpack(packing.pack(row))["count"]) == 257
    assert Packing.of({"x": row["x"], "y": jnp.bool_(True)}).dtype == jnp.bfloat16  # nothing to lose


def test_a_mean_of_many_messages_is_precise():
    mean = average([jnp.ones(1, jnp.bfloat16)] * BEYOND)
    assert mean.dtype == jnp.bfloat16
    assert float(mean[0]) == 1.0
    rounds = asim.protocols.Synchronous()
    trace = asim.simulate(asim.Cluster(BEYOND, asim.delays.Constant(1.0), protocol=rounds), commits=BEYOND)
    assert losses(rules.Downpour(1.0), trace, jnp.bfloat16)[-1] == -1.0


def test_the_optimisers_of_optax_keep_precise_moments():
    rule = rules.WorkerOptimiser(0.1, optimiser="adam")
    state = jax.eval_shape(lambda: rule.start(jnp.ones(2, jnp.bfloat16))).optimiser
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {jnp.dtype("int32"), jnp.dtype("float32")}


@pytest.mark.parametrize(
    ("make", "value"),
    [(lambda momentum: rules.GapAware(0.01, momentum=momentum), 0.9993), (rules.WorkerOptimiser, 0.0123)],
    ids=["gap_aware", "worker"],
)
def test_a_value_per_seed_is_as_precise_as_a_scalar(make, value):
    """In bfloat16, 0.9993 would be 1."""
    trace, workload = gamma_trace(workers=3, commits=40), in_precisions("b")
    alone = asim.replay(trace, make(value), workload)
    both = asim.replay(trace, make([value, value]), workload, seed=[0, 0])
    np.testing.assert_array_equal(np.asarray(both.loss)[0], alone.loss)
    assert both.central["b"].dtype == jnp.bfloat16


def test_numbers_that_would_be_infinite_are_refused():
    for value in (7e4, [0.1, 7e4]):
        with pytest.raises(ValueError, match=r"`learning_rate` must be at most 6\.55e\+04, the largest float16"):
            asim.replay(gamma_trace(), rules.Downpour(value), in_precisions("h"), seed=list(range(np.size(value))))
