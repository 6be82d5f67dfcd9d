"""Command lines that are wrong."""

import contextlib
import io
import os
import random
import shutil
import signal
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import asyncsim as asim
from tests.cli.commands import COMPARISON, EXPERIMENT, SCRIPT
from tests.hostile.ground import FILES, Ground, Trial

LONGEST = 60  # seconds that a command line may take
LINES = 3  # on standard error, of what a person is asked to read
LINES_TRIED = 400  # of some thousand wrong command lines

NUMBERS = (
    *("", " ", "nan", "inf", "-inf", "-1", "0", "1e308", "1e400", "-1e-320", "1000000000000", "9" * 5000),
    *("two", "1,2", "0x10", "\0", "true", "--json", "1e9j", "½"),
)
ODD_NUMBERS = ("0.5", "1_000", "１２")  # which Python takes for numbers
NAMES = (
    "",
    " ",
    "\0",
    *["gme", "GEM", "gem,downpour", "=", "=3", "pi_mean=", "pi_mean=0", "pi_mean=x", "none,loss", "custom"],
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
    *("trace check trace.csv", "trace export trace.npz new.csv", "completion bash", "run good", "show good", "runs"),
    *("runs good", "compare good bad", "tag good", "untag base", "retag base", "tags", "path base"),
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
    for count, line in enumerate(random.Random(0).sample(wrong_lines(), LINES_TRIED)):
        title = " ".join(repr(word if len(word) < 40 else f"{word[:20]}…") for word in line)
        yield Trial(title, partial(complaint_about, line, here, count))


def complaint_about(line: list[str], folder: Path, count: int) -> str:
    """What is wrong with the answer to a command line."""
    if "--out" not in line and line[:1] in (["run"], ["staleness"], ["stability"]):
        line = [*line, "--out", f"out{count}"]
    out, err = io.StringIO(), io.StringIO()

    def too_long(*args: object) -> None:
        raise TimeoutError(f"no answer within {LONGEST} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LONGEST)
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
