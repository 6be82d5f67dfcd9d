"""The scenarios about rules and protocols that learn, on small settings: their claims hold in their own numbers."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

import asyncsim as asim
from asyncsim import theory
from tests.scenarios.run import load, run, run_loaded


def test_compressed_updates():
    small = {"workers": 4, "seconds": 30.0, "step_sizes": (0.1, 0.4), "hidden": (8,), "seeds": 1, "target": 2.0}
    script = load("compressed_updates")
    for name in ("natural", "QSGD, 7 levels", "random 10 %", "rank 2", "top 1 %"):  # some parts, and signs, are left
        del script["COMPRESSORS"][name]
    numbers = run_loaded(script, **small)
    size, commits = numbers["bytes"][:, 0], numbers["commits"][:, 0, -1]
    assert size.max() == size[0] == 4 * (64 * 8 + 8 + 8 * 10 + 10)  # the identity
    order = np.argsort(size)
    assert (np.diff(commits[order]) <= 0).all()
    assert commits[order[0]] > 2 * commits[0]
    # With no way for bytes to matter: a message in full takes 4 s, the way down 0.4 s, a job 1 s.
    np.testing.assert_allclose(commits[0], 4 * 30 / 5.4, rtol=0.15)
    np.testing.assert_array_equal(numbers["test_loss"][0, 0], numbers["test_loss"][0, 1])
    assert np.isfinite(numbers["test_loss"][:, 0, :, -1]).all()


def test_dana_protocol():
    script = load("dana_protocol")
    del script["CLUSTERS"]["equal machines, V = 0.6"]  # the same code as the others
    numbers = run_loaded(script, workers=(1, 16), commits=200, seeds=1, batch_size=4)
    rules = list(numbers["rule"])
    # n - 1, minus what the last commits have in flight: n(n - 1)/2 in 200.
    np.testing.assert_allclose(numbers["staleness"], [[0, 15]] * 2, atol=16 * 15 / 200)
    ends = dict(zip(rules, numbers["last_loss"][..., 0].transpose(1, 0, 2), strict=True))  # (clusters, workers) each
    assert (ends["DANA-Zero"][:, 1] < ends["NAG-ASGD"][:, 1]).all()
    assert ends["DANA-Zero"][0, 1] < ends["Multi-ASGD"][0, 1]
    # With one worker, NAG-ASGD and DANA take their gradients at the same points; large steps only amplify rounding.
    zero, shared = (numbers["losses"][:, rules.index(name), 0, :5] for name in ("DANA-Zero", "NAG-ASGD"))
    np.testing.assert_allclose(zero, shared, rtol=0.02)
    np.testing.assert_array_equal(numbers["last_loss"], numbers["losses"].min(axis=3))  # of one seed


def test_agn_window():
    """Ten workers: accumulated DOWNPOUR fails with every seed where AGN learns with every seed."""
    numbers = run("agn_window", workers=(10,), windows=(10,), mini_batches=120, seeds=1, batch_size=8)
    assert dict(zip(numbers["rule"], numbers["failed_seeds"], strict=True)) == {"downpour": 1, "agn": 0, "aeasgd": 0}
    learns = dict(zip(numbers["rule"], numbers["learns_up_to"], strict=True))
    assert learns["downpour"] < 0.1 < learns["agn"]
    assert (numbers["all_accuracies"].max(axis=-1)[1:] > 0.9).all()


def test_easgd_exchange():
    lags = (1, 3)
    numbers = run("easgd_exchange", lags=lags, windows=(1,), window=10, mini_batches=120, seeds=1, batch_size=4)
    for i in range(2):
        np.testing.assert_allclose(numbers[f"limit_{i}"], numbers[f"exact_limit_{i}"], rtol=0.03)
    np.testing.assert_allclose(numbers["exact_limit_1"], numbers["centre_alone"], rtol=0.01)
    assert (numbers["exact_limit_0"] < numbers["centre_alone"]).all()
    atomic, separate = numbers["by_hand"]
    assert (atomic < 0.5).all()
    assert (separate[lags.index(1)] < 0.5).all()
    assert not (separate[lags.index(3), :, 0] < 100).any()  # α = 0.5
    assert (separate[lags.index(3), :, 1] < 0.5).all()  # α = 0.05
    atomic, separate = numbers["on_clusters"]
    assert numbers["commits_between"] > 2
    assert (atomic < 0.5).all()
    assert not (separate[0, :, 0] < 100).any()
    assert (separate[0, :, 1] < 0.5).all()


@pytest.mark.networks
def test_pipeline():
    all_of = load("pipeline")["contestants"]
    left_out = ("weight prediction, one horizon", "Adam", "Muon")  # made, but not compiled

    def contestants(*arguments):
        return {name: rule for name, rule in all_of(*arguments).items() if name not in left_out}

    script = load("pipeline", contestants=contestants)
    numbers = run_loaded(script, stages=(1, 2), layers=2, commits=60, seeds=1, batch_size=4)
    for column, stages in zip(numbers["staleness"][1:], (1, 2), strict=True):
        assert (column == np.repeat(theory.pipeline_staleness(stages, "concurrent"), 2 // stages)).all()
    assert (numbers["staleness"][0] == 0).all()
    np.testing.assert_allclose(numbers["throughput"], numbers["predicted_throughput"], rtol=1e-12)
    ends = dict(zip(numbers["rule"], numbers["last_loss"][..., 0], strict=True))  # no pipeline, 1 stage, 2 stages
    # Without staleness nothing is predicted, compensated or slowed down.
    assert ends["asynchronous SGD"][0] == pytest.approx(ends["DC-ASGD"][0], rel=1e-4)
    assert ends["asynchronous SGD"][0] == pytest.approx(ends["PipeMare's step sizes"][0], rel=1e-4)
    assert ends["momentum"][0] == pytest.approx(ends["SpecTrain, each stage its own"][0], rel=1e-4)


def test_more_stages_than_layers_are_refused():
    with pytest.raises(ValueError, match="`stages` must be at most the 8 layers of the model; got 9"):
        load("pipeline")["schedule"](9, 8, 10, 9)


SMALL = {"workers": 6, "slow": 3, "factor": 6.0, "seconds": 60.0, "seeds": 2, "step_sizes": (0.0625, 0.25, 1.0)}


@pytest.mark.networks
def test_who_is_biased():
    numbers = run("heterogeneous", **SMALL, only="downpour,rennala,ia2sgd,synchronous")
    alike = np.isin(numbers["rule"], load("heterogeneous")["ALIKE"])
    assert alike.tolist() == [False, False, True, True]
    assert numbers["gap"][~alike].min() > 2 * numbers["gap"][alike].max()
    assert numbers["gap"][~alike].min() > np.median(abs(numbers["without_gap"]))  # of two seeds each
    slow = dict(zip(numbers["rule"], numbers["slow_share"], strict=True))
    assert slow["downpour"] == pytest.approx(1 / 7, abs=0.02)
    assert slow["synchronous"] == pytest.approx(0.5, abs=0.05)
    assert numbers["label_counts"].shape == (6, 10)


def test_its_rows():
    """Ten rules and the synchronous one; a row that there is not is named."""
    rows = load("heterogeneous")["rows"]
    assert len(rows("all")) == 11
    with pytest.raises(ValueError, match=r"`only` must name rows, of downpour, .*; got 'dwonpour'"):
        rows("dwonpour")


@pytest.mark.networks
def test_ringleaders_protocol():
    script = load("ringleader_protocol")
    methods = script["METHODS"]
    for name in ("asynchronous SGD", "IA²SGD"):  # the same code as the others
        del methods[name]
    for name, (make, arguments, protocol, step_sizes, color) in methods.items():
        methods[name] = (make, arguments, protocol, step_sizes[:2], color)
    numbers = run_loaded(script, clients=12, seconds=60.0, seeds=1, hidden=4)
    assert numbers["method"].tolist() == ["Ringleader", "Malenia"]
    assert numbers["curves"].shape == (2, 1, 2, 60)
    assert np.isfinite(numbers["curves"]).all()
    commits = dict(zip(numbers["method"], numbers["commits"], strict=True))
    assert commits["Ringleader"] > commits["Malenia"]  # whose jobs are stopped


def test_its_clients_take_as_long_as_published():
    """1 to n seconds, dealt out anew for each seed, and a half-normal beside them."""
    script = load("ringleader_protocol")
    trace = script["schedule"](10, script["protocols"].Asynchronous(), 3000.0, 4)
    seconds = np.array([np.diff(trace.commit_time[trace.worker == client]) for client in range(10)], dtype=object)
    base = np.random.default_rng(4).permutation(10) + 1.0
    for client, times in enumerate(seconds):
        assert times.min() >= base[client]
        expected = np.sqrt(2 / np.pi) * (client + 1) ** 0.5
        assert abs(times.mean() - base[client] - expected) < 4 * times.std() / len(times) ** 0.5


def test_language():
    """The curve begins near the logarithm of the number of characters, and the sample continues the prompt."""
    text = "to be or not to be, that is the question. " * 20
    small = {"width": 8, "layers": 1, "context": 8, "batch_size": 4, "seeds": 2, "written": 30, "prompt": "to "}
    numbers = run("language", text=text, commits=60, **small)
    assert numbers["losses"].shape == (2, 15)
    assert (numbers["losses"][:, -1] < numbers["losses"][:, 0]).all()
    assert (numbers["losses"] < np.log(len(set(text))) + 0.1).all()
    assert (np.diff(numbers["tables"]) < 0).all()
    assert (numbers["below_pairs"] == (numbers["test_loss"] < numbers["tables"][1])).all()
    sample = str(numbers["sample"])
    assert (sample[:3], len(sample)) == ("to ", 33)
    assert set(sample) <= set(text)


def test_rotations():
    script = load("rotations")
    script["compute"].__globals__.update(SHARES=script["SHARES"][12::3], STEP_SIZES=script["STEP_SIZES"][8::4])
    numbers = run_loaded(script, dimension=4, rotations=2, commits=160, delay=4)
    row = {
        key: place
        for place, key in enumerate(
            zip(*(numbers[name].tolist() for name in ("optimiser", "delay", "start")), strict=True)
        )
    }
    sgd = numbers["optimiser"] == "sgd"
    np.testing.assert_allclose(numbers["ratios"][sgd], 1, rtol=1e-2)  # in single precision, with fewer digits near 0
    np.testing.assert_allclose(numbers["along_axes"][sgd], numbers["predicted"][sgd], rtol=1e-2)
    assert np.isnan(numbers["predicted"][~sgd]).all()
    late, fresh = (row["adam", delay, "signs"] for delay in (4, 0))
    assert numbers["smallest"][late] > 10  # along the axes all parameters move together
    assert numbers["along_axes"][fresh] < numbers["along_axes"][late]
    assert (numbers["low"] <= numbers["mean_ratio"]).all()
    assert (numbers["mean_ratio"] <= numbers["high"]).all()
    assert numbers["losses"].shape == (12, 2, 2)
    np.testing.assert_allclose(
        numbers["ratio"], np.median(numbers["losses"][..., 1] / numbers["losses"][..., 0], axis=1)
    )


@pytest.mark.parametrize("momentum", [0.5, 0.9])
def test_outer_age(momentum):
    numbers = run("outer_age", momentum=momentum, ages=(0, 1), commits=4000)
    np.testing.assert_allclose(numbers["measured"], numbers["predicted"], rtol=0.011)  # the grid is one of 1 %
    limits = dict(zip(numbers["optimiser"][4:].tolist(), numbers["predicted"][4:].tolist(), strict=True))
    assert limits["heavy_ball"] < limits["nesterov"] < limits["damped"] < limits["plain"] == pytest.approx(1)


def test_language_delays(monkeypatch):
    """The table has the best of its steps, and rises are paired by seed. A step that diverges is never the best."""
    monkeypatch.setattr(asim, "sweep", partial(asim.sweep, jobs=0))  # no processes, which would compile everything anew
    optimisers = {"AdamW": lambda step: asim.rules.Downpour(step)}
    steps = {("AdamW", 0): (0.1, 1e30), ("AdamW", 1): (0.1, 1e-9, 1e30)}
    script = load("language_delays", OPTIMISERS=optimisers, STEPS=steps, FIXED=(1,))
    numbers = run_loaded(script, commits=12, width=4, seeds=2)
    assert numbers["step_size"].tolist() == [0.1, 0.1]
    assert not numbers["best_is_inside"].any()
    fresh, late = numbers["losses"]
    np.testing.assert_array_equal(numbers["fixed_losses"][0, 0], late)  # the same step size
    assert numbers["rise"].tolist() == [0.0, pytest.approx(np.mean(late - fresh))]
    assert numbers["rise_error"][1] == pytest.approx(abs(np.diff(late - fresh)[0]) / 2)
    assert numbers["system"].tolist() == ["delay 1", "six stages"]


def test_language_diloco():
    """The best pair of step sizes is that of the lowest mean, and differences are paired by seed."""
    script = load("language_diloco")
    rng = np.random.default_rng(0)
    tables = {id(row): rng.normal(3, 0.1, (5, 4)) for row in script["ROWS"].values()}
    script["compute"].__globals__.update(measure=lambda row, *_: tables[id(row)])
    numbers = run_loaded(script, seeds=4)
    best = {name: min(tables[id(row)], key=np.mean) for name, row in script["ROWS"].items()}
    np.testing.assert_allclose(numbers["losses"], np.array(list(best.values())) - numbers["least_loss"])
    place = int(tables[id(script["ROWS"]["delayed"])].mean(axis=1).argmin())
    row = numbers["row"].tolist().index("delayed")
    assert numbers["outer_step"][row] == 0.2 * script["CROSS"][place, 0]
    assert numbers["best_is_the_middle"][row] == (place == 0)
    difference = best["asynchronous"] - best["AdamW, 4 workers"]
    low, high = stats.ttest_1samp(difference, 0).confidence_interval(0.95)
    error = difference.std(ddof=1) / 2
    assert str(numbers["late_less_rounds"]) == f"{difference.mean():+.4f} ± {error:.4f} ({low:+.4f} to {high:+.4f})"


def test_language_diloco_gives_each_row_as_many_tokens():
    script = load("language_diloco")
    for row in script["ROWS"].values():
        trace = script["schedule"](row, rounds=6)
        windows = np.broadcast_to(row.windows, row.workers)
        steps = windows[trace.worker].sum()
        assert 0 <= steps - 60 * row.workers < windows.max()
        assert row.workers * (script["SEQUENCES"] // row.workers) == script["SEQUENCES"]


def test_language_diloco_trains_with_each_pair_of_step_sizes():
    script = load("language_diloco")
    source = asim.datasets.Markov(1, 4, context=4, sequences=100)
    losses = script["measure"](script["ROWS"]["delayed, by speed"], source, 4, 2, 2)
    assert losses.shape == (5, 2)
    assert len(np.unique(losses)) == 10
    assert (losses < np.log(4) + 0.5).all()
