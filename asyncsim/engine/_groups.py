"""Parameter groups that are read at versions of their own: whose leaves they are, and staleness parameter by parameter.

A job of such a trace reads group by group. In the compiled loop every such read is an event between two commits that
changes its group's part of the worker's `read`, and nothing else.
"""

from dataclasses import replace
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp

from asyncsim.engine._layout import Layout, Packing, sees_vector
from asyncsim.rules import Rule
from asyncsim.trace import Trace
from asyncsim.workloads import Workload
from asyncsim.workloads._groups import group_of_each_leaf


def groups_of(workload: Workload, trace: Trace, params: Any) -> tuple[int, ...]:
    """The trace's group of every leaf of the parameters; () for a trace without groups."""
    return group_of_each_leaf(params, trace.groups, workload.groups)


def by_leaf(params: Any, groups: tuple[int, ...], values: Any) -> Any:
    """A pytree like the parameters with each leaf's entry of `values`, one for each group; () without groups."""
    return jax.tree.unflatten(jax.tree.structure(params), [values[group] for group in groups]) if groups else ()


def merge(groups: tuple[int, ...], parts: list[Any]) -> Any:
    """The pytree whose leaves are those of their groups' parts, each a whole pytree."""
    leaves = [jax.tree.leaves(part) for part in parts]
    return jax.tree.unflatten(jax.tree.structure(parts[0]), [leaves[group][i] for i, group in enumerate(groups)])


def staleness_by_parameter(rule: Rule, params: Packing, groups: tuple[int, ...], staleness: Any) -> Any:
    """The staleness of every parameter as the rule sees them; () without groups."""
    if not groups:
        return ()
    if not sees_vector(rule, params):
        return jax.tree.unflatten(params.treedef, [staleness[group] for group in groups])
    return jnp.concatenate([jnp.full(stop - start, staleness[group]) for group, start, stop in runs(params, groups)])


def tree_of(params: Packing, vector: Any) -> Any:
    """What `staleness_by_parameter` made for a vector, as arrays of the parameters' shapes; () stays what it is."""
    return (
        vector if isinstance(vector, tuple) else replace(params, dtypes=(jnp.int32,) * len(params.sizes)).unpack(vector)
    )


def runs(params: Packing, groups: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Group, start and stop of the vector's pieces of one group each, in their order."""
    found: list[tuple[int, int, int]] = []
    for group, start, stop in zip(groups, params.offsets, accumulate(params.sizes), strict=True):
        if found and found[-1][0] == group:
            found[-1] = (group, found[-1][1], stop)
        else:
            found.append((group, start, stop))
    return found


def parts_of(layout: Layout, rule: Rule, group: int, value: Any) -> list[jax.Array]:
    """The pieces of one group of a value as the rule sees it; `offsets_of` says where they lie in a worker's row."""
    if sees_vector(rule, layout.params):
        return [value[start:stop] for own, start, stop in runs(layout.params, layout.groups) if own == group]
    leaves = jax.tree.leaves(value)
    return [leaf for own, leaf in zip(layout.groups, leaves, strict=True) if own == group]


def offsets_of(layout: Layout, rule: Rule, group: int) -> list[int]:
    """Where the pieces of `parts_of` begin in a worker's row, which begins with what it read."""
    if sees_vector(rule, layout.params):
        return [start for own, start, _ in runs(layout.params, layout.groups) if own == group]
    return [place for own, place in zip(layout.groups, layout.params.offsets, strict=True) if own == group]
