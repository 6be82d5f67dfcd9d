"""Results found again: from folders of any kind, with scripts that are there, changed or gone."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.store._labels import Origin
from asyncsim.study._load import load_study, study_of
from tests.cli.commands import COMPARISON, EXPERIMENT, SCRIPT
from tests.store.problems import content_of, write_label
from tests.study.problems import assert_same_result, assert_same_run, contents, scenario

pytestmark = pytest.mark.usefixtures("empty_pages")

OWN = SCRIPT.replace(
    "scenario = asim.Scenario(",
    """
import jax.numpy as jnp


def loss(params, batch, key):
    return jnp.sum(jnp.square(params))


def init(key):
    return jnp.ones(3)


scenario = asim.Scenario(""",
).replace("asim.workloads.Quadratic([1.0, 0.1], noise=0.1)", "asim.Workload(init=init, loss=loss)")
OWN_COMPARISON = COMPARISON.replace(SCRIPT.partition("if __name")[0], OWN.partition("if __name")[0])


@pytest.fixture(autouse=True)
def own_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSIM_TAGS", str(tmp_path / "tags.json"))
    monkeypatch.chdir(tmp_path)


def run_script(text: str, out: str = "out", **changes: Any) -> Any:
    """What `asyncsim run` does with a script."""
    Path("study.py").write_text(text)
    study, origin = study_of("study.py").override(**changes), Origin(Path("study.py"), changes)
    if isinstance(study, asim.Experiment):
        return study.run(out, origin=origin)
    run = asim.compare if isinstance(study, asim.Comparison) else asim.run
    return run(study, out, origin=origin)


def assert_same(found: asim.Result, done: asim.Result) -> None:
    assert found.scenario == done.scenario
    assert found.summary == done.summary
    assert (found.folder, found.recomputed) == (done.folder, False)
    np.testing.assert_array_equal(found.trace.staleness, done.trace.staleness)
    assert_same_run(found.run, done.run)


TOUCH = "import pathlib; pathlib.Path('touched').touch()"


class TestByName:
    @pytest.mark.quick
    def test_a_run(self) -> None:
        done = asim.run(scenario(), "out")
        before = contents(Path("out"))
        assert_same(asim.load("out"), done)
        assert_same(asim.run(load_study("out").study, "out"), done)  # it goes on
        asim.tags.add("out", "base")
        shutil.copytree("out", "elsewhere/copy")
        assert asim.load("base").folder == Path("out").absolute()
        assert asim.load(Path("elsewhere/copy")).scenario == done.scenario
        assert contents(Path("out")) == before

    @pytest.mark.parametrize("script", [COMPARISON, OWN_COMPARISON])
    def test_a_comparison(self, script: str) -> None:
        """Without its script, unless parts are of one's own."""
        done = run_script(script)
        if script == COMPARISON:
            Path("study.py").unlink()
        found = asim.load("out")
        assert list(found) == ["gem", "downpour"]
        for name in found:
            assert_same_result(found[name], done[name])
            assert_same_result(asim.load(f"out/{name}"), done[name])
            assert found[name].folder == done[name].folder
        assert load_study("out").study.digest == load_study("out").study.override().digest

    def test_origin_is_beside_the_description(self) -> None:
        run_script(SCRIPT, kappa=2.0)
        origin = json.loads(Path("out/scenario.json").read_text())["origin"]
        assert origin["versions"]["asyncsim"] == asim.__version__
        assert origin["script"]["path"] == str(Path("study.py").absolute())
        assert origin["changes"] == {"kappa": 2.0}
        assert origin["rebuild"]["commits_per_worker"] == 50
        assert {"date", "command"} <= origin.keys()
        assert load_study("out").study == study_of("study.py").override(kappa=2.0)
        assert load_study("out").study.override(workers=8) == study_of("study.py").override(kappa=2.0, workers=8)


class TestByScript:
    def test_parts_of_ones_own(self) -> None:
        """With the script as it was, moved away, and changed."""
        done = run_script(OWN, seed=3)
        assert_same(asim.load("out"), done)
        Path("study.py").rename("moved.py")
        with pytest.raises(ValueError, match=r"`workload.init`: .* Its script '.*study.py' is missing. .*scenario="):
            asim.load("out")
        made = study_of("moved.py").override(seed=3)
        assert_same(asim.load("out", scenario=made), done)
        with pytest.raises(ValueError, match=r"`scenario` is another one .* `seed` is 3 there and 1 here"):
            asim.load("out", scenario=made.override(seed=1))
        Path("study.py").write_text(OWN + "# a remark\n")
        with pytest.warns(UserWarning, match="has changed since, but still defines this scenario"):
            assert_same(asim.load("out", trust=True), done)
        Path("study.py").write_text(OWN.replace("jnp.ones(3)", "jnp.zeros(3)"))
        with pytest.raises(ValueError, match=r"has changed since and defines another one: `workload.init.code` is"):
            asim.load("out", trust=True)
        Path("study.py").write_text("scenario = 1 / 0")
        with pytest.raises(ValueError, match=r"Its script fails: .*line 1: ZeroDivisionError"):
            asim.load("out", trust=True)

    def test_a_script_that_has_changed_is_not_run(self) -> None:
        """Nor any that a forged label names."""
        run_script(OWN)
        Path("other.py").write_text(TOUCH)
        label = content_of("out/scenario.json")
        label["origin"]["script"]["path"] = str(Path("other.py").absolute())
        write_label("out", label)
        for load in (asim.load, load_study):
            with pytest.raises(ValueError, match=r"other.py' is not run, because it has changed since\. Read it, and"):
                load("out")
        assert not Path("touched").exists()
        with pytest.raises(ValueError, match=r"defines no `scenario`"):
            asim.load("out", trust=True)
        assert Path("touched").exists()

    def test_a_script_where_anybody_may_write_is_not_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("scripts").mkdir()
        Path("scripts/study.py").write_text(OWN)
        done = asim.run(study_of("scripts/study.py"), "out", origin=Origin(Path("scripts/study.py")))
        assert_same(asim.load("out"), done)
        for place in ("out", "scripts", "out/scenario.json", "scripts/study.py"):
            Path(place).chmod(0o777)
            with pytest.raises(ValueError, match=rf"is not run, because anybody may write to '.*{place}'\. Read it"):
                asim.load("out")
            assert asim.load("out", trust=True).summary == done.summary
            Path(place).chmod(0o755)
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        monkeypatch.setattr(Path, "stat", lambda path: os.stat_result((*os.stat(path)[:4], 54321, *os.stat(path)[5:])))
        with pytest.raises(ValueError, match=r"is not run, because '.*' is another user's\. Read it"):
            asim.load("out")

    def test_without_a_script(self) -> None:
        class Own(asim.rules.Downpour):
            """A rule that no module has."""

        asim.run(asim.Scenario(scenario().cluster, Own(0.1), scenario().workload, commits=8), "out")
        with pytest.raises(ValueError, match=r"was not run from a script\. Or give it yourself"):
            asim.load("out")

    def test_an_experiment(self) -> None:
        done = run_script(EXPERIMENT, base=3.0)
        found = asim.load("out")
        assert found.summary == done.summary
        assert found.experiment.digest == done.experiment.digest
        Path("study.py").unlink()
        with pytest.raises(ValueError, match=r"The experiment in 'out' cannot be made again.* is missing"):
            asim.load("out")


def test_a_run_of_a_sweep() -> None:
    """By name, and where parts are of one's own by the script and what the sweep changed."""
    for text in (SCRIPT, OWN):
        Path("study.py").write_text(text)
        base = study_of("study.py").override(seed=4)
        scenarios = asim.grid(base, learning_rate=[0.1, 0.2], kappa=[1.0, 2.0])
        asim.sweep(scenarios, "store", jobs=0, origin=Origin(Path("study.py"), {"seed": 4}))
        for one in scenarios:
            found = asim.load(f"store/{one.digest}")
            assert found.scenario == one
            assert found.summary["commits"] == 200


class TestRefused:
    def test_what_does_not_fit_its_label(self) -> None:
        """A label that was edited, the files of another scenario, and no results yet."""
        asim.run(scenario(), "out")
        asim.run(scenario(seed=1), "other")
        text, content = Path("out/scenario.json").read_text(), content_of("out/scenario.json")
        Path("out/scenario.json").write_text(text.replace('"seed": 0', '"seed": 1'))
        with pytest.raises(ValueError, match=r"scenario.json' is damaged. Compute it again .*--out out --force"):
            asim.load("out")
        write_label("out", content | {"seed": 1})
        with pytest.raises(ValueError, match="its digest differs"):
            asim.load("out")
        write_label("out", content)
        shutil.copy("other/run.npz", "out/run.npz")
        with pytest.raises(ValueError, match=r"run.npz' is not the run of this scenario"):
            asim.load("out")
        Path("out/run.npz").unlink()
        with pytest.raises(FileNotFoundError, match=r"has no 'run.npz' yet. Go on with it: asyncsim run 'out'"):
            asim.load("out")

    def test_an_interrupted_run(self) -> None:
        """As far as its last checkpoint."""
        whole = asim.run(scenario(), "out")
        notes = {"owner": whole.scenario.digest, "wall_seconds": 1.0}
        asim.replay(whole.trace, whole.scenario.rule, whole.scenario.workload, commits=100, record=()).save(
            "out/run.npz", notes=notes
        )
        found = asim.load("out")
        assert (found.run.commits, found.summary["commits"], len(found.trace)) == (100, 100, 400)


def test_a_file_store_json_of_somebody_else_makes_no_store() -> None:
    Path("store.json").write_text("{}")
    done = asim.run(scenario(), "out")
    assert_same(asim.load("out"), done)
    assert not asim.run(scenario(), "out").recomputed
