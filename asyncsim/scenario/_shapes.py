"""Shapes and names of a replay's results, found by tracing: no array as large as the parameters is made."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax

from asyncsim.components._code_hash import traced_as, version_of
from asyncsim.components._remember import cached_per_object
from asyncsim.components._traced import Structure
from asyncsim.engine._layout import Packing
from asyncsim.engine._quantities import QUANTITIES, Measure
from asyncsim.engine._validation import first_shapes, metrics, try_measures, try_rule, worker_metrics
from asyncsim.rules import Rule
from asyncsim.workloads import Workload


def parameter_shapes(workload: Workload) -> Any:
    """Return the pytree of a workload's parameters, as shapes and dtypes where `init` allows it."""
    with traced_as(version_of(workload=workload)):
        return first_shapes(workload, jax.random.key(0))


def count_tensors(workload: Workload) -> int:
    """Return the number of leaves of a workload's parameters, each of which belongs to a parameter group."""
    return len(jax.tree.leaves(parameter_shapes(workload)))


@cached_per_object
def packing_of(workload: Workload, x64: bool) -> Packing:
    """Return the layout of the parameters in a vector."""
    del x64  # Only part of the cache's key: the parameters have other types in 64-bit mode.
    return Packing.of(parameter_shapes(workload))


@cached_per_object
def reportable_metrics(workload: Workload, structure: Structure) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of what a rule and a workload report of commits besides the loss, and of what `evaluate` does.

    Measures of each worker are among the first.
    """
    rule = structure.component
    with traced_as(version_of(rule=rule, workload=workload)):
        params = first_shapes(workload, jax.random.key(0))
        info = try_rule(rule, Packing.of(params).seen_by(rule))
        measured, of_workers = metrics(workload, params), worker_metrics(workload, params)
    names = [name for name, q in QUANTITIES.items() if q.needs is None or getattr(info, q.needs) is not None]
    return (*names, *workload.quantities, *of_workers), measured


def record_shapes(
    rule: Rule, params: Packing, names: Iterable[str], measures: Mapping[str, Measure]
) -> dict[str, jax.ShapeDtypeStruct]:
    """Return name -> shape and dtype of one record, of those metrics that the replay records at its commits."""
    at_commits = [name for name in names if name in QUANTITIES or name in measures]
    with traced_as(version_of(rule=rule, record=measures)):
        return try_measures(rule, params, try_rule(rule, params), at_commits, measures)
