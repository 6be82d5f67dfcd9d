"""Files and folders of the user, under every name that asyncsim uses: every writer leaves them, or refuses first."""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import asyncsim as asim
from asyncsim.store._labels import STORE_FOLDERS
from asyncsim.study._run import write_html
from tests.conftest import draw_empty_pages
from tests.study.problems import FILES, scenario

TEXT = b"of the user"
RUN_FILES = (*FILES, "report.html")
COMPARISON_FILES = ("comparison.json", "summary.json", "report.png")
EXPERIMENT_FILES = ("experiment.json", "numbers.npz", "summary.json", "report.png")


def compute(store: str = "", rate: float = 0.1) -> dict[str, np.ndarray]:
    """Compute a loss.

    Args:
        store: Folder of runs.
        rate: Step size.
    """
    return {"loss": asim.sweep([scenario(commits=40, learning_rate=rate)], store, jobs=0).table()["final_loss"]}


def run(out: Path, force: bool) -> None:
    asim.run(scenario(commits=40), out, force=force)


def compare(out: Path, force: bool) -> None:
    asim.compare(asim.Comparison({"gem": scenario(commits=40)}), out, force=force)


def experiment(out: Path, force: bool) -> None:
    asim.Experiment(compute, lambda figure, numbers: None, size=(1, 1)).run(out, force=force)


WRITERS = {
    "run": (run, RUN_FILES),
    "compare": (compare, COMPARISON_FILES),
    "experiment": (experiment, EXPERIMENT_FILES),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A finished folder of each writer, with empty pictures."""
    top = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        draw_empty_pages(patch)
        for name, (write, _) in WRITERS.items():
            write(top / name, False)
        yield {name: top / name for name in WRITERS}


def put_file(path: Path) -> None:
    """Put a file of the user's in a place: of the kind that its name says, where a plain text would not be."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text('{"mine": 1}')
    elif path.suffix == ".npz":
        np.savez(path, mine=np.arange(3))
    elif path.suffix == ".png":
        Image.new("RGB", (40, 40)).save(path)
    else:
        path.write_bytes(TEXT)


def put_text(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(TEXT)


def put_folder(path: Path) -> None:
    if path.is_file():
        path.unlink()
    path.mkdir(parents=True, exist_ok=True)
    (path / "notes.txt").write_bytes(TEXT)


def contents(top: Path) -> dict[str, bytes]:
    """Return path -> content of every file below a folder, and of links where they lead."""
    places = [path for path in sorted(top.rglob("*")) if path.is_symlink() or not path.is_dir()]
    return {str(path): os.readlink(path).encode() if path.is_symlink() else path.read_bytes() for path in places}


def lost(top: Path, put: Callable[[Path], None], name: str, write: Callable[[], object]) -> str:
    """Say what is lost of what is put somewhere in a folder, or what a refused call has changed."""
    before = contents(top) if top.exists() else {}
    put(top / name)
    mine = {path: content for path, content in contents(top).items() if before.get(path) != content}
    before = contents(top)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write()
    except (ValueError, OSError) as error:
        said = str(error)
        if contents(top) != before:
            return f"{name}: refused, but something has changed: {said}"
        return "" if "which asyncsim did not write" in said or "holds" in said else f"{name}: {said}"
    after = contents(top)
    return "" if mine.items() <= after.items() else f"{name} is lost"


@pytest.mark.parametrize("is_finished", [False, True])
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_folder_keeps_what_the_user_put_there(
    tmp_path: Path, finished: dict[str, Path], writer: str, force: bool, is_finished: bool
) -> None:
    write, names = WRITERS[writer]
    inside = [f".unfinished/{name}" for name in names]
    folders = (".unfinished", ".unfinished/deep", "runs", "runs/data", ".store", ".store/deep", ".holder", *names)
    trials = [(put_file, name) for name in (*names, *inside, ".unfinished", ".holder", "runs/store.json", "leases")]
    trials += [(put_text, name) for name in (*names, *inside)]
    trials += [(put_folder, name) for name in folders]
    complaints = []
    for number, (put, name) in enumerate(trials):
        out = tmp_path / str(number)
        if is_finished:
            shutil.copytree(finished[writer], out, symlinks=True)
        if complaint := lost(out, put, name, partial(write, out, force)):
            complaints.append(f"{put.__name__} {complaint}")
    assert not complaints


@pytest.mark.parametrize("retry_failed", [False, True])
def test_a_store_keeps_what_the_user_put_there(tmp_path: Path, finished: dict[str, Path], retry_failed: bool) -> None:
    """Also in a damaged entry, which is computed again, or refused while a file of the user's is in its way."""
    one = scenario(commits=40)
    entry = f"{one.digest}/"
    names = ["notes.txt", ".making/notes.txt", ".making/mine/notes.txt", "leases/notes.json", "failed/notes.json"]
    names += [f"{folder}/notes.{suffix}" for folder in STORE_FOLDERS for suffix in ("npz", "bin")]
    names += [f"{entry}{name}" for name in ("notes.txt", *RUN_FILES)]
    trials = [(put, name) for put in (put_file, put_text) for name in names]
    trials += [(put_folder, name) for name in (f"failed/{one.digest}.json", f"unfinished/{one.digest}.npz", entry)]
    complaints = []
    for number, (put, name) in enumerate(trials):
        store = tmp_path / str(number)
        shutil.copytree(finished["compare"] / "runs", store)
        if not name.startswith(entry) or "notes" in name or "report" in name:
            os.truncate(store / entry / "run.npz", 50)
        for path in (store / "leases").glob("*"):
            os.utime(path, (1, 1))
        write = partial(asim.sweep, [one], store, jobs=0, retry_failed=retry_failed)
        if complaint := lost(store, put, name, write):
            complaints.append(f"{put.__name__} {complaint}")
    assert not complaints


def test_a_comparison_keeps_links_of_the_user(tmp_path: Path, finished: dict[str, Path]) -> None:
    """Even one that leads nowhere once the results are replaced."""
    out = tmp_path / "out"
    shutil.copytree(finished["compare"], out, symlinks=True)
    digest = os.path.basename(os.readlink(out / "gem"))
    (out / "best").symlink_to(Path("runs", digest))
    asim.compare(asim.Comparison({"other": scenario(commits=40, seed=1)}), out, force=True)
    assert (out / "best").is_symlink()
    assert not os.path.lexists(out / "gem")
    assert (out / "other").is_symlink()


@pytest.mark.parametrize("name", ["store.json", *STORE_FOLDERS])
def test_a_folder_of_the_user_is_no_store_because_of_one_name(tmp_path: Path, name: str) -> None:
    put_file(tmp_path / name) if name.endswith(".json") else put_folder(tmp_path / name)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=f"`store` .* holds other files, such as '{name}'"):
        asim.sweep([scenario(commits=40)], tmp_path, jobs=0)
    assert contents(tmp_path) == before


def test_faults_beside_a_table_are_not_replaced_by_those_of_a_trace(tmp_path: Path) -> None:
    crash = asim.faults.Crash(1, 20.0, 5.0)
    trace = asim.simulate(asim.Cluster(2, asim.delays.Constant(1.0), faults=[crash]), commits=50)
    assert len(trace.faults)
    put_text(tmp_path / "log.faults.csv")
    with pytest.raises(FileExistsError, match=r"log\.faults\.csv.*Move it"):
        trace.to_csv(tmp_path / "log.csv")
    assert contents(tmp_path) == {str(tmp_path / "log.faults.csv"): TEXT}


def test_an_interactive_report_does_not_replace_a_page_of_the_user(tmp_path: Path, finished: dict[str, Path]) -> None:
    """Those of a comparison lie among the entries of its store."""
    put_text(tmp_path / "report.html")
    with pytest.raises(OSError, match=r"report\.html' exists already, and is not a file that asyncsim wrote"):
        write_html(asim.load(finished["run"]), tmp_path / "report.html")
    assert contents(tmp_path) == {str(tmp_path / "report.html"): TEXT}
