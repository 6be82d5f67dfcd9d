"""Do to asyncsim what nobody should, and say what gave way: `python -m tests.hostile [WORD …]`.

Writers are killed in the middle of each file, two processes want one folder, bytes of small files are changed, the disk
is full, hundreds of command lines are wrong, and Ctrl-C comes at any time. What must hold each time: a file is whole or
not there, a damaged one is refused or made again, the same command afterwards gives the numbers of an undisturbed run,
and a person reads at most a few lines and never a traceback. Words select the parts whose name holds one of them;
`--quick` tries a share of each part, `--jobs 2` does two parts at a time. Every call tries the same.
"""

import argparse
import contextlib
import errno
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import asyncsim as asim
from asyncsim import files
from asyncsim.cli import script
from asyncsim.folders import listing
from asyncsim.plots import report
from asyncsim.study import keep
from tests.cli.commands import COMPARISON, EXPERIMENT, SCRIPT
from tests.conftest import compile_quickly
from tests.study import problems
from tests.study.problems import assert_same_run

STARTED = multiprocessing.get_context("forkserver")  # never a fork of a process in which JAX has started
FILES = ("scenario.json", "trace.npz", "run.npz", "summary.json", "report.png")
PATIENCE = 120  # seconds after which something hangs
LONGEST = 60  # seconds that a command line may take
LINES = 3  # on standard error, of what a person is asked to read
FINISHED = "finished"  # folder of an undisturbed run
MOST_STATUS = 100  # with which a process leaves
LINES_TRIED = 400  # of some thousand wrong command lines
SHARE = 8  # with --quick, one of so many trials
scenario = cache(problems.scenario)  # made once in a process
PREPARED = """
import importlib
importlib.import_module("asyncsim.study.run").CHECKPOINT_EVERY = 0.0
from asyncsim.plots import report
report.draw_report = lambda figure, title, **rest: figure.text(0, 0, title)
"""


class Trial(NamedTuple):
    """One thing that was done.

    Attributes:
        title: What it was.
        complaint: What gave way; empty if all held.
    """

    title: str
    complaint: str


class Ground(NamedTuple):
    """Where all of it happens.

    Attributes:
        folder: An empty folder.
        finished: The folder of an undisturbed run of `scenario()`.
        result: Its result.
        chosen: Which of the trials of a part to do: takes and returns a list.
    """

    folder: Path
    finished: Path
    result: asim.Result
    chosen: Callable[[list[Any]], list[Any]]


# Processes of their own, which end in the middle of something.


def stopping_at(name: str, occurrence: int, share: float, stop: Callable[[], object]) -> Any:
    """A patch: when a file of this name is written for that time, a share of it reaches the disk, then comes `stop`."""
    write_file, seen = files._write, 0

    def write(path: Path, fill: Callable[[Any], object], sync: bool) -> None:
        nonlocal seen
        if path.name.startswith(f".{name}."):
            seen += 1
            if seen == occurrence:
                buffer = io.BytesIO()
                fill(buffer)
                path.write_bytes(buffer.getvalue()[: int(share * buffer.tell())])
                stop()
        write_file(path, fill, sync)

    return mock.patch.object(files, "_write", write)


def prepare() -> None:
    """Compile quickly, and draw pages that hold only their title: what they hold is tested among the plots."""
    compile_quickly()
    report.draw_report = lambda figure, title, **rest: figure.text(0, 0, title)  # type: ignore[assignment]


def run_and_be_killed(out: Path, name: str, occurrence: int, share: float, force: bool) -> None:
    """Run the scenario; die of SIGKILL when so much of a file is on the disk."""
    prepare()
    sys.modules["asyncsim.study.run"].CHECKPOINT_EVERY = 0.0  # type: ignore[attr-defined]
    with stopping_at(name, occurrence, share, partial(os.kill, os.getpid(), signal.SIGKILL)):
        asim.run(scenario(), out, force=force)


def run_at_once(out: Path, seed: int, force: bool, together: Any, answers: Any) -> None:
    """Run a scenario when the other process is ready, too; put the outcome into a queue."""
    prepare()
    together.wait()
    try:
        asim.run(scenario(seed=seed), out, force=force)
        answers.put((seed, ""))
    except Exception as error:
        known = isinstance(error, (ValueError, OSError)) and "\n" not in str(error)
        answers.put((seed, str(error) if known else "".join(traceback.format_exception(error))))


def run_on_a_full_disk(out: Path, most: int, answers: Any) -> None:
    """Run the scenario where no file can become larger than `most` bytes."""
    prepare()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        asim.run(scenario(), out)
        answers.put("")
    except OSError as error:
        answers.put(str(error))
    except BaseException as error:
        answers.put("".join(traceback.format_exception(error)))


# The parts.


def killed(ground: Ground) -> Iterator[Trial]:
    """SIGKILL while each file of a run is written: half or all of it is on the disk, but not in place."""
    trials = [
        (name, occurrence, share, force)
        for name in FILES
        for occurrence in ((1, 2) if name == "run.npz" else (1,))
        for share, force in ((0.5, False), (0.5, True), *([(1.0, False)] if name == "run.npz" else []))
    ]

    def one(trial: tuple[str, int, float, bool]) -> str:
        name, occurrence, share, force = trial
        out = ground.folder / f"killed_{name}_{occurrence}_{share}_{force}"
        if force:
            asim.run(scenario(seed=1), out, picture=False)
        before = contents(out)
        process = STARTED.Process(target=run_and_be_killed, args=(out, *trial))
        process.start()
        process.join(PATIENCE)
        if process.exitcode != -signal.SIGKILL:
            process.kill()
            return f"ended with {process.exitcode}"
        after = contents(out)
        if force and after != before:
            return "old results were touched before the new ones were complete"
        halves = [file for file in after if file in FILES and not is_whole(out / file)]
        if halves:
            return f"{halves[0]} is not whole"
        return run_again(ground, out, force=force and name == FILES[0])  # by then nobody knew of the new study

    for trial in ground.chosen(trials):
        name, occurrence, share, force = trial
        yield Trial(
            f"{share:.0%} of {name}, writing {occurrence}{', --force' if force else ''}", complained(one, trial)
        )


def at_once(ground: Ground) -> Iterator[Trial]:
    """Two processes want one folder at the same moment."""
    trials = [(other, forces) for other in (0, 1) for forces in ((False, False), (False, True), (True, True))]

    def one(trial: tuple[int, tuple[bool, bool]]) -> str:
        other, forces = trial
        out = ground.folder / f"at_once_{other}_{forces}"
        together, answers = STARTED.Barrier(2), STARTED.Queue()
        pair = [
            STARTED.Process(target=run_at_once, args=(out, seed, force, together, answers))
            for seed, force in zip((0, other), forces, strict=True)
        ]
        for process in pair:
            process.start()
        outcomes = [answers.get(timeout=PATIENCE) for _ in pair]
        for process in pair:
            process.join()
        refused = [words for _, words in outcomes if words]
        if any("is in use by" not in words and "holds a different" not in words for words in refused):
            return refused[-1]
        if len(refused) == 2:
            return "neither had the folder"
        label = json.loads((out / "scenario.json").read_text())
        if label["digest"] not in {scenario(seed=seed).digest for seed, words in outcomes if not words}:
            return "the folder is of one that was refused"
        if left := contents(out, hidden=True).keys() - set(FILES):
            return f"left {sorted(left)}"
        return whose(out, label["seed"])

    for other, forces in ground.chosen(trials):
        kind = "different scenarios" if other else "the same scenario"
        yield Trial(f"{kind}, {sum(forces)} with force", complained(one, (other, forces)))


def changed_bytes(ground: Ground) -> Iterator[Trial]:
    """Every byte of a small file changed, one at a time; tests/test_npz.py does it to archives."""
    rng = random.Random(0)
    out = Path(shutil.copytree(ground.finished, ground.folder / "changed"))

    def answered(what: str) -> str:
        """Results are found and are the same, or the folder is refused in one line."""
        try:
            with mock.patch.object(sys.modules["asyncsim.study.run"], "replay", side_effect=AssertionError(what)):
                found = asim.run(scenario(), out, picture=False)
        except ValueError as error:
            return "" if "\n" not in str(error) else f"several lines: {error}"
        if found.summary != ground.result.summary:
            return "another summary was believed"
        return "" if json.loads((out / "summary.json").read_text()) == found.summary else "another summary was kept"

    def loaded() -> str:
        """The very same results are found again without their scenario, or the folder is refused in one line."""
        try:
            found = asim.load(out)
        except ValueError as error:
            return "" if "\n" not in str(error) else f"several lines: {error}"
        return "" if found.scenario == scenario() and found.summary == ground.result.summary else "others were loaded"

    label = (out / "scenario.json").read_bytes()
    for place in ground.chosen(list(range(len(label)))):
        (out / "scenario.json").write_bytes(changed(label, place, rng))
        yield Trial(f"load, scenario.json, byte {place}", loaded())
        listed = listing.rows(out, {})
        if [row.name for row in listed] != ["."]:
            yield Trial(f"runs, scenario.json, byte {place}", f"listed {listed}")
        (out / "scenario.json").write_bytes(label)

    for name in ("scenario.json", "summary.json"):
        whole = (out / name).read_bytes()
        for place in ground.chosen(list(range(len(whole)))):
            (out / name).write_bytes(changed(whole, place, rng))
            yield Trial(f"{name}, byte {place}", answered(name))
            (out / name).write_bytes(whole)

    picture = (out / "report.png").read_bytes()
    for place in ground.chosen([*range(400), *rng.sample(range(400, len(picture)), 200)]):
        (out / "report.png").write_bytes(changed(picture, place, rng))
        believed = keep.is_picture_of(scenario(), out / "report.png")
        yield Trial(f"report.png, byte {place}", "a damaged picture was taken for a whole one" if believed else "")

    ground.result.trace.to_csv(out / "trace.csv")
    table = (out / "trace.csv").read_bytes()
    for place in ground.chosen(rng.sample(range(len(table)), min(400, len(table)))):
        (out / "trace.csv").write_bytes(changed(table, place, rng))
        yield Trial(f"trace.csv, byte {place}", only(ValueError, partial(asim.Trace.from_csv, out / "trace.csv")))

    text = SCRIPT.replace('print("a script may print")', "").encode()
    for place in ground.chosen(list(range(len(text)))):
        (out / "study.py").write_bytes(changed(text, place, rng))
        with contextlib.redirect_stderr(io.StringIO()):
            complaint = only(ValueError, partial(script.load, str(out / "study.py")))
        yield Trial(f"study.py, byte {place}", complaint)


def full_disk(ground: Ground) -> Iterator[Trial]:
    """The disk is full at each file of a run, at its beginning or in the middle; later there is room again."""

    def refuse() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def run(out: Path, name: str, share: float) -> None:
        with stopping_at(name, 1, share, refuse):
            asim.run(scenario(), out)

    for name, share in ground.chosen([(name, share) for name in FILES for share in (0.0, 0.5)]):
        out = ground.folder / f"full_{name}_{share}"
        complaint = only(OSError, partial(run, out, name, share), must=True)
        if not complaint and (left := contents(out, hidden=True).keys() - set(FILES)):
            complaint = f"left {sorted(left)}"
        yield Trial(f"{share:.0%} of {name}", complaint or run_again(ground, out))

    def one(most: int) -> str:
        out, answers = ground.folder / f"limit_{most}", STARTED.Queue()
        process = STARTED.Process(target=run_on_a_full_disk, args=(out, most, answers))
        process.start()
        words = answers.get(timeout=PATIENCE)
        process.join()
        if not words or "\n" in words:
            return words or "nothing was said"
        return run_again(ground, out)

    for most in ground.chosen([0, 10, 3000]):
        yield Trial(f"files of at most {most} bytes", complained(one, most))


def ctrl_c(ground: Ground) -> Iterator[Trial]:
    """SIGINT at any time from the start of a process on: a checkpoint or nothing, status 130, no traceback of ours."""
    out = ground.folder / "ctrl_c"
    out.mkdir()
    lines = PREPARED + SCRIPT.replace('print("a script may print")', "")
    (out / "study.py").write_text(lines.replace("commits_per_worker=50", "commits=100_000, record=()"))
    command = [sys.executable, "-c", "from asyncsim.cli import program; program()", "run", "study.py"]
    begun = time.monotonic()
    undisturbed = subprocess.run([*command, "--out", "whole"], cwd=out, capture_output=True, check=True)
    whole = time.monotonic() - begun
    assert not undisturbed.stderr, undisturbed.stderr

    def one(share: float) -> str:
        place = f"stopped_{share}"
        process = subprocess.Popen(
            [*command, "--out", place], cwd=out, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(share * whole)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        if process.returncode not in (0, 130, -signal.SIGINT):
            return f"status {process.returncode}: {err}"
        by_python = process.returncode == -signal.SIGINT  # before it came to our code, or after all was done
        if by_python and ("asyncsim/" in err or (err and (out / place).exists())):
            return f"our code was reached: {err}"
        if not by_python and ("Traceback" in err or len(err.splitlines()) > 1):
            return err
        if left := contents(out / place, hidden=True).keys() - set(FILES):
            return f"left {sorted(left)}"
        halves = [file for file in contents(out / place) if not is_whole(out / place / file)]
        return f"{halves[0]} is not whole" if halves else ""

    for share in ground.chosen([0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97]):
        yield Trial(f"after {share * whole:.2f} s", complained(one, share))


def sweeps(ground: Ground) -> Iterator[Trial]:
    """Processes that compute a sweep are killed at random moments, here and on a Dask cluster; one run kills them all.

    The tests of this, with two hundred runs and six kills.
    """
    long = {**os.environ, "ASYNCSIM_LONG_TESTS": "1"}
    for name in ground.chosen(["test_processes_of_this_machine", "test_a_cluster"]):
        place = f"tests/study/test_killed.py::{name}"
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", place]
        done = subprocess.run(command, cwd=Path(__file__).parents[1], env=long, capture_output=True, text=True)
        yield Trial(name, "" if done.returncode == 0 else done.stdout[-2000:])


# Command lines.

NUMBERS = (
    *("", " ", "nan", "inf", "-inf", "-1", "0", "1e308", "1e400", "-1e-320", "1000000000000", "9" * 5000),
    *("two", "1,2", "0x10", "\0", "true", "--json", "1e9j", "½"),
)
ODD_NUMBERS = ("0.5", "1_000", "１２")  # which Python takes for numbers
NAMES = (
    "",
    " ",
    "\0",
    "gme",
    "GEM",
    "gem,downpour",
    "=",
    "=3",
    "pi_mean=",
    "pi_mean=0",
    "pi_mean=x",
    "none,loss",
    "custom",
)
PLACES = ("", " ", "\0", "study.py", "study.py/deeper", "/proc/nowhere", "/dev/null", "x" * 300, "-", "a\nb")
NO_STUDIES = (".", "missing.py", "trace.npz", "trace.csv", "run.npz", "report.png", "binary.py", "empty.npz", "loop")
RUNS = ("good", "bad", "both")  # folders: of a run, of one whose files are damaged, and of both of them
FLAGS = (
    *("--wokers", "--", "---", "-x", "-", "--=3", "--workers", "--workers=", "--json=1", "--js", "--out"),
    *("--help-for", "--help-for=nothing", "--lr", "--LEARNING-RATE", "--learning_rate", "\0", "--\0", "", "--no-json"),
)
COMMANDS = (
    *("", "run", "run study.py", "rules", "figures --list", "staleness", "stability", "trace", "trace info trace.npz"),
    *("trace check trace.csv", "trace export trace.npz new.csv"),
    *(
        "show good",
        "runs",
        "runs good",
        "compare good bad",
        "tag good",
        "untag base",
        "retag base",
        "tags",
        "path base",
    ),
    *("completion bash", "run good"),
)
ON_RUNS = ("show", "runs", "tag", "compare good", "path", "untag", "retag base", "run", "tag good", "completion")
CONDITIONS = ("workers>1", "workers", ">", "", "wokers>1", "rule=gem", "rule>gem", "when<2", "\0", "a" * 300)
WITH_NUMBERS = {  # a line that is right -> flags of it
    "run study.py": "workers commits seconds commits-per-worker seed learning-rate momentum mean cv bandwidth slots",
    "run powers.py": "count",
    "run both.py": "workers learning-rate",
    "staleness --commits 500": "workers seed cv service slow slowness",
    "stability": "workers",
    "figures --list": "seeds",
    "trace info trace.csv": "start",
}
WITH_NAMES = {
    "run study.py": "rule compute protocol workload record variant help-for",
    "run powers.py": "rule",
    "staleness --commits 500": "compute protocol",
    "stability": "compute where",
    "figures --list": "scale",
    "trace export trace.npz new.csv": "format",
}


def wrong_lines() -> list[list[str]]:
    """Every command with misspelt flags, missing files, files of another kind, absurd numbers and names."""

    def flags(table: dict[str, str]) -> Iterator[list[str]]:
        return ([*base.split(), f"--{flag}"] for base, names in table.items() for flag in names.split())

    lines = [[*line, value] for line in flags(WITH_NUMBERS) for value in NUMBERS]
    lines += [[*line, value] for line in flags(WITH_NUMBERS) if line[0] == "run" for value in ODD_NUMBERS]
    lines += [[*line, value] for line in flags(WITH_NAMES) for value in NAMES]
    lines += [[*command.split(), flag] for command in COMMANDS for flag in FLAGS]
    lines += [
        [*line.split(), "--out", place] for line in ("run study.py", "staleness --commits 500") for place in PLACES
    ]
    for path in (*PLACES, *NO_STUDIES):
        lines += [[path], ["run", path], ["run", "--json", path], ["trace", "check", path], ["trace", "info", path]]
        lines += [["trace", "export", path, "new.csv"], ["trace", "export", "trace.npz", path]]
    for words in ON_RUNS:
        lines += [[*words.split(), place] for place in (*PLACES, *NO_STUDIES, *RUNS, "base", "bsae")]
    lines += [["runs", flag, text] for flag in ("--where", "--sort", "--rule") for text in CONDITIONS]
    lines += [["run", "study.py", "--tag", name] for name in (*PLACES, "base")]
    return lines + [[command, name] for command in ("rules", "figures", "trace", "stability") for name in NAMES]


def command_lines(ground: Ground) -> Iterator[Trial]:
    """Wrong command lines, in this process: status 0, 1 or 2, at most a few lines, no traceback."""
    rng = random.Random(0)
    here = ground.folder / "lines"
    here.mkdir()
    for name, text in (("study.py", SCRIPT), ("both.py", COMPARISON), ("powers.py", EXPERIMENT)):
        (here / name).write_text(text.replace("commits_per_worker=50", "commits_per_worker=5"))
    for name in ("trace.npz", "run.npz", "report.png"):
        shutil.copy(ground.finished / name, here)
    ground.result.trace.to_csv(here / "trace.csv")
    (here / "binary.py").write_bytes(bytes(range(256)))
    (here / "empty.npz").touch()
    (here / "loop").symlink_to("loop")
    for name in ("good", "both/good"):
        shutil.copytree(ground.finished, here / name)
    for name in ("bad", "both/bad"):
        (here / name).mkdir()
        for file in FILES:
            (here / name / file).write_bytes(b'{"digest": "')
    os.environ["ASYNCSIM_TAGS"] = str(here / "tags.json")
    asim.tags.add(here / "good", "base")
    lines = wrong_lines()
    for count, line in enumerate(ground.chosen(rng.sample(lines, LINES_TRIED))):
        begun = time.monotonic()
        complaint = complaint_about(line, here, count)
        if (seconds := time.monotonic() - begun) > LONGEST:
            complaint = complaint or f"took {seconds:.0f} s"
        yield Trial(" ".join(repr(word if len(word) < 40 else f"{word[:20]}…") for word in line), complaint)


def complaint_about(line: list[str], folder: Path, count: int) -> str:
    """What is wrong with the answer to a command line."""
    line = (
        line
        if "--out" in line or line[:1] not in (["run"], ["staleness"], ["stability"])
        else [*line, "--out", f"out{count}"]
    )
    out, err = io.StringIO(), io.StringIO()

    def too_long(*args: object) -> None:
        raise TimeoutError(f"no answer within {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(PATIENCE)
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            asim.main(arguments=line)
    except SystemExit as left:
        status = left.code
    except BaseException as error:
        return "".join(traceback.format_exception(error))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    said = [one for one in err.getvalue().splitlines() if one != "a script may print"]
    if "Traceback" in err.getvalue() or "ASYNCSIM_TRACEBACK" in err.getvalue():  # the latter where a type is unexpected
        return err.getvalue()
    if status not in (0, 1, 2):
        return f"status {status}"
    if len(said) > LINES or any(len(one) > 1100 for one in said):
        return f"{len(said)} lines of {max(map(len, said))} letters: {err.getvalue()[:2000]}"
    if status and (out.getvalue() or not said or not said[-1].startswith("Error: ")):
        return f"status {status} with {out.getvalue()!r} and {err.getvalue()!r}"
    return ""


# What must hold.


def run_again(ground: Ground, out: Path, force: bool = False) -> str:
    """Whether the same call gives the numbers of the undisturbed run, and leaves its files only."""
    try:
        found = asim.run(scenario(), out, force=force)
        assert_same_run(found.run, ground.result.run)
        np.testing.assert_array_equal(found.trace.commit_time, ground.result.trace.commit_time)
    except Exception as error:
        return f"again: {type(error).__name__}: {error}"
    left = contents(out, hidden=True).keys() ^ set(FILES)
    return f"left or lacks {sorted(left)}" if left else ""


def whose(out: Path, seed: int) -> str:
    """Whether a folder holds the whole results of the scenario of a seed, found and not computed."""
    try:
        found = asim.run(scenario(seed=seed), out)
        assert_same_run(found.run, asim.run(scenario(seed=seed)).run)
    except Exception as error:
        return f"afterwards: {type(error).__name__}: {error}"
    return "computed again" if found.recomputed else ""


def complained(function: Callable[[Any], str], trial: Any) -> str:
    """What a function says of a trial; an error of the function itself is a complaint, too."""
    try:
        return function(trial)
    except Exception as error:
        return "".join(traceback.format_exception(error))


def only(expected: type[Exception], call: Callable[[], object], must: bool = False) -> str:
    """Whether a call ends well, or in an error of the expected type with a message of one line."""
    try:
        call()
    except expected as error:
        return "" if "\n" not in str(error) else f"several lines: {error}"
    except BaseException as error:
        return "".join(traceback.format_exception(error))
    return "no error" if must else ""


def is_whole(path: Path) -> bool:
    """Whether a file of a run can be read."""
    if path.suffix == ".json":
        return files.read_json(path) is not None
    if path.suffix == ".png":
        return path.read_bytes().endswith(b"IEND\xaeB`\x82")
    with np.load(path) as archive:
        return len([archive[name] for name in archive]) > 0


def contents(folder: Path, hidden: bool = False) -> dict[str, bytes]:
    """Name -> content of the files of a folder, if there is one; locks and temporary files are hidden."""
    if not folder.exists():
        return {}
    found = [path for path in folder.iterdir() if path.is_file() and (hidden or not path.name.startswith("."))]
    return {path.name: path.read_bytes() for path in found}


def changed(whole: bytes, place: int, rng: random.Random) -> bytes:
    """The bytes with another one at a place."""
    other = (whole[place] + rng.randrange(1, 256)) % 256
    return whole[:place] + bytes([other]) + whole[place + 1 :]


PARTS = {  # those that take longest first
    "sweeps": sweeps,
    "Ctrl-C": ctrl_c,
    "changed bytes": changed_bytes,
    "command lines": command_lines,
    "killed while writing": killed,
    "two processes at once": at_once,
    "full disk": full_disk,
}


def attempt(name: str, folder: Path, quick: bool) -> None:
    """Do a part; print a line for it and for all that gave way, and leave with the number of those."""
    prepare()
    finished = folder / FINISHED
    ground = Ground(folder, finished, asim.run(scenario(), finished), lambda trials: trials[:: SHARE if quick else 1])
    begun, trials, gave_way = time.monotonic(), 0, 0
    for trial in PARTS[name](ground):
        trials += 1
        if trial.complaint:
            gave_way += 1
            print(f"GAVE WAY {name}: {trial.title}\n{trial.complaint}", flush=True)
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = time.monotonic() - begun
    print(f"{name:<25}{trials:>6} trials {seconds:>6.0f} seconds, {used:.0f} of them on a core", flush=True)
    sys.exit(min(gave_way, MOST_STATUS))


def main() -> int:
    """Do the parts, some at a time, each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only parts whose name holds one of these words")
    parser.add_argument("--jobs", type=int, default=1, help="parts at a time")
    parser.add_argument("--quick", action="store_true", help=f"one of {SHARE} trials")
    given = parser.parse_args()
    words = [word.lower() for word in given.words]
    prepare()
    STARTED.set_forkserver_preload(["asyncsim.study", "asyncsim.plots.report", "tests.conftest"])
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        asim.run(scenario(), Path(folder, FINISHED))

        def gave_way(name: str) -> int:
            process = STARTED.Process(target=attempt, args=(name, Path(folder), given.quick))
            process.start()
            process.join()
            return process.exitcode or 0

        chosen = [name for name in PARTS if not words or any(word in name.lower() for word in words)]
        held = not any(pool.map(gave_way, chosen))
    print("all held" if held else "not all held")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
