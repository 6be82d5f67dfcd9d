"""Every argument of network, server, protocols and faults, at its default and at another value, through a store."""

import dataclasses
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, faults, protocols

LAW = delays.Gamma(mean=0.1, cv=0.5)
# Class -> what it needs, and then values of all its other arguments that are not the defaults.
PARTS: dict[type, tuple[dict[str, Any], ...]] = {
    asim.Network: (
        {"bandwidth": math.inf},  # given as infinite
        {
            "latency": LAW,
            "bandwidth": 1e3,
            "upload_bandwidth": math.inf,
            "message_bytes": 16.0,
            "compression": 0.5,
            "shared": True,
        },
    ),
    asim.Server: (
        {},
        {"slots": 2, "service": LAW, "atomic": False, "resume": "own", "pull_to_commit": LAW},
        {"atomic": False, "pull": "at_read"},
    ),
    protocols.Asynchronous: ({},),
    protocols.SSP: ({"slack": 1}, {"slack": 2}),
    protocols.Synchronous: ({}, {"backup": 1, "cancel": False}),
    protocols.KSync: ({"k": 2}, {"k": 3}),
    protocols.KAsync: ({"k": 2}, {"k": 3}),
    protocols.KBatchSync: ({"k": 2}, {"k": 3}),
    protocols.KBatchAsync: ({"k": 2}, {"k": 3}),
    protocols.Rennala: ({"batch": 2}, {"batch": 3, "cancel": True}),
    protocols.Malenia: ({}, {"batch": 2, "cancel": False}),
    protocols.Ringmaster: ({"limit": 2}, {"limit": 3, "stop": True}),
    protocols.RoundRobin: ({},),
    faults.Slowdown: (
        {"worker": 0, "start": 1.0, "seconds": 2.0, "factor": 3.0},
        {"worker": 1, "start": 2.0, "seconds": math.inf, "factor": 2.0},
    ),
    faults.Crash: ({"worker": 0, "time": 2.0}, {"worker": 1, "time": 3.0, "restart_after": 1.0, "keeps_state": True}),
    faults.MessageLoss: (
        {"probability": 0.1, "timeout": 1.0},
        {"probability": 0.2, "timeout": 2.0, "attempts": 2, "worker": 1},
    ),
    faults.Sessions: (
        {"online": delays.Exponential(9.0), "offline": LAW},
        {"online": LAW, "offline": delays.Constant(1.0), "worker": 1, "keeps_state": False},
    ),
    faults.ServerPause: ({"start": 1.0, "seconds": 0.5}, {"start": 2.0, "seconds": 1.0, "every": 3.0}),
}
FIELDS = {asim.Network: "network", asim.Server: "server"}
BASE = asim.Scenario(
    asim.Cluster(workers=4, compute=delays.Gamma(mean=1.0, cv=0.3)),
    asim.rules.Downpour(0.1),
    asim.workloads.Quadratic([1.0, 0.1]),
    commits=12,
    record=(),
)


def variants() -> Iterator[tuple[str, asim.Scenario]]:
    for kind, (needed, *others) in PARTS.items():
        yield f"{kind.__name__} by default", with_part(kind(**needed))
        for values in others:
            yield f"{kind.__name__} with {', '.join(values)}", with_part(kind(**{**needed, **values}))


def with_part(part: Any) -> asim.Scenario:
    if type(part) in FIELDS:
        change = {FIELDS[type(part)]: part}
    else:
        change = {"faults": (part,)} if type(part).__module__ == faults.__name__ else {"protocol": part}
    return dataclasses.replace(BASE, cluster=dataclasses.replace(BASE.cluster, **change))


def test_every_argument_is_here() -> None:
    public = {value for module in (protocols, faults) for value in vars(module).values() if isinstance(value, type)}
    public = {kind for kind in public if dataclasses.is_dataclass(kind) and kind.__name__[0] != "_"}
    assert {kind for kind in public if kind.__module__ in (protocols.__name__, faults.__name__)} <= PARTS.keys()
    for kind, (_, *others) in PARTS.items():
        assert {name for values in others for name in values} == {field.name for field in dataclasses.fields(kind)}


def test_every_argument_comes_back_from_the_store(tmp_path: Any) -> None:
    made = dict(variants())
    results = asim.sweep(made.values(), tmp_path, jobs=0)
    assert set(results.states.values()) == {"done"}
    for name, scenario in made.items():
        again = asim.load(tmp_path / scenario.digest)
        assert again.scenario == scenario, name
        assert again.scenario.cluster == scenario.cluster, name
        json.loads((tmp_path / scenario.digest / "scenario.json").read_text(), parse_constant=pytest.fail)


def test_infinity_is_a_number_in_the_table(tmp_path: Any) -> None:
    asked = asim.grid(BASE, bandwidth=[1e3, math.inf])
    np.testing.assert_array_equal(asim.sweep(asked, tmp_path, jobs=0).table()["bandwidth"], [1e3, math.inf])


class Started(asim.Workload):
    start: Any

    def init(self, key: Any) -> Any:
        del key
        return {"x": np.array(self.start)}

    def loss(self, params: Any, batch: Any, key: Any) -> Any:
        del batch, key
        return (params["x"] ** 2).sum()


def test_nan_has_no_description() -> None:
    workload = Started([1.0, math.nan])
    with pytest.raises(ValueError, match=r"`workload\.start` must not be NaN, which equals nothing; got nan"):
        dataclasses.replace(BASE, workload=workload).digest  # noqa: B018
