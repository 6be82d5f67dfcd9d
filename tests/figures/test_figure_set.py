"""Figures: runs computed once, a set that reuses its results, equal bytes of equal runs, and judged claims."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim.store import _entry as keeping
from asyncsim.study import _work as work
from asyncsim.study._store import open_store
from figures.common import figure_set as figures_module
from figures.common.figure_set import (
    Claim,
    FigureSet,
    RunCache,
    cached_run,
    claims_table,
    estimate,
    in_words,
    numbers,
)
from figures.common.tables import pack, table
from tests.figures.fake_figure import fake

WORKLOAD = asim.workloads.Quadratic([1.0, 0.1])
RECORD = {"energy_central": 1, "pi_median": 4, "pi_median_by_tensor": 4}


def scenario(learning_rate=0.01, commits_per_worker=30, **more):
    cluster = asim.Cluster(4, asim.delays.Gamma(mean=1.0, cv=0.3))
    rule = asim.rules.GEM(learning_rate)
    return asim.Scenario(cluster, rule, WORKLOAD, commits_per_worker=commits_per_worker, record=RECORD, **more)


def assert_same(one, other):
    np.testing.assert_equal(vars(one), vars(other))


def test_a_cached_run_is_the_run_and_is_not_replayed_again(tmp_path, monkeypatch):
    uncached, done = RunCache().get(scenario()), []
    runs = RunCache(tmp_path, lambda made, progress: done.append((made, progress.done)))
    assert not runs.has(scenario())
    assert_same(runs.get(scenario()), uncached)
    assert done[-1] == (scenario(), 120)
    assert runs.has(scenario())
    assert not runs.has(scenario(seed=1))
    monkeypatch.setattr(work, "compute", lambda *a, **k: pytest.fail("replayed again"))
    assert_same(runs.get(scenario()), uncached)
    assert_same(
        cached_run(open_store(tmp_path / figures_module.VERSIONS).get(scenario())), uncached
    )  # a store as any other
    assert not any((tmp_path / figures_module.VERSIONS / "unfinished").iterdir())
    runs.forget(scenario())
    assert not runs.has(scenario())


def with_runs(**changes):
    """A figure of two runs, which it only looks up."""

    def compute(scale, seed, runs):
        return pack(final={"loss": [runs.get(one).final_loss for one in scenarios(scale, seed).values()]})

    def scenarios(scale, seed):
        return {rate: scenario(learning_rate=rate, seed=seed, **changes) for rate in (0.01, 0.02)}

    def draw(page, seeds, scale):
        page.subplots().plot(table(seeds[-1], "final")["loss"])

    return fake(scenarios=scenarios, compute=compute, draw=draw)


def test_runs_that_processes_compute_are_the_same(tmp_path, monkeypatch):
    def a_set(name):
        return FigureSet(tmp_path / name, {"one": with_runs()}, "quick", "a task", seeds=1)

    alone, other = a_set("alone"), a_set("other")
    alone.make("one")
    done = []
    other.replay(["one"], 0, lambda progress: done.append(progress.done))
    assert (done[0], done[-1]) == (0, 2)
    monkeypatch.setattr(work, "compute", lambda *a, **k: pytest.fail("replayed again"))
    other.make("one")
    np.testing.assert_array_equal(*(table(one.read("one", 0), "final")["loss"] for one in (alone, other)))


def test_a_failed_run_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "compute", lambda *a, **k: 1 / 0)
    figures = FigureSet(tmp_path, {"one": with_runs()}, "quick", "a task", seeds=1)
    with pytest.raises(RuntimeError, match="2 of the figures' runs failed, the first with: ZeroDivisionError"):
        figures.replay(["one"], 0)


def test_other_versions_and_older_files_are_not_used(tmp_path, monkeypatch):
    RunCache(tmp_path).get(scenario())
    assert asim.__version__ in figures_module.VERSIONS
    monkeypatch.setattr(figures_module, "VERSIONS", "asyncsim-9.9,jax-9.9")
    (tmp_path / f"{scenario().digest}_0.1.0_0.9.2.npz").write_bytes(b"as an earlier asyncsim kept it")
    assert not RunCache(tmp_path).has(scenario())
    assert len(RunCache(tmp_path).unused()) == 2


def test_a_diverged_run_is_nan_from_there():
    run = RunCache().get(scenario(learning_rate=1e12))
    assert run.diverged_at is not None
    assert np.isfinite(run.loss[: run.diverged_at]).all()
    assert np.isnan(run.loss[run.diverged_at :]).all()
    assert np.isnan(run.final_loss)
    assert len(run.loss) == len(run.commit_time) == 120


def test_the_estimate_counts_each_missing_run_once(tmp_path):
    runs = RunCache(tmp_path)
    scenarios = [scenario(), scenario(seed=1), scenario(), scenario(commits_per_worker=50)]
    ahead = estimate(scenarios, runs)
    assert (ahead.runs, ahead.commits) == (3, 4 * (30 + 30 + 50))
    assert ahead.seconds > 0
    runs.get(scenario())
    assert estimate(scenarios, runs).runs == 2
    assert in_words(5400) == "about 1.5 hours"


@pytest.fixture(autouse=True)
def quick_pictures(request, monkeypatch):
    """Pictures are drawn, but their files hold only a word, except with the mark `whole_pages`."""

    def save(paths, page, size):
        page(Figure(figsize=size))
        for path in paths:
            path.write_bytes(b"a picture, in words")

    if not request.node.get_closest_marker("whole_pages"):
        monkeypatch.setattr(figures_module, "save_figure", save)


@pytest.fixture
def make_set(tmp_path):
    """A set of two figures, which are alike."""

    def make(folder=tmp_path, seeds=1, scale="small", **changes):
        figures = {"one": fake(**changes), "two": fake(**changes)}
        return FigureSet(folder, figures, scale, "nothing is learned", seeds)

    return make


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_second_call_computes_and_draws_nothing(tmp_path, make_set):
    """A further seed is added to the existing ones."""
    make_set(seeds=1).make("one")
    made = make_set(seeds=2).make("one")
    assert (made.computed, made.drawn) == ([1], True)
    assert (tmp_path / "one_final.csv").read_text() == "seed,loss\n0,0\n1,0.333333\n"
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = make_set(seeds=2).make("one")
    assert (again.computed, again.drawn, again.claims) == ([], False, made.claims)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}


@pytest.mark.whole_pages
def test_equal_runs_give_equal_bytes(tmp_path, make_set):
    for folder in ("a", "b"):
        figures = make_set(tmp_path / folder)
        figures.conclude([figures.make("one")])
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    names = {str(path) for path in contents(tmp_path / "a")}
    assert names >= {"one.pdf", "one.png", "one_curve.csv", "one_final.csv", "summary.md", "figures.json"}


def test_a_damaged_file_is_replaced(tmp_path, make_set):
    make_set().make("one")
    before = contents(tmp_path)
    for name in ("numbers/one_seed0.npz", "one.png", "one_final.csv"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:10])
        made = make_set().make("one")
        assert (made.computed, made.drawn) == (([], True) if name[0] == "o" else ([0], False))
        assert contents(tmp_path) == before
    (tmp_path / "one.pdf").unlink()
    assert make_set().make("one").drawn
    assert contents(tmp_path) == before


def test_other_code_other_runs_and_forgetting_compute_again(make_set):
    figures = make_set()
    figures.make("one")
    assert figures.read("one", 0) is not None
    figures.forget(["one"])
    assert figures.read("one", 0) is None
    assert figures.make("one").computed == [0]
    redrawn = make_set(draw=lambda page, seeds, scale: page.subplots().plot([1.0])).make("one")
    assert (redrawn.computed, redrawn.drawn) == ([], True)
    assert make_set(compute=lambda scale, seed, runs: pack(final={"loss": [1.0]})).read("one", 0) is None
    replayed = {"it": SimpleNamespace(digest="another")}
    assert make_set(scenarios=lambda scale, seed: replayed).make("one").computed == [0]


def test_a_folder_holds_one_scale(make_set):
    make_set().make("one")
    with make_set().lease():
        pass
    with (
        pytest.raises(ValueError, match=r"`out` .* holds figures of scale small\. Choose another folder"),
        make_set(scale="large").lease(),
    ):
        pass


def test_one_process_at_a_time(tmp_path, make_set, monkeypatch):
    monkeypatch.setattr(keeping, "TIMEOUT", 0.0)
    left = tmp_path / "numbers" / f".one_seed0.npz.{'0' * 16}.tmp"
    left.parent.mkdir()
    left.write_bytes(b"half")
    with make_set().lease():
        assert not left.exists()  # its writer was killed
        with pytest.raises(ValueError, match=f"`out` .* is in use by process {os.getpid()}"), make_set().lease():
            pass
    with make_set().lease():
        make_set().make("one")
    assert not [path for path in contents(tmp_path) if path.name.endswith(("lock", "holder"))]


def test_the_summary_keeps_the_figures_made_before(tmp_path, make_set):
    first, then = make_set(), make_set()
    first.conclude([first.make("two")])
    then.conclude([then.make("one")])
    rows = (tmp_path / "summary.md").read_text().splitlines()[-2:]
    assert [row.split(" | ")[0] for row in rows] == ["| one", "| two"]
    more = make_set(seeds=3)
    text = more.conclude([more.make("one")])
    assert f"nothing is learned. Seeds 0, 1, …, as many as there are numbers. asyncsim {asim.__version__}" in text
    rows = (tmp_path / "summary.md").read_text().splitlines()[-2:]
    assert [row.split(" | ")[3] for row in rows] == ["3", "1"]  # each judged by the seeds that it is drawn with


def test_the_subtitle_names_task_seeds_and_note(make_set):
    assert make_set(seeds=1).subtitle("one", 1) == "nothing is learned; 1 seed"
    changes = {"task": lambda scale: f"digits, {scale}", "note": lambda scale: "in red", "SEEDS_SHOWN": "their mean"}
    assert make_set(**changes).subtitle("one", 2) == "digits, small; 2 seeds: their mean; in red"


def test_the_table_has_one_row_per_claim_and_says_what_does_not_hold():
    claims = {
        "figure1": [Claim("a", "|b|", "c", True), Claim("d", "e", "f", False)],
        "energy": [Claim("g", "h", "i", None)],
    }
    rows = claims_table(claims).splitlines()[2:]
    assert [row.split(" | ")[-1] for row in rows] == ["holds |", "**does not hold** |", "cannot be judged here |"]
    assert rows[0] == r"| figure1 | a | \|b\| | c | holds |"
    assert [row.split(" | ")[0] for row in rows] == ["| figure1", "| figure1", "| energy"]


def test_numbers_have_three_digits():
    assert numbers([0.07, 0.995, 0.9996, -0.5, 12.345]) == ".07 .995 1 -.5 12.3"


@pytest.mark.parametrize("name", ["fake.pdf", "fake.png", "fake_curve.csv", "summary.md", "figures.json", ".holder"])
@pytest.mark.parametrize("is_made", [False, True])
def test_a_file_of_the_user_is_not_replaced(tmp_path, name, is_made):
    """But a picture whose place a set has had may be drawn again."""
    figures = FigureSet(tmp_path, {"fake": fake()}, "quick", "a task", seeds=1)

    def make():
        with figures.lease():
            figures.conclude([figures.make("fake")])

    if is_made:
        make()
    (tmp_path / name).write_bytes(b"of the user")
    if is_made and name.startswith("fake"):
        make()
        return
    with pytest.raises(ValueError, match=f"`out` .* holds '{name}', which asyncsim did not write. Move it elsewhere"):
        make()
    assert (tmp_path / name).read_bytes() == b"of the user"


def test_numbers_of_the_user_are_not_removed(tmp_path):
    figures = FigureSet(tmp_path, {"fake": fake()}, "quick", "a task", seeds=1)
    (tmp_path / "numbers").mkdir()
    for name in ("fake_seed0.npz", "fake_seed_of_mine.npz"):
        np.savez(tmp_path / "numbers" / name, mine=np.arange(3))
    figures.forget(["fake"])
    with pytest.raises(OSError, match=r"fake_seed0\.npz.*Move it elsewhere"):
        figures.make("fake")
    for name in ("fake_seed0.npz", "fake_seed_of_mine.npz"):
        assert np.load(tmp_path / "numbers" / name).files == ["mine"]


def test_a_set_that_is_killed_between_two_pictures_goes_on(tmp_path, monkeypatch):
    figures = FigureSet(tmp_path, {"fake": fake()}, "quick", "a task", seeds=1)
    save = figures_module.save_figure

    def save_one(paths, *more):
        save(paths[:1], *more)
        raise KeyboardInterrupt

    monkeypatch.setattr(figures_module, "save_figure", save_one)
    with pytest.raises(KeyboardInterrupt):
        figures.make("fake")
    monkeypatch.undo()
    assert figures.make("fake").drawn
    assert (tmp_path / "fake.png").is_file()
