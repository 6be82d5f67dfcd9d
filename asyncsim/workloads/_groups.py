"""Which parameters form a group, for traces that read groups at versions of their own: by name, or layer by layer."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import jax
import numpy as np

from asyncsim._checks import brief, truncate

Params = Any  # any pytree
_LAST_WORD = re.compile(r"[/_][^/_]*$")


def layers(params: Params) -> tuple[str, ...]:
    """Return the layer of every leaf: its path without its last word, or all of it where that is one word."""
    return tuple(_LAST_WORD.sub("", path) for path in _paths(params))


def labels_by_leaf(labels: Any, params: Params) -> tuple[str, ...]:
    leaves = jax.tree.leaves(params)
    one_each = (
        isinstance(labels, Sequence) and len(labels) == len(leaves) and all(isinstance(label, str) for label in labels)
    )
    try:
        below = jax.tree.map(lambda label, part: [label] * len(jax.tree.leaves(part)), labels, params)
        names = tuple(jax.tree.leaves(below))
    except (ValueError, TypeError, KeyError):
        if not one_each:
            tensors = truncate(", ".join(path or "it" for path in _paths(params)))
            raise ValueError(
                f"`groups` must name a group for each of the {len(leaves)} tensors {tensors}, or for their containers; "
                f"got {brief(labels)}."
            ) from None
        names = tuple(labels)
    for name in names:
        if not isinstance(name, str) or not name:
            raise ValueError(f"`groups` must hold names; got {brief(name)}. Name a group 'stage0', say.")
    return names


def split_evenly(params: Params, groups: int) -> tuple[int, ...]:
    """Return the group of every leaf: layers are split in order into groups of equal size, the first ones larger."""
    runs = [len(list(run)) for _, run in groupby(layers(params))]
    if len(runs) < groups:
        most = f"{len(runs)} parameter group{'s' * (len(runs) > 1)}"
        raise ValueError(
            f"`trace` must have at most {most}, as many as this workload has layers; it has {groups}. Use "
            "a deeper model, or name groups of tensors by `Workload.grouped`."
        )
    of_layer = [group for group, part in enumerate(np.array_split(runs, groups)) for _ in part]
    return tuple(group for group, leaves in zip(of_layer, runs, strict=True) for _ in range(leaves))


def group_of_each_leaf(params: Params, groups: tuple[str, ...], labels: tuple[str, ...] | None) -> tuple[int, ...]:
    """Return the trace's group of every leaf, or () for a trace without groups."""
    if not groups:
        return ()
    if labels is None:
        return split_evenly(params, len(groups))
    unknown = [name for name in labels if name not in groups]
    empty = [name for name in groups if name not in labels]
    if unknown or empty:
        fault = f"{unknown[0]!r} is none of them" if unknown else f"{empty[0]!r} has no parameters"
        raise ValueError(
            f"`groups` of the workload must be those of the trace, {truncate(', '.join(map(repr, groups)))}; {fault}. "
            "Name them alike in both."
        )
    return tuple(groups.index(name) for name in labels)


def _paths(params: Params) -> list[str]:
    """Return the path of every leaf, as words with slashes between them."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path in paths]
