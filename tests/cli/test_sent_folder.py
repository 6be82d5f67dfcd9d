"""A folder that somebody sent runs no code: every command on folders with scripts, modules, classes and pickles."""

import dataclasses
import importlib
import json
import os
import pickle
import re
import shutil
import site
import subprocess
import sys
import types
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.cli._command import app
from asyncsim.cli._sweep.results import COMMANDS as OF_SWEEP
from asyncsim.components._description import describe
from asyncsim.components._digest import hash_of
from asyncsim.store._labels import Origin
from asyncsim.study._load import study_of
from tests.cli.commands import COMPARISON, EXPERIMENT, SCRIPT, Command
from tests.store.problems import content_of, write_label

# What a person types for a folder that is named {}. Each command of the command line is here, or in `WITHOUT_FOLDER`.
LINES = {
    "run": ["run {}", "run {} --html", "run {} --learning-rate .02 --out other"],
    "sweep": ["sweep {} --grid seed=0:1 --jobs 0 --store other"],
    "sweep status": ["sweep status {}"],
    "sweep table": ["sweep table {}"],
    "sweep plot": ["sweep plot {} --x seed --y final_loss"],
    "calibrate": ["calibrate {}/trace.npz --quick --out {}"],
    "trace check": ["trace check {}"],
    "trace info": ["trace info {}"],
    "trace export": ["trace export {} other.csv"],
    "trace cost": ["trace cost {}"],
    "cost": ["cost {}", "cost {} --power busy=300,idle=60"],
    "runs": ["runs {}", "runs {} --json"],
    "show": ["show {}", "show {} --json"],
    "compare": ["compare {} {}/../plain --out other"],
    "animate": ["animate {} --out other.html", "animate {} --principal --out other.html"],
    "figures": ["figures --list"],
    "tag": ["tag {} sent"],
    "path": ["path sent"],
    "tags": ["tags"],
    "retag": ["retag sent again"],
    "untag": ["untag again"],
}
WITHOUT_FOLDER = {"rules", "staleness", "stability", "explore", "completion"}
NAMES = ("numpy", "jax", "click", "pickle", "matplotlib", "asyncsim", "sitecustomize", "conftest", "study", "evil")
TINY = SCRIPT.replace("commits_per_worker=50", "commits_per_worker=2")


def names_of_commands() -> Iterator[str]:
    context = click.Context(app)
    for name in app.list_commands(context):
        found = app.get_command(context, name)
        if isinstance(found, click.Group):
            yield from (f"{name} {inner}" for inner in found.list_commands(context))
        else:
            yield name
    yield from (f"sweep {name}" for name in OF_SWEEP)


def test_the_list_of_commands_is_complete() -> None:
    assert {*LINES} | WITHOUT_FOLDER == {*names_of_commands()}


@dataclasses.dataclass(frozen=True)
class Fires:
    """A dataclass of an installed package that does something when it is constructed."""

    place: str

    def __post_init__(self) -> None:
        Path(self.place).touch()


class Pickled:
    """An object whose pickle does something when it is read."""

    def __init__(self, place: Path) -> None:
        self.place = str(place)

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.place),)


def forge(folder: Path, **entries: Any) -> None:
    """Other entries of a description, under a digest and checksums that fit."""
    content = {**content_of(folder / "scenario.json"), **entries}
    content["digest"] = hash_of({name: value for name, value in content.items() if name not in ("digest", "origin")})
    write_label(folder, content)
    for name in ("run.npz", "trace.npz"):
        with np.load(folder / name) as file:
            arrays = {**file, "note/owner": np.asarray(content["digest"])}
        np.savez(folder / name, **arrays)


def plain(folder: Path, canary: Path) -> None:
    """As it comes from the library alone."""


def script(folder: Path, canary: Path) -> None:
    text = TINY + f"\nimport pathlib\npathlib.Path({str(canary)!r}).touch()\n"
    rule = "class Own(asim.rules.Downpour):\n    pass\n\nscenario = asim.Scenario("
    text = text.replace("scenario = asim.Scenario(", rule).replace("asim.rules.GEM", "Own")
    (folder / "study.py").write_text(text)
    study: Any = study_of(str(folder / "study.py"))
    canary.unlink()
    remake(folder, study, folder / "study.py")


def remake(folder: Path, study: Any, path: Path) -> None:
    for name in ("scenario.json", "trace.npz", "run.npz", "summary.json", "report.png"):
        (folder / name).unlink()
    run: Any = asim.compare if isinstance(study, asim.Comparison) else asim.run
    study.run(folder, origin=Origin(path)) if isinstance(study, asim.Experiment) else run(
        study, folder, origin=Origin(path)
    )


def experiment(folder: Path, canary: Path) -> None:
    (folder / "study.py").write_text(EXPERIMENT)
    remake(folder, study_of(str(folder / "study.py")), folder / "study.py")
    (folder / "study.py").write_text(f"import pathlib\npathlib.Path({str(canary)!r}).touch()\n{EXPERIMENT}")


def comparison(folder: Path, canary: Path) -> None:
    """Whose members lie elsewhere."""
    remake(folder, study_of_text(COMPARISON.replace("commits_per_worker=50", "commits_per_worker=2")), Path("study.py"))
    content = content_of(folder / "comparison.json")
    content["origin"]["members"] = {"../gem": "../../plain", "gem": "../../../plain"}
    write_label(folder, content, "comparison.json")


def study_of_text(text: str) -> Any:
    Path("text.py").write_text(text)
    return study_of("text.py")


def module(folder: Path, canary: Path) -> None:
    forge(folder, rule={"kind": "evil.Rule", "import": "evil:Rule", "code": "0" * 16, "learning_rate": 0.1})


def function(folder: Path, canary: Path) -> None:
    """One of Python's own, with the right hash: it would be called with a key."""
    loss = {name: describe(shutil.rmtree, f"workload.{name}") for name in ("init", "loss")}
    forge(folder, workload={"kind": "workloads.Functions", **loss})


def installed(folder: Path, canary: Path) -> None:
    """A dataclass of an installed package, with the right hash."""
    described = describe(Fires(str(canary)), "rule")
    canary.unlink()
    forge(folder, rule=described)


def changed(folder: Path, canary: Path) -> None:
    """A dataclass of the user's, with another hash."""
    forge(folder, rule={"kind": "Fires", "import": f"{__name__}:Fires", "code": "0" * 16, "place": str(canary)})


def internal(folder: Path, canary: Path) -> None:
    """Classes and modules of the library that are no components."""
    forge(folder, rule={"kind": "store.tags.Tag", "name": "x", "place": "y"}, workload={"kind": "__main__.program"})


def download(folder: Path, canary: Path) -> None:
    softmax = {"kind": "workloads.softmax", "batch_size": 4}
    forge(folder, workload={**softmax, "data": {"kind": "datasets.mnist", "fingerprint": "0" * 16}})


def photographs(folder: Path, canary: Path) -> None:
    softmax = {"kind": "workloads.softmax", "batch_size": 4}
    forge(folder, workload={**softmax, "data": {"kind": "datasets.image_folder", "path": str(folder)}})


def huge(folder: Path, canary: Path) -> None:
    cluster = content_of(folder / "scenario.json")["cluster"]
    forge(folder, cluster={**cluster, "workers": 10**12}, commits=10**15)


def nested(folder: Path, canary: Path) -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    forge(folder, rule={"kind": "rules.gem", "learning_rate": deep}, cluster={"array": [1], "dtype": "O"})


def pickles(folder: Path, canary: Path) -> None:
    for name in ("run.npz", "trace.npz"):
        with np.load(folder / name) as file:
            arrays = dict(file)
        np.savez(folder / name, **{**arrays, "loss": np.array([Pickled(canary)], object)})
    (folder / "numbers.npz").write_bytes(pickle.dumps(Pickled(canary)))


def store(folder: Path, canary: Path) -> None:
    """A store whose parcels are pickles, and whose list of runs leads out of it."""
    for name in list(folder.iterdir()):
        name.unlink()
    made = study_of_text(TINY)
    asim.sweep(asim.grid(made, seed=[0, 1]), folder, jobs=0)
    for name in ("0" * 16, made.digest):
        (folder / "data" / f"{name}.bin").write_bytes(pickle.dumps(Pickled(canary)))
    (sweep,) = (folder / "sweeps").iterdir()
    content = content_of(sweep)
    write = importlib.import_module("asyncsim.files._json").write_owned
    write(folder / "sweeps" / f"{'1' * 16}.json", {**content, "rows": [["../../plain", 0]]}, "1" * 16)


def terminal(folder: Path, canary: Path) -> None:
    """Texts that would clear the terminal, or end an element of a page."""
    content = content_of(folder / "scenario.json")
    content["origin"] |= {"command": "\x1b[2J", "settings": {"<script>\x9b2J": "\u202e"}, "date": "\x1b]0;x\x07"}
    content["origin"]["script"] = {"path": "/x\x1b[2J.py"}
    write_label(folder, content)
    forge(folder, rule={"kind": "\x1b[2J", "</script>": "\x1b[2J"})


def links(folder: Path, canary: Path) -> None:
    """In the place of results, to files of the user's."""
    for name in ("summary.json", "report.png", "report.html", "movie.html"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(folder.parent / "precious")


def folders(folder: Path, canary: Path) -> None:
    """Links in the place of asyncsim's own folders."""
    (folder / ".unfinished").symlink_to(folder.parent)
    (folder / "summary.json").unlink()


def folders_of_a_store(folder: Path, canary: Path) -> None:
    """The same in a store."""
    store(folder, canary)
    for name in ("data", "sweeps", "unfinished"):
        shutil.rmtree(folder / name)
        (folder / name).symlink_to(folder.parent)


def pipes(folder: Path, canary: Path) -> None:
    """In the place of a summary, which nobody writes to."""
    (folder / "summary.json").unlink()
    os.mkfifo(folder / "summary.json")


KINDS = [
    plain,
    script,
    experiment,
    comparison,
    module,
    function,
    installed,
    changed,
    internal,
    download,
    photographs,
    huge,
    nested,
    pickles,
    store,
    terminal,
    links,
    folders,
    folders_of_a_store,
    pipes,
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the library's parts alone."""
    place = tmp_path_factory.mktemp("finished")
    (place / "study.py").write_text(TINY)
    study: Any = study_of(str(place / "study.py"))
    asim.run(study, place / "out", origin=Origin(place / "study.py"), picture=False)
    return place / "out"


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there once anything of the sender's has run, or a network or others' pictures were asked for."""
    place = tmp_path / "canary"

    def fire(*args: Any, **more: Any) -> None:
        place.touch()
        raise OSError("fired")

    pooch = importlib.import_module("pooch")
    monkeypatch.setattr(pooch, "retrieve", fire)
    monkeypatch.setattr(pooch, "os_cache", lambda name: str(tmp_path / "cache"))
    monkeypatch.delenv("ASYNCSIM_DATA", raising=False)
    monkeypatch.setattr(importlib.import_module("asyncsim.datasets._images"), "_files", fire)
    monkeypatch.setattr(importlib.import_module("asyncsim.animation._movie"), "make_film", shortened)
    package = types.ModuleType("installed_package")
    package.__file__ = str(Path(site.getsitepackages()[0], "installed_package.py"))
    monkeypatch.setattr(Fires, "__module__", "installed_package")
    package.Fires = Fires  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "installed_package", package)
    return place


def shortened(*args: Any, **more: Any) -> Any:
    raise ValueError("no pictures here")


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("make", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore")
def test_no_command_runs_code(
    make: Callable[[Path, Path], None],
    inside: bool,
    command: Command,
    finished: Path,
    canary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every command ends with a status of its own and at most one line of an error, and nothing of the folder runs."""
    folder, precious = tmp_path / "sent", tmp_path / "precious"
    shutil.copytree(finished, folder)
    shutil.copytree(finished, tmp_path / "plain")
    (folder / "report.png").touch()
    precious.write_text("precious")
    make(folder, canary)
    for name in NAMES:
        for place in (folder, tmp_path):
            if not (place / f"{name}.py").exists():
                (place / f"{name}.py").write_text(f"import pathlib\npathlib.Path({str(canary)!r}).touch()\n")
    (folder / "figures").mkdir()
    (folder / "figures" / "__init__.py").write_text(f"import pathlib\npathlib.Path({str(canary)!r}).touch()\n")
    (folder / "figures" / "catalogue.py").touch()
    assert not canary.exists()
    monkeypatch.chdir(folder if inside else tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    path, modules = "." if inside else "sent", {*sys.modules}
    for lines in LINES.values():
        for line in lines:
            shutil.rmtree("other", ignore_errors=True)
            done = command(*line.format(*[path] * 3).split())
            assert not canary.exists(), line
            assert done.status in (0, 1, 2), (line, done)
            errors = [one for one in done.err.splitlines() if one.startswith("Error: ")]
            assert len(errors) == (done.status != 0), (line, done)
            assert not re.search(
                r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e]|\x1b(?!\[[01]m)", done.out + done.err
            )
            assert "Traceback" not in done.err
            assert precious.read_text() == "precious", line
            assert not {*tmp_path.glob("*.npz"), *tmp_path.glob("*.bin"), tmp_path / "scenario.json"} & {
                *tmp_path.iterdir()
            }
            for page in (*tmp_path.glob("*.html"), *folder.glob("*.html")):
                assert "</script>\x1b" not in page.read_text()
    places = {sys.modules[name]: getattr(sys.modules[name], "__file__", None) for name in {*sys.modules} - modules}
    assert not [place for place in places.values() if place and place.startswith(str(tmp_path))]
    with suppress(ValueError, OSError):
        found = asim.load(folder)
        for result in found.values() if isinstance(found, dict) else [found]:
            repr(result)
    assert not canary.exists()


@pytest.mark.parametrize("make", [plain, script, module, installed, changed, internal, download, photographs, huge])
def test_numbers_of_a_foreign_folder_are_loaded(
    make: Callable[[Path, Path], None], finished: Path, canary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As data, if the scenario is not of the library alone."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path / "sent")
    (tmp_path / "sent" / "report.png").touch()
    make(tmp_path / "sent", canary)
    found = asim.load(tmp_path / "sent")
    assert (found.scenario is None) == (make is not plain)
    assert len(found.trace) == found.summary["commits"] == len(found.run.loss) == 8
    assert found.run.central["x"].shape == (2,)


@pytest.mark.parametrize("has_label", [False, True])
def test_a_page_that_was_in_the_folder_is_not_opened(
    has_label: bool, command: Command, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pages: list[str] = []
    monkeypatch.setattr(webbrowser, "open", pages.append)
    shutil.copytree(finished, "sent")
    Path("sent/report.png").touch()
    if has_label:
        experiment(Path("sent"), Path("canary"))
    else:
        Path("sent/scenario.json").unlink()
    Path("sent/movie.html").write_text("<script>")
    done = command("animate", "sent", "--open")
    assert (done.status, pages) == (2, [])
    assert "`--open` is for pages that this command writes; 'sent/movie.html' was there before." in done.err
    assert command("animate", "sent").out == "Page in sent/movie.html\n"


def test_processes_of_a_sweep_import_nothing_from_the_working_directory(finished: Path, tmp_path: Path) -> None:
    """Python puts the working directory on the path of a process that is started with `-c`."""
    shutil.copytree(finished, tmp_path / "sent")
    for name in (*NAMES, "multiprocessing", "socket", "struct", "tempfile"):
        (tmp_path / "sent" / f"{name}.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    line = ["sweep", ".", "--grid", "seed=0,1", "--jobs", "1", "--store", "../store", "--json"]
    (tmp_path / "programs").mkdir()
    program = tmp_path / "programs" / "asyncsim_command.py"  # as pip installs it, outside of the working directory
    program.write_text("from asyncsim.cli import program\n\nif __name__ == '__main__':\n    program()\n")
    done = subprocess.run(
        [sys.executable, program, *line], cwd=tmp_path / "sent", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["columns"]["status"] == ["done", "done"]
    assert not (tmp_path / "canary").exists()
