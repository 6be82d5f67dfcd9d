"""Processes of this machine that compute tasks: each an executor of its own, so that its death costs only its task.

They are spawned and never forked: JAX has threads. Each has one CPU device and one thread, prints on standard error
(standard output belongs to the process that started them), ignores Ctrl-C (that process answers it, and ends them by
SIGTERM, on which a replay keeps what it has), and ends with the process that started it.
"""

import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess

from asyncsim.store import _lease as lease

GRACE = 5.0  # seconds for a process to keep what it has before it is killed


def start_process() -> ProcessPoolExecutor:
    """An executor of one process, which starts with the first task."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=context, initializer=_begin)


@contextmanager
def without_main() -> Iterator[None]:
    """Start processes that do not run the main program's file again, as `spawn` would have them do."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def stop_processes(executors: list[ProcessPoolExecutor]) -> None:
    """End processes: at once where there is nothing to do, else after a moment to keep what they have."""
    processes = [process for executor in executors for process in (executor._processes or {}).values()]
    for executor in executors:
        executor.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        with suppress(OSError, ValueError):
            process.terminate()  # one that is idle would take half a second to leave by itself
    for process in processes:
        with suppress(OSError, ValueError, AssertionError):
            process.join(GRACE)
            if process.is_alive():
                process.kill()
                process.join(GRACE)


def _begin() -> None:
    """Make the new process one that computes: one device, one thread, deaf to Ctrl-C, gone when its parent is."""
    with suppress(OSError):  # closed
        os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    os.environ["NPROC"] = "1"  # threads of XLA
    import jax

    jax.config.update("jax_num_cpu_devices", 1)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _leave(number: int, frame: object) -> None:
    """Give back leases, in an orderly way; a process that has nothing to do ends at once."""
    if lease.is_held():
        sys.exit(128 + number)
    os._exit(128 + number)


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
