"""Replay a trace: learn what the simulated cluster would have learned."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from asyncsim._checks import require_not_negative
from asyncsim.engine._quantities import Record
from asyncsim.engine._replayer import Progress, Replayer
from asyncsim.engine._run import Run
from asyncsim.rules import Rule
from asyncsim.trace import Trace
from asyncsim.workloads import Workload


class ReplayInterrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM came during a replay.

    Attributes:
        run: What was done by then, ready to be resumed.
        signal: The number of the signal.
    """

    def __init__(self, run: Run, signal: int = signal.SIGINT) -> None:
        super().__init__(f"interrupted after {run.commits} commits")
        self.run = run
        self.signal = signal


def replay(
    trace: Trace,
    rule: Rule,
    workload: Workload,
    seed: int | Sequence[int] = 0,
    *,
    record: Record | None = None,
    commits: int | None = None,
    resume: Run | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Callable[[Run], None] | None = None,
    checkpoint_every: float = 60.0,
    stop_on_divergence: bool = True,
    lanes: int | None = None,
) -> Run:
    """Replay a trace: take each gradient where the trace says, and apply it when the trace says.

    Every valid trace can be replayed: workers may wait, crash and begin anew, pull early, and the server may collect
    several commits in a step.
    Worker w's j-th mini-batch and random key depend on (seed, w, j) only, so that rules replayed with one seed are
    compared in pairs. `asyncsim.engine.reference.replay_plainly` is the definition; this is the same, compiled, in
    chunks of some thousand commits.

    Args:
        trace: Who commits what and when.
        rule: Update rule. A hyper-parameter may be an array with one value per seed; each seed then computes as if its
            value were given alone.
        workload: Loss and data.
        seed: A seed, or several that are replayed side by side over the same trace.
        record: Names of what else to record (see below), or name -> every how many commits (None for the default). A
            function of your own is recorded under any other name: name -> function, or `(function, every)`. It
            receives a `CommitView` and returns an array. By default nothing, or what the resumed run recorded.
        commits: Number of commits of the trace to replay; all by default.
        resume: A run of the same trace, rule, workload and seed to continue. The result equals that of an
            uninterrupted replay bit for bit.
        progress: Called with a `Progress(done, total, loss)` after every chunk: commits done and wanted, and the mean
            loss of the last few commits so far, or None. A KeyboardInterrupt that it raises counts as Ctrl-C.
        checkpoint: Called now and then with the `Run` so far, which can be saved and resumed.
        checkpoint_every: Least time between two checkpoints, in seconds; 0 for one after every chunk.
        stop_on_divergence: Leave out the rest once every seed has a non-finite state.
        lanes: Gradients taken together. By default one on a CPU, and as many as there are workers (at most 64) on an
            accelerator or where several devices share them (see `asyncsim.use_all_cores`).

    What can be recorded, of a gradient taken at s and a commit that makes the central variable θ:
        - "energy_central": Σ ½(θ - s)², the energy of the central variable's displacement since s was read.
        - "energy_proxy": Σ ½(κm)², the energy of the rule's proxy.
        - "compliance": energy_central / energy_proxy.
        - "pi_mean": Mean of the scaling π over all parameters.
        - "pi_median": Its median over all parameters.
        - "pi_median_by_tensor": Its median in each tensor, in the order of the pytree's leaves.
        - "central": θ itself, and "read": s itself, all parameters in one vector; `Run.unpacked` makes pytrees of them.
        - The workload's own quantities by their names, such as "effective_sample_size" of `workloads.Bits`.
        - "test_loss", "test_accuracy": What the workload's `evaluate` measures of θ; likewise whatever else it
          measures, by its name.

        By default medians are recorded at every n-th commit of n workers, the test at every 50 n-th, and all else at
        every one. The proxy's energy and π exist for rules that report them, such as GEM.

        A function of your own is part of the compiled program, so give one that JAX can trace, at module level: a new
        closure or lambda compiles a new program. Arrays that it needs may be bound by `jax.tree_util.Partial`.

    Returns:
        A `Run`.

    Raises:
        ValueError: If an argument is out of range or the trace is not valid.
        ReplayInterrupted: On Ctrl-C or SIGTERM, with the run so far. A second one does not wait for the chunk to end.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=4, compute=asim.delays.Exponential(mean=1.0))
        >>> trace = asim.simulate(cluster, commits=200, seed=0)
        >>> rule, workload = asim.rules.GEM(learning_rate=0.01), asim.workloads.Quadratic([1.0, 0.5])
        >>> run = asim.replay(trace, rule, workload, record=("energy_central",))
        >>> run
        Run(gem on quadratic, 4 workers, 200 commits, seed 0; loss, energy_central)
        >>> run.loss.shape, run.records["energy_central"].shape, run.diverged_at
        ((200,), (200,), None)
        >>> half = asim.replay(trace, rule, workload, commits=100)
        >>> whole = asim.replay(trace, rule, workload, resume=half)
        >>> bool((whole.loss == run.loss).all())
        True

        The gradient that moved the central variable, and at every 50th commit that of the whole loss there, ∇L(θ):

        >>> import jax, jax.numpy as jnp
        >>> def gradient_norm(commit):
        ...     return jnp.linalg.norm(commit.gradient["x"])
        >>> def central_gradient(commit):
        ...     return jax.grad(workload.loss)(commit.central, None, jax.random.key(0))["x"]
        >>> record = {"gradient_norm": gradient_norm, "central_gradient": (central_gradient, 50), "central": 50}
        >>> run = asim.replay(trace, rule, workload, record=record)
        >>> run.records["gradient_norm"].shape, run.recorded_at["central_gradient"].tolist()
        ((200,), [49, 99, 149, 199])
        >>> expected = run.unpacked("central")["x"] * [1.0, 0.5]  # the gradient of Σ ½·λ·x²
        >>> bool(abs(run.records["central_gradient"] - expected).max() < 1e-6)
        True
    """
    replayer = Replayer(trace, rule, workload, seed, record=record, commits=commits, resume=resume, lanes=lanes)
    require_not_negative("checkpoint_every", checkpoint_every, remedy="Give seconds; 0 is after every chunk.")
    due = time.monotonic() + checkpoint_every
    finished = replayer.finished(stop_on_divergence)
    with _deferred_interrupt() as interrupted:
        while not finished:
            replayer.advance()
            # Asked before a checkpoint, which looks at results that are else looked at later: where a replay that
            # diverges stops must not depend on when checkpoints are made.
            finished = replayer.finished(stop_on_divergence)
            if progress is not None:
                _report(replayer, progress)
            if interrupted:
                raise ReplayInterrupted(replayer.run(), interrupted[0])
            if checkpoint is not None and time.monotonic() >= due:
                checkpoint(replayer.run())
                due = time.monotonic() + checkpoint_every
    return replayer.run()


def _report(replayer: Replayer, progress: Callable[[Progress], None]) -> None:
    try:
        progress(replayer.progress())
    except KeyboardInterrupt as error:  # between two chunks the state is whole
        raise ReplayInterrupted(replayer.run(), getattr(error, "signal", signal.SIGINT)) from None


@contextmanager
def _deferred_interrupt() -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM wait for the end of a chunk, and list their numbers; a second one does not wait."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def remember(number: int, frame: Any) -> None:
        received.append(number)
        if len(received) > 1:
            signal.default_int_handler(number, frame)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, remember)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
