"""The cost of kept runs: from their schedules, and the bytes that their summaries count."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsim._metrics import SPENT
from asyncsim.costs import Cost, Power, Price, cost, cost_over_time
from asyncsim.costs._traffic import messages_by, shows_pulls
from asyncsim.store._labels import TRACE
from asyncsim.trace import Trace
from asyncsim.trace._tables import end_of_trace

BYTES = ("bytes_up", "bytes_down")


def sizes_in(trace: Trace, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `cost` from the bytes in a run's summary; empty if it has none."""
    if any(summary.get(name) is None for name in BYTES):
        return {}
    done = int(summary["commits"])
    seconds = None if done == len(trace) else float(trace.commit_time[done - 1]) if done else 0.0
    end = end_of_trace(trace) if seconds is None else seconds
    up, down = (int(summary[name]) for name in BYTES)
    shown = shows_pulls(trace)
    for pulls in (shown, not shown):
        sent, answers = messages_by(trace, end, pulls)
        if down % max(int(answers), 1) == 0:
            sizes = {"message_bytes": up // max(int(sent), 1), "parameter_bytes": down // max(int(answers), 1)}
            return {**sizes, "pulls": pulls, "seconds": seconds}
    return {}


def cost_of_run(folder: Path, summary: Mapping[str, Any], power: Power | None, price: Price | None) -> Cost | None:
    """The cost of a run that a folder keeps; None if its summary counts no bytes, or there is no schedule."""
    if not (folder / TRACE).is_file():
        return None
    trace = Trace.load(folder / TRACE)
    sizes = sizes_in(trace, summary)
    return cost(trace, **sizes, power=power, price=price) if sizes else None


def spent_in(
    folder: Path, summary: Mapping[str, Any], power: Power | None, price: Price | None
) -> dict[str, float | None]:
    """Energy and money of a run, of those that somebody asks for; None where they are not known."""
    wanted = [name for name, asked in zip(SPENT, (power, price), strict=True) if asked is not None]
    found = cost_of_run(folder, summary, power, price) if wanted else None
    return {name: getattr(found, name, None) for name in wanted}


def spent_over_commits(
    trace: Trace, summary: Mapping[str, Any], power: Power | None, price: Price | None
) -> dict[str, Any]:
    """Bytes, and energy and money if asked for, by each replayed commit; empty if the summary counts no bytes."""
    sizes = sizes_in(trace, summary)
    if not sizes:
        return {}
    done = trace.commit_time[: int(summary["commits"])]
    del sizes["seconds"]
    spent = cost_over_time(trace, done, **sizes, power=power, price=price)
    return {name: values for name, values in spent.items() if name != "seconds"}
