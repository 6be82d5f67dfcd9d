"""The electrical power of workers, server and network."""

from typing import Annotated, Any

from asyncsim._checks import require_not_negative
from asyncsim._component import Component


def _watts(name: str, value: Any) -> float:
    return require_not_negative(name, value, remedy="Give watts, for example 300.")


def _joules(name: str, value: Any) -> float:
    return require_not_negative(name, value, remedy="Give joules for a byte, for example 1e-8.")


class Power(Component):
    """The power of a cluster, from which energy follows.

    With n workers, the duration T, the seconds B that all workers spend on computing, and the number of bytes sent, the
    energy in joules is

        idle·n·T + (busy - idle)·B + joules_per_byte·bytes + server·T.

    A worker that is down draws `idle`. The frequency of processors, cooling and manufacture are not modelled.

    Args:
        busy: Watts of a worker while it computes, for example 300.
        idle: Watts of a worker at all other times, for example 60.
        server: Watts of the server (of rollouts: the trainer), always.
        joules_per_byte: Energy of the network for each byte sent, for example 1e-8.

    Raises:
        ValueError: If a number is negative or not finite.

    Example:
        Two workers for 10 s, of which they compute for 15 s together:

        >>> Power(busy=300.0, idle=60.0).joules(workers=2, duration=10.0, busy_seconds=15.0, bytes_sent=0)
        4800.0
    """

    busy: Annotated[float, _watts]
    idle: Annotated[float, _watts]
    server: Annotated[float, _watts] = 0.0
    joules_per_byte: Annotated[float, _joules] = 0.0

    def joules(self, *, workers: int, duration: Any, busy_seconds: Any, bytes_sent: Any) -> Any:
        """Energy in joules, of numbers or of arrays of one shape."""
        always = (self.idle * workers + self.server) * duration
        return always + (self.busy - self.idle) * busy_seconds + self.joules_per_byte * bytes_sent
