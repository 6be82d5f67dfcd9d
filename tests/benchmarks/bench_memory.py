"""Memory of many runs in one process."""

import subprocess
import sys

RUNS, WARM = 160, 60  # after which caches of JAX that have bounds are nearly full
PROGRAM = """
import ctypes, gc, sys
import asyncsim as asim

cluster, rule = asim.Cluster(4, asim.delays.Exponential(1.0)), asim.rules.GEM(learning_rate=0.05)
for size in range(2, 2 + int(sys.argv[1])):
    workload = asim.workloads.Quadratic([1.0] * size, noise=0.1)
    asim.run(asim.Scenario(cluster, rule, workload, commits=40))
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    print(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
"""


def test_runs_of_different_shapes(report, smoke):
    runs, warm = (6, 3) if smoke else (RUNS, WARM)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(runs)], capture_output=True, text=True, check=True)
    sizes = [int(line) / 1e3 for line in done.stdout.split()]
    report(f"memory of {runs} runs of different shapes", sizes[-1], "MB", at_most=700)
    report("another run of a new shape", (sizes[-1] - sizes[warm - 1]) / (runs - warm), "MB", at_most=1.0)
