"""Inject faults, and report the invariants that did not hold: `python -m tests.hostile [WORD …]`.

Writers are killed in the middle of each file, two processes want one folder, bytes of small files are changed, the disk
is full, hundreds of command lines are wrong, and Ctrl-C comes at many moments. Each time, a file must be whole or
not there, a damaged one is refused or made again, the same command afterwards gives the numbers of an undisturbed run,
and a person reads at most a few lines and never a traceback. Words select the parts whose name holds one of them,
`--quick` tries a share of each part, and `--jobs 2` does two parts at a time. Every call tries the same.
"""

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncsim as asim
from tests.hostile.ground import prepare, scenario
from tests.hostile.parts import FINISHED, PARTS, SHARE, attempt
from tests.hostile.processes import STARTED


def main() -> int:
    """Do the parts, some at a time, each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only parts whose name holds one of these words")
    parser.add_argument("--jobs", type=int, default=1, help="parts at a time")
    parser.add_argument("--quick", action="store_true", help=f"one of {SHARE} trials")
    given = parser.parse_args()
    words = [word.lower() for word in given.words]
    prepare()
    STARTED.set_forkserver_preload(
        ["tests.hostile.parts", "asyncsim.cli._run", "matplotlib.figure", "matplotlib.backends.backend_agg"]
    )
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        asim.run(scenario(), Path(folder, FINISHED))

        def gave_way(name: str) -> int:
            process = STARTED.Process(target=attempt, args=(name, Path(folder), given.quick))
            process.start()
            process.join()
            return process.exitcode or 0

        chosen = [name for name in PARTS if not words or any(word in name.lower() for word in words)]
        held = not any([*pool.map(gave_way, chosen)])
    print("all held" if held else "not all held")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
