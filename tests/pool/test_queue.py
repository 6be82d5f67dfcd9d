"""The order in which a queue hands out its tasks."""

from types import SimpleNamespace

from asyncsim.pool._queue import Queue


def test_each_schedule_and_program_goes_to_one_slot():
    """Of as many programs as slots, or of one: else two processes compile, or simulate, the same."""
    for programs in (1, 2):
        keys = [(str(p), str(seed)) for p in range(programs) for seed in range(8) for _ in range(3)]
        queue = Queue(None, [SimpleNamespace(program=program, schedule=schedule) for program, schedule in keys])
        slots = [SimpleNamespace(program="", schedule="", seen=[]) for _ in range(2)]
        while queue:
            for slot, other in (slots, slots[::-1]):
                task = queue.next(slot.program, slot.schedule, [other])
                slot.program, slot.schedule = task.program, task.schedule
                slot.seen.append((task.program, task.schedule))
        first, second = ({*slot.seen} for slot in slots)
        assert not first & second
        assert sorted(slots[0].seen + slots[1].seen) == sorted(keys)
        assert {program for program, _ in first}.isdisjoint(program for program, _ in second) == (programs == 2)
