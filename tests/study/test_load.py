"""Results loaded from folders of any kind: as they were, or as data where a part is of one's own."""

import importlib
import json
import runpy
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.store._labels import Origin
from asyncsim.study._load import importable, load_study, load_with, study_of
from tests.cli.commands import COMPARISON, EXPERIMENT, SCRIPT
from tests.problems import assert_refused
from tests.store.problems import content_of, write_label
from tests.study.problems import assert_same_result, assert_same_run, contents, scenario

pytestmark = pytest.mark.usefixtures("empty_pages")

OWN = SCRIPT.replace(
    "scenario = asim.Scenario(",
    """
import jax.numpy as jnp


def loss(params, batch, key):
    return jnp.sum(jnp.square(params["weight"]))


def init(key):
    return {"weight": jnp.ones(3)}


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
    study: Any = study_of("study.py").override(**changes)
    origin = Origin(Path("study.py"), changes)
    if isinstance(study, asim.Experiment):
        return study.run(out, origin=origin)
    run: Any = asim.compare if isinstance(study, asim.Comparison) else asim.run
    return run(study, out, origin=origin)


def assert_same(found: asim.Result, done: asim.Result) -> None:
    assert found.scenario == done.scenario
    assert found.summary == done.summary
    assert (found.folder, found.recomputed) == (done.folder, False)
    np.testing.assert_array_equal(found.trace.staleness, done.trace.staleness)
    assert_same_run(found.run, done.run)


class TestByName:
    @pytest.mark.quick
    def test_a_run(self) -> None:
        done = asim.run(scenario(), "out")
        before = contents(Path("out"))
        assert_same(asim.load("out"), done)
        again: Any = load_study("out").study
        assert_same(asim.run(again, "out"), done)  # it goes on
        asim.tags.add("out", "base")
        shutil.copytree("out", "elsewhere/copy")
        assert asim.load("base").folder == Path("out").absolute()
        assert asim.load(Path("elsewhere/copy")).scenario == done.scenario
        assert contents(Path("out")) == before

    def test_a_comparison(self) -> None:
        done = run_script(COMPARISON)
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


def assert_data(found: asim.Result, done: asim.Result) -> None:
    """A result without its scenario has all numbers, and what needs the scenario says how to give it."""
    assert found.scenario is None
    assert "no scenario, because `workload.init`" in repr(found)
    assert found.folder is not None
    assert done.folder is not None
    assert found.folder.samefile(done.folder)
    assert (found.summary, found.recomputed) == (done.summary, False)
    np.testing.assert_array_equal(found.trace.commit_time, done.trace.commit_time)
    np.testing.assert_array_equal(found.run.loss, done.run.loss)
    np.testing.assert_array_equal(found.run.central["weight"], done.run.central["weight"])
    assert found.run.records.keys() == done.run.records.keys()
    assert np.isfinite(found.run.final_loss())
    for ask in (found.require_scenario, found.run.evaluate, lambda: found.run.plan(found.trace)):
        with pytest.raises(ValueError, match=r"scenario.*runs no code|was not rebuilt.*--script FILE"):
            ask()


class TestPartsOfOnesOwn:
    def test_are_data_without_their_module(self) -> None:
        """Although the script lies there, unchanged."""
        done = run_script(OWN, seed=3)
        assert_data(asim.load("out"), done)
        made: Any = study_of("study.py").override(seed=3)
        assert_same(asim.load("out", scenario=made), done)
        with pytest.raises(ValueError, match=r"`scenario` is another one .* `seed` is 3 there and 1 here"):
            asim.load("out", scenario=made.override(seed=1))
        message = r"cannot be rebuilt: `workload.init`: .*asyncsim run .*study.py --seed 3 --out .*--script .*study.py"
        with pytest.raises(ValueError, match=message):
            load_study("out")
        assert load_study("out", "study.py").study == made
        Path("study.py").write_text(OWN.replace("jnp.ones(3)", "jnp.zeros(3)"))
        with pytest.raises(ValueError, match=r"`--script` 'study.py' does not give .*`workload.init.code` is"):
            load_study("out", "study.py")

    def test_are_rebuilt_with_their_module(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that the caller has imported, under any name, and whose code is the same."""
        done = run_script(OWN)
        monkeypatch.syspath_prepend(".")
        Path("module_of_a_user.py").write_text(OWN)
        module = importlib.import_module("module_of_a_user")
        assert_same(asim.load("out"), done)
        monkeypatch.setattr(module, "init", lambda key: {"weight": jnp.zeros(3)})
        assert_data(asim.load("out"), done)
        monkeypatch.undo()
        del sys.modules["module_of_a_user"]

    def test_of_the_main_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its own classes and functions count as imported."""
        main = types.ModuleType("__main__")
        main.__file__ = str(Path("study.py").absolute())
        Path("study.py").write_text(OWN)
        monkeypatch.setitem(sys.modules, "__main__", main)
        vars(main).update(runpy.run_path("study.py", run_name="no_program"))
        for part in (main.init, main.loss):
            part.__module__ = "__main__"
        done = asim.run(main.scenario, "out")
        assert_same(asim.load("out"), done)

    def test_in_a_comparison(self) -> None:
        done = run_script(OWN_COMPARISON)
        found = asim.load("out")
        assert list(found) == ["gem", "downpour"]
        for name in found:
            assert_data(found[name], done[name])
            assert_data(asim.load(f"out/{name}"), done[name])
        study = load_study("out", "study.py").study
        for name, result in load_with(Path("out"), study).items():
            assert_same_result(result, done[name])

    def test_in_a_sweep(self) -> None:
        """By name, and where parts are of one's own by the script and the fields that the sweep changed."""
        for text in (SCRIPT, OWN):
            Path("study.py").write_text(text)
            base: Any = study_of("study.py").override(seed=4)
            scenarios = asim.grid(base, learning_rate=[0.1, 0.2], kappa=[1.0, 2.0])
            asim.sweep(scenarios, "store", jobs=0, origin=Origin(Path("study.py"), {"seed": 4}))
            for one in scenarios:
                found = asim.load(f"store/{one.digest}")
                assert (found.scenario == one) == (text == SCRIPT)
                assert found.summary["commits"] == 200
                assert load_study(f"store/{one.digest}", "study.py").study == one

    def test_in_an_interrupted_run(self) -> None:
        """The data reach to the last checkpoint."""
        whole = run_script(OWN)
        notes = {"owner": whole.scenario.digest, "wall_seconds": 1.0}
        made = whole.scenario
        asim.replay(whole.trace, made.rule, made.workload, commits=100, record=()).save("out/run.npz", notes=notes)
        found = asim.load("out")
        assert (found.scenario, found.run.commits, found.summary["commits"]) == (None, 100, 100)

    def test_an_experiment(self) -> None:
        done = run_script(EXPERIMENT, base=3.0)
        found = asim.load("out")
        assert (found.experiment, found.summary) == (None, done.summary)
        assert found.numbers["power"].tolist() == done.numbers["power"].tolist()
        assert load_study("out", "study.py").study.digest == done.experiment.digest
        with pytest.raises(ValueError, match=r"The experiment in 'out' cannot be rebuilt: an experiment is a function"):
            load_study("out")


def test_a_warning_about_a_name_comes_once(recwarn: pytest.WarningsRecorder) -> None:
    asim.run(scenario(), "elsewhere")
    asim.tags.add("elsewhere", "out")
    asim.run(scenario(), "out")
    asim.load("out")
    assert [str(one.message).partition(";")[2].split()[-3:] for one in recwarn] == [["is", "not", "meant."]]


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
        whole, made = asim.run(scenario(), "out"), scenario()
        notes = {"owner": made.digest, "wall_seconds": 1.0}
        asim.replay(whole.trace, made.rule, made.workload, commits=100, record=()).save("out/run.npz", notes=notes)
        found = asim.load("out")
        assert (found.run.commits, found.summary["commits"], len(found.trace)) == (100, 100, 400)


@pytest.mark.parametrize(
    "change",
    [
        "sys.path.insert(0, 'first')",
        "sys.path.append('last')",
        "sys.path[:0] = ['one', 'two']",
        "sys.path.remove(FOLDER)",
        "sys.path.insert(0, FOLDER)",
        "sys.path = ['new']",
        "sys.path.clear()",
    ],
)
def test_a_script_leaves_on_the_path_what_it_has_put_there(change: str, tmp_path: Path) -> None:
    """Only the entry of its own folder is removed, wherever it stands by then."""
    script = tmp_path / "study.py"
    script.write_text(f"import sys\nFOLDER = {str(tmp_path)!r}\n{change}\n")
    for before in ([*sys.path], [*sys.path, str(tmp_path)]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "path", [*before])
            with importable(str(script)):
                exec(script.read_text(), {})
                after = [*sys.path]
            left = [*sys.path]
            if after.count(str(tmp_path)) > before.count(str(tmp_path)):
                after.remove(str(tmp_path))
            assert left == after


@pytest.mark.parametrize("base", ["asim.Rule", "asim.compressors.Compressor", "asim.Workload", "asim.datasets.Dataset"])
def test_a_script_that_decorates_a_dataclass_of_a_base_class_is_told_to_leave_it_out(base: str, tmp_path: Path) -> None:
    script = tmp_path / "study.py"
    script.write_text(
        "import dataclasses\nimport asyncsim as asim\n\n\n"
        f"@dataclasses.dataclass(frozen=True)\nclass Own({base}, named=False):\n    number: float = 1.0\n"
    )
    message = r"study.py, line \d+: TypeError: Cannot overwrite .* in class Own. Leave out its `@dataclass`"
    assert_refused(lambda: study_of(str(script)), message)


def test_a_file_store_json_of_somebody_else_makes_no_store() -> None:
    Path("store.json").write_text("{}")
    done = asim.run(scenario(), "out")
    assert_same(asim.load("out"), done)
    assert not asim.run(scenario(), "out").recomputed
