"""Compute a share of the known cases with the library of the current folder: `python -m tests.digits.compute`."""

import json
import pickle
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import jax

import asyncsim as asim
from tests.digits.cases import Make, all_cases
from tests.digits.numbers import Case, Cases, hash_part

PROGRAMS = 100  # cases after which compiled programs are forgotten: each takes megabytes
QUICK = 8  # cases of each group that `--quick` computes, at most


def choose(words: Sequence[str], quick: bool) -> dict[str, Make]:
    """Return the cases whose names begin with one of these words, or the same few of each group."""
    cases = {name: make for name, make in all_cases().items() if name.startswith(tuple(words) or "")}
    groups: dict[str, list[str]] = {}
    for name in cases:
        groups.setdefault(name.partition("/")[0], []).append(name)
    return {name: cases[name] for names in groups.values() for name in (few(names) if quick else names)}


def few(names: Sequence[str]) -> list[str]:
    """Return the same few of these names each time, in no order that would leave out one factor of a product."""
    return sorted(names, key=lambda name: crc32(name.encode()))[:QUICK]


def compute_case(make: Make) -> Case:
    """Return the hashes of a case, or why it cannot be computed."""
    try:
        return {part: hash_part(value) for part, value in make().items()}
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def compute_share(words: Sequence[str], quick: bool, share: int, shares: int) -> Cases:
    """Compute every so many of the chosen cases."""
    found: Cases = {}
    for name, make in list(choose(words, quick).items())[share::shares]:
        found[name] = compute_case(make)
        if len(found) % PROGRAMS == 0:
            jax.clear_caches()
    return found


if __name__ == "__main__":
    if Path.cwd() not in Path(asim.__file__).parents:
        sys.exit(f"The cases need the library of {Path.cwd()}, and got that of {asim.__file__}.")
    warnings.simplefilter("ignore")
    path, *rest = sys.argv[1:]
    Path(path).write_bytes(pickle.dumps(compute_share(*json.loads(rest[0]))))
