"""The power and the prices from which energy and money follow, and the cost of a run: numbers, columns and words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from asyncsim._checks import require_not_negative, require_positive
from asyncsim._metrics import counted
from asyncsim.components._component import Component

PARTS = ("waiting", "download", "compute", "upload", "queue", "service", "down")  # of a worker's time
JOULES_PER_KILOWATT_HOUR = 3.6e6
HOUR = 3600.0  # seconds
GIGABYTE = 1e9  # bytes
_ROUNDING = 1e-9  # relative error of a whole number of billing units

_Watts = Annotated[float, require_not_negative, "Give watts, for example 300."]
_Money = Annotated[float, require_not_negative, "Give a price in your currency, for example 2.5."]
_Seconds = Annotated[float, require_positive, "Give seconds, for example 60, or None for no rounding."]


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
    joules_per_byte: Annotated[float, require_not_negative, "Give joules for a byte, for example 1e-8."] = 0.0

    def joules(self, *, workers: int, duration: Any, busy_seconds: Any, bytes_sent: Any) -> Any:
        """Return the energy in joules, of numbers or of arrays of one shape."""
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
        """Return the price of a run.

        Args:
            duration: Seconds from its beginning to its end.
            down: (workers,) seconds for which each worker was down.
            bytes_sent: Bytes in both directions.
        """
        paid = self._round_up(duration - down if self.spot else np.full(len(down), duration))
        server = self.server_per_hour * float(self._round_up(np.array(duration)))
        return (self.per_hour * float(paid.sum()) + server) / HOUR + self._of_bytes(bytes_sent)

    def money_so_far(self, *, up_seconds: Any, duration: Any, bytes_sent: Any) -> Any:
        """Return it without rounding, from the seconds for which all workers together were paid, also of arrays."""
        return (self.per_hour * up_seconds + self.server_per_hour * duration) / HOUR + self._of_bytes(bytes_sent)

    def _of_bytes(self, bytes_sent: Any) -> Any:
        return self.egress_per_gigabyte * bytes_sent / GIGABYTE

    def _round_up(self, seconds: np.ndarray) -> np.ndarray:
        unit = self.billing_seconds
        return seconds if unit is None else unit * np.ceil(seconds / unit * (1 - _ROUNDING))


@dataclass(frozen=True, eq=False, repr=False)
class Cost:
    """The cost of a run, from `asyncsim.cost`.

    Attributes:
        workers: Number of workers n.
        duration: T, seconds from the beginning to the end.
        commits: Commits within this time.
        seconds: Part of the time -> (workers,) float64, seconds of each worker. The parts are "waiting" (until it may
            read, and between jobs), "download" (from the read to the beginning of the computation), "compute",
            "upload" (from the end of the computation to the arrival, with a pull and lost messages), "queue" (from the
            arrival to the beginning of the service), "service" and "down". They sum to n·T.
        contains: Parts that cannot be separated from "compute" in the trace, so it may contain them. Empty if all can.
        bytes_up: Bytes that workers sent, also to one another on a graph, an integer.
        bytes_down: Bytes that workers received from a server, an integer.
        joules: Energy, None without a `Power`.
        money: Price, None without a `Price`.
        bytes_far: Those of both directions that regions and their global server exchanged, None without regions.
        names: Names of the workers, none where they are numbered.
    """

    workers: int
    duration: float
    commits: int
    seconds: Mapping[str, np.ndarray]
    contains: tuple[str, ...]
    bytes_up: int
    bytes_down: int
    joules: float | None = None
    money: float | None = None
    bytes_far: int | None = None
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        words = [f"{counted(self.workers, 'worker')} for {self.duration:.4g} s", f"{self.busy_share:.1%} computing"]
        down = f" up, {self.bytes_down:,} down" if self.bytes_down else " sent"
        words.append(f"{self.bytes_up:,} bytes{down}")
        words += [] if self.bytes_far is None else [f"{self.bytes_far:,} of them between regions"]
        words += [] if self.joules is None else [f"{self.joules:.4g} J"]
        words += [] if self.money is None else [f"money {self.money:.4g}"]
        return f"Cost({'; '.join(words)})"

    @property
    def bytes_sent(self) -> int:
        """Bytes in both directions."""
        return self.bytes_up + self.bytes_down

    @property
    def shares(self) -> dict[str, float]:
        """Part of the time -> its share of all workers' time n·T, NaN if no time passes."""
        whole = self.workers * self.duration
        return {name: float(seconds.sum()) / whole if whole else np.nan for name, seconds in self.seconds.items()}

    @property
    def busy_share(self) -> float:
        """Share of the workers' time spent on computing."""
        return self.shares["compute"]

    def carbon(self, *, intensity: float, pue: float = 1.0) -> float:
        """Return grams of carbon dioxide: energy × power usage effectiveness × intensity.

        Args:
            intensity: Grams for a kilowatt hour, for example 400.
            pue: Power usage effectiveness of the data centre, at least 1 in practice.

        Raises:
            ValueError: If there is no energy, or a number is out of range.
        """
        if self.joules is None:
            raise ValueError("`power` must have been given for carbon; got None. Give `cost` a `Power`.")
        intensity = require_not_negative("intensity", intensity, remedy="Give grams for a kilowatt hour.")
        pue = require_positive("pue", pue, remedy="Use 1 for the machines alone.")
        return self.joules / JOULES_PER_KILOWATT_HOUR * pue * intensity

    def table(self) -> dict[str, np.ndarray]:
        """Return columns of one length, a row for each worker: name or number, and seconds of each part of its time.

        Example:
            >>> import asyncsim as asim
            >>> trace = asim.Trace.from_commits([0, 1, 0])
            >>> found = asim.cost(trace, message_bytes=4, parameter_bytes=4).table()
            >>> found["worker"].tolist(), found["compute"].tolist()
            ([0, 1], [3.0, 3.0])
        """
        return {"worker": np.array(self.names or range(self.workers)), **self.seconds}

    def summary(self) -> dict[str, Any]:
        """Return name -> number, or name -> numbers, as plain data, fit for JSON."""
        seconds = {name: float(seconds.sum()) for name, seconds in self.seconds.items()}
        values = {name: value for name, value in vars(self).items() if name != "names"}
        if self.bytes_far is None:
            del values["bytes_far"]
        return {**values, "seconds": seconds, "contains": list(self.contains)}
