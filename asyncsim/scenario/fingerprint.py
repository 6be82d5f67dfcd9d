"""A scenario as plain data, the user's own code and data included, and the digest of that description.

A stored result is reused only if nothing that made it has changed. The library's own components say what they are
(`describe`). Of the user's functions and objects, everything that they reach counts (`asyncsim.scenario.code`).
"""

import dataclasses
import json
import math
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import numpy as np

from asyncsim import files
from asyncsim.cluster import Cluster
from asyncsim.components import arguments
from asyncsim.delays import Constant
from asyncsim.remember import once_for_each
from asyncsim.rules import Rule
from asyncsim.scenario import code
from asyncsim.scenario.components import CUSTOM, law_component
from asyncsim.version import REVISION
from asyncsim.workloads import CONSTRUCTORS, Workload

LIBRARY = "asyncsim"
NOT_CODE_OF_WORKLOAD = ("name", "options", "dataset")  # the same of a workload
MOST_FUNCTIONS = 256  # of the user's, of which a process remembers what they reached
MOST_LISTED = 64  # entries of an array that are written out in a description; a larger array is hashed
INFINITE = {"inf": math.inf, "-inf": -math.inf}  # what JSON cannot hold, as descriptions have it
_hashes: dict[Any, bytes] = {}  # function -> hash of what it reached last, the oldest first


def digest(description: Any) -> str:
    """Hash of a description, 16 hexadecimal digits; the order of keys does not matter.

    The library's revision is part of it: no stored result outlives the code that computed it.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}), len(digest({}))
        (True, 16)
    """
    return files.digest(json.dumps([REVISION, description], sort_keys=True, allow_nan=False))


def describe_cluster(cluster: Cluster) -> dict[str, Any]:
    """Workers and compute law; network, server, protocol and faults where they differ from a cluster's defaults."""
    kept = _kept_description(cluster)
    if not kept:
        defaults = Cluster(1, Constant(1.0))
        names = ("network", "server", "protocol", "faults")
        changed = {name: value for name in names if (value := getattr(cluster, name)) != getattr(defaults, name)}
        described = {"workers": cluster.workers, "compute": describe_law(cluster.compute), **plain(changed)}
        if _has_code(described):
            return described
        kept.update(described)
    return kept


def describe_law(compute: Any) -> Any:
    """A law of compute times, or the list of one law per worker.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> describe_law(Gamma(mean=1.0, cv=0.3))
        {'law': 'gamma', 'mean': 1.0, 'cv': 0.3}
    """
    if isinstance(compute, tuple):
        return [describe_law(law) for law in compute]
    law = law_component(compute)
    return plain(compute) if law.name == CUSTOM else {"law": law.name, **plain(law.values)}


def describe_rule(rule: Rule) -> dict[str, Any]:
    """Name and arguments, and the hash of the code of a class of the user's."""
    described: dict[str, Any] = {"name": rule.name}
    for name in arguments(type(rule)):
        value = getattr(rule, name)
        described[name] = describe_rule(value) if isinstance(value, Rule) else plain(value, name)
    reached = _reach("rule", {"class": type(rule)})
    if reached.own:
        described["code"] = _hex(reached.digest)
    return described


def describe_workload(workload: Workload) -> dict[str, Any]:
    """Name, options and data set, and hashes of the functions and of the user's data."""
    kept = _kept_description(workload)
    if not kept:
        names = {field.name for field in dataclasses.fields(workload)} - {*NOT_CODE_OF_WORKLOAD}
        if workload.dataset is None:
            names.remove("data")  # which `_describe_holdings` hashes once: it may be large
        reached = _reach("workload", {name: getattr(workload, name) for name in sorted(names)})
        described = {**_describe_holdings(workload), "code": _hex(reached.digest)}
        if reached.own:
            return described
        kept.update(described)
    return kept


def _reach(name: str, values: dict[str, Any]) -> code.Reached:
    """What a part of a scenario reaches.

    JAX compiles the globals of a function in. Where a function reaches other values than it did before, programs that
    this process has compiled are forgotten, so that the next one computes with the present values.
    """
    reached = code.reach(name, values)
    for key, function in values.items():
        if reached.own and callable(function) and isinstance(function, Hashable):
            if _hashes.pop(function, reached.parts[key]) != reached.parts[key]:
                jax.clear_caches()
            _hashes[function] = reached.parts[key]
            if len(_hashes) > MOST_FUNCTIONS:
                del _hashes[next(iter(_hashes))]
    return reached


@once_for_each
def _describe_holdings(workload: Workload) -> dict[str, Any]:
    """All of a workload but its functions; its arrays are those that it had when it was described first."""
    described = plain(workload.describe())
    if workload.data is not None and workload.dataset is None:
        described["data"] = [hash_array(np.asarray(leaf)) for leaf in jax.tree.leaves(workload.data)]
        described["batch_size"] = workload.batch_size
    if workload.dataset is None and workload.parts is not None:
        described["parts"] = workload.parts.fingerprint
    if workload.name not in CONSTRUCTORS:
        own = {"workers": workload.workers, "weights": workload.weights}
        described |= {name: plain(value) for name, value in own.items() if value is not None}
    return described


@once_for_each
def _kept_description(thing: Cluster | Workload) -> dict[str, Any]:
    """Where the description of an object is kept, unless it reaches code of the user's, whose globals may change."""
    del thing
    return {}


def _has_code(described: Any) -> bool:
    """Whether a description holds a hash of code."""
    if isinstance(described, dict):
        return "code" in described or any(map(_has_code, described.values()))
    return isinstance(described, list) and any(map(_has_code, described))


def plain(value: Any, name: str = "scenario") -> Any:
    """The value as JSON can hold it: numbers, texts, lists, dictionaries; arrays as lists or hashes.

    Infinity becomes a word, which `with_infinity` turns back.

    Args:
        value: Anything.
        name: What it is called, for errors.

    Raises:
        ValueError: If a number is NaN.

    Example:
        >>> plain({"bandwidth": np.inf, "hidden": (32, 16), "start": np.zeros(2)})
        {'bandwidth': 'inf', 'hidden': [32, 16], 'start': [0.0, 0.0]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, name) for item in value]
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        return plain(array.tolist(), name) if array.size <= MOST_LISTED else f"array {array.shape} {hash_array(array)}"
    if isinstance(value, float):
        return value if math.isfinite(value) else _word(value, name)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return _describe_object(value)


def with_infinity(described: Any) -> Any:
    """A description, or a part of one, with the number infinity in the place of the word.

    Example:
        >>> with_infinity(plain({"bandwidth": np.inf, "limits": [-np.inf, 1.0]}))
        {'bandwidth': inf, 'limits': [-inf, 1.0]}
    """
    if isinstance(described, Mapping):
        return {key: with_infinity(value) for key, value in described.items()}
    if isinstance(described, list):
        return [with_infinity(value) for value in described]
    return INFINITE.get(described, described) if isinstance(described, str) else described


def _word(number: float, name: str) -> str:
    if math.isnan(number):
        raise ValueError(f"`{name}` must not be NaN, which equals nothing; got nan. Give a number, or leave it out.")
    return "inf" if number > 0 else "-inf"


def code_of(name: str, value: Any) -> str:
    """Hash of everything that a function or object reaches.

    Args:
        name: Name of the value, for errors.
        value: A function, an object, or a dictionary of several.

    Example:
        >>> code_of("loss", lambda x: 2.0 * x) == code_of("loss", lambda x: 3.0 * x)
        False
    """
    return _hex(code.reach(name, value).digest)


def hash_array(array: np.ndarray) -> str:
    """Hash of an array's contents, shape and type."""
    return _hex(code.hash_array(array))


def _hex(digest: bytes) -> str:
    return digest.hex()[: files.DIGEST_DIGITS]


def _describe_object(value: Any) -> dict[str, Any]:
    """Class and fields, and for an object that is not made of fields alone the hash of all that it reaches."""
    kind, fields = type(value), {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
        if kind.__module__.partition(".")[0] == LIBRARY:
            return {"class": kind.__qualname__, **fields}
    return {"class": kind.__qualname__, **fields, "code": code_of(kind.__qualname__, value)}
