"""The cost of a run as numbers, as columns and in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim._checks import require_not_negative, require_positive

PARTS = ("waiting", "download", "compute", "upload", "queue", "service", "down")  # of a worker's time
JOULES_PER_KILOWATT_HOUR = 3.6e6


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
        bytes_up: Bytes that workers sent, an integer.
        bytes_down: Bytes that workers received, an integer.
        joules: Energy, None without a `Power`.
        money: Price, None without a `Price`.
    """

    workers: int
    duration: float
    commits: int
    seconds: Mapping[str, np.ndarray]
    contains: tuple[str, ...]
    bytes_up: int
    bytes_down: int
    joules: float | None
    money: float | None

    def __repr__(self) -> str:
        words = [f"{self.workers} workers for {self.duration:.4g} s", f"{self.busy_share:.1%} computing"]
        words.append(f"{self.bytes_up:,} bytes up, {self.bytes_down:,} down")
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
        """Grams of carbon dioxide: energy × power usage effectiveness × intensity.

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
        """Columns of one length, a row for each worker: its number, and the seconds of each part of its time.

        Example:
            >>> import asyncsim as asim
            >>> trace = asim.Trace.from_commits([0, 1, 0])
            >>> found = asim.cost(trace, message_bytes=4, parameter_bytes=4).table()
            >>> found["worker"].tolist(), found["compute"].tolist()
            ([0, 1], [3.0, 3.0])
        """
        return {"worker": np.arange(self.workers), **self.seconds}

    def summary(self) -> dict[str, Any]:
        """Name -> number, or name -> numbers, as plain data, fit for JSON."""
        seconds = {name: float(seconds.sum()) for name, seconds in self.seconds.items()}
        return {**vars(self), "seconds": seconds, "contains": list(self.contains)}
