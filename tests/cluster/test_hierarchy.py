"""Hierarchies: what the trace says of pushes and merges, and what is refused. Tolerances are 3.5 standard errors."""

import dataclasses

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, rules, theory
from asyncsim.trace._invariants import conservation
from asyncsim.trace._variables import changes_of, last_merges
from tests.problems import refusals

EXPONENTIAL = delays.Exponential(1.0)


def region(workers=3, law=EXPONENTIAL, **kwargs):
    return asim.Cluster(workers, law, **kwargs)


def far(up_and_down=1.0):
    return asim.Network(latency=delays.Constant(up_and_down))


def hierarchy(regions=2, **kwargs):
    return asim.Hierarchy([region()] * regions, **{"commits_per_push": 4, "network": far(), **kwargs})


def simulate(commits=400, seed=0, **kwargs):
    return asim.simulate(hierarchy(**kwargs), commits=commits, seed=seed)


NETWORKS = [
    asim.Network(),
    far(0.5),
    asim.Network(latency=EXPONENTIAL),
    asim.Network(bandwidth=8.0, message_bytes=4.0, shared=True),
]


def mean_error(values):
    """The mean and its standard error, from means of blocks of neighbours, which are nearly independent."""
    blocks = np.array_split(np.asarray(values, float), 40)
    means = [block.mean() for block in blocks]
    return np.mean(values), np.std(means) / np.sqrt(len(means))


# The last one has the two numbers that were measured first, a share of .4469 and .8983 pushes a second.
PUSHES_AND_SHARES = [(2, 0.5, 6, 1.0), (8, 1.0, 4, 1.0), (32, 2.0, 3, 1.0), (2, 0.30785, 4, 0.995)]


@pytest.mark.parametrize(("count", "latency", "workers", "mean"), PUSHES_AND_SHARES)
def test_pushes_and_reported_commits_are_as_many_as_theory_says(count, latency, workers, mean):
    regions = [region(workers, delays.Exponential(mean))] * 2
    rate, round_trip = workers / mean, 2 * latency
    trace = asim.simulate(asim.Hierarchy(regions, commits_per_push=count, network=far(latency)), commits=16_000)
    pushes = trace.from_variable == 0
    gaps = np.diff(trace.commit_time[pushes])
    mean, error = mean_error(gaps)
    assert abs(mean - 1 / theory.push_rate(count, rate, round_trip)) < 3.5 * error
    last = np.flatnonzero(pushes)[-1]  # later commits have had no chance
    commits = (trace.from_variable < 0) & (trace.variable == 0) & (np.arange(len(trace)) < last)
    share, error = mean_error(trace.reported[commits])
    assert abs(share - theory.reported_share(count, rate, round_trip)) < 3.5 * error


@pytest.mark.parametrize(
    ("regions", "workers", "law"),
    [(1, 2, EXPONENTIAL), (3, 4, delays.Gamma(1.0, 0.3)), (5, 2, delays.Pareto(1.0, 2.5))],
)
def test_staleness_is_conserved_in_each_region_and_between_regions(regions, workers, law):
    clusters = [region(workers, law)] * regions
    trace = asim.simulate(asim.Hierarchy(clusters, commits_per_push=5, network=far(0.7)), commits=6000)
    aged, pairs = conservation(trace)
    assert aged == pairs
    # Each region holds one read of the global variable, so that each push is seen by all others.
    pushes = np.flatnonzero(trace.from_variable >= 0)
    in_flight = (regions - 1) * len(pushes) - trace.staleness[pushes].sum()
    assert 0 <= in_flight <= regions * (regions - 1) * 4
    # In a region each commit is seen by the other workers. Merges are counted apart.
    changes = changes_of(trace)
    for number in range(regions):
        rows = np.flatnonzero(trace.variable == number)
        is_merge = changes.position[changes.first[number] : changes.first[number + 1]] % 2 == 0
        merges = np.append(0, np.cumsum(is_merge))
        commits = trace.staleness[rows] - (merges[trace.version[rows]] - merges[trace.read_version[rows]])
        left = (workers - 1) * len(rows) - commits.sum()
        assert 0 <= left <= workers * workers * 20


def test_a_hierarchy_by_hand():
    """One region of two workers, commits at 1, 1, 2, 2, …, a push after two of them that takes .25 s each way."""
    one = asim.Hierarchy([region(2, delays.Constant(1.0))], commits_per_push=2, network=far(0.25), merge_weight=0.5)
    trace = asim.simulate(one, seconds=3.0)
    assert trace.worker.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert trace.commit_time.tolist() == [1, 1, 1.25, 2, 2, 2.25, 3, 3]
    assert trace.from_variable.tolist() == [-1, -1, 0, -1, -1, 0, -1, -1]
    # Changes of the region: two commits, a merge at 1.5, two commits, a merge at 2.5.
    assert trace.version.tolist() == [0, 1, 0, 3, 4, 1, 6, 7]
    assert trace.read_version.tolist() == [0, 0, 0, 1, 2, 1, 4, 5]
    assert trace.from_version.tolist() == [-1, -1, 2, -1, -1, 5, -1, -1]
    assert last_merges(trace, changes_of(trace)).tolist() == [0, 0, 0, 0, 0, 3, 0, 0]
    assert trace.mixings.time.tolist() == [1.5, 1.5, 2.5, 2.5]
    assert trace.mixings.source_version.tolist() == [-1, 1, -1, 2]
    assert trace.reported.tolist() == [True, True, False, True, True, False, False, False]


def test_without_a_far_link_every_commit_is_reported_also_at_equal_times():
    clusters = [region(4, delays.Constant(1.0))] * 2
    trace = asim.simulate(asim.Hierarchy(clusters, commits_per_push=3), commits=300)
    assert (trace.from_variable >= 0).sum() == 74
    commits = np.flatnonzero(trace.from_variable < 0)
    assert trace.reported[commits[:-12]].all()


@pytest.mark.parametrize("law", [delays.Constant(1.0), EXPONENTIAL])
@pytest.mark.parametrize(
    "network",
    [
        asim.Network(),
        far(0.5),
        asim.Network(latency=EXPONENTIAL),
        asim.Network(bandwidth=8.0, message_bytes=4.0, shared=True),
    ],
)
def test_a_shorter_run_is_the_beginning_of_a_longer_one(law, network):
    regions = [region(3, law), region(2, law, server=asim.Server(service=delays.Constant(0.1)))]
    cluster = asim.Hierarchy(regions, commits_per_push=3, network=network)
    long = asim.simulate(cluster, commits=60, seed=1)
    for commits in (1, 7, 8, 23):
        short = asim.simulate(cluster, commits=commits, seed=1)
        for name in ("worker", "version", "read_version", "commit_time", "from_version"):
            assert np.array_equal(getattr(short, name), getattr(long, name)[:commits]), name


def test_regions_draw_their_own_times_and_the_first_has_those_of_its_cluster_alone():
    trace = simulate()
    first, second = (trace.commit_time[(trace.variable == number)] for number in (0, 1))
    alone = asim.simulate(region(), commits=50)
    assert np.array_equal(first[:50], alone.commit_time)
    assert not np.isin(first, second).any()


PUBLISHED = {  # of HALoS (arXiv 2506.04531) for 70 million parameters
    "commits_per_push": lambda cluster, rule: (cluster.commits_per_push, 32),
    "merge_weight": lambda cluster, rule: (cluster.merge_weight, 0.25),
    "local_steps": lambda cluster, rule: (rule.window, 8),
    "optimiser": lambda cluster, rule: (rule.rule.optimiser, "adamw"),
    "region": lambda cluster, rule: (rule.innermost, rules.DelayedNesterov(0.2, momentum=0.9, interval=16)),
    "global": lambda cluster, rule: (rule.global_rule, rules.DelayedNesterov(0.15, momentum=0.5, interval=2)),
}


@pytest.mark.parametrize("setting", PUBLISHED)
def test_the_presets_of_halos_have_the_published(setting):
    value, published = PUBLISHED[setting](asim.Hierarchy.halos([region()]), rules.hierarchical.halos(0.01))
    assert value == published


def test_files_keep_pushes(tmp_path):
    trace = simulate()
    trace.save(tmp_path / "trace.npz")
    read = asim.Trace.load(tmp_path / "trace.npz")
    assert read.digest == trace.digest
    for name in ("from_variable", "from_version", "worker_variable", "reported"):
        assert np.array_equal(getattr(read, name), getattr(trace, name))
    assert read.names == trace.names


def test_tables_keep_pushes(tmp_path):
    trace = simulate()
    trace.to_csv(tmp_path / "trace.csv")
    read = asim.Trace.from_csv(tmp_path / "trace.csv")
    assert read.digest == trace.digest
    assert read.names == trace.names
    lines = (tmp_path / "trace.csv").read_text().replace("from_version", "other").splitlines()
    (tmp_path / "trace.csv").write_text("\n".join(lines))
    with pytest.raises(asim.TraceError, match="`from_version` must be given where there are several variables"):
        asim.Trace.from_csv(tmp_path / "trace.csv")


def test_bytes_count_both_levels():
    trace = simulate(commits=100)
    spent = asim.cost(trace, message_bytes=1, parameter_bytes=10)
    pushes = (trace.from_variable >= 0).sum()
    assert spent.bytes_up == 100 - pushes + 10 * pushes
    # Every worker and server reads after each of its commits.
    assert spent.bytes_down == 10 * 100
    assert spent.bytes_far == 10 * 2 * pushes
    assert spent.workers == trace.computing == 6
    over = asim.costs.cost_over_time(trace, message_bytes=1, parameter_bytes=10)
    assert over["bytes"][-1] == spent.bytes_sent


def test_a_pause_of_a_regions_server_is_one_of_its_worker():
    paused = region(faults=[asim.faults.ServerPause(start=1.0, seconds=2.0)])
    trace = asim.simulate(asim.Hierarchy([region(), paused], network=far()), commits=60)
    assert trace.faults.worker.tolist() == [7]


test_hierarchies_that_cannot_be_are_refused = refusals(
    ({"regions": []}, "`regions` must be one or more asyncsim.Cluster"),
    ({"regions": [1]}, "`regions` must be one or more asyncsim.Cluster"),
    ({"regions": region()}, "`regions` must be a sequence; got Cluster"),
    ({"regions": [region(protocol=asim.protocols.Synchronous())]}, "`regions` must have servers .* collects gradients"),
    ({"regions": [region(server=asim.Server(atomic=False))]}, "`regions` must .* in separate requests"),
    ({"regions": [region(faults=[asim.faults.Crash(0, 1.0)])]}, "`regions` must .* lose their state"),
    ({"regions": [region(), region(local_steps=2)]}, "`regions` must all have `local_steps`"),
    ({"commits_per_push": 0}, "`commits_per_push` must be .* got 0"),
    ({"merge_weight": 0}, "`merge_weight` must be above 0 and at most 1; got 0"),
    ({"merge_weight": 1.5}, "`merge_weight` must be above 0 and at most 1; got 1.5"),
    ({"merge_weight": "all"}, "`merge_weight` must be above 0 and at most 1; got 'all'"),
    *(
        (
            {"network": asim.Network(**{name: [each] * 3})},
            f"`{name}` of the network must have one entry per region; .* 3 for 2",
        )
        for name, each in (("latency", EXPONENTIAL), ("bandwidth", 1.0), ("upload_bandwidth", 1.0))
    ),
    ({"regions": 3}, r"`regions` must be a sequence; got 3. Give a list, as in \[Cluster\(workers=…, compute=…\)\]"),
    ({"regions": "far"}, "`regions` must be a sequence; got 'far'. Give a list"),
    ({"network": asim.Network(collective="ring")}, "`network` must lead to a global server; got a ring"),
    ({"regions": [region(law=delays.Constant(0.0))]}, "`regions` must take time"),
    call=lambda changes: asim.simulate(asim.Hierarchy(**{"regions": [region()] * 2, **changes}), commits=9),
)

test_settings_that_the_presets_of_halos_cannot_have_are_refused = refusals(
    (lambda: asim.Hierarchy.halos(region()), "`regions` must be a sequence; got Cluster"),
    (lambda: asim.Hierarchy.halos([]), "`regions` must be one or more asyncsim.Cluster"),
    (lambda: asim.Hierarchy.halos([region()], 3), "`network` must be an asyncsim Network; got 3"),
    (lambda: rules.hierarchical.halos(-0.1), "`learning_rate` must not be negative; got -0.1"),
    (lambda: rules.hierarchical.halos(0.1, window=0), "`window` must be an integer of at least 1; got 0"),
    (lambda: rules.hierarchical.halos(0.1, optimiser="adamm"), "`optimiser` must be one of .* Did you mean 'adam'"),
    call=lambda call: call(),
)

TABLE = simulate(commits=60)
PUSHES = np.flatnonzero(TABLE.from_variable >= 0)


def damage(name, row, value):
    column = np.array(getattr(TABLE, name))
    column[row] = value
    return {name: column}


test_damaged_pushes_are_refused = refusals(
    (damage("from_version", 0, 3), "`from_version` must be -1 for commits of a gradient"),
    (damage("from_version", PUSHES[0], 1000), "`from_version` must be a version that `from_variable` had"),
    (damage("from_version", PUSHES[-1], 1), "`from_version` must follow a merge after the previous push"),
    (damage("pushes_from", 7, 0), "`pushes_from` must be another variable for each worker"),
    (damage("pushes_from", 7, -1), "`from_version` must be -1|`pushes_from` must be -1 for the first workers only"),
    (damage("pushes_from", 7, 2), "`pushes_from` must be another variable than the worker's"),
    (damage("worker_variable", 6, 1), "`variable` must be the same in all commits of a worker"),
    (damage("worker_variable", 0, 9), "`worker_variable` must be a variable"),
    ({"worker_variable": [0, 1]}, "`worker_variable` must have one entry per worker"),
    (damage("read_version", PUSHES[-1], 0), "`read_version` must follow its previous push|`read_version`"),
    call=lambda changes: dataclasses.replace(TABLE, **changes).check(),
)

test_what_knows_one_variable_refuses_hierarchies = refusals(
    (lambda: TABLE.to_columns(unfinished=True), "must have one variable here; got one with 3"),
    (lambda: asim.calibrate(TABLE), "must have one variable here"),
    call=lambda use: use(),
)
