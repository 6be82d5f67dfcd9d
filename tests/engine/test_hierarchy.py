"""Regions under a global server: compiled = plain for every rule, cut = whole, seeds and lanes alike, and refusals."""

import warnings

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.engine.reference import replay_plainly
from tests.problems import RULES, assert_close, refusals, tree_workload

MINIMA = [[float(i), 2.0 * i] for i in range(4)]
FAR = asim.Network(latency=asim.delays.Constant(1.0))
NESTEROV = rules.DelayedNesterov(0.7, momentum=0.5)
TWO_LEVELS = {
    "downpour": lambda: rules.Downpour(0.1),
    "momentum_sgd": lambda: rules.hierarchical(rules.MomentumSGD(0.02, momentum=0.8), NESTEROV),
    "gem": lambda: rules.hierarchical(rules.GEM(0.05), NESTEROV),
    "heavy_ball": lambda: rules.hierarchical(rules.HeavyBall(0.05, momentum=0.9), rules.AdaptiveStaleness(1.0)),
    "local": lambda: rules.hierarchical(
        rules.local(rules.Downpour(0.5), window=2, learning_rate=0.1, optimiser="adam"), rules.SharedNesterov(0.7)
    ),
    "halos": lambda: rules.hierarchical.halos(0.01, window=2),
    "windows": lambda: rules.hierarchical(rules.AGN(0.1, window=(1, 3, 1, 2)), NESTEROV),
    "worker_adam": lambda: rules.hierarchical(rules.WorkerOptimiser(0.02, optimiser="adam"), NESTEROV),
    "server_adam": lambda: rules.hierarchical(rules.Downpour(0.1), rules.ServerOptimiser(0.1, optimiser="adam")),
    "compressed": lambda: rules.compressed(
        rules.hierarchical(rules.MomentumSGD(0.02, momentum=0.8), NESTEROV), asim.compressors.RandK(0.4)
    ),
    "scheduled": lambda: rules.scheduled(
        rules.hierarchical(rules.Downpour(0.1), NESTEROV), by=rules.CosineDecay(10, warmup=2)
    ),
}


@pytest.fixture
def quadratic():
    return asim.workloads.Quadratic([1.0, 0.3], noise=0.1, minima=MINIMA)


def regions(commits=43, latency=0.4, law=None, **kwargs):
    region = asim.Cluster(2, law or asim.delays.Gamma(1.0, 0.7))
    network = asim.Network(latency=asim.delays.Exponential(latency)) if latency else asim.Network()
    cluster = asim.Hierarchy([region, region], commits_per_push=3, network=network, **kwargs)
    return asim.simulate(cluster, commits=commits, seed=3)


def assert_equal_variables(run, plain, rtol=1e-10):
    assert_close(run.loss, plain.loss, rtol)
    assert_close(run.central, plain.central, rtol)
    for number, expected in enumerate(plain.variables):
        assert_close(jax.tree.map(lambda leaf, number=number: leaf[number], run.variables), expected, rtol)


@pytest.mark.parametrize("name", TWO_LEVELS)
def test_two_rules_equal_the_plain_loop(name, x64):
    trace, rule, workload = regions(commits=25), TWO_LEVELS[name](), tree_workload()
    assert (trace.from_variable >= 0).sum() > 1
    assert len(trace.mixings)
    assert_equal_variables(asim.replay(trace, rule, workload, 3), replay_plainly(trace, rule, workload, 3), 1e-9)


@pytest.mark.parametrize("latency", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("merge_weight", [0.25, 1.0])
def test_merges_of_any_weight_and_delay_equal_the_plain_loop(latency, merge_weight, x64, quadratic):
    trace = regions(latency=latency, merge_weight=merge_weight, law=asim.delays.Constant(1.0))
    rule = TWO_LEVELS["momentum_sgd"]()
    assert_equal_variables(asim.replay(trace, rule, quadratic, 1), replay_plainly(trace, rule, quadratic, 1))


def test_a_push_by_hand():
    """One region with one worker on ½x², η = ½, a push after each commit, which arrives at once and is merged by ½."""
    cluster = asim.Hierarchy([asim.Cluster(1, asim.delays.Constant(1.0))], commits_per_push=1, merge_weight=0.5)
    trace = asim.simulate(cluster, commits=4)
    assert trace.worker.tolist() == [0, 1, 0, 1]
    rule = rules.hierarchical(rules.Downpour(0.5), rules.Downpour(2.0))
    workload = asim.workloads.Quadratic([1.0])
    for run in (asim.replay(trace, rule, workload), replay_plainly(trace, rule, workload)):
        # The region goes from 1 to ½, and the global variable by twice as much, to 0. The merge gives ¼. The worker
        # read ½ before it: ¼ - ¼ = 0, a change of -¼, so that the global variable becomes -½, and the region -¼.
        assert run.loss.tolist() == [0.5, 0.5, 0.125, 0.125]
        assert run.central["x"].tolist() == [-0.5]
    assert asim.replay(trace, rule, workload).variables["x"].tolist() == [[-0.25], [-0.5]]


def test_commits_between_a_push_and_its_merge_survive_with_one_minus_the_weight():
    """Nobody reports them: without further commits, the global variable lacks them, and the region keeps its share."""
    law = asim.delays.Constant(1.0)
    far = asim.Network(latency=asim.delays.Constant(0.75))
    cluster = asim.Hierarchy([asim.Cluster(1, law)], commits_per_push=1, merge_weight=0.25, network=far)
    trace = asim.simulate(cluster, seconds=2.5)
    # Commits at 1 and 2, the push of the first at 1.75, its merge at 2.5.
    assert trace.reported.tolist() == [True, False, False]
    slope = asim.Workload(lambda key: {"x": np.zeros(1, np.float32)}, lambda params, batch, key: params["x"].sum())
    run = asim.replay(trace, rules.Downpour(1.0), slope)
    assert run.central["x"].tolist() == [-1.0]
    # The region was at -2, of which ¾ stay, and it takes ¼ of the global value, which is -1.
    assert run.variables["x"].tolist() == [[-0.75 * 2 - 0.25], [-1.0]]


def test_one_region_that_merges_at_once_and_in_full_is_a_cluster_whose_commits_count_twice():
    """With w = 1 and no far link, the global value is that of the region, for any number of commits in a push."""
    law = asim.delays.Gamma(1.0, 0.7)
    cluster = asim.Hierarchy([asim.Cluster(3, law)], commits_per_push=2, merge_weight=1.0)
    trace, workload = asim.simulate(cluster, commits=45, seed=1), asim.workloads.Quadratic([1.0, 0.3])
    run = asim.replay(trace, rules.Downpour(0.05), workload)
    alone = asim.replay(asim.simulate(asim.Cluster(3, law), commits=30, seed=1), rules.Downpour(0.05), workload)
    np.testing.assert_allclose(run.loss[trace.from_variable < 0], alone.loss, rtol=1e-5)
    np.testing.assert_allclose(run.central["x"], alone.central["x"], rtol=1e-5)


def test_a_replay_in_pieces_equals_the_whole_to_the_last_bit(tmp_path, quadratic):
    trace, rule = regions(), TWO_LEVELS["momentum_sgd"]()
    whole = asim.replay(trace, rule, quadratic, (1, 2))
    first = asim.replay(trace, rule, quadratic, (1, 2), commits=17)
    first.save(tmp_path / "run.npz")
    first = asim.engine.Run.load(tmp_path / "run.npz", rule, quadratic)
    assert first.servers == 2
    rest = asim.replay(trace, rule, quadratic, (1, 2), resume=first)
    assert np.array_equal(rest.loss, whole.loss)
    assert np.array_equal(rest.variables["x"], whole.variables["x"])
    assert np.array_equal(rest.central["x"], whole.central["x"])
    data = asim.engine.Run.load(tmp_path / "run.npz", None, None)
    assert np.array_equal(data.central["x"], first.central["x"])


def test_seeds_in_one_program_equal_single_ones_to_the_last_bit(quadratic):
    trace, rule = regions(), TWO_LEVELS["momentum_sgd"]()
    several = asim.replay(trace, rule, quadratic, (1, 2), record={"energy_central": 1})
    for place, seed in enumerate((1, 2)):
        one = asim.replay(trace, rule, quadratic, seed, record={"energy_central": 1})
        assert np.array_equal(several.variables["x"][place], one.variables["x"])
        assert np.array_equal(several.records["energy_central"][place], one.records["energy_central"])


def test_each_seed_may_have_its_own_global_step(quadratic):
    trace, steps = regions(), np.array([0.5, 1.0])
    rule = rules.hierarchical(rules.Downpour(0.05), rules.Downpour(steps))
    several = asim.replay(trace, rule, quadratic, (1, 1))
    for place, step in enumerate(steps.tolist()):
        one = asim.replay(trace, rules.hierarchical(rules.Downpour(0.05), rules.Downpour(step)), quadratic, 1)
        assert np.array_equal(several.variables["x"][place], one.variables["x"])


def test_gradients_taken_together_give_the_same_variables(quadratic):
    trace, rule = regions(), TWO_LEVELS["momentum_sgd"]()
    alone, together = (asim.replay(trace, rule, quadratic, 1, lanes=lanes) for lanes in (1, 3))
    np.testing.assert_allclose(together.variables["x"], alone.variables["x"], rtol=1e-6, atol=1e-6)


def test_records_of_a_push_are_those_of_the_global_rule(quadratic):
    trace = regions()
    record = {"central": 1, "energy_proxy": 1, "consensus_distance": 43}
    run = asim.replay(trace, rules.hierarchical(rules.GEM(0.02), NESTEROV), quadratic, 1, record=record)
    pushes = trace.from_variable >= 0
    # The global rule has no proxy.
    assert np.array_equal(np.isnan(run.records["energy_proxy"]), pushes)
    assert np.array_equal(run.records["central"][pushes][-1], run.central["x"])
    of_regions = run.variables["x"][:2].astype(float)
    expected = ((of_regions - of_regions.mean(0)) ** 2).sum(1).mean()
    np.testing.assert_allclose(run.records["consensus_distance"], expected)


def test_pushes_take_no_gradients(quadratic):
    trace = regions()
    run = asim.replay(trace, rules.AGN(0.1, window=(1, 2, 3, 4)), quadratic, 1)
    windows = np.array([1, 2, 3, 4, 0, 0])
    assert run.gradients[-1] == windows[trace.worker].sum()


def test_a_divergence_of_any_variable_is_found_at_its_commit(quadratic):
    trace, rule = regions(commits=60), rules.hierarchical(rules.Downpour(0.1), rules.Downpour(1e20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = asim.replay(trace, rule, quadratic, 1)
        plain = replay_plainly(trace, rule, quadratic, 1)
    finite = [np.isfinite(commit.loss) and np.isfinite(commit.central["x"]).all() for commit in plain.commits]
    assert run.diverged_at == finite.index(False)


def test_a_scenario_addresses_both_rules_and_rebuilds_them():
    far = asim.Network(latency=asim.delays.Constant(1.0), bandwidth=100.0)
    cluster = asim.Hierarchy([asim.Cluster(2, asim.delays.Exponential(1.0))] * 2, network=far)
    scenario = asim.Scenario(cluster, rules.Downpour(0.1), asim.workloads.Quadratic([1.0, 0.5]), commits=80)
    changed = scenario.override(global_rule="shared_nesterov", global_rule_learning_rate=0.7, learning_rate=0.2)
    assert changed.rule == rules.hierarchical(rules.Downpour(0.2), rules.SharedNesterov(0.7))
    assert changed.digest != scenario.digest
    assert changed.override(global_rule="none").rule == rules.Downpour(0.2)
    assert changed.override(commits_per_push=4, merge_weight=0.5).cluster.commits_per_push == 4
    assert changed.scheduled.network.message_bytes == 8
    window = changed.override(rule=rules.local(rules.Downpour(1.0), window=(2, 1, 3, 1), learning_rate=0.1))
    assert [region.local_steps for region in window.scheduled.regions] == [(2, 1), (3, 1)]
    result = asim.run(window.override(commits=40))
    assert result.trace.local_steps.tolist() == [2, 1, 3, 1, 1, 1]
    assert result.run.central["x"].shape == (2,)
    swept = asim.grid(changed, global_rule_learning_rate=[0.5, 1.0])
    assert [each.rule.global_rule.learning_rate for each in swept] == [0.5, 1.0]


@pytest.mark.parametrize("kind", ["gossip", "hierarchy"])
def test_lanes_of_a_sweep_have_the_variables_that_each_scenario_has_alone(kind):
    law, workload = asim.delays.Exponential(1.0), asim.workloads.Quadratic([1.0, 0.5])
    clusters = {"gossip": asim.Gossip(4, law), "hierarchy": asim.Hierarchy([asim.Cluster(2, law)] * 2, network=FAR)}
    base = asim.Scenario(clusters[kind], rules.Downpour(0.1), workload, commits=60, record=())
    steps = [0.1, 0.2]
    lanes = asim.sweep(asim.grid(base, learning_rate=steps), jobs=0, lanes=2)
    for step, lane in zip(steps, lanes, strict=True):
        alone = asim.run(base.override(learning_rate=step)).run
        np.testing.assert_allclose(lane.run.variables["x"], alone.variables["x"], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(lane.run.central["x"], alone.central["x"], rtol=1e-5, atol=1e-7)


def test_a_folder_of_results_is_read_again_and_a_recorded_trace_replays(tmp_path):
    cluster = asim.Hierarchy([asim.Cluster(2, asim.delays.Exponential(1.0))] * 2, network=FAR)
    scenario = asim.Scenario(cluster, rules.Downpour(0.1), asim.workloads.Quadratic([1.0, 0.5]), commits=60)
    first, again = (asim.run(scenario, out=tmp_path / "run") for _ in range(2))
    assert not again.recomputed
    assert np.array_equal(again.run.variables["x"], first.run.variables["x"])
    recorded = asim.Scenario(first.trace, rules.Downpour(0.1), asim.workloads.Quadratic([1.0, 0.5]))
    assert recorded.workers == 4
    assert np.array_equal(asim.run(recorded).run.loss, first.run.loss)


test_rules_that_cannot_be_global_are_refused = refusals(
    (rules.AGN(0.1, window=5), "`global_rule` must .* which makes local steps"),
    (rules.EASGD(0.1), "`global_rule` must .* 'easgd'"),
    (rules.Rennala(0.1, batch=4, steps="trace"), "`global_rule` must .* collects several commits"),
    (rules.DANA(0.1), "`global_rule` must .* goes on from another value"),
    (
        rules.compressed(rules.Downpour(1.0), asim.compressors.TopK(0.5)),
        "`global_rule` must .* compresses its",
    ),
    (rules.scheduled(rules.Downpour(1.0), by=rules.CosineDecay(10)), "`global_rule` must .* follows a schedule"),
    (rules.WithProxy(rules.Downpour(1.0)), "`global_rule` must .* has a proxy next to it"),
    (rules.hierarchical(rules.Downpour(1.0)), "`global_rule` must .* has a global rule of its own"),
    ("downpour", "`global_rule` must be an asyncsim.Rule; got 'downpour'"),
    call=lambda rule: rules.hierarchical(rules.Downpour(0.1), rule),
)
test_traces_and_rules_that_do_not_fit_are_refused = refusals(
    (
        lambda: (asim.Trace.from_commits([0, 1]), rules.hierarchical(rules.Downpour(0.1))),
        "`trace` must have servers",
    ),
    (lambda: (regions(), RULES["rennala_trace"][0]()), "`trace` must have one variable for '.*', which collects"),
    (lambda: (regions(), rules.hierarchical(rules.hierarchical(rules.Downpour(0.1)))), "`rule` must not have a global"),
    call=lambda make: asim.replay(*make(), tree_workload()),
)
