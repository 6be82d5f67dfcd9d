"""CPU seconds to read and to fit a log of a million rows, today and at another revision, in turn.

    python -m tests.benchmarks.log_against bf695d53              # the revision before the reader was built on pandas
    python -m tests.benchmarks.log_against bf695d53 --rows 10000 --rounds 1

Each round is a process of its own, which reads and fits a short log first, so that imports do not count. The best of
all rounds is compared.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from tests.benchmarks.bench_log import COLUMNS, COMMITS, simulated

ROOT = Path(__file__).parents[2]
SHORT = 1000  # rows
STEPS = ("read", "fit")
PROGRAM = """
import sys, time
import asyncsim as asim

assert asim.__file__.startswith(sys.argv[1]), asim.__file__
for path in sys.argv[2:]:
    start = time.process_time()
    trace = asim.Trace.from_csv(path)
    middle = time.process_time()
    asim.calibrate(trace, method="likelihood")
    seconds = middle - start, time.process_time() - middle
print(*seconds)
"""


def measure(library: Path, *logs: Path) -> list[float]:
    """Return the CPU seconds of each step with the library in a folder."""
    command = [sys.executable, "-c", PROGRAM, str(library), *map(str, logs)]
    done = subprocess.run(command, cwd=library, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [float(seconds) for seconds in done.stdout.split()]


def main() -> None:
    """Compare the two, and print the CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="of git, with which today's library is compared")
    parser.add_argument("--rows", type=int, default=COMMITS, help=f"of the log [{COMMITS}]")
    parser.add_argument("--rounds", type=int, default=3, help="of each library [3]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "other").resolve()
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(other), given.revision], cwd=ROOT, check=True)
        try:
            for kind, columns in (("all columns", COLUMNS), ("commits alone", COLUMNS[::6])):
                logs = [Path(folder, f"{rows}.csv") for rows in (SHORT, given.rows)]
                for path, rows in zip(logs, (SHORT, given.rows), strict=True):
                    trace = simulated(rows)
                    pd.DataFrame({name: getattr(trace, name) for name in columns}).to_csv(path, index=False)
                rounds = [[measure(library, *logs) for library in (ROOT, other)] for _ in range(given.rounds)]
                best = np.min(rounds, axis=0)
                for step, today, before in zip(STEPS, *best, strict=True):
                    ratio = f"{today / before:.2f}"
                    print(
                        f"{kind}, {step}: {today:.2f} s, {before:.2f} s at {given.revision}, ratio {ratio}", flush=True
                    )
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(other)], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
