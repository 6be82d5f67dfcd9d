"""Recorded metrics: the user's own functions of a commit, and the points θ and s themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import _memory as memory
from asyncsim.engine._chunks import RECORDED_BYTES
from asyncsim.engine._loop import replay_chunk
from asyncsim.engine._quantities import QUANTITIES
from asyncsim.engine._replay import Replayer
from asyncsim.engine.reference import replay_plainly
from tests.problems import RULES, TRACES, assert_close, assert_refused, gamma_trace, refusals, tree_workload, varied

QUADRATIC = asim.workloads.Quadratic([1.0, 0.5])


def norm(tree):
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)))


def gradient_norm(commit):
    return norm(commit.gradient)


def everything(commit):
    """Numbers that change with every part of a commit, and with the order of the leaves."""
    view = commit.view
    weighted = jax.tree.map(
        lambda t, s, p, g, d: (t - 2 * s + 3 * p).sum() + (g * d).sum(),
        commit.central,
        view.read,
        view.pulled,
        commit.gradient,
        commit.info.update,
    )
    return jnp.stack([*jax.tree.leaves(weighted), commit.loss * (view.staleness + 1)])


@jax.jit
def measured(commit):
    return {"norm": gradient_norm(commit), "all": everything(commit)}


@jax.jit
def measured_by_name(commit):
    return {name: quantity.measure(commit) for name, quantity in QUANTITIES.items()}


RECORD = {"norm": gradient_norm, "all": (everything, 7), "central": None, "read": 8}


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


# An elementwise rule with all quantities that have a name, one that sees the tree, one with local steps.
@pytest.mark.parametrize(
    ("name", "kind", "lanes"), [("gem_script", "everything", 8), ("agn", "ordinary", 1), ("whole_tree", "ordinary", 1)]
)
def test_recorded_functions_equal_those_of_the_plain_loop(name, kind, lanes, x64):
    whole = varied(asim.rules.Downpour(0.1), elementwise=False)
    trace, rule = TRACES[kind][0](commits=30), whole if name == "whole_tree" else RULES[name][0]()
    every = replay_plainly(trace, rule, tree_workload(), seed=3).commits
    seldom, rarely = every[6::7], every[7::8]
    named = dict.fromkeys([*QUANTITIES] if name == "gem_script" else [], 7)
    run = asim.replay(trace, rule, tree_workload(), seed=3, record=named | RECORD, lanes=lanes)
    assert list(run.records) == list(named | RECORD)
    assert run.strides == named | {"norm": 1, "all": 7, "central": 1, "read": 8}
    for quantity in run.records:
        assert run.recorded_at[quantity].tolist() == list(range(run.strides[quantity] - 1, 30, run.strides[quantity]))
    assert_close(run.records["norm"], np.array([measured(commit)["norm"] for commit in every]))
    assert_close(run.records["all"], np.array([measured(commit)["all"] for commit in seldom]))
    assert_close(run.records["central"], np.array([flat(commit.central) for commit in every]))
    assert_close(run.records["read"], np.array([flat(commit.view.read) for commit in rarely]))
    expected = [measured_by_name(commit) for commit in seldom] if named else []
    for quantity in named.keys() - RECORD.keys():
        assert_close(run.records[quantity], np.array([one[quantity] for one in expected]), rtol=1e-8)


def test_batched_seeds_have_the_records_of_each_alone(x64):
    trace, rule, workload = gamma_trace(), RULES["gem_script"][0](), tree_workload()
    several = asim.replay(trace, rule, workload, seed=(4, 0), record=RECORD, lanes=4)
    points = several.unpacked("central")
    assert points["layers"][0].shape == (2, 60, 3, 2)
    for place, seed in enumerate((4, 0)):
        single = asim.replay(trace, rule, workload, seed=seed, record=RECORD)
        assert_close(several.loss[place], single.loss)
        for name, values in single.records.items():
            assert_close(several.records[name][place], values, rtol=1e-8)
        assert_close(jax.tree.map(lambda leaf: leaf[place], points), single.unpacked("central"), rtol=1e-8)  # noqa: B023


def test_pieces_and_files_have_the_records_of_the_whole(short_chunks, tmp_path):
    trace, rule, workload = gamma_trace(), RULES["gem_script"][0](), tree_workload()
    whole = asim.replay(trace, rule, workload, record=RECORD)
    assert whole.records["all"].shape == (8, 4)
    for commits in (0, 31):  # before any record, in the middle of a chunk
        part = asim.replay(trace, rule, workload, record=RECORD, commits=commits)
        part.save(tmp_path / "run.npz")
        loaded = asim.Run.load(tmp_path / "run.npz", rule, workload)
        with pytest.raises(ValueError, match="`record` must be given again: `resume` recorded 'norm' by a function"):
            asim.replay(trace, rule, workload, resume=loaded)
        for again in (
            asim.replay(trace, rule, workload, resume=part),
            asim.replay(trace, rule, workload, resume=loaded, record=RECORD),
        ):
            assert again.records.keys() == whole.records.keys()
            for name, values in whole.records.items():
                np.testing.assert_array_equal(again.records[name], values)
                np.testing.assert_array_equal(again.recorded_at[name], whole.recorded_at[name])
    with pytest.raises(ValueError, match=r"`resume` recorded as 'all': it has values of shape \(4,\), not \(\)"):
        asim.replay(trace, rule, workload, resume=part, record={**RECORD, "all": (gradient_norm, 7)})


def test_points_in_half_precision_are_recorded_as_they_are(tmp_path):
    workload = asim.Workload(lambda key: {"x": jnp.ones(2, jnp.bfloat16)}, lambda p, b, k: (p["x"] ** 2).sum() / 2)
    rule, trace = asim.rules.Downpour(0.3), asim.Trace.from_commits([0, 0, 0])
    run = asim.replay(trace, rule, workload, record=("central",))
    assert run.unpacked("central")["x"].dtype == jnp.bfloat16
    np.testing.assert_array_equal(run.records["central"][-1], np.asarray(run.central["x"], np.float32))
    run.save(tmp_path / "run.npz")
    again = asim.Run.load(tmp_path / "run.npz", rule, workload)
    np.testing.assert_array_equal(again.records["central"], run.records["central"], strict=True)


def test_the_same_function_needs_no_new_program():
    trace, rule = gamma_trace(), RULES["downpour"][0]()
    asim.replay(trace, rule, QUADRATIC, record={"norm": gradient_norm})
    before = replay_chunk.traced
    asim.replay(gamma_trace(seed=2), rule, QUADRATIC, record={"norm": gradient_norm})
    assert replay_chunk.traced == before


def test_arrays_bound_to_a_function_are_not_compiled_in():
    def scaled(scale, commit):
        return scale * commit.loss

    trace, rule, found = gamma_trace(), RULES["downpour"][0](), []
    for scale in (2.0, 3.0):
        bound = jax.tree_util.Partial(scaled, jnp.float32(scale))
        run = asim.replay(trace, rule, QUADRATIC, record={"scaled": bound})
        np.testing.assert_allclose(run.records["scaled"], scale * run.loss, rtol=1e-6)
        found.append(replay_chunk.traced)
    assert found[0] == found[1]


TRACE, RULE = gamma_trace(), RULES["downpour"][0]()


test_refused_in_one_line_before_the_replay = refusals(
    (
        {"own": lambda commit: None},
        "`own` of `record` must return an array of numbers; it returned None. Is a `return`",
    ),
    ({"own": lambda commit: (1.0, 2.0)}, r"`own` of `record` must return an array of numbers; it returned \(float 1.0"),
    ({"own": lambda commit: jax.random.key(0)}, "`own` of `record` must return an array of numbers"),
    ({"own": lambda commit: commit.central["y"]}, r"`own` of `record` failed \(test_quant.*, line .*KeyError: 'y'"),
    ({"own": lambda commit: commit.info.pi["x"]}, "`own` of `record` failed .*'NoneType' object is not subscriptable"),
    ({"own": lambda: 0.0}, "`own` of `record` failed: TypeError.*It received commit CommitView"),
    ({"central": gradient_norm}, "`record` must not give a function the name 'central', which is taken"),
    ({"test_loss": (gradient_norm, 2)}, "`record` must not give a function the name 'test_loss', which is taken"),
    ({"loss": gradient_norm}, "`record` must not give a function the name 'loss', which has another meaning"),
    ({"a/b": gradient_norm}, "`record` must not give a function the name 'a/b'"),
    ({"own": (gradient_norm, 0)}, r"`record\['own'\]` must be a whole number of commits, at least 1; got 0"),
    ({"own": (gradient_norm, 1, 2)}, r"`record\['own'\]` must be a whole number of commits, at least 1; got \(1, 2\)"),
    ({"own": 3}, "`record` must be one of .*; got 'own'"),
    call=lambda record: asim.replay(TRACE, RULE, QUADRATIC, record=record),
    start="^",
)


def test_a_point_that_was_not_recorded_is_named():
    run = asim.replay(TRACE, RULE, QUADRATIC, commits=3, record=("central",))
    for name in ("read", "loss"):
        assert_refused(partial(run.unpacked, name), rf"`name` must be .* one of \['central'\]; got '{name}'")


def test_records_that_do_not_fit_are_refused(monkeypatch):
    cluster, wide = asim.Cluster(2, asim.delays.Constant(1.0)), asim.workloads.Quadratic(np.ones(1000))
    trace = asim.simulate(cluster, commits=1000)
    monkeypatch.setattr(memory, "total", lambda: 2e6)
    message = r"`record` of 'central', 1000 numbers at every 1 of 1000 commits, takes at least 4 MB .* 2 MB\. Record it"
    assert_refused(lambda: asim.replay(trace, RULE, wide, record=("central", "energy_central")), message)
    scenario = asim.Scenario(cluster, RULE, wide, commits=1000, record={"central": 1})
    assert_refused(scenario.require_memory, message)
    scenario.override(record={"central": 4}).require_memory()
    assert asim.replay(trace, RULE, wide, record={"central": 500}).records["central"].shape == (2, 1000)


@pytest.mark.parametrize(("every", "most"), [(1, 512), (20, 32), (1000, 2)])
def test_the_room_for_records_is_bounded(every, most):
    """A chunk has room for what is recorded of it, and for no more than 256 MB."""
    large = asim.workloads.Quadratic(np.ones(100_000))
    replayer = Replayer(asim.Trace.from_commits([0] * 40), RULE, large, record={"central": every})
    count, chunk = replayer.feeder.chunk(0, 40)
    replayed = partial(replay_chunk, layout=replayer.layout)
    out = jax.eval_shape(replayed, replayer.carry, count, chunk, replayer.problem)[1]
    assert out["central"].shape[0] <= most
    assert out["central"].size * 4 <= RECORDED_BYTES
