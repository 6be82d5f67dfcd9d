"""The summary of a run: the numbers that lists of runs, tables and reports show."""

from typing import Any

import numpy as np

from asyncsim._metrics import KEYS
from asyncsim.costs._usage import UNSIZED_CLUSTERS, bytes_by, sizes_of
from asyncsim.engine import Run
from asyncsim.files._json import to_plain
from asyncsim.scenario._scenario import Scenario
from asyncsim.trace import Trace
from asyncsim.trace._columns import end_of_trace

LEAST_FALL = 0.05  # share of the initial loss by which it must fall: a network that gives every class even odds has not


def summarise(
    trace: Trace,
    run: Run,
    wall_seconds: float = 0.0,
    compile_seconds: float = 0.0,
    *,
    test: Any = None,
    scenario: Scenario | None = None,
) -> dict[str, Any]:
    """Summarise a run of one seed. The scenario has the size of messages, and whether workers pull."""
    commits = slice(run.commits)
    test = run.evaluate() if test is None else test
    working = wall_seconds - compile_seconds
    before, final = loss_before_training(trace, run), run.final_loss()
    values = {
        "commits": run.commits,
        "simulated_seconds": trace.commit_time[run.commits - 1] if run.commits else 0.0,
        "mean_staleness": trace.staleness[commits].mean() if run.commits else None,
        **bytes_sent(trace, run, scenario),
        "initial_loss": before,
        "final_loss": final,
        "test_loss": test.get("test_loss"),
        "test_accuracy": test.get("test_accuracy"),
        "diverged_at": run.diverged_at,
        "stuck": is_stuck(before, final) if trace.read_version[commits].any() else None,
        "wall_seconds": wall_seconds,
        "commits_per_second": run.commits / working if working > 0 else None,
    }
    # A workload may measure more than loss and accuracy.
    further = {name: value for name, value in test.items() if name not in KEYS}
    return {key: to_plain(value) for key, value in {**values, **further}.items()}


def bytes_sent(trace: Trace, run: Run, scenario: Scenario | None = None) -> dict[str, int | None]:
    """Count the bytes in both directions until the last replayed commit, or the end of a trace replayed as a whole."""
    cluster = scenario and scenario.cluster
    if run.is_data or isinstance(cluster, UNSIZED_CLUSTERS):
        return {"bytes_up": None, "bytes_down": None}
    sizes = sizes_of(run.rule, run.central, cluster)
    whole = run.commits == len(trace)
    end = end_of_trace(trace) if whole else trace.commit_time[run.commits - 1] if run.commits else 0.0
    up, down = bytes_by(trace, float(end), **sizes)
    return {"bytes_up": up, "bytes_down": down}


def loss_before_training(trace: Trace, run: Run) -> float:
    """Return the mean loss of gradients that were taken at the initial central variable, or NaN without commits."""
    first = trace.read_version[: run.commits] == 0
    return float(run.loss[first].mean()) if run.commits else np.nan


def is_stuck(before: float, final: float) -> bool | None:
    """Tell whether a run failed to learn: its loss fell by less than a twentieth. None for a run that diverged."""
    is_known = np.isfinite(before) and np.isfinite(final)
    return bool(final > before - LEAST_FALL * abs(before)) if is_known else None
