"""The schedule of rollouts, as SimPy events, and the queue of the trainer, in each of the orders of service."""

import math
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from simpy import Environment
from simpy.events import NORMAL, URGENT, Event, ProcessGenerator

from asyncsim._checks import brief
from asyncsim.cluster._events import INFINITY, InSimPy
from asyncsim.cluster._full import slow_spells, start_faults
from asyncsim.cluster._random_streams import ComputeDelays, Purpose, draw_delays
from asyncsim.cluster.rollouts._ledger import Ledger, Steps
from asyncsim.delays import Timer, Uniform, slowed, steady
from asyncsim.delays._per_worker import expand, is_zero
from asyncsim.trace import NEVER, Fate, Fault, Trace, Unfinished

ROUNDING = 1e-9  # relative error of an admitted number of groups that counts as whole

UNDER_WAY, TRAINED = int(Fate.IN_FLIGHT), -1  # fates of a group besides CANCELLED and DROPPED
BLOCK = 64  # groups of a ticket whose factors are asked for together
Prompt = Callable[[int, NDArray[np.int64]], NDArray[np.float64]]  # (ticket, its groups) -> factors


class Queue:
    """Complete groups that wait, of which a step takes those of the smallest rank, in the order of their entries.

    The rank is the read version times a sign: 1 for the oldest weights first, -1 for the newest weights, 0 for the
    order of the entries alone. With `newest` the group that entered last comes first.
    """

    def __init__(self, sign: int = 0, newest: bool = False) -> None:
        self.entered: OrderedDict[int, None] = OrderedDict()
        self._sign = sign
        self._heap: list[tuple[int, int, int]] = []  # dropped groups stay in it until a step meets them
        self._entries = count(0, -1 if newest else 1)

    def __len__(self) -> int:
        return len(self.entered)

    @property
    def ready(self) -> int:
        """Groups that a step may take now."""
        return len(self.entered)

    @property
    def first(self) -> int:
        """The group that entered first."""
        return next(iter(self.entered))

    def enter(self, group: int, read_version: int) -> None:
        """Add a group that is complete."""
        self.entered[group] = None
        heappush(self._heap, (self._sign * read_version, next(self._entries), group))

    def discard(self, group: int) -> None:
        """Forget a group that was dropped, whether it has entered or not."""
        self.entered.pop(group, None)

    def take(self, groups: int) -> list[int]:
        """Remove and return the groups of a step."""
        batch: list[int] = []
        while len(batch) < groups:
            group = heappop(self._heap)[2]
            if group in self.entered:
                del self.entered[group]
                batch.append(group)
        return batch


class Window(Queue):
    """Complete groups move into a list, again and again the oldest among the W from the oldest that has not moved.

    Steps take the groups of the list in turn. With W = 1 they take them in the order of opening.
    """

    def __init__(self, window: int) -> None:
        super().__init__()
        self._window = window
        self._complete: list[int] = []  # a heap of groups that are not in the list
        self._list: OrderedDict[int, None] = OrderedDict()
        self._oldest = 0  # every group below this number has moved or was dropped
        self._moved: set[int] = set()  # groups above it that have moved or were dropped

    @property
    def ready(self) -> int:
        return len(self._list)

    def enter(self, group: int, read_version: int) -> None:
        self.entered[group] = None
        heappush(self._complete, group)
        self._move()

    def discard(self, group: int) -> None:
        super().discard(group)
        if group in self._list:
            del self._list[group]
        else:
            self._moved.add(group)
        self._move()

    def take(self, groups: int) -> list[int]:
        batch = [self._list.popitem(last=False)[0] for _ in range(groups)]
        for group in batch:
            del self.entered[group]
        return batch

    def _move(self) -> None:
        while True:
            while self._oldest in self._moved:
                self._moved.remove(self._oldest)
                self._oldest += 1
            while self._complete and self._complete[0] not in self.entered:
                heappop(self._complete)
            if not self._complete or self._complete[0] >= self._oldest + self._window:
                return
            group = heappop(self._complete)
            self._list[group] = None
            self._moved.add(group)


class Running(InSimPy):
    """Running rollouts. A *place* generates on its own: a slot, or S slots with refill="group"."""

    def __init__(self, settings: Any, commits: int | None, seed: int) -> None:
        self.settings = settings  # a `Rollouts`, whose module imports this one
        self.commits = commits  # groups to train, or None for a run of some time
        self.env = env = Environment()
        self.lengths = ComputeDelays(env, expand(settings.generate, settings.slots), seed)  # type: ignore[type-var]
        self.train = draw_delays(env, settings.train, seed, 0, Purpose.TRAIN)
        self.reward = draw_delays(env, settings.reward, seed, 0, Purpose.REWARD)
        self.sync = draw_delays(env, settings.sync, seed, 0, Purpose.SYNC)
        chances = draw_delays(env, Uniform(0.0, 1.0), seed, 0, Purpose.SIGNAL)
        self.chances = repeat(0.0) if settings.signal == 1 else chances  # a group below `signal` has one
        self.continues = settings.during_sync == "continue" and not is_zero(settings.sync)
        self.drains = settings.during_sync == "drain"
        self.place_slots = settings.group if settings.refill == "group" else 1
        self.idle = deque(range(settings.slots // self.place_slots))
        by_opening = settings.order in ("submission", "window")  # "submission" is a window of one group
        sign = {"freshest": -1, "stalest": 1}.get(settings.order, 0)
        self.queue = Window(settings.window) if by_opening else Queue(sign, newest=settings.order == "newest")
        self.version = self.weights = 0
        self.stop = INFINITY if commits is None else math.ceil(commits / settings.batch)  # the last version
        self.take = settings.steps_per_take * settings.batch
        self.admitted = self._admitted()
        self.counted = 0  # groups opened and not dropped
        self.unstarted = 0  # samples of the group that is being opened
        self.outstanding = 0  # samples started and neither trained nor dropped
        self.generating = 0  # samples that slots generate now
        self.draining: float | None = None  # seconds of the synchronisation once slots finish
        self.busy = self.paused = False
        self.pause = 0.0  # seconds in all, that under way included
        self.batch: list[int] = []  # groups of the step under way, and of those that follow it without a wait
        self.free_tickets: deque[tuple[int, int]] = deque()  # from which version on, and the ticket
        self.tickets = 0
        self.factors: list[Iterator[float]] = []  # of generation times, for the groups of each ticket
        self.factor = 1.0  # of the group that is being opened
        self.youngest = 0  # groups below this number are not under way, or not older than `max_age`
        # Columns of samples, groups and steps.
        self.sample_group, self.slot, self.sample_read = array("q"), array("q"), array("q")
        self.start, self.end, self.due_pause = array("d"), array("d"), array("d")
        self.first_sample, self.read, self.ticket, self.left = array("q"), array("q"), array("q"), array("q")
        self.chance = array("d")
        self.finish, self.ready, self.ready_version = array("d"), array("d"), array("q")
        self.step, self.fate, self.end_version, self.end_time = array("q"), array("b"), array("q"), array("d")
        self.begin, self.computed, self.stopped = array("d"), array("d"), array("d")
        self.update, self.arrival = array("d"), array("d")
        self.outstanding_after, self.queue_after = array("q"), array("q")
        self.trained = array("q")  # groups in the order of training
        self.row_of_slot = array("q", [-1]) * settings.slots  # the last sample of each slot
        self.timers: dict[int, Timer] = {}  # of slots that are slow at times
        self.engines = self._engines(seed)
        self._fill()

    def _engines(self, seed: int) -> "list[Engine]":
        """Return the engines, whose faults begin."""
        settings = self.settings
        if not settings.faults:
            return []
        each = self.place_slots if settings.engines is None else settings.slots // settings.engines
        engines = [Engine(self, first // each, range(first, first + each)) for first in range(0, settings.slots, each)]
        for engine in engines:
            if spells := slow_spells(settings.faults, engine.number):
                self.timers |= {slot: slowed(steady(), spells) for slot in engine.slots}
        start_faults(self.env, settings.faults, engines, seed)
        return engines

    def __len__(self) -> int:
        return len(self.trained)

    def stuck_remedy(self) -> str:
        """Return the remedy for rollouts of which no step ends."""
        if down := sum(not engine.is_up for engine in self.engines):
            return f"Engines that are down: {down} of {len(self.engines)}. Let them restart."
        return "Raise `lead`, `max_age` or `capacity`."

    def ledger(self) -> Ledger:
        """Return all samples that have started."""
        group = np.array(self.sample_group)
        return Ledger(
            slots=self.settings.slots,
            group_size=self.settings.group,
            steps=Steps(
                begin=np.array(self.begin)[: self.version],
                computed=np.array(self.computed)[: self.version],
                stopped=np.array(self.stopped)[: self.version],
                update=np.array(self.update),
                # Weights that arrive after newer ones come with these.
                weights=np.minimum.accumulate(np.array(self.arrival)[::-1])[::-1],
                outstanding=np.array(self.outstanding_after),
                queue=np.array(self.queue_after),
            ),
            group=group,
            slot=np.array(self.slot),
            start=np.array(self.start),
            end=np.array(self.end),
            read_version=np.array(self.sample_read),
            ready_version=np.array(self.ready_version)[group],
            trained_version=np.where(np.array(self.fate) == TRAINED, np.array(self.step), -1)[group],
            dropped_version=np.array(self.end_version)[group],
            drop_time=np.array(self.end_time)[group],
        )

    def trace(self) -> Trace:
        """Return the groups that were trained, or the first `commits` of them, as a trace."""
        batch = self.settings.batch
        trained = np.array(self.trained)[: self.commits]
        # With `assume_unique` the others keep the order of their ends.
        others = np.setdiff1d(np.argsort(self.end_time, kind="stable"), trained, assume_unique=True)
        step, end_version = np.array(self.step)[trained], np.array(self.end_version)[others]
        update, read = np.array(self.update), np.array(self.read)
        start = np.array(self.start)[np.array(self.first_sample)]
        # With weights that arrive late, a group read when they were the newest ones, before its start.
        read_time = np.minimum(start, np.append(update, np.inf)[np.minimum(read, len(update))])
        columns: dict[str, Any] = {
            "worker": np.array(self.ticket),
            "read_version": read,
            "read_time": read_time,
            "start_time": start,
            "finish_time": np.array(self.finish),
        }
        return Trace(
            workers=max(self.tickets, 1),
            **{name: column[trained] for name, column in columns.items()},
            version=step,
            pull_version=step,
            closes_step=np.arange(len(trained)) % batch == batch - 1,
            arrive_time=np.array(self.ready)[trained],
            serve_time=np.array(self.begin)[step],
            commit_time=update[step],
            unfinished=Unfinished(
                **{name: column[others] for name, column in columns.items()},
                end_version=np.where(end_version < 0, NEVER, end_version),
                end_time=np.array(self.end_time)[others],
                fate=np.maximum(np.array(self.fate)[others], Fate.IN_FLIGHT),  # also of those trained beyond `commits`
            ),
        )

    def _later(
        self, seconds: float, then: Callable[[Event], None], value: int | None = None, urgent: bool = False
    ) -> None:
        """Call back with an event of this value. An urgent one comes before all others of its time."""
        event = Event(self.env)
        event._ok, event._value = True, value
        event.callbacks = [then]
        self.env.schedule(event, URGENT if urgent else NORMAL, seconds)

    def _admitted(self) -> float:
        """Count the groups that may have been opened at this version, without those that were dropped."""
        lead, batch, every = self.settings.lead, self.settings.batch, self.settings.sync_every
        if lead is None:
            return INFINITY
        synchronised = self.version - self.version % every
        return math.floor((synchronised + (lead + 1) * every) * batch * (1 + ROUNDING))

    def _fill(self) -> None:
        """Let free places complete the group that is being opened, then open others as far as these are admitted."""
        if self.paused:
            return
        idle, each = self.idle, self.place_slots
        while idle:
            if not self.unstarted:
                if self.counted >= self.admitted:
                    return
                self._open()
            place = idle.popleft()
            for slot in range(place * each, place * each + each):
                self._start(slot)

    def _open(self) -> None:
        """Open a group, which holds a ticket from now on."""
        free = self.free_tickets
        if free and free[0][0] <= self.weights:
            ticket = free.popleft()[1]
        else:
            ticket = self.tickets
            self.tickets += 1
            if self.settings.prompt is not None:
                self.factors.append(_factors(self.settings.prompt, ticket))
        if self.factors:
            self.factor = next(self.factors[ticket])
        self.counted += 1
        self.unstarted = self.settings.group
        self.first_sample.append(len(self.start))
        self.read.append(self.weights)
        self.ticket.append(ticket)
        self.left.append(self.settings.group)
        self.chance.append(next(self.chances))
        self.finish.append(INFINITY)
        self.ready.append(INFINITY)
        self.ready_version.append(-1)
        self.step.append(-1)
        self.fate.append(UNDER_WAY)
        self.end_version.append(-1)
        self.end_time.append(INFINITY)

    def _start(self, slot: int) -> None:
        """Start a sample of the group that is being opened."""
        row = len(self.start)
        self.unstarted -= 1
        self.outstanding += 1
        self.generating += 1
        self.start.append(self.env.now)
        self.end.append(INFINITY)
        self.due_pause.append(self.pause)
        self.sample_group.append(len(self.read) - 1)
        self.sample_read.append(self.weights)
        self.slot.append(slot)
        self.row_of_slot[slot] = row
        seconds = self.lengths.next(slot) * self.factor
        if slot in self.timers:
            seconds = self.timers[slot].duration(self.env.now, seconds)
        self._later(seconds, self._end_sample, row)

    def _end_sample(self, event: Event) -> None:
        row: int = event._value
        group = self.sample_group[row]
        if self.end[row] < INFINITY:  # aborted or lost
            return
        # The sample is later by the pauses since its end was scheduled.
        if late := self.pause - self.due_pause[row]:
            self.due_pause[row] = self.pause
            self._later(late, self._end_sample, row)
            return
        self.end[row] = now = self.env.now
        self.generating -= 1
        remaining = self.left[group] = self.left[group] - 1
        if self.place_slots == 1 or not remaining:
            self.idle.append(self.slot[row] // self.place_slots)
        if not remaining:
            self.finish[group] = now
            if seconds := next(self.reward):
                self._later(seconds, self._reward, group)
            else:
                self._enter(group)
        self._go_on()

    def _go_on(self) -> None:
        """Synchronise if slots were only to finish, or let free places generate."""
        if self.draining is not None and not self.generating:
            self._synchronise(self.draining)
        else:
            self._fill()

    def _reward(self, event: Event) -> None:
        if self.fate[event._value] != Fate.CANCELLED:
            self._enter(event._value)
            self._fill()

    def _enter(self, group: int) -> None:
        """Let a complete group enter the queue, and a trainer that is free look."""
        if self.chance[group] >= self.settings.signal:
            self._drop(group, Fate.DROPPED)
            self._look()  # groups behind it may be taken now
            return
        queue = self.queue
        if len(queue) == self.settings.capacity:
            self._drop(queue.first, Fate.DROPPED)
        self.ready[group] = self.env.now
        self.ready_version[group] = self.version
        queue.enter(group, self.read[group])
        self._look((group,))

    def _look(self, entered: Sequence[int] = ()) -> None:
        """Let a trainer that is free drop those of these groups that are too old, and begin a step if it can."""
        if self.busy:
            return
        if self.settings.max_age is not None:
            oldest = self.version - self.settings.max_age
            for group in entered:
                if self.read[group] < oldest:
                    self._drop(group, Fate.DROPPED)
        if self.queue.ready < self.take:
            return
        self.batch = self.queue.take(self.take)
        for place, group in enumerate(self.batch):
            self.step[group] = self.version + place // self.settings.batch
        self.busy = True
        self._begin_step()

    def _begin_step(self) -> None:
        self.begin.append(self.env.now)
        self._later(next(self.train), self._end_step, urgent=True)

    def _end_step(self, event: Event) -> None:
        del event
        self.computed.append(self.env.now)
        if (self.version + 1) % self.settings.sync_every:
            self.stopped.append(self.env.now)
            self._update(late=True)
        elif self.continues:
            self.stopped.append(self.env.now)
            if seconds := next(self.sync):
                self._later(seconds, self._arrive, self.version + 1, urgent=True)
            self._update(late=seconds > 0)
        elif self.drains and self.generating:
            self.paused, self.draining = True, next(self.sync)
        else:
            self._synchronise(next(self.sync))

    def _synchronise(self, seconds: float) -> None:
        """Stop generation until the slots have the new weights."""
        self.draining = None
        self.stopped.append(self.env.now)
        if seconds:
            self.paused = True
            self.pause += seconds
            self._later(seconds, lambda _: self._update(), urgent=True)
        else:
            self._update()

    def _arrive(self, event: Event) -> None:
        """Give the slots the weights of a version."""
        self.arrival[event._value - 1] = self.env.now
        self.weights = max(self.weights, event._value)

    def _update(self, *, late: bool = False) -> None:
        """Let the version grow, and give the slots the new weights, unless they come late."""
        self.version += 1
        self.arrival.append(INFINITY if late else self.env.now)
        self.weights = self.weights if late else self.version
        batch, self.batch = self.batch[: self.settings.batch], self.batch[self.settings.batch :]
        for group in batch:
            self.fate[group] = TRAINED
            self.free_tickets.append((self.version, self.ticket[group]))
        self.trained.extend(batch)
        self.outstanding -= self.settings.batch * self.settings.group
        self.update.append(self.env.now)
        self.outstanding_after.append(self.outstanding)
        self.queue_after.append(len(self.queue))
        self.busy, self.paused = bool(self.batch), False
        self.admitted = self._admitted()
        if self.version >= self.stop:
            return
        if self.settings.stale == "abort":
            self._abort()
        self._fill()
        if self.busy:
            self._begin_step()
            return
        self._look(tuple(self.queue.entered))
        self._fill()  # groups that the trainer has just dropped as too old make room for others

    def _abort(self) -> None:
        """Drop groups under way that are too old. Read versions do not decrease from group to group."""
        assert self.settings.max_age is not None
        oldest = self.version - self.settings.max_age
        while self.youngest < len(self.read) and self.read[self.youngest] < oldest:
            group = self.youngest
            self.youngest += 1
            if self.fate[group] != UNDER_WAY or self.ready_version[group] >= 0:
                continue
            self._stop(group, Fate.CANCELLED)

    def _stop(self, group: int, fate: Fate) -> None:
        """Stop the samples of a group that is under way, and drop it."""
        running = [row for row in self._rows(group) if self.end[row] == INFINITY]
        self.generating -= len(running)
        for row in running:
            self.end[row] = self.env.now
        if self.place_slots == 1:
            self.idle.extend(self.slot[row] for row in running)
        elif running:
            self.idle.append(self.slot[self.first_sample[group]] // self.place_slots)
        self._drop(group, fate)

    def lose(self, slots: range) -> None:
        """Take slots away. The groups of the samples that they generate are dropped."""
        for slot in slots:
            row = self.row_of_slot[slot]
            if row >= 0 and self.end[row] == INFINITY:
                self._stop(self.sample_group[row], Fate.CRASHED)
        each = self.place_slots
        self.idle = deque(place for place in self.idle if place * each not in slots)
        self._look()
        self._go_on()

    def restore(self, slots: range) -> None:
        """Take slots back."""
        self.idle.extend(range(slots.start // self.place_slots, slots.stop // self.place_slots))
        self._fill()

    def _rows(self, group: int) -> range:
        """Return the samples of a group that have started."""
        last = group == len(self.read) - 1
        first = self.first_sample[group]
        return range(first, len(self.start) if last else self.first_sample[group + 1])

    def _drop(self, group: int, fate: Fate) -> None:
        if group == len(self.read) - 1:
            self.unstarted = 0
        self.outstanding -= len(self._rows(group))
        self.counted -= 1
        self.fate[group] = fate
        self.end_time[group] = self.env.now
        self.end_version[group] = self.version
        self.free_tickets.append((self.version, self.ticket[group]))
        self.queue.discard(group)


class Engine:
    """Slots that go down together."""

    def __init__(self, running: Running, number: int, slots: range) -> None:
        self.running = running
        self.number = number
        self.slots = slots
        self.is_up = True
        self.down_until = 0.0

    def go_down(self, kind: Fault, until: float, keeps_state: bool) -> None:
        """Take the slots away until then, or for good if that is infinity."""
        del kind, keeps_state  # A slot has no state, and a trace of groups has no place for faults of engines.
        self.down_until = max(self.down_until, until)
        if self.is_up:
            self.is_up = False
            self.running.lose(self.slots)
            self.running.env.process(self._come_back())

    def _come_back(self) -> ProcessGenerator:
        env = self.running.env
        # A rest too small to change the simulated time would never pass.
        while env.now + (remaining := self.down_until - env.now) > env.now:
            yield env.event() if remaining == INFINITY else env.timeout(remaining)
        self.is_up = True
        self.running.restore(self.slots)


def _factors(prompt: Prompt, ticket: int) -> Iterator[float]:
    """Yield the factors of a ticket's groups without end."""
    for first in count(0, BLOCK):
        block = np.asarray(prompt(ticket, np.arange(first, first + BLOCK)), np.float64)
        if block.shape != (BLOCK,) or not (np.isfinite(block) & (block > 0)).all():
            raise ValueError(
                f"`prompt` must return one positive, finite factor for each group; got {brief(block)} for "
                f"ticket {ticket}."
            )
        yield from block.tolist()
