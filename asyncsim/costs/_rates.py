"""The power of the machines and the prices of machines and traffic, from which energy and money follow."""

from typing import Annotated, Any

import numpy as np

from asyncsim._component import Component, not_negative, positive

HOUR = 3600.0  # seconds
GIGABYTE = 1e9  # bytes
_ROUNDING = 1e-9  # relative: a duration that is a whole number of billing units up to rounding


_Watts = Annotated[float, not_negative("Give watts, for example 300.")]
_Money = Annotated[float, not_negative("Give a price in your currency, for example 2.5.")]
_Seconds = Annotated[float, positive("Give seconds, for example 60, or None for no rounding.")]


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

    busy: _Watts
    idle: _Watts
    server: _Watts = 0.0
    joules_per_byte: Annotated[float, not_negative("Give joules for a byte, for example 1e-8.")] = 0.0

    def joules(self, *, workers: int, duration: Any, busy_seconds: Any, bytes_sent: Any) -> Any:
        """Energy in joules, of numbers or of arrays of one shape."""
        always = (self.idle * workers + self.server) * duration
        return always + (self.busy - self.idle) * busy_seconds + self.joules_per_byte * bytes_sent


class Price(Component):
    """The prices from which the money follows that a run costs, in any currency.

    Idle time is paid. The time of each machine is rounded up to the billing unit.

    Args:
        per_hour: Price of one worker for an hour.
        egress_per_gigabyte: Price of 10⁹ bytes sent, in either direction.
        billing_seconds: The billing unit, for example 60, or None for no rounding.
        server_per_hour: Price of the server for an hour (for rollouts, of all machines of the trainer).
        spot: Whether workers are spot instances, which cost nothing while they are down.

    Raises:
        ValueError: If a price is negative or not finite, or the billing unit is not positive.

    Example:
        Two workers, one of which was up for half of the hour:

        >>> import numpy as np
        >>> spot = Price(per_hour=2.0, spot=True)
        >>> spot.money(duration=3600.0, down=np.array([0.0, 1800.0]), bytes_sent=0)
        3.0
    """

    per_hour: _Money
    egress_per_gigabyte: _Money = 0.0
    billing_seconds: _Seconds | None = None
    server_per_hour: _Money = 0.0
    spot: bool = False

    def money(self, *, duration: float, down: np.ndarray, bytes_sent: int) -> float:
        """The price of a run.

        Args:
            duration: Seconds from its beginning to its end.
            down: (workers,) seconds for which each worker was down.
            bytes_sent: Bytes in both directions.
        """
        paid = self._rounded(duration - down if self.spot else np.full(len(down), duration))
        server = self.server_per_hour * float(self._rounded(np.array(duration)))
        return (self.per_hour * float(paid.sum()) + server) / HOUR + self._of_bytes(bytes_sent)

    def money_so_far(self, *, up_seconds: Any, duration: Any, bytes_sent: Any) -> Any:
        """The same without rounding, from the seconds for which all workers together were paid, also of arrays."""
        return (self.per_hour * up_seconds + self.server_per_hour * duration) / HOUR + self._of_bytes(bytes_sent)

    def _of_bytes(self, bytes_sent: Any) -> Any:
        return self.egress_per_gigabyte * bytes_sent / GIGABYTE

    def _rounded(self, seconds: np.ndarray) -> np.ndarray:
        unit = self.billing_seconds
        return seconds if unit is None else unit * np.ceil(seconds / unit * (1 - _ROUNDING))
