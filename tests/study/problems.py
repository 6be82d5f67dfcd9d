"""A small scenario, and the contents of its folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.study import _work as work
from asyncsim.study._store import Store
from tests.problems import full_disk

FILES = {"scenario.json", "trace.npz", "run.npz", "summary.json", "report.png"}


def scenario(**changes: Any) -> asim.Scenario:
    made = asim.Scenario(
        cluster=asim.Cluster(workers=4, compute=asim.delays.Exponential(mean=1.0)),
        rule=asim.rules.GEM(learning_rate=0.05),
        workload=asim.workloads.Quadratic([1.0, 0.1], noise=0.1),
        commits_per_worker=100,
    )
    return made.override(**changes) if changes else made


def no_replay(*args: object, **kwargs: object) -> None:
    raise AssertionError("replayed again")


def fail_where(patch: pytest.MonkeyPatch, reason_at: Callable[[float], str | None]) -> None:
    """Computations of sweeps fail if this gives a reason for one of their step sizes."""
    compute = work.compute

    def compute_or_fail(batch: Any, *more: Any) -> Any:
        for one in batch.scenarios:
            if reason := reason_at(one.rule.learning_rate):
                raise ZeroDivisionError(reason)
        return compute(batch, *more)

    patch.setattr(work, "compute", compute_or_fail)


def refuse_first(patch: pytest.MonkeyPatch) -> list[str]:
    """The disk is full when a store keeps its first result, whose digest is in the list then."""
    publish, refused = Store.publish, list[str]()

    def publish_or_refuse(store: Store, digest: str, fill: Callable[[Path], None]) -> None:
        if not refused:
            refused.append(digest)
            full_disk()
        publish(store, digest, fill)

    patch.setattr(Store, "publish", publish_or_refuse)
    return refused


def present(store: Store) -> set[str]:
    """The digests of the results that are complete."""
    return {digest for digest in store.digests() if store.has(digest)}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_same_numbers(one: asim.Run, other: asim.Run) -> None:
    np.testing.assert_array_equal(one.loss, other.loss, strict=True)
    assert one.records.keys() == other.records.keys()
    for name, values in one.records.items():
        np.testing.assert_array_equal(values, other.records[name], strict=True)
        np.testing.assert_array_equal(one.recorded_at[name], other.recorded_at[name], strict=True)


def assert_same_run(one: asim.Run, other: asim.Run) -> None:
    assert_same_numbers(one, other)
    np.testing.assert_array_equal(one.state.rows, other.state.rows, strict=True)


def assert_same_result(one: asim.Result, other: asim.Result) -> None:
    """Equal to the last bit, but for the time that it took and what only serves to resume."""
    assert_same_numbers(one.run, other.run)
    jax.tree.map(np.testing.assert_array_equal, one.run.central, other.run.central)
    for name in ("commits", "workers", "seed", "diverged_at", "traits", "digest", "rule"):
        assert getattr(one.run, name) == getattr(other.run, name), name
    assert untimed(one.summary) == untimed(other.summary)
    assert one.scenario == other.scenario


def untimed(summary: dict[str, Any]) -> dict[str, Any]:
    """A summary without what depends on the machine."""
    return {name: value for name, value in summary.items() if name not in ("wall_seconds", "commits_per_second")}
