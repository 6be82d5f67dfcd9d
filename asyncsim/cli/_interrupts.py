"""Ctrl-C and SIGTERM, from a command's first moment on: one line, and the status that a shell expects.

This module is imported before anything else and imports next to nothing itself: until it has run, Python answers.
"""

import os
import signal
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 128  # exit statuses above it are those of signals
RETRY_SECONDS = 0.05  # seconds after which the callback that swallowed a signal has returned


class Terminated(KeyboardInterrupt):
    """SIGTERM: whatever Ctrl-C would have saved is saved."""

    signal = signal.SIGTERM


class Quitting:
    """A context in which a signal ends the process, until `raise_from_now_on`. It restores the handlers afterwards."""

    def __enter__(self) -> None:
        self.before = {number: signal.getsignal(number) for number in SIGNALS}
        self.hook = sys.unraisablehook
        quit_from_now_on()

    def __exit__(self, *error: object) -> None:
        sys.unraisablehook = self.hook
        for number, handler in self.before.items():
            _handle(number, handler if handler is not None else signal.SIG_DFL)


def quit_from_now_on() -> None:
    """Let a signal end the process: nothing can be lost yet, or everything has been kept."""
    _handle_all(_quit)


def raise_from_now_on() -> None:
    """Let a signal raise an exception: there is now something to save, or to clean up."""
    sys.unraisablehook = _raise_again
    _handle_all(_raise)


def exit_status(error: BaseException) -> int:
    """Return 128 and the number of the signal, so that a shell's loop ends too."""
    return INTERRUPTED + getattr(error, "signal", signal.SIGINT)


def leave(status: int) -> None:
    """End the process without taking Python down, during which a thread of XLA that still compiles would crash."""
    from contextlib import suppress

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # Nobody reads it any more.
            stream.flush()
    os._exit(status)


def _handle_all(handler: object) -> None:
    for number in SIGNALS:
        # A process that `nohup` or a job scheduler started may ignore signals, and goes on doing so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            _handle(number, handler)


def _handle(number: int, handler: object) -> None:
    try:
        signal.signal(number, handler)  # type: ignore[arg-type]
    except ValueError:
        return  # This is not the main thread, which alone receives signals.


def _quit(number: int, frame: object) -> None:
    # A handler may run while `print` holds the lock of the stream, so it writes to the descriptor itself.
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"Error: Interrupted.\n")
    os._exit(INTERRUPTED + number)


def _raise(number: int, frame: object) -> None:
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _raise_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Send the signal once more if its exception was swallowed: it may come in a callback of the garbage collector."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    # The timer lets the callback return first. Python would swallow an exception that is raised inside it.
    import threading

    number = getattr(unraisable.exc_value, "signal", signal.SIGINT)
    threading.Timer(RETRY_SECONDS, os.kill, (os.getpid(), number)).start()
