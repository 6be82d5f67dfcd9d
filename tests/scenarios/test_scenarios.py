"""The scenario scripts that are experiments, on small settings: their claims hold in their own numbers."""

import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from tests.scenarios.run import load, run, run_loaded


def test_server_saturation():
    numbers = run("server_saturation", workers=(2, 8, 24), commits=6000, seeds=4)
    slack = 5 * numbers["throughput_error"] + 0.01 * numbers["throughput"]
    assert (abs(numbers["throughput"] - numbers["predicted_throughput"]) < slack).all()
    assert numbers["throughput"][-1] == pytest.approx(8.0, rel=0.05)  # sixteen workers beyond the knee add nothing
    np.testing.assert_allclose(numbers["staleness"], numbers["workers"] - 1, rtol=0.01)


def test_thesis_cluster():
    numbers = run("thesis_cluster")
    assert len(numbers["agn"]) == 28
    assert numbers["median_error"] < 0.05


def test_stragglers():
    numbers = run("stragglers", seconds=30.0, seeds=1)
    known = np.isfinite(numbers["predicted"])
    assert known.sum() == 4
    ratio = (numbers["seconds_per_step"] / numbers["predicted"])[known]
    assert (abs(ratio - 1) < 0.5).all()  # only about ten synchronous rounds
    assert np.isfinite(numbers["last_loss"]).all()
    order = dict(zip(numbers["protocol"], numbers["seconds_per_step"], strict=True))
    assert order["asynchronous"] < order["4-batch-async"] < order["backup 4"] < order["synchronous"]


def test_ssp_slack():
    numbers = run("ssp_slack", slack=(0, 2, 1000), seconds=60.0, seeds=2)
    assert (numbers["largest"] <= numbers["bound"]).all()
    assert (np.diff(numbers["throughput"]) > 0).all()
    assert numbers["throughput"][-1] == pytest.approx(float(numbers["without_limit"]), rel=0.15)


def test_gossip():
    numbers = run("gossip", graph=("ring", "complete"), workers=6, commits=300, seeds=2)
    # Every commit of a pair changes one model of another, up to the jobs in flight.
    assert numbers["staleness"][:2] == pytest.approx([1, 1], abs=0.05)
    assert (numbers["apart"][:2] > 0).all()
    assert numbers["spectral_gap"][:2] == pytest.approx([1 / 3, 1])


def test_gossip_on_a_slow_network():
    small = {"workers": 6, "seconds": 24.0, "learning_rate": (0.05, 0.2, 0.8), "seeds": 2}
    numbers = run("gossip_slow_network", message_seconds=(0.02, 1.0), **small)
    server, graph = numbers["commits"]
    # All models pass through the server's link, in either direction one per second, up to the first and the last one.
    assert server[1] == pytest.approx(24, abs=2)
    # On a graph a worker computes for a second and waits for two messages.
    assert server[1] < graph[1] < graph[0] < 6 * 24 / 0.9
    # Of 47 commits of a worker on the graph, one exchange is under way at the end.
    assert numbers["staleness"][1] == pytest.approx([1, 1], abs=0.1)
    assert numbers["staleness"][0, 0] == pytest.approx(5, rel=0.1)
    assert np.isfinite(numbers["test_loss"]).all()


def test_hierarchy():
    numbers = run("hierarchy", regions=2, workers=2, seconds=40.0, commits_per_push=4, learning_rate=(0.1,), seeds=2)
    assert numbers["system"].tolist() == ["far server", "far, local steps", "hierarchy"]
    # A worker that waits for four seconds takes a fifth of the gradients, and a region waits for none.
    assert numbers["gradients"][0] == pytest.approx(4 * 40 / 5, rel=0.25)
    assert numbers["gradients"][2] == pytest.approx(4 * 40, rel=0.15)
    # A region pushes every 2 + 4 seconds.
    assert numbers["far_messages"][2] == pytest.approx(2 * 2 * 40 / 6, rel=0.25)


def test_noloco_momentum():
    numbers = run("noloco_momentum", momentum=(0.0, 0.5, 0.95), workers=(4,), rounds=60, seeds=3)
    predicted, measured = numbers["predicted"][0], numbers["distance"][0]
    assert measured[:2] == pytest.approx(predicted[:2], rel=0.3)
    assert np.isinf(predicted[2])
    assert measured[2] > 10 * measured[1]  # beyond the limit the workers drift apart
    assert numbers["limit"] == pytest.approx([0.867], abs=5e-4)


def test_backup_workers():
    numbers = run("backup_workers", backup=(0, 8), seconds=60.0, seeds=3)
    assert (np.diff(numbers["seconds_per_round"]) < 0).all()
    assert numbers["seconds_per_round"][1] == pytest.approx(numbers["predicted"][1], rel=0.05)


def test_recorded_cluster(tmp_path):
    numbers = run("recorded_cluster", commits=300, seeds=2)
    assert np.isfinite(numbers["final_loss"]).all()
    assert numbers["mean_staleness"] == pytest.approx(5.0, abs=0.1)  # six workers that always have a job
    log = tmp_path / "log.csv"
    trace = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0), protocol=asim.protocols.KAsync(2)), commits=200)
    trace.to_csv(log)
    script = load("recorded_cluster")
    for name in [*script["RULES"]][1:]:  # the log is read before
        del script["RULES"][name]
    numbers = run_loaded(script, log=str(log), seeds=1)
    assert numbers["mean_staleness"] == trace.staleness.mean()


def test_ringmaster_quadratic():
    small = {"workers": 150, "dimension": 12, "at": (20.0, 60.0), "seeds": 2, "delay_adaptive": 3e-3}
    numbers = run("ringmaster_quadratic", **small)
    error = dict(zip(numbers["method"], numbers["error"], strict=True))
    assert all(values.shape == (2, 2) for values in error.values())
    assert (error["Ringmaster"] < error["delay-adaptive"]).all()
    assert (error["Rennala"] < error["delay-adaptive"]).all()
    assert (error["delay-adaptive"][:, 1] < error["delay-adaptive"][:, 0]).all()
    assert (numbers["stopped"][:2] > 10 * numbers["commits"][:2]).all()


def test_the_quadratic_of_the_ringmaster_paper():
    """Its error and gradient are those of the matrices, and its minimum solves Ax = b."""
    script, d = load("ringmaster_quadratic"), 9
    matrix, b = (2 * np.eye(d) - np.eye(d, k=1) - np.eye(d, k=-1)) / 4, np.zeros(d)
    b[0] = -0.25
    x, best = np.random.default_rng(0).normal(size=d), np.linalg.solve(matrix, b)
    value, gradient = script["slope"](jnp.array(x), jnp.array(0.5), None)
    assert float(value) == pytest.approx((x - best) @ matrix @ (x - best) / 2, rel=1e-5)
    np.testing.assert_allclose(gradient, matrix @ x - b + 0.5, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(script["start"](d, None), np.array([3.0, *[0.0] * (d - 1)]))


def test_avo_poisson():
    numbers = run("avo_poisson", points=500, entropies=(), steps=4)  # version 1 as in the next two
    assert numbers["run"].tolist() == ["version 2"]
    assert numbers["mean_history_0"].shape == (5, 1)


def test_avo_multi():
    script = load("avo_multi")
    generator = np.random.default_rng(0)
    drawn = script["simulator"](generator, np.tile([1.0, -1.0], (100_000, 1)))
    sources = [1.0, -1.0, 0.0, 1 / 3, 2.0]
    error = np.cov(drawn.T).diagonal() ** 0.5 / 100_000**0.5
    assert (abs(drawn.mean(axis=0) - script["MIXING"] @ sources) < 5 * error).all()
    numbers = run("avo_multi", points=200, epochs=2)
    assert numbers["run"].tolist() == ["published", "mean subtracted"]
    assert np.isfinite(numbers["alpha"]).all()


def test_avo_log():
    numbers = run("avo_log", commits=4000, steps=2)
    assert numbers["mean_history"].shape == (3, 2)
    script = load("avo_log")
    found = script["blocks"](script["simulated"](np.log([2.0, 0.4]), 4050, 0))
    assert found.shape == (40, 7)
    error = found.std(axis=0) / 40**0.5
    assert abs(found[:, 0].mean() - np.log(5 / 2.0)) < 6 * error[0]
    assert abs(found[:, 1].mean() - 4.0) < 6 * error[1] + 0.05  # the first block begins with nobody's commit
    assert abs(np.corrcoef(found[:-1, 0], found[1:, 0])[0, 1]) < 4.5 / 39**0.5


def test_avo_weinberg():
    """The sampler against the mean c / 4 and the second moment 2 / 5 of its density."""
    script = load("avo_weinberg")
    theta = np.array([(0.2, 0.4), (0.6, 0.3)])
    for one, c in zip(theta, script["asymmetry"](theta), strict=True):
        drawn = script["simulator"](np.random.default_rng(0), np.tile(one, (100_000, 1)))
        assert drawn.mean() == pytest.approx(c / 4, abs=5 * drawn.std() / 100_000**0.5)
        assert (drawn**2).mean() == pytest.approx(0.4, abs=5 * (drawn**2).std() / 100_000**0.5)
    above = script["at_two_energies"](np.random.default_rng(0), np.tile(theta[0], (100_000, 1)))
    for column, one in zip(above.T, (theta[0], theta[0] + [0.5, 0.0]), strict=True):
        assert column.mean() == pytest.approx(
            script["asymmetry"](one[None])[0] / 4, abs=5 * column.std() / 100_000**0.5
        )
    assert abs(np.corrcoef(above.T)[0, 1]) < 5 / 100_000**0.5
    numbers = run("avo_weinberg", points=500, entropies=(0.0,), epochs=2)
    assert numbers["run"].tolist() == ["one energy, as published, γ = 0", "two energies, γ = 0"]
    assert np.isfinite(numbers["energy"]).all()
    assert numbers["asymmetry"].shape == (2,)


def test_thesis_calibration():
    """The closed form is what is simulated, and the three numbers are those of `thesis_cluster`."""
    script = load("thesis_calibration")
    for workers, window in ((4, 500), (30, 250), (7, 600)):
        server = asim.Server(service=asim.delays.Constant(0.388))
        cluster = asim.Cluster(workers, asim.delays.Constant(window * 0.412), server=server)
        trace = asim.simulate(cluster, commits=round(script["MINI_BATCHES"] / window))
        times = script["predicted"]((0.412, 0.388, 34.0), np.array(workers), np.array(window))
        assert float(times) == pytest.approx(34.0 + trace.seconds)
    numbers = run("thesis_calibration", resamples=20)
    assert numbers["median_error"] < 0.045
    for found, known, error in zip(numbers["seconds"], (0.412, 0.388, 34.0), (0.02, 0.02, 12.0), strict=True):
        assert found == pytest.approx(known, abs=error)


def test_long_examples():
    """Asynchronously all lengths are used alike, and who is long is stale; stopped and dropped jobs select."""
    options = {"workers": 8, "limit": 12, "backup": 2, "seconds": 60.0, "seeds": 2}
    numbers = run("long_examples", **options)
    assert numbers["protocol"].tolist() == ["asynchronous", "late dropped", "late stopped", "backup workers"]
    assert numbers["used"].mean(axis=2) == pytest.approx(1.0)
    error = (7 / (60 * 8 * 4 * 2)) ** 0.5  # of a share of an eighth, relative to it
    assert numbers["long_used"][0] == pytest.approx(1.0, abs=5 * error)
    assert (numbers["long_used"][1:] < 1 - 5 * error).all()
    assert numbers["long_stale"][0] > numbers["short_stale"][0] + 3


def test_calibration_coverage():
    """Of the exact likelihood, and of a posterior that is made to be right: both hold nine in ten."""
    script = load("calibration_coverage")
    truth, rows, exact = script["fresh_logs"](60, 240, 0)
    z = script["MODEL"].to_coordinates(truth, np.exp(rows[0][:, 0]))
    noise = np.random.default_rng(0)
    centre, size = z + noise.normal(size=z.shape), z.shape[1]

    class Right:
        prior = np.array([[-1.0] * size, [9.0] * size])
        level = np.full((2, size), 0.9)

        def sample(self, statistics, count, seed):
            return centre + np.random.default_rng(seed).normal(size=(count, *centre.shape))

        def identifies(self, drawn):
            return np.ptp(np.quantile(drawn, [0.05, 0.95], axis=0), axis=0) <= 5  # half the prior's width

    found = script["count_coverage"](Right(), truth, rows[0], exact)
    error = np.sqrt(0.09 / len(z))
    assert (found["identified"] == 1).all()
    np.testing.assert_allclose(found["width"], 0.329, rtol=0.1)
    np.testing.assert_allclose(found["coverage"], 0.9, atol=4 * error)
    np.testing.assert_allclose(found["coverage of the exact likelihood"][:3], 0.9, atol=4 * error)


def test_four_measures_have_four_winners():
    numbers = run("cost_ranking", commits=600, seeds=1)
    measures = ("seconds", "bytes", "joules", "money")
    assert all(np.isfinite(numbers[name]).all() for name in measures)
    best = {name: str(numbers["set_up"][numbers[name].argmin()]) for name in measures}
    assert len(set(best.values())) == 4, best
    for name in measures:
        assert sorted(numbers[f"rank_by_{name}"]) == [1, 2, 3, 4, 5, 6]
        assert numbers[name][numbers[f"rank_by_{name}"].argsort()].tolist() == sorted(numbers[name])
        assert (np.diff(numbers[f"{name}_curve"]) >= 0).all()


def test_spot_instances():
    numbers = run("spot_instances", rates=(0.2, 1.0), commits=1000, seeds=4, points=3)
    for name in ("gradients", "useful", "available"):
        away = abs(numbers[name] - numbers[f"{name}_predicted"])
        assert (away < 5 * numbers[f"{name}_error"]).all()  # eight numbers of few degrees of freedom
    of = {
        law: numbers["gradients"][(numbers["law"] == law) & (numbers["rate"] == 1.0)].item() for law in numbers["law"]
    }
    assert of["constant"] < of["gamma, cv 0.5"] < of["log-normal, cv 1"] < of["exponential"]
    np.testing.assert_allclose(numbers["price"], 0.3 / numbers["gradients"], rtol=1e-3)
