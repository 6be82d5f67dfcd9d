"""The numbers that sum up a run."""

from typing import Any

import numpy as np

from asyncsim.engine import Run
from asyncsim.files import to_plain
from asyncsim.folders.summaries import KEYS
from asyncsim.trace import Trace

LEARNED = 0.05  # share of the initial loss by which it must fall: a network that gives every class even odds has not


def summarise(
    trace: Trace,
    run: Run,
    wall_seconds: float,
    compile_seconds: float = 0.0,
    *,
    test: Any = None,
) -> dict[str, Any]:
    """The summary of a run of one seed.

    Args:
        trace: Its schedule.
        run: The run.
        wall_seconds: Wall time of the replay, including compilation.
        compile_seconds: The part of it in which JAX compiled.
        test: What `run.evaluate()` gives, name -> float, where that is known already.

    Returns:
        `KEYS` -> number, and then whatever else the workload's `evaluate` measures -> number: `commits` replayed and,
        up to the last of these, `simulated_seconds` and `mean_staleness`; `initial_loss`, as
        `loss_before_training` has it; `final_loss`, as `Run.final_loss` has it; `test_loss` and `test_accuracy` of the
        final central variable; `diverged_at`; `stuck`, whether the run failed to learn, as `is_stuck` has it;
        `wall_seconds`; and `commits_per_second` of wall time without compilation. A number that
        does not exist, or is not finite, is None.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0, 1])
        >>> run = asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.quadratic([1.0]))
        >>> summary = summarise(trace, run, wall_seconds=2.0)
        >>> summary["mean_staleness"], summary["final_loss"], summary["commits_per_second"]
        (0.75, 0.0625, 2.0)
        >>> summary["initial_loss"], summary["stuck"]
        (0.5, False)
    """
    done = slice(run.commits)
    test = run.evaluate() if test is None else test
    working = wall_seconds - compile_seconds
    before, final = loss_before_training(trace, run), run.final_loss()
    values = {
        "commits": run.commits,
        "simulated_seconds": trace.commit_time[run.commits - 1] if run.commits else 0.0,
        "mean_staleness": trace.staleness[done].mean() if run.commits else None,
        "initial_loss": before,
        "final_loss": final,
        "test_loss": test.get("test_loss"),
        "test_accuracy": test.get("test_accuracy"),
        "diverged_at": run.diverged_at,
        "stuck": is_stuck(before, final) if trace.read_version[done].any() else None,
        "wall_seconds": wall_seconds,
        "commits_per_second": run.commits / working if working > 0 else None,
    }
    own = {name: value for name, value in test.items() if name not in KEYS}
    return {key: to_plain(value) for key, value in {**values, **own}.items()}


def loss_before_training(trace: Trace, run: Run) -> float:
    """Mean loss of the gradients that were taken at the initial central variable; NaN without commits.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0, 1])
        >>> run = asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.quadratic([1.0]))
        >>> run.loss.tolist(), loss_before_training(trace, run)
        ([0.5, 0.5, 0.125, 0.0], 0.5)
    """
    first = trace.read_version[: run.commits] == 0
    return float(run.loss[first].mean()) if run.commits else np.nan


def is_stuck(before: float, final: float) -> bool | None:
    """Whether a run failed to learn: its loss fell by less than a twentieth. None for a run that diverged.

    Example:
        >>> is_stuck(2.337, 2.305), is_stuck(2.337, 0.07), is_stuck(0.5, 9.0)
        (True, False, True)
    """
    known = np.isfinite(before) and np.isfinite(final)
    return bool(final > before - LEARNED * abs(before)) if known else None
