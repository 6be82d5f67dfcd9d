"""The progress bar, on standard error, and only on a terminal."""

import math
import time
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from asyncsim._metrics import counted
from asyncsim.cli._command import say
from asyncsim.cluster._simulation import Simulated
from asyncsim.engine import Progress

if TYPE_CHECKING:  # At run time, these imports would load everything that a calibration needs.
    from asyncsim.calibration._simulations import SimulationProgress
    from asyncsim.study._sweep import SweepProgress

SIMULATING = "simulating"  # the stage of a calibration before its networks learn
QUIET_SECONDS = 3.0  # seconds after which a computation reports its progress where there is no terminal
QUIET_FACTOR = 3  # times as long until it reports again

STATE, BAR, TIME_LEFT = TextColumn("{task.fields[state]}"), BarColumn(bar_width=30), TimeRemainingColumn(compact=True)


class _Shown:
    """A progress bar, shown within its context."""

    def __init__(self, *columns: ProgressColumn) -> None:
        console = Console(stderr=True)
        # Transient: a finished bar disappears, and standard error keeps only lines for people.
        self.bar = RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()


class _OneLine(_Shown):
    """A bar of a single line, with the time that passed and the time left."""

    def __init__(self) -> None:
        super().__init__(STATE, BAR, TimeElapsedColumn(), TIME_LEFT)
        self.task = self.bar.add_task("", total=None, state="preparing")


class Bar(_Shown):
    """A progress bar for one replay after another, with the latest report."""

    def __init__(self) -> None:
        super().__init__(TextColumn("{task.description}"), BAR, STATE, TIME_LEFT)
        self.latest: Progress | None = None
        self._lines: dict[str, TaskID] = {}
        self._begun: dict[str, tuple[float, int]] = {}  # when a line's first report came, and the commits done by then

    def expect(self, name: str) -> TaskID:
        """Return the line for work that has begun, which is added unless it is there."""
        if name not in self._lines:
            self._lines[name] = self.bar.add_task(name, total=None, state="preparing")
        return self._lines[name]

    def close(self, name: str) -> None:
        """Remove the lines of finished work: that of this name, and those whose names begin with it and a comma."""
        for other in [other for other in self._lines if other.split(",")[0] == name]:
            self.bar.remove_task(self._lines.pop(other))
            self._begun.pop(other, None)

    def simulate(self, name: str, simulated: Simulated) -> None:
        """Show how far the schedule of a replay has come, which is not yet the replay."""
        state = f"schedule: {counted(simulated.commits, 'commit', ',')} in {simulated.seconds:.4g} simulated seconds"
        self.bar.update(self.expect(name), completed=simulated.share, total=1.0, state=state)

    def update(self, name: str, progress: Progress) -> None:
        """Show how far a replay has come."""
        self.latest = progress
        line, now = self.expect(name), time.monotonic()
        if name not in self._begun:
            self._begun[name] = now, progress.done
            self.bar.reset(line, total=progress.total)  # The time of the schedule does not count.
        start, first = self._begun[name]
        state = [f"{progress.done:,} of {counted(progress.total, 'commit', ',')}"]
        # The first report has no speed yet.
        if now > start:
            state.append(f"{(progress.done - first) / (now - start):,.0f}/s")
        if progress.loss is not None:
            state.append(f"loss {progress.loss:.4g}")
        self.bar.update(line, completed=progress.done, total=progress.total, state="  ".join(state))

    def update_figure(self, name: str, seed: int, scenario: object, progress: Progress) -> None:
        """Show how far one of a figure's replays has come, on a line that all of them share."""
        del scenario  # The figure and the seed are enough.
        if self.latest is None or progress.done <= self.latest.done:
            self.close(name)  # Another replay has begun, whose speed is measured anew.
        self.update(f"{name}, seed {seed}", progress)


class StageBar(_OneLine):
    """A progress bar for one stage of work after another."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = ""
        self.begun = time.monotonic()
        self.due = QUIET_SECONDS if self.bar.disable else math.inf

    def update(self, stage: str, share: float) -> None:
        """Show a stage and its share that is done. Without a terminal, report after 3, 9, 27, … seconds."""
        if stage != self.stage:  # Each stage has a speed of its own.
            self.bar.reset(self.task, total=1.0)
            self.stage = stage
        self.bar.update(self.task, completed=share, state=stage)
        seconds = time.monotonic() - self.begun
        # Lines in a log file become rarer, so that a long computation does not fill it.
        if seconds >= self.due:
            self.due = QUIET_FACTOR * seconds
            say(f"{stage.capitalize()}, {share:.0%} done after {seconds:.0f} s.")


class CountBar(_OneLine):
    """A progress bar for many runs or simulations, named by `noun`, with the latest report."""

    def __init__(self, noun: str) -> None:
        super().__init__()
        self.noun = noun
        self.latest: Any = None
        self.before = 0

    @property
    def done(self) -> str:
        """How many are done, in words, or empty before the first report."""
        return "" if self.latest is None else f"{self.latest.done:,} of {self.latest.total:,} {self.noun}"

    def update(self, progress: "SweepProgress | SimulationProgress") -> None:
        """Show how far a sweep or the simulations have come, and then the next stage of a calibration."""
        failed = getattr(progress, "failed", 0)
        if self.latest is None:  # Existing results say nothing about the speed.
            self.before = progress.done + failed
            self.bar.reset(self.task, total=progress.total - self.before)
        self.latest = progress
        stage = getattr(progress, "stage", SIMULATING)
        if stage != SIMULATING:
            self.bar.update(self.task, total=None, state=f"{stage} from {progress.total:,} {self.noun}")
            return
        state = f"{self.done}{f', {failed:,} failed' if failed else ''}"
        self.bar.update(self.task, completed=progress.done + failed - self.before, state=state)
