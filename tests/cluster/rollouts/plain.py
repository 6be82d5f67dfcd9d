"""Rollouts once more, from the conventions alone: no SimPy, nothing of the library, one list of future events."""

import math
from itertools import count

STEP, OTHER = 0, 1  # a step's end and its consequences come before all other events of their time


class Record(dict):
    """A sample or a group, which equals itself alone."""

    __eq__, __hash__ = object.__eq__, object.__hash__


def plain(r, commits, lengths, train, reward, sync, chances, spells):
    """Simulate rollouts `r`; `lengths` has an iterator for each slot, the others are iterators.

    `spells` are the engines that are down: (engine, from when, until when), none of which overlap for an engine.

    Returns samples and groups as dictionaries, and steps as (begin, computed, update).
    """
    future, samples, groups, queue, moved, steps = [], [], [], [], [], []
    order, each = count(), r.group if r.refill == "group" else 1
    of_engine = each if r.engines is None else r.slots // r.engines
    free, window = list(range(r.slots // each)), r.window if r.order == "window" else 1
    now, version, weights, batch, begun, paused, drains = 0.0, 0, 0, None, 0.0, False, None

    def base():
        return version // r.sync_every * r.sync_every

    def later(seconds, priority, kind, what):
        future.append((now + seconds, priority, next(order), kind, what))

    def fill():
        while free and not paused:
            if not groups or groups[-1]["fate"] == "dropped" or len(groups[-1]["samples"]) == r.group:
                opened = sum(group["fate"] != "dropped" for group in groups)
                if r.lead is not None and opened >= math.floor((base() + (r.lead + 1) * r.sync_every) * r.batch + 1e-9):
                    return
                groups.append(Record(read=weights, samples=[], fate=None, ready=None, version=None))
                groups[-1]["signal"] = next(chances) < r.signal
            place = free.pop(0)
            for slot in range(place * each, place * each + each):
                sample = Record(group=groups[-1], slot=slot, start=now, end=math.inf, read=weights)
                samples.append(sample)
                groups[-1]["samples"].append(sample)
                later(next(lengths[slot]), OTHER, "sample", sample)

    def drop(group):
        group.update(fate="dropped", version=version)
        for some in (queue, moved):
            if group in some:
                some.remove(group)

    def stop(group):
        drop(group)
        running = [one for one in group["samples"] if one["end"] == math.inf]
        for one in running:
            one["end"] = now
        free.extend([one["slot"] for one in running] if each == 1 else [])
        free.extend([running[0]["slot"] // each] if each > 1 and running else [])

    def enter(group):
        if not group["signal"]:
            drop(group)
            taker()
            look()
            return
        if len(queue) == r.capacity:
            drop(queue[0])
        queue.append(group)
        group["ready"] = version
        taker()
        look()

    def look():
        nonlocal batch, begun
        if batch is not None:
            return
        for group in list(queue):
            if r.max_age is not None and version - group["read"] > r.max_age:
                drop(group)
        ready = list(queue)
        if r.order in ("freshest", "stalest"):
            ready.sort(key=lambda group: group["read"] if r.order == "stalest" else -group["read"])
        elif r.order == "newest":
            ready.reverse()
        elif r.order != "completion":
            ready = taker()
        if len(ready) >= r.batch * r.steps_per_take:
            batch, begun = ready[: r.batch * r.steps_per_take], now
            for place, group in enumerate(batch):
                queue.remove(group)
                group.update(fate="taken", version=version + place // r.batch)
                if group in moved:
                    moved.remove(group)
            later(next(train), STEP, "step", None)

    def taker():
        while True:
            still = [g for g, group in enumerate(groups) if group["fate"] is None and group not in moved]
            found = [g for g in still if groups[g] in queue and g < still[0] + window]
            if not found:
                return list(moved)
            moved.append(groups[found[0]])

    for engine, since, until in spells:
        future.append((since, OTHER, next(order), "down", engine))
        future.append((until, OTHER, next(order), "up", engine))
    fill()
    while len(steps) * r.batch < commits:
        future.sort(key=lambda event: event[:3])
        now, _, _, kind, what = future.pop(0)
        if kind == "sample" and what["group"]["fate"] != "dropped":
            group, what["end"] = what["group"], now
            ended = len(group["samples"]) == r.group and max(one["end"] for one in group["samples"]) < math.inf
            free.extend([what["slot"] // each] if each == 1 or ended else [])
            if ended and (seconds := next(reward)):
                later(seconds, OTHER, "reward", group)
            elif ended:
                enter(group)
        if kind == "reward" and what["fate"] is None:
            enter(what)
        if kind == "down":
            running = [one for one in samples if one["slot"] // of_engine == what and one["end"] == math.inf]
            for one in sorted(running, key=lambda one: one["slot"]):
                if one["end"] == math.inf:
                    stop(one["group"])
            free[:] = [place for place in free if place * each // of_engine != what]
            taker()
            look()
        if kind == "up":
            free.extend(place for place in range(r.slots // each) if place * each // of_engine == what)
        if kind == "step":
            syncs = (version + 1) % r.sync_every == 0
            pause, computed = next(sync) if syncs else 0.0, now
            if syncs and r.during_sync == "continue" and pause > 0:
                later(pause, STEP, "weights", version + 1)
            if syncs and r.during_sync == "drain":
                paused, drains = True, pause
            elif r.during_sync == "continue" or not pause:
                later(0.0, STEP, "update", computed)
            else:
                paused = True
                future[:] = [(e[0] + pause, *e[1:]) if e[3] == "sample" else e for e in future]
                later(pause, STEP, "update", computed)
        if drains is not None and not any(one["end"] == math.inf for one in samples):
            later(drains, STEP, "update", computed)
            drains = None
        if kind == "weights":
            weights = max(weights, what)
        if kind == "update":
            version, paused, batch = version + 1, False, (batch or [])[r.batch :] or None
            steps.append((begun, what, now))
            if version == base() and not any(event[3] == "weights" and event[4] == version for event in future):
                weights = version
            for group in groups if r.stale == "abort" and len(steps) * r.batch < commits else ():
                if group["fate"] is None and group["ready"] is None and version - group["read"] > r.max_age:
                    stop(group)
            taker()
            if len(steps) * r.batch < commits:
                fill()
                if batch is None:
                    look()
                else:
                    begun = now
                    later(next(train), STEP, "step", None)
        fill() if len(steps) * r.batch < commits else None
    return samples, groups, steps
