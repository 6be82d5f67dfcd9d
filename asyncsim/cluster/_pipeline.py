"""A pipeline: one model cut into stages, through which micro-batches pass forwards and then backwards (SimPy).

Every stage computes on one device and holds the parameters of its layers. A stage updates them right after each of its
backward passes (asynchronous schedules), or once all micro-batches of a mini-batch are through (synchronous ones).

**Why a row of the trace is a micro-batch.** Stages apply their updates at different times, but each of them in the
order of the micro-batches, because nothing overtakes. So after its k-th update, a stage's parameters depend on
micro-batches 0 … k - 1 alone, and "version v of stage s" is well defined without a clock: the trace's version v has the
parameters of every stage after its v-th update. Row m then applies micro-batch m's update to all stages at once. The
rest of the schedule is `group_read_version[m, s]`, the number of updates that stage s had made when micro-batch m's
forward pass read its parameters. The backward pass uses the same parameters again (weight stashing). The replay is
exact for every rule that treats the parameters of one stage without those of another.

With the schedule "2bw" all stages read one version, that before the newest. A trace's read is the moment at which a
version becomes the newest, so a micro-batch reads when the mini-batch before the last ends, and begins later. Its slots
are those of two mini-batches.

The times of the trace are those of the first stage, which reads first and updates last: a row's `read_time` is when its
forward pass begins, its `commit_time` when its backward pass ends there. A worker of the trace is one of the slots that
micro-batches in flight take in turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from simpy import Environment
from simpy.events import Event, ProcessGenerator

from asyncsim import _memory as memory
from asyncsim._checks import brief, require_count, require_one_of
from asyncsim.cluster._events import InSimPy, Report, run_until
from asyncsim.cluster._random_streams import Purpose, draw_delays
from asyncsim.components._checked import Checked
from asyncsim.delays import Delay, scaled
from asyncsim.delays._law import require_law
from asyncsim.delays._per_worker import ZERO, expand, is_zero, require_positive_laws
from asyncsim.trace import Trace, Unfinished

ASYNCHRONOUS = ("pipedream", "concurrent")
SYNCHRONOUS = ("1f1b", "gpipe")
DOUBLE_BUFFERED = "2bw"
SCHEDULES = (*ASYNCHRONOUS, DOUBLE_BUFFERED, *SYNCHRONOUS)
BACKWARD = 2.0  # a backward pass over a forward pass: one for the inputs and one for the parameters
BYTES = 64  # bytes that one micro-batch takes at one stage, at least
TOLERANCE = 1e-9  # relative error of a sum of means that counts as a whole number

FORWARDS, BACKWARDS = True, False
NAMES = {FORWARDS: "forward", BACKWARDS: "backward"}


@dataclass(frozen=True, repr=False)
class Pipeline(Checked):
    """A model in stages, with the schedule of their passes.

    Args:
        stages: Number of stages S, at least 1.
        forward: Law of the time that a forward pass of one micro-batch takes at a stage: one law for all stages, or a
            sequence of one law per stage.
        backward: The same for a backward pass, by default twice the forward law.
        transfer: Law of the time that activations or gradients take from one stage to the next, by default none.
        schedule: The order of a stage's passes. "pipedream": one forward and one backward pass in turn, after S - 1 - s
            forward passes at the beginning of stage s = 0, …, S - 1, and every micro-batch is a step. "concurrent":
            forward and backward passes at the same time, each as soon as there is one to do (pipelined backpropagation,
            the schedule of PipeMare), and every micro-batch is a step. "2bw": as "pipedream", but a mini-batch of at
            least S micro-batches is a step, and each gradient is taken one version before the newest (PipeDream-2BW).
            So a stage keeps two versions, and the staleness is 1 everywhere. "1f1b": as "pipedream", but a mini-batch
            is a step, and the next begins when all of it is through. "gpipe": all forward passes of a mini-batch, then
            all backward passes.
        micro_batches: Micro-batches in a mini-batch, M, for "2bw", "1f1b" and "gpipe" only.
        in_flight: For "concurrent", the largest number of micro-batches on their way at once. The default is the
            smallest number that keeps the slowest pass busy on average.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> Pipeline(stages=4, forward=Exponential(1.0))
        Pipeline(4 stages, pipedream, forward Exponential(mean=1.0), backward Exponential(mean=2.0))

        Staleness by stage, from the first to the last, once the pipeline is full:

        >>> from asyncsim.cluster import simulate
        >>> trace = simulate(Pipeline(stages=4, forward=Exponential(1.0)), commits=100)
        >>> trace.groups, trace.group_staleness[-1].tolist()
        (('stage0', 'stage1', 'stage2', 'stage3'), [3, 2, 1, 0])

        A synchronous pipeline has no staleness, but its stages wait, here (S - 1)/(M + S - 1) of the time:

        >>> pipeline = Pipeline(stages=4, forward=Constant(1.0), schedule="1f1b", micro_batches=6)
        >>> int(simulate(pipeline, commits=60).staleness.max()), round(pipeline.timetable(60).idle, 6)
        (0, 0.333333)

    References:
        Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training".
        Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism".
        Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training", arXiv 2006.09503 (PipeDream-2BW).
        Yang et al. 2021, "PipeMare: Asynchronous Pipeline Parallel DNN Training", arXiv 1910.05124.
    """

    stages: Annotated[int, require_count, "Use one stage or more."]
    forward: Delay | Sequence[Delay]
    backward: Delay | Sequence[Delay] | None = None
    transfer: Annotated[Delay, require_law] = ZERO
    schedule: str = "pipedream"
    micro_batches: int | None = None
    in_flight: int | None = None

    def check(self) -> None:
        """Refuse laws and numbers that do not fit the stages or the schedule."""
        for name in ("forward", "backward"):
            if name == "forward" or self.backward is not None:
                object.__setattr__(self, name, require_positive_laws(name, getattr(self, name), self.stages, "stage"))
        require_one_of("schedule", self.schedule, choices=SCHEDULES)
        batched = (DOUBLE_BUFFERED, *SYNCHRONOUS)
        for name, schedules in (("micro_batches", batched), ("in_flight", ("concurrent",))):
            value = getattr(self, name)
            if value is None and not (name == "micro_batches" and self.schedule in batched):
                continue
            if self.schedule not in schedules:
                owners = " or ".join(map(repr, schedules))
                remedy = f"it belongs to {owners}"
                raise ValueError(f"`{name}` must be left out with the schedule {self.schedule!r}; {remedy}.")
            value = require_count(name, value, remedy="Give a whole number, say 8.")
            object.__setattr__(self, name, value)
        if self.schedule == DOUBLE_BUFFERED and self.micro_batches < self.stages:  # type: ignore[operator]
            raise ValueError(
                f"`micro_batches` must be at least the number of stages, {self.stages}, with the schedule '2bw'; got "
                f"{self.micro_batches}. Otherwise micro-batches of three mini-batches would be in flight."
            )

    def __repr__(self) -> str:
        """Return one line: the stages, the schedule and the laws, without defaults."""
        words = [f"{self.stages} stage{'s' * (self.stages > 1)}", self.schedule]
        if self.micro_batches is not None:
            words.append(f"{self.micro_batches} micro-batches")
        if self.in_flight is not None:
            words.append(f"{self.in_flight} in flight")
        words += [f"forward {_brief(self.forward)}", f"backward {_brief(self.backward_law)}"]
        if not is_zero(self.transfer):
            words.append(f"transfer {self.transfer!r}")
        return f"Pipeline({', '.join(words)})"

    @property
    def backward_law(self) -> Delay | Sequence[Delay]:
        """Law of the backward passes: `backward`, or twice the forward law where it is None."""
        if self.backward is not None:
            return self.backward
        twice = tuple(scaled(law, BACKWARD) for law in expand(self.forward, self.stages))
        return twice if isinstance(self.forward, tuple) else twice[0]

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the parameter groups of a trace: the stages, unless they all update at the same time."""
        return tuple(f"stage{stage}" for stage in range(self.stages)) if self.schedule in ASYNCHRONOUS else ()

    @property
    def workers(self) -> int:
        """The most micro-batches in flight, which are the workers of a trace. With "2bw" those of two mini-batches."""
        if self.schedule == "concurrent":
            if self.in_flight is not None:
                return self.in_flight
            # While nobody waits, this is the time of one micro-batch over the time between two.
            whole = sum(self._passes()) + 2 * (self.stages - 1) * self.transfer.mean
            return int(np.ceil(whole / self.slowest * (1 - TOLERANCE)))
        if self.schedule == "pipedream":
            return self.stages
        assert self.micro_batches is not None
        if self.schedule == DOUBLE_BUFFERED:
            return 2 * self.micro_batches
        return self.micro_batches if self.schedule == "gpipe" else min(self.stages, self.micro_batches)

    @property
    def slowest(self) -> float:
        """Mean time of the pass that takes longest, in seconds."""
        return max(self._passes())

    def _passes(self) -> list[float]:
        """Return the mean times of all passes."""
        laws = (*expand(self.forward, self.stages), *expand(self.backward_law, self.stages))
        return [law.mean for law in laws]  # type: ignore[union-attr]

    def timetable(self, commits: int, seed: int = 0) -> "Timetable":
        """Compute the times of every pass at every stage, for the first micro-batches.

        Args:
            commits: Micro-batches, at least 1.
            seed: Seed of the times.

        Raises:
            ValueError: If an argument does not fit, or a delay is negative or not finite.

        Example:
            >>> from asyncsim.delays import Constant
            >>> table = Pipeline(stages=2, forward=Constant(1.0)).timetable(3)
            >>> table.forward_start.T.tolist(), table.backward_start.T.tolist()
            ([[0.0, 1.0, 6.0], [1.0, 4.0, 7.0]], [[4.0, 7.0, 10.0], [2.0, 5.0, 8.0]])
        """
        return self._simulated(commits, None, seed).timetable()

    def simulate(
        self, *, commits: int | None = None, seconds: float | None = None, seed: int = 0, progress: Report | None = None
    ) -> Trace:
        """Make the trace for `asyncsim.simulate`, which checks the arguments."""
        return self._simulated(commits, seconds, seed, progress).trace()

    def _simulated(
        self, commits: int | None, seconds: float | None, seed: int, report: Report | None = None
    ) -> "Running":
        """Run the pipeline until this number of micro-batches is through, or to the end of this time, inclusive."""
        if commits is not None:
            commits = require_count("commits", commits, remedy="Ask for one micro-batch or more.")
            size = commits * self.stages * BYTES
            memory.require(size, f"`commits` of {brief(commits)} in {self.stages} stages", "Use fewer.")
        elif seconds is not None:
            size = seconds / self.slowest * self.stages * BYTES
            memory.require(size, f"`seconds` of {seconds:g}", "Use fewer.")
        running = Running(self, seed)
        # The first micro-batch waits until all stages are full, after a number of events that grows as their square.
        run_until(running, commits, seconds, report, workers=self.stages**2)
        return running


class Timetable(NamedTuple):
    """The times of every pass at every stage, arrays of shape (micro-batches, stages), in seconds.

    Attributes:
        forward_start, forward_end: Forward passes.
        backward_start, backward_end: Backward passes.
    """

    forward_start: NDArray[np.float64]
    forward_end: NDArray[np.float64]
    backward_start: NDArray[np.float64]
    backward_end: NDArray[np.float64]

    @property
    def seconds(self) -> float:
        """When the last of these passes ended, or 0 if there is none."""
        return float(self.backward_end.max(initial=0.0))

    @property
    def idle(self) -> float:
        """Mean share of the time in which a stage computed nothing, or NaN if no time passes.

        The bubble of a pipeline. With the schedule "concurrent", a stage that computes two passes at once counts twice.
        """
        busy = float((self.forward_end - self.forward_start + self.backward_end - self.backward_start).sum())
        return 1 - busy / (self.seconds * self.forward_start.shape[1]) if self.seconds else float("nan")

    @property
    def read_version(self) -> NDArray[np.int64]:
        """(micro-batches, stages) backward passes that a stage had ended when it began a forward pass.

        One that ended at that very moment counts.
        """
        pairs = zip(self.backward_end.T, self.forward_start.T, strict=True)
        return np.stack([np.searchsorted(ends, starts, side="right") for ends, starts in pairs], axis=1)


class Running(InSimPy):
    """A running pipeline: every stage is a SimPy process, or two with the schedule "concurrent"."""

    def __init__(self, pipeline: Pipeline, seed: int) -> None:
        self.env = env = Environment()
        self.pipeline = pipeline
        self.seed = seed
        stages = range(pipeline.stages)
        # For each direction and stage: how many micro-batches have arrived and not begun, which it takes in order,
        # and the event for which the stage waits, if it does.
        self.arrived = {way: [0] * pipeline.stages for way in (FORWARDS, BACKWARDS)}
        self.waited: dict[bool, list[Event | None]] = {way: [None] * pipeline.stages for way in self.arrived}
        self.times: dict[str, list[list[float]]] = {name: [[] for _ in stages] for name in Timetable._fields}
        laws = {FORWARDS: pipeline.forward, BACKWARDS: pipeline.backward_law}
        purposes = {FORWARDS: None, BACKWARDS: Purpose.BACKWARD}
        self.delays = {
            way: [
                draw_delays(env, law, seed, stage, purposes[way])  # type: ignore[arg-type]
                for stage, law in enumerate(expand(laws[way], pipeline.stages))
            ]
            for way in NAMES
        }
        self.transfers = {
            way: [draw_delays(env, pipeline.transfer, seed, stage, Purpose.TRANSFER, int(way)) for stage in stages]
            for way in NAMES
        }
        self.delivered = {way: [0.0 for _ in stages] for way in NAMES}
        concurrent = pipeline.schedule == "concurrent"
        # The first stage waits for a slot where the schedule does not bound the micro-batches under way.
        self.arrived[FORWARDS][0] = pipeline.workers if concurrent else 0
        for stage in stages:
            for orders in (repeat(FORWARDS), repeat(BACKWARDS)) if concurrent else (order(pipeline, stage),):
                env.process(self._stage(stage, orders))

    def __len__(self) -> int:
        return len(self.times["backward_end"][0])

    def stuck_remedy(self) -> str:
        """Return the remedy for a pipeline in which no micro-batch comes through."""
        return "Correct the delays."

    def timetable(self) -> Timetable:
        """Return the passes of the micro-batches that are through."""
        through = len(self)
        times = {name: np.array([column[:through] for column in stages]).T for name, stages in self.times.items()}
        return Timetable(**times)

    def trace(self) -> Trace:
        """Return the trace until now."""
        pipeline, table = self.pipeline, self.timetable()
        rows = np.arange(len(self), dtype=np.int32)
        start = np.array(self.times["forward_start"][0])
        under_way: Any = np.arange(len(self), len(start))
        read: Any = np.searchsorted(table.backward_end[:, 0], start, side="right")
        step = pipeline.micro_batches or 1
        grouped = {}
        if pipeline.schedule in ASYNCHRONOUS:
            grouped = {"groups": pipeline.groups, "group_read_version": table.read_version.astype(np.int32)}
        end = table.backward_end[:, 0]
        read_version, read_time = read // step, start
        if pipeline.schedule == DOUBLE_BUFFERED:
            read_version = np.maximum(np.arange(len(start)) // step - 1, 0)
            read_time = np.append(0.0, end[step - 1 :: step])[read_version]
        return Trace(
            workers=pipeline.workers,
            worker=rows % pipeline.workers,
            read_version=read_version[: len(self)],
            version=rows // step,
            pull_version=rows // step,
            closes_step=rows % step == step - 1,
            read_time=read_time[: len(self)],
            start_time=start[: len(self)],
            finish_time=end,
            arrive_time=end,
            commit_time=end,
            unfinished=Unfinished(
                worker=under_way % pipeline.workers,
                read_version=read_version[under_way],
                read_time=read_time[under_way],
                start_time=start[under_way],
            ),
            **grouped,
        )

    def _stage(self, stage: int, orders: Iterator[bool]) -> ProcessGenerator:
        """Run a stage, as a SimPy process, with this order of forward and backward passes."""
        env, times, last = self.env, self.times, self.pipeline.stages - 1
        concurrent = self.pipeline.schedule == "concurrent"
        starts = {way: times[f"{name}_start"][stage].append for way, name in NAMES.items()}
        ends = {way: times[f"{name}_end"][stage].append for way, name in NAMES.items()}
        delays = {way: self.delays[way][stage] for way in NAMES}
        for way in orders:
            if way is BACKWARDS or stage > 0 or concurrent:
                arrived = self.arrived[way]
                if not arrived[stage]:
                    self.waited[way][stage] = event = env.event()
                    yield event
                arrived[stage] -= 1
            starts[way](env.now)
            yield env.timeout(next(delays[way]))
            ends[way](env.now)
            if way is FORWARDS:
                self._send(FORWARDS, stage + 1) if stage < last else self._arrive(BACKWARDS, stage)
            elif stage > 0:
                self._send(BACKWARDS, stage - 1)
            elif concurrent:
                self._arrive(FORWARDS, 0)

    def _arrive(self, way: bool, stage: int) -> None:
        """Let a stage begin one micro-batch more."""
        self.arrived[way][stage] += 1
        event = self.waited[way][stage]
        if event is not None:
            self.waited[way][stage] = None
            event.succeed()

    def _send(self, way: bool, stage: int) -> None:
        """Let something arrive at a stage after its transfer, and after all that was sent there before it."""
        now = self.env.now
        after = max(now + next(self.transfers[way][stage]), self.delivered[way][stage])
        self.delivered[way][stage] = after
        if after == now:
            self._arrive(way, stage)
        else:
            self.env.timeout(after - now).callbacks.append(lambda _: self._arrive(way, stage))  # type: ignore[union-attr]


def order(pipeline: Pipeline, stage: int) -> Iterator[bool]:
    """Yield without end the passes of a stage that does one at a time: True for forwards."""
    behind = pipeline.stages - 1 - stage
    batch = pipeline.micro_batches
    if batch is None or pipeline.schedule == DOUBLE_BUFFERED:
        yield from repeat(FORWARDS, behind)
        for _ in count():
            yield from (FORWARDS, BACKWARDS)
        return
    first = batch if pipeline.schedule == "gpipe" else min(behind, batch)
    for _ in count():
        yield from repeat(FORWARDS, first)
        for _ in range(batch - first):
            yield from (FORWARDS, BACKWARDS)
        yield from repeat(BACKWARDS, first)


def _brief(laws: Delay | Sequence[Delay] | None) -> str:
    return repr(laws) if isinstance(laws, Delay) else "of each stage its own"
