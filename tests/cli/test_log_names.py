"""Every command that takes a log takes the names and the unit that the log has."""

import json
from pathlib import Path

import pytest

import asyncsim as asim
from asyncsim.delays import Gamma
from tests.cli.commands import Command

TRACE = asim.simulate(asim.Cluster(4, Gamma(1.0, 0.3)), commits=200)
NAMES = ("--columns", "worker=host,commit_time=pushed_at", "--unit", "ms")
LINES = {
    "trace check": (),
    "trace info": ("--json",),
    "trace export": ("out.csv",),
    "trace cost": ("--json",),
    "calibrate": ("--law", "gamma", "--quick", "--json"),
}


@pytest.mark.parametrize("name", LINES)
def test_a_log_with_hosts_and_milliseconds_gives_the_numbers_of_one_with_our_names(command: Command, name: str) -> None:
    rows = list(zip(TRACE.worker.tolist(), TRACE.commit_time.tolist(), strict=True))
    theirs = [json.dumps({"host": f"node-{worker}", "pushed_at": 1000 * time}) for worker, time in rows]
    Path("log.jsonl").write_text("\n".join(theirs))
    ours = [json.dumps({"worker": f"node-{worker}", "commit_time": time}) for worker, time in rows]
    Path("ours.jsonl").write_text("\n".join(ours))
    after = LINES[name]
    first = command(*name.split(), "log.jsonl", *after, *NAMES)
    theirs_again = asim.Trace.from_csv("out.csv") if name == "trace export" else None
    second = command(*name.split(), "ours.jsonl", *after)
    assert (first.status, second.status) == (0, 0), first.err + second.err
    if theirs_again is not None:
        assert theirs_again.names == ("node-0", "node-1", "node-2", "node-3")
        assert theirs_again.commit_time == pytest.approx(asim.Trace.from_csv("out.csv").commit_time, rel=1e-9)
        return
    assert numbers_in(first.out) == pytest.approx(numbers_in(second.out), rel=1e-6)


def numbers_in(text: str) -> list[float]:
    """Return all numbers of an output."""
    if not text.startswith("{"):
        return [float(word) for word in text.replace(",", " ").split() if word.replace(".", "", 1).isdigit()]
    flat: list[float] = []

    def collect(value: object) -> None:
        if isinstance(value, dict):
            for each in value.values():
                collect(each)
        elif isinstance(value, list):
            for each in value:
                collect(each)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            flat.append(float(value))

    collect(json.loads(text))
    return flat


def test_durations_have_a_name_and_a_unit_in_the_shell(command: Command) -> None:
    rows = zip(TRACE.worker.tolist(), TRACE.start_time.tolist(), TRACE.commit_time.tolist(), strict=True)
    lines = [f"{worker},{start},{1000 * (end - start)}" for worker, start, end in rows]
    Path("log.csv").write_text("\n".join(["worker,start_time,took", *lines]))
    call = ("trace", "check", "log.csv", "--columns", "duration=took", "--unit")
    done = command(*call, "duration=ms")
    assert done.status == 0, done.err
    assert f"{len(TRACE)} commits" in done.out
    assert "`finish_time` and `commit_time` are `start_time` + `duration`" in done.out
    for unit in ("duration=min", "min", "=ms"):
        wrong = command(*call, unit)
        assert wrong.status == 2
        assert "unit" in wrong.err
