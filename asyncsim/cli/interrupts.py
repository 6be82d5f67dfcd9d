"""Ctrl-C and SIGTERM, from a command's first moment on: one line, and the status that a shell expects."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM: whatever Ctrl-C would have saved is saved."""

    signal = signal.SIGTERM


@contextmanager
def quitting_at_once() -> Iterator[None]:
    """End the process when a signal comes, until `raise_from_now_on`: while modules are imported, nothing can be lost.

    An exception would reach the middle of an import, where some modules swallow it and others fail in their own way.
    Signals that were ignored before stay ignored, as for a program that was started in the background.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    _handle(_quit)
    try:
        yield
    finally:
        if _can_handle():
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def raise_from_now_on() -> None:
    """Let a signal raise an exception: there is now something to save, or to clean up."""
    _handle(_raise)


def exit_status(error: BaseException) -> int:
    """128 and the number of the signal, so that a shell's loop ends too."""
    return 128 + getattr(error, "signal", signal.SIGINT)


def _handle(handler: Any) -> None:
    if _can_handle():
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)


def _can_handle() -> bool:
    return threading.current_thread() is threading.main_thread()


def _quit(number: int, frame: Any) -> None:
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"Error: Interrupted.\n")
    os._exit(128 + number)


def _raise(number: int, frame: Any) -> None:
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
