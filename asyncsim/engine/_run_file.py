"""The run file: a `.npz` of a replay's measurements and of the state from which it can be resumed, bit for bit.

Arrays as in `Run`: `loss`, `worker`, `records/NAME`, `recorded_at/NAME`, `stride/NAME`, `commits`, `workers`, `seed`,
`traits` and `digest`. `diverged_at` has one entry per seed, -1 for never. The leaves of the compiled loop's state are
there, too, among them `state/central` (seeds, parameters). The trees are not in the file, because they are made again
from the rule and the workload, but `parameters` has name, shape and type of each, for a run without its workload.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim.engine._layout import Carry, Layout, Outer, Packing, outer_packing, row_packing, value_of_variables
from asyncsim.engine._loop import begin
from asyncsim.engine._plan import VARIABLES
from asyncsim.engine._validation import first_shapes
from asyncsim.files import _npz as npz
from asyncsim.rules import Rule
from asyncsim.rules._hierarchy import for_regions
from asyncsim.workloads import Workload
from asyncsim.workloads._batches import init_key

FORMAT_VERSION = 4
ROWS = "state/rows"  # the workers' state: n times as large as all else, and of use only to resume
_PREFIXES = {"stride/": "strides", "records/": "records", "recorded_at/": "recorded_at"}
_NUMBERS = ("commits", "workers", "seed", "diverged_at", "loss", "worker")


def write(
    path: str | os.PathLike[str],
    fields: Mapping[str, Any],
    notes: Mapping[str, Any],
    *,
    resumable: bool = True,
    new: bool = False,
) -> None:
    """Write the fields of a `Run`, and notes next to them (see `Run.save`, and `npz.write` for `new`)."""
    diverged = fields["diverged_at"]
    diverged = [-1 if commit is None else commit for commit in (diverged if isinstance(diverged, list) else [diverged])]
    arrays: dict[str, Any] = {
        **{name: fields[name] for name in ("commits", "workers", "loss", "worker")},
        **({"servers": fields["servers"]} if fields["servers"] else {}),
        "seed": np.asarray(fields["seed"], np.int64),
        "diverged_at": np.asarray(diverged, np.int64),
        "traits": np.asarray(fields["traits"], np.str_),
        "digest": np.asarray(fields["digest"]),
        "parameters": np.asarray(json.dumps(_leaves_of(fields["central"], np.ndim(fields["seed"])))),
        **{f"{prefix}{name}": x for prefix, field in _PREFIXES.items() for name, x in fields[field].items()},
        **{name: np.asarray(leaf) for name, leaf in _named_leaves(fields["state"]).items()},
    }
    if not resumable:
        arrays.pop(ROWS, None)
    npz.write(path, arrays, version=FORMAT_VERSION, notes=notes, new=new)


def read(path: str | os.PathLike[str], rule: Rule | None, workload: Workload | None) -> dict[str, Any]:
    """Return the fields of the `Run` in a file (see `Run.load`), without rule and workload as far as they are data."""
    arrays = npz.read(path, kind="run", version=FORMAT_VERSION)
    try:
        if rule is None or workload is None:
            without = dict.fromkeys(("state", "rule", "workload"))
            return {**_measured(arrays), "central": _named_parameters(arrays), **without}
        return _fields(arrays, rule, workload)
    except (KeyError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"`path` {str(path)!r} holds no run of this rule and workload: {reason}. Give those it was made with."
        ) from error


def _leaves_of(central: Any, axes: int) -> list[tuple[str, tuple[int, ...], str]]:
    """Return name, shape and type of each parameter, of a central variable with so many leading axes of seeds."""
    return [(name, leaf.shape[axes:], str(leaf.dtype)) for name, leaf in _by_path(central, ".").items()]


def _named_parameters(arrays: npz.Arrays) -> dict[str, np.ndarray]:
    """Return name -> array of each parameter in a file, for whose tree a workload would be needed."""
    leaves = json.loads(str(arrays["parameters"]))
    names, shapes, dtypes = zip(*leaves, strict=True) if leaves else ((), (), ())
    packing = Packing(jax.tree.structure([*names]), tuple(map(tuple, shapes)), tuple(map(jnp.dtype, dtypes)))
    vectors = arrays["state/central"]
    vectors = vectors.view(packing.dtype) if vectors.dtype.kind == "V" else vectors
    _require_shape("state/central", vectors, (*vectors.shape[:-2], arrays["seed"].size, packing.size))
    is_global = any(name.startswith("state/outer/") for name in arrays)
    vectors = value_of_variables(vectors, is_global)
    return dict(zip(names, packing.unpack_on_host(vectors if arrays["seed"].ndim else vectors[0]), strict=True))


def _fields(arrays: npz.Arrays, rule: Rule, workload: Workload) -> dict[str, Any]:
    fields = _measured(arrays)
    several, traits, servers = arrays["seed"].ndim > 0, fields["traits"], fields["servers"]
    workers = fields["workers"] - servers
    rule = for_regions(rule.for_workers(workers), servers)
    params = Packing.of(first_shapes(workload, init_key(0))).seen_by(rule)
    variables = len(arrays["state/central"]) if VARIABLES in traits else 1
    of_trace = {"traits": traits, "variables": variables, "sent": len(arrays.get("state/sent", ())), "servers": servers}
    layout = Layout(params, row_packing(rule, params, traits), outer=outer_packing(rule, params, traits), **of_trace)
    first = jax.ShapeDtypeStruct((arrays["seed"].size, params.size), params.dtype)
    state = _read_state(arrays, jax.eval_shape(partial(begin, layout=layout, workers=workers), rule, first))
    central = params.unpack_on_host(value_of_variables(state.central, isinstance(state.outer, Outer)))
    central = jax.device_put(central if several else jax.tree.map(lambda leaf: leaf[0], central))
    return {**fields, "central": central, "state": state, "rule": rule, "workload": workload}


def _measured(arrays: npz.Arrays) -> dict[str, Any]:
    """Return the fields that are data."""
    commits, workers, seed, diverged, loss, worker = (arrays[name] for name in _NUMBERS)
    divergences = [None if commit < 0 else commit for commit in diverged.tolist()]
    _require_shape("loss", loss, (*seed.shape, int(commits)))
    _require_shape("worker", worker, (int(commits),))
    several = seed.ndim > 0
    return {
        "commits": int(commits),
        "workers": int(workers),
        "servers": int(arrays.get("servers", 0)),
        "seed": tuple(seed.tolist()) if several else int(seed),
        "loss": loss,
        "records": _under("records/", arrays),
        "recorded_at": _under("recorded_at/", arrays),
        "diverged_at": divergences if several else divergences[0],
        "strides": {name: int(every) for name, every in _under("stride/", arrays).items()},
        "own": {},
        "worker": worker,
        "traits": tuple(arrays["traits"].tolist()),
        "digest": str(arrays["digest"]),
    }


def _read_state(arrays: npz.Arrays, shapes: Carry) -> Carry:
    """Return the state in the file, of the shapes and dtypes that a replay carries."""
    leaves = []
    if ROWS not in arrays:
        shapes = shapes._replace(rows=None)
    for name, expected in _named_leaves(shapes).items():
        array = arrays[name]
        if array.dtype.kind == "V":  # NumPy's files do not know this dtype, such as bfloat16.
            array = array.view(expected.dtype)
        _require_shape(name, array, expected.shape)
        if array.dtype != expected.dtype:
            raise ValueError(f"`{name}` is {array.dtype} where {expected.dtype} is expected")
        leaves.append(jnp.asarray(array))
    return jax.tree.unflatten(jax.tree.structure(shapes), leaves)


def _named_leaves(state: Carry) -> dict[str, Any]:
    return {f"state/{name}": leaf for name, leaf in _by_path(state, "/").items()}


def _by_path(tree: Any, separator: str) -> dict[str, Any]:
    """Return name -> leaf, with the keys on the way to it joined, or as Python writes them where they would be one."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    names = [jax.tree_util.keystr(path, simple=True, separator=separator) for path, _ in leaves]
    ambiguous = {name for name, count in Counter(names).items() if count > 1}
    return {
        jax.tree_util.keystr(path) if name in ambiguous else name: leaf
        for name, (path, leaf) in zip(names, leaves, strict=True)
    }


def _require_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.dtype.names is not None or array.dtype.kind in "SUmM":
        raise ValueError(f"`{name}` is {array.dtype} where numbers are expected")
    if array.shape != shape:
        raise ValueError(f"`{name}` has shape {array.shape} where {shape} is expected")


def _under(prefix: str, arrays: npz.Arrays) -> npz.Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
