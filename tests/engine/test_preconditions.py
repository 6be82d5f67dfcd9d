"""Arguments of `replay`: refusals in one line, and unusual arguments that it accepts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import _memory as memory
from asyncsim.engine.reference import replay_plainly
from tests.problems import gamma_trace, noisy_quadratic, refusals

TRACE, RULE, WORKLOAD = gamma_trace(), asim.rules.GEM(0.05), noisy_quadratic()


def replay(changes):
    """With other arguments than usual, and if `half` is among them, as a continuation of half a run."""
    given = {"trace": TRACE, "rule": RULE, "workload": WORKLOAD}
    half = {"resume": asim.replay(**given, record={"pi_mean": 7}, commits=30)} if "half" in changes else {}
    return asim.replay(**{**given, **half, **{name: value for name, value in changes.items() if name != "half"}})


def another(column, row, value):
    """The trace with one number changed; who commits is the same."""
    changed = np.array(getattr(TRACE, column))
    changed[row] = value
    return dataclasses.replace(TRACE, **{column: changed})


def init_integers(key):
    return {"x": jnp.zeros(2, int)}


def unpack(params, batch, key):
    inputs, targets = batch
    return ((params["x"] * inputs - targets) ** 2).sum()


def look_up(params, batch, key):
    return (params["x"] * batch["inputs"]).sum()


def call(params, batch, key):
    return batch.sum()


def init_floats(key):
    return {"x": jnp.zeros(2)}


def init_nothing(key):
    return jnp.zeros((0, 3))


HALF = {"half": True}
test_refused_in_one_line = refusals(
    ({"trace": [0, 1]}, r"`trace` must be an asyncsim Trace; got \[0, 1\]\."),
    *(({"seed": seed}, "`seed` must be an integer") for seed in (1.5, [0, 0.7], np.array(1.5), b"12")),
    ({"seed": ()}, "`seed` must be one or more whole numbers"),
    ({"seed": 2**31}, "`seed` must be one or more whole numbers from 0 to"),
    ({"commits": 61}, "`commits` must be at most the trace's 60; got 61"),
    ({"rule": asim.rules.GEM([0.1, 0.2])}, "`learning_rate` must be a scalar, or"),
    ({"record": ("test_accuracy",)}, "'test_accuracy', which this workload"),
    ({"record": {"pi_mean": 0}}, r"`record\['pi_mean'\]` must be a whole"),
    *(
        ({"record": record}, "`record` must be a string or a sequence of strings or a mapping or None; got")
        for record in (5, [5], [["pi_mean"]])
    ),
    ({"workload": asim.Workload(init_integers, call)}, r"floating-point parameters; \['x'\] is int"),
    ({"workload": asim.Workload(init_nothing, call)}, r"`init` must give at least one parameter; got float32\[0,3\]"),
    *(
        (
            {"workload": asim.Workload(init_floats, loss)},
            "`loss` must not use its mini-batch where the workload has neither `data` nor `noise`.*NoneType.*`data=`",
        )
        for loss in (unpack, look_up, call)
    ),
    ({"lanes": 0}, "`lanes` must be"),
    ({"lanes": 1.5}, "`lanes` must be"),
    ({"trace": another("version", 7, 9)}, "`version` must count the rows .* row 7 has 9"),
    ({"trace": another("read_version", 7, 8)}, "`read_version` must be .* row 7 has 8"),
    (HALF | {"seed": 1}, "`resume` must be a run of the same seed"),
    *(
        (HALF | {"rule": rule}, "`resume` must be a run of the same rule")
        for rule in (asim.rules.Downpour(0.05), asim.rules.GEM(0.05, variant="paper"), asim.rules.GEM(0.06))
    ),
    *(
        (HALF | {"trace": trace}, "`resume` must be a run of the same trace; its first 30 commits differ")
        for trace in (
            gamma_trace(seed=9),
            another("state_lost", 20, True),
            another("pull_version", 20, TRACE.read_version[20]),
        )
    ),
    (HALF | {"workload": asim.workloads.Quadratic([1.0])}, "`resume` must be a run of the same workload"),
    (HALF | {"record": ("pi_mean",)}, "`record` must be that of `resume`"),
    (HALF | {"commits": 20}, "`resume` has 30 commits already; `commits` must be at least that, got 20"),
    call=replay,
)


def test_a_run_of_a_short_trace_resumes_on_a_longer_one():
    short, whole = gamma_trace(commits=30), asim.replay(TRACE, RULE, WORKLOAD)
    resumed = asim.replay(TRACE, RULE, WORKLOAD, resume=asim.replay(short, RULE, WORKLOAD))
    np.testing.assert_array_equal(resumed.loss, whole.loss)


def test_an_array_of_no_axis_is_one_seed():
    for seed in (np.array(3), jnp.asarray(3)):
        run = asim.replay(TRACE, RULE, WORKLOAD, seed=seed)
        assert run.seed == 3
        assert run.loss.shape == (60,)


def test_an_empty_trace_is_an_empty_run():
    trace = asim.simulate(asim.Cluster(3, asim.delays.Constant(5.0)), seconds=1.0)
    run = asim.replay(trace, RULE, WORKLOAD, record=("pi_mean",))
    assert (run.commits, run.loss.shape, run.records["pi_mean"].shape) == (0, (0,), (0,))
    assert np.isnan(run.final_loss())


@pytest.mark.parametrize(("commits", "last"), [(1, None), (5, None), (200, None), (1000, None), (40, 3)])
def test_the_final_loss_is_that_of_the_end(commits, last):
    """By default of a quarter of each worker's commits, however few there are, and at most fifty."""
    trace = asim.Trace.from_commits(np.r_[np.zeros(commits, int), np.ones(4 * commits, int)])
    run = asim.replay(trace, asim.rules.Downpour(0.01), asim.workloads.Quadratic([1.0]))
    counted = (last or min(-(-commits // 4), 50), last or min(commits, 50))
    ends = [run.loss[trace.worker == w][-end:] for w, end in enumerate(counted)]
    assert run.final_loss(last) == pytest.approx(np.concatenate(ends).mean(), rel=1e-6)


@pytest.mark.parametrize("learning_rate", [2.5, 1e10, 1e30])
def test_the_final_loss_of_a_diverged_run_is_nan(learning_rate):
    """And NumPy does not warn of what overflows on the way there."""
    trace, rule = gamma_trace(commits=400), asim.rules.Downpour(learning_rate)
    run = asim.replay(trace, rule, asim.workloads.Quadratic([1.0]), seed=[0, 1])
    assert run.diverged_at[0] is not None
    np.testing.assert_array_equal(run.final_loss(), np.full(2, np.nan, np.float32), strict=True)
    assert np.isnan(asim.replay(trace, rule, asim.workloads.Quadratic([1.0])).final_loss())


def init_mixed(key):
    return {"a": jnp.ones(3, jnp.bfloat16), "b": jnp.ones(2)}


def mixed_loss(params, batch, key):
    return (params["a"].astype(jnp.float32) ** 2).sum() + 0.3 * (params["b"] ** 2).sum()


def test_mixed_precision_keeps_the_dtype_of_every_leaf():
    workload, trace = asim.Workload(init_mixed, mixed_loss), gamma_trace(commits=12)
    rule = asim.rules.MomentumSGD(0.02, momentum=0.5)
    central = asim.replay(trace, rule, workload, seed=(0, 1)).central
    plain = replay_plainly(trace, rule, workload).central
    for name in ("a", "b"):
        one = central[name][0]
        assert one.dtype == plain[name].dtype
        np.testing.assert_allclose(one.astype(float), plain[name].astype(float), rtol=1e-2 if name == "a" else 1e-5)


class TestMemory:
    def test_too_many_parameters_are_refused_by_their_shapes(self):
        """A tebibyte each: were `init` to run, it would be in vain."""
        workload = asim.Workload(lambda key: {"x": jnp.zeros(2**38)}, asim.workloads.Quadratic([1.0]).loss)
        with pytest.raises(ValueError, match=r"`workload` of 274877906944 parameters, with 5 workers and 1 seed"):
            asim.replay(TRACE, RULE, workload)

    @pytest.mark.parametrize(("have", "subject"), [(900, f"`commits` of {len(TRACE)}"), (800, "`workload` of 3 ")])
    def test_a_refusal_names_what_does_not_fit(self, monkeypatch, have, subject):
        monkeypatch.setattr(memory, "total", lambda: have)
        with pytest.raises(ValueError, match=rf"{subject}.* takes at least .* of memory; this machine has {have}"):
            asim.replay(TRACE, RULE, WORKLOAD, seed=range(4))

    def test_an_init_in_plain_python_is_accepted(self):
        """An `init` that needs the key's numbers cannot be tried on shapes alone."""

        def init(key):
            return {"x": np.random.default_rng(int(jnp.sum(jax.random.key_data(key)))).normal(size=2)}

        workload = asim.Workload(init, asim.workloads.Quadratic([1.0, 0.5]).loss)
        assert np.isfinite(asim.replay(TRACE, RULE, workload, commits=4).loss).all()
