"""What the figures share: tables, kept runs, curves by worker step, the table of claims."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine import ReplayInterrupted
from figures.common import Claim, Runs, columns_of, pack, stack, table, where
from figures.common import runs as runs_module
from figures.common.averages import ends, loss_by_step, record_by_step
from figures.common.claims import claims_table, numbers
from figures.common.curves import draw_curve
from figures.common.estimate import estimate, in_words
from figures.common.figure import find
from figures.common.runs import outcome_of
from figures.common.tables import from_csv, names_of, over_seeds, to_csv

WORKLOAD = asim.workloads.quadratic([1.0, 0.1])
RECORD = {"energy_central": 1, "pi_median": 4, "pi_median_by_tensor": 4}


def scenario(rate=0.01, steps=30, **more):
    cluster = asim.Cluster(4, asim.delays.Gamma(mean=1.0, cv=0.3))
    return asim.Scenario(cluster, asim.rules.gem(rate), WORKLOAD, commits_per_worker=steps, record=RECORD, **more)


def same(one, other):
    assert vars(one).keys() == vars(other).keys()
    for name, value in vars(one).items():
        left, right = (
            value if isinstance(value, dict) else {name: value},
            getattr(other, name) if isinstance(value, dict) else {name: getattr(other, name)},
        )
        assert left.keys() == right.keys()
        for key in left:
            np.testing.assert_array_equal(left[key], right[key])


class TestTables:
    def test_a_table_survives_its_file(self, tmp_path):
        columns = {"rule": np.array(["gem", "a,b"]), "workers": np.array([5, 10]), "loss": np.array([np.nan, 0.25])}
        (tmp_path / "a.csv").write_bytes(to_csv(columns))
        back = from_csv(tmp_path / "a.csv")
        assert list(back) == list(columns)
        for name, column in columns.items():
            np.testing.assert_array_equal(back[name], column)

    def test_packed_tables_come_apart_again(self):
        packed = pack(one={"a": [1, 2]}, two={"a": [3.0], "b": ["x"]})
        assert names_of(packed) == ["one", "two"]
        assert {name: column.tolist() for name, column in table(packed, "two").items()} == {"a": [3.0], "b": ["x"]}

    def test_columns_of_different_lengths_are_refused(self):
        with pytest.raises(ValueError, match=r"`curves` must have columns of one length.*'b': 1"):
            pack(curves={"a": [1, 2], "b": [1]})

    def test_seeds_stand_below_each_other_and_side_by_side(self):
        seeds = {s: pack(final=stack({"workers": n, "loss": s + n / 10} for n in (1, 2))) for s in (3, 7)}
        long = columns_of(seeds, "final")
        assert long["seed"].tolist() == [3, 3, 7, 7]
        assert where(long, seed=7, workers=2)["loss"].tolist() == [7.2]
        assert over_seeds([*seeds.values()], "final", "loss", workers=1).tolist() == [[3.1], [7.1]]


class TestRuns:
    def test_a_kept_run_is_the_run_and_is_not_made_again(self, tmp_path, monkeypatch):
        plain = Runs().outcome(scenario())
        kept = Runs(tmp_path)
        assert not kept.has(scenario())
        same(kept.outcome(scenario()), plain)
        assert kept.has(scenario())
        assert not kept.has(scenario(seed=1))
        monkeypatch.setattr(runs_module, "run", lambda *a, **k: pytest.fail("replayed again"))
        same(kept.outcome(scenario()), plain)
        (file,) = (path for path in tmp_path.iterdir() if path.is_file())
        assert file.name.startswith(scenario().digest)
        assert asim.__version__ in file.name  # another version makes its own
        assert not any((tmp_path / "unfinished").iterdir())

    def test_a_damaged_or_forgotten_run_is_made_again(self, tmp_path):
        kept = Runs(tmp_path)
        plain = kept.outcome(scenario())
        (file,) = (path for path in tmp_path.iterdir() if path.is_file())
        whole = file.read_bytes()
        file.write_bytes(whole[:100])
        same(kept.outcome(scenario()), plain)
        assert file.read_bytes() == whole
        kept.forget(scenario())
        assert not kept.has(scenario())

    def test_an_interrupted_run_goes_on(self, tmp_path):
        def stop(_, replayer):
            if 0 < replayer.done < replayer.total:
                raise KeyboardInterrupt

        long = scenario(steps=40_000)  # several pieces
        with pytest.raises(ReplayInterrupted):
            Runs(tmp_path, stop).outcome(long)
        done = []
        resumed = Runs(tmp_path, lambda _, replayer: done.append(replayer.done)).outcome(long)
        assert len(done) > 0
        whole = Runs().outcome(long)
        same(resumed, whole)

    def test_a_diverged_run_is_nan_from_there(self):
        outcome = Runs().outcome(scenario(rate=1e12))
        assert outcome.diverged_at is not None
        assert np.isfinite(outcome.loss[: outcome.diverged_at]).all()
        assert np.isnan(outcome.loss[outcome.diverged_at :]).all()
        assert np.isnan(outcome.final_loss)
        assert len(outcome.loss) == len(outcome.staleness) == 120
        assert np.isnan(record_by_step(outcome, "pi_median")[-1])

    def test_what_is_shown_is_the_run(self):
        result = asim.run(scenario())
        outcome = outcome_of(result)
        np.testing.assert_array_equal(outcome.loss, result.run.loss)
        assert outcome.final_loss == result.run.final_loss()
        assert outcome.test_loss == result.run.evaluate()["test_loss"]


class TestSeries:
    outcome = Runs().outcome(scenario(steps=33))

    def test_loss_is_the_mean_of_each_block(self):
        curve = loss_by_step(self.outcome, block=5)
        assert curve["worker_steps"].tolist() == [5, 10, 15, 20, 25, 30]
        expected = [self.outcome.loss[20 * k : 20 * k + 20].mean(dtype=float) for k in range(6)]
        np.testing.assert_allclose(curve["training_loss"], expected, rtol=1e-12)

    @pytest.mark.parametrize("name", list(RECORD))
    def test_records_are_the_mean_of_each_block(self, name):
        values, at = self.outcome.records[name], self.outcome.recorded_at[name]
        means = record_by_step(self.outcome, name, block=5)
        assert len(means) == len(ends(self.outcome, 5))
        for k, mean in enumerate(means):
            inside = (20 * k <= at) & (at < 20 * k + 20)
            np.testing.assert_allclose(mean, values[inside].mean(axis=0, dtype=float), rtol=1e-6)

    def test_what_was_not_recorded_is_named(self):
        with pytest.raises(ValueError, match=r"`name` must be a recorded quantity; got 'pi'\. There are: energy_"):
            record_by_step(self.outcome, "pi")


def test_a_curve_is_the_median_with_a_band_and_a_cross_where_all_have_ended():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    line = draw_curve(ax, [1, 2, 3], [[1.0, 4.0, np.nan], [3.0, np.inf, np.nan], [8.0, 5.0, np.nan]], color="red")
    np.testing.assert_array_equal(line.get_ydata(), [3.0, 4.5, np.nan])
    band = ax.collections[0].get_paths()[0].get_extents()
    assert (band.ymin, band.ymax) == (1.0, 8.0)
    assert ax.get_lines()[1].get_xydata().tolist() == [[2.0, 4.5]]


def test_the_table_of_claims_has_a_row_a_claim_and_says_what_does_not_hold():
    claims = {
        "figure1": [Claim("a", "|b|", "c", True), Claim("d", "e", "f", False)],
        "energy": [Claim("g", "h", "i", None)],
    }
    rows = claims_table(claims).splitlines()[2:]
    assert [row.split(" | ")[-1] for row in rows] == ["holds |", "**does not hold** |", "cannot be told here |"]
    assert rows[0] == r"| figure1 | a | \|b\| | c | holds |"
    assert [row.split(" | ")[0] for row in rows] == ["| figure1", "| figure1", "| energy"]
    assert numbers([0.07, 0.995, 0.9996, -0.5, 12.345]) == ".07 .995 1 -.5 12.3"


def test_the_estimate_counts_what_is_missing_once(tmp_path, tiny):
    runs, figures = Runs(tmp_path), [(find("figure3"), 0), (find("figure8"), 0), (find("figure3"), 1)]
    ahead = estimate(figures, "quick", runs)
    assert (ahead.runs, ahead.commits) == (12, 20 * (2 * (5 + 10 + 20 + 30) + 4 * 5))
    assert ahead.seconds > 0
    runs.outcome(find("figure8").scenarios("quick", 0)[4.0])
    assert estimate(figures, "quick", runs).runs == 11
    assert in_words(5400) == "about 1.5 hours"
