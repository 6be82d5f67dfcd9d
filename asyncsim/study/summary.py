"""The numbers that sum up a run."""

from typing import Any

from asyncsim.engine import Run
from asyncsim.files import to_plain
from asyncsim.folders.summaries import KEYS
from asyncsim.trace import Trace


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
        up to the last of these, `simulated_seconds` and `mean_staleness`; `final_loss`, the mean training loss over
        the last 50 commits of each worker; `test_loss` and `test_accuracy` of the final central variable;
        `diverged_at`; `wall_seconds`; and `commits_per_second` of wall time without compilation. A number that does
        not exist, or is not finite, is None.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0, 1])
        >>> run = asim.replay(trace, asim.rules.downpour(0.5), asim.workloads.quadratic([1.0]))
        >>> summary = summarise(trace, run, wall_seconds=2.0)
        >>> summary["mean_staleness"], summary["final_loss"], summary["commits_per_second"]
        (0.75, 0.28125, 2.0)
    """
    done = slice(run.commits)
    test = run.evaluate() if test is None else test
    working = wall_seconds - compile_seconds
    values = {
        "commits": run.commits,
        "simulated_seconds": trace.commit_time[run.commits - 1] if run.commits else 0.0,
        "mean_staleness": trace.staleness[done].mean() if run.commits else None,
        "final_loss": run.final_loss(),
        "test_loss": test.get("test_loss"),
        "test_accuracy": test.get("test_accuracy"),
        "diverged_at": run.diverged_at,
        "wall_seconds": wall_seconds,
        "commits_per_second": run.commits / working if working > 0 else None,
    }
    own = {name: value for name, value in test.items() if name not in KEYS}
    return {key: to_plain(value) for key, value in {**values, **own}.items()}
