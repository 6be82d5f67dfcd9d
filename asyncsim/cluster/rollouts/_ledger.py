"""The ledger of a simulated rollout system: one row a sample, and its summary."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import require_integer
from asyncsim._metrics import counted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Steps(NamedTuple):
    """The trainer's steps, arrays of shape (steps,)."""

    begin: Floats  # when the step took its groups, in seconds
    computed: Floats  # when its computation ended
    stopped: Floats  # when generation stopped for the new weights, later than `computed` where it drained before
    update: Floats  # when the version grew, which is later than `stopped` by the pause for the new weights
    weights: Floats  # when the slots had the new weights, infinite if they did not have them by the end
    outstanding: Ints  # samples started and neither trained nor dropped, just after the update and before others start
    queue: Ints  # complete groups that wait, at that moment


@dataclass(frozen=True, eq=False, repr=False)
class Ledger:
    """One row a sample, in the order in which the samples started, with times in seconds."""

    slots: int  # number of slots
    group_size: int  # samples of a group
    steps: Steps  # the trainer's steps
    group: Ints  # (samples,) the number of the sample's group, in the order of opening
    slot: Ints  # (samples,) the slot that generated it
    start: Floats  # (samples,) when its generation began
    end: Floats  # (samples,) when its generation ended or was stopped, infinite if it goes on
    read_version: Ints  # (samples,) version of the weights with which it started
    ready_version: Ints  # (samples,) version when its group entered the queue, or -1 if it did not
    trained_version: Ints  # (samples,) version just before the step that trained it, or -1 if none did
    dropped_version: Ints  # (samples,) version when its group was dropped, or -1 if it was not
    drop_time: Floats  # (samples,) when its group was dropped, or infinite if it was not

    def __len__(self) -> int:
        return len(self.group)

    def __repr__(self) -> str:
        trained, steps = np.count_nonzero(self.trained_version >= 0), len(self.steps.update)
        seconds = float(self.steps.update[-1]) if steps else 0.0
        return f"Ledger({counted(len(self), 'sample')}, {trained} trained in {counted(steps, 'step')}, {seconds} s)"

    @property
    def seconds(self) -> Floats:
        """(samples,) seconds of generation, pauses excluded, or infinite for samples that go on."""
        return self._without_pauses(self.end) - self._without_pauses(self.start)

    def summary(self, warm_up: int = 0) -> dict[str, float]:
        """Return means after a warm-up, until the end of the last step."""
        steps = self.steps
        number = len(steps.update)
        warm_up = require_integer("warm_up", warm_up, remedy="Leave out 0 steps or more.")
        if warm_up >= number:
            raise ValueError(f"`warm_up` must be less than the {number} steps of the ledger; got {warm_up}. Use fewer.")
        begin = float(steps.update[warm_up - 1]) if warm_up else 0.0
        end = float(steps.update[-1])
        span = end - begin if end > begin else np.nan
        trained = self.trained_version >= warm_up
        staleness = (self.trained_version - self.read_version)[trained]
        first = np.diff(self.group[trained], prepend=-1) != 0  # samples of a group stand in neighbouring rows
        seconds, busy = self.seconds, float(self.seconds_between(begin, end).sum())
        dropped = (self.drop_time > begin) & (self.drop_time <= end)
        computing = float((steps.computed - steps.begin)[warm_up:].sum())
        return {
            "staleness": float(staleness.mean()),
            "staleness_sd": float(staleness.std()),
            "staleness_max": int(staleness.max()),
            "group_staleness": float(staleness[first].mean()),
            "pre_queue": float((self.ready_version - self.read_version)[trained].mean()),
            "in_queue": float((self.trained_version - self.ready_version)[trained].mean()),
            **self._versions(trained),
            "samples_per_second": len(staleness) / span,
            "steps_per_second": (number - warm_up) / span,
            "trainer_idle": 1 - computing / span,
            "slots_idle": 1 - busy / (self.slots * span),
            "wasted": float(seconds[dropped].sum()) / busy if busy else float("nan"),
            "trained_length": float(seconds[trained].mean()),
            "queue": float(steps.queue[warm_up:].mean()),
            "outstanding": float(steps.outstanding[warm_up:].mean()),
        }

    def seconds_between(self, begin: float, end: float) -> Floats:
        """Return the seconds of generation between two times, pauses excluded, shape (samples,)."""
        limits = self._without_pauses(np.array([begin, end]))
        return np.maximum(
            np.minimum(self._without_pauses(self.end), limits[1])
            - np.maximum(self._without_pauses(self.start), limits[0]),
            0.0,
        )

    def _versions(self, trained: NDArray[np.bool_]) -> dict[str, float]:
        """Return the lag of the tokens and the number of versions of trained samples."""
        arrival = self.steps.weights[np.isfinite(self.steps.weights)]
        clock = self._without_pauses(arrival)
        before = np.append(0.0, np.cumsum(clock))
        first, last = (np.searchsorted(arrival, times[trained], side="right") for times in (self.start, self.end))
        started, ended = (self._without_pauses(times[trained]) for times in (self.start, self.end))
        generated = (last * ended - before[last]) - (first * started - before[first])  # ∫ version over generation
        length = float((ended - started).sum())
        lag = float(((ended - started) * self.trained_version[trained] - generated).sum())
        return {"token_lag": lag / length, "versions": 1 + float((last - first).mean())}

    def _without_pauses(self, times: Floats) -> Floats:
        """Return, for each of these times, the seconds until then without pauses."""
        steps = self.steps
        pauses = np.append(0.0, np.cumsum(steps.update - steps.stopped))
        step = np.searchsorted(steps.update, times, side="right")
        # A time within a pause, at which an engine went down, counts as the beginning of the pause.
        return np.minimum(times, np.append(steps.stopped, np.inf)[step]) - pauses[step]
