"""Compute the numbers of the known cases, and compare them with another revision's: `python -m tests.digits`.

The cases are schedules of every kind of cluster, replays of every rule, rollouts and pipelines, every function of
`theory`, calibrations, movies, and pictures pixel by pixel. `--against REVISION` computes them with the library of
another revision, which is unpacked into a temporary folder with this version's cases, and prints which parts differ and
by how much. A case that only this library can compute is new, and one that only the other can is gone.
`--against FILE.json` compares with the numbers that `--out FILE.json` wrote. The status is 1 if a number differs or a
case is gone. `python -m tests.digits bits` compares runs alone, in a sweep, and resumed, to the last bit.

The hashes are those of one machine and its versions of JAX and NumPy. Another processor rounds otherwise.
"""

import argparse
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tests.digits.numbers import Cases, Part, compare_parts

ROOT = Path(__file__).parents[2]
# Compiling takes most of the time. A program that two revisions have in common is compiled once and kept in a folder,
# in a temporary one unless JAX_COMPILATION_CACHE_DIR is set. Loading it, XLA warns of preferences as of instructions.
PROGRAMS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.digits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=["numbers", "bits"], default="numbers")
    parser.add_argument("--against", help="a revision of git, or a file that --out wrote")
    parser.add_argument("--of", help="a revision of git whose numbers to compute instead of those of the working tree")
    parser.add_argument("--out", type=Path, help="file for the hashes, with the numbers in a .npz next to it")
    parser.add_argument("--only", default="", help="beginnings of names, with commas between: schedules,replays/gem")
    parser.add_argument("--quick", action="store_true", help="a few cases of each group")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args(words)
    chosen = [word for word in given.only.split(",") if word]
    if given.what == "bits":
        from tests.digits.bits import compare_bits

        return compare_bits(chosen, given.quick)
    with tempfile.TemporaryDirectory() as programs:
        return compare_numbers(given, chosen, programs)


def compare_numbers(given: argparse.Namespace, words: Sequence[str], programs: str) -> int:
    """Compute, write, print and compare as the command line says."""

    def compute(revision: str | None) -> Cases:
        return compute_revision(revision, words, given.quick, given.jobs, programs)

    here = compute(given.of)
    if given.out:
        write(given.out, here)
    if given.against is None:
        for name, case in here.items():
            print(name, *([case] if isinstance(case, str) else (f"{key} {part.hash}" for key, part in case.items())))
        return 0
    if given.against.endswith(".json"):
        there = read(Path(given.against), words)
        there = {name: case for name, case in there.items() if name in here or not given.quick}
    else:
        there = compute(given.against)
    lines, differs = compare(here, there)
    print(*lines, sep="\n")
    return int(differs)


def compute_revision(revision: str | None, words: Sequence[str], quick: bool, jobs: int, programs: str) -> Cases:
    """Compute this version's cases with the library of a revision, by default with that of the working tree."""
    if revision is None:
        return compute(ROOT, words, quick, jobs, programs)
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        shutil.rmtree(Path(folder, "tests"))
        shutil.copytree(ROOT / "tests", Path(folder, "tests"), ignore=shutil.ignore_patterns("__pycache__"))
        return compute(Path(folder).resolve(), words, quick, jobs, programs)


def compute(tree: Path, words: Sequence[str], quick: bool, jobs: int, programs: str) -> Cases:
    """Compute the cases with the library of a folder, in processes that share them and their compiled programs."""
    command = [sys.executable, "-m", "tests.digits.compute"]
    environment = {"JAX_COMPILATION_CACHE_DIR": programs, **os.environ, **PROGRAMS, "PYTHONPATH": str(tree)}
    found: Cases = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        started = []
        for share in range(jobs):
            path = Path(folder, f"{share}.pickle")
            arguments = json.dumps([list(words), quick, share, jobs])
            process = subprocess.Popen([*command, str(path), arguments], cwd=tree, env=environment)
            stack.callback(process.kill)
            started.append((process, path))
        for process, path in started:
            if process.wait() != 0:
                sys.exit(f"The cases of {tree} could not be computed: status {process.returncode}.")
            found |= pickle.loads(path.read_bytes())
    return dict(sorted(found.items()))


def compare(here: Cases, there: Cases) -> tuple[list[str], bool]:
    """Return a report on the cases that differ, are new or are gone, and whether any differs or is gone."""
    lines, differing, counts = [], 0, {"new": 0, "gone": 0}
    for name in sorted(here.keys() | there.keys()):
        one, other = here.get(name, "It is no case any more."), there.get(name, "It was no case.")
        if isinstance(one, str) or isinstance(other, str):
            for word, present, absent in (("new", one, other), ("gone", other, one)):
                if not isinstance(present, str):
                    counts[word] += 1
                    lines.append(f"{word:8} {name}: {absent}")
            continue
        difference = compare_parts(one, other)
        if difference:
            differing += 1
            lines.append(f"differs  {name}: {difference}")
    computed = sum(not isinstance(case, str) for case in here.values())
    lines.append(f"{differing} of {computed} cases differ, {counts['new']} are new, {counts['gone']} are gone")
    return lines, bool(differing or counts["gone"])


def write(path: Path, cases: Cases) -> None:
    """Write the hashes as JSON, and the numbers next to it."""
    hashes = {
        name: case if isinstance(case, str) else {part: one.hash for part, one in case.items()}
        for name, case in cases.items()
    }
    path.write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf-8")
    parts = {
        f"{name}|{part}": one.values
        for name, case in cases.items()
        if not isinstance(case, str)
        for part, one in case.items()
    }
    np.savez_compressed(path.with_suffix(".npz"), allow_pickle=False, **parts)


def read(path: Path, words: Sequence[str] = ()) -> Cases:
    """Read the cases that `write` wrote, without numbers if their file is not there."""
    hashes = json.loads(path.read_text(encoding="utf-8"))
    beside = path.with_suffix(".npz")
    numbers = dict(np.load(beside)) if beside.exists() else {}
    return {
        name: case
        if isinstance(case, str)
        else {part: Part(code, numbers.get(f"{name}|{part}", np.zeros(0))) for part, code in case.items()}
        for name, case in hashes.items()
        if name.startswith(tuple(words) or "")
    }


if __name__ == "__main__":
    sys.exit(main())
