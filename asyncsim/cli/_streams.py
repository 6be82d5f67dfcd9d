"""Standard streams that a process was started without, as by `>&-`."""

import io
import os
import sys


class Closed(io.StringIO):
    """Standard output that nobody receives. It remembers whether anything was to be printed."""

    lost = False

    def write(self, s: str, /) -> int:
        """Drop a text, as `print` does where there is no standard output."""
        self.lost = self.lost or bool(s)
        return len(s)


def replace_closed() -> None:
    """Replace closed streams, so that no file gets the number of one and receives what a library writes to it."""
    # The system gives each opened file the lowest number that is free.
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 - open as long as the process
    if sys.stdout is None:
        sys.stdout = Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
