"""A scenario as plain data, the user's own code and data included, and the digest of that description.

A stored result is reused only if nothing that made it has changed. The library's own components say what they are
(`describe`). Of the user's functions, the whole file in which they stand counts (except comments and layout), as a
function may call any other there; of the user's arrays, the contents.
"""

import ast
import dataclasses
import functools
import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from asyncsim import files
from asyncsim.cluster import Cluster
from asyncsim.delays import Constant
from asyncsim.remember import once_for_each
from asyncsim.rules import CONSTRUCTORS as CONSTRUCTORS_OF_RULES
from asyncsim.rules import Rule, constructor_of
from asyncsim.rules.compressed import taken_apart
from asyncsim.scenario.components import CUSTOM, law_component
from asyncsim.workloads import CONSTRUCTORS, Workload

LIBRARY = Path(__file__).parent.parent
MOST_LISTED = 64  # entries of an array that are written out in a description; a larger array is hashed


def digest(description: Any) -> str:
    """Hash of a description, 16 hexadecimal digits; the order of keys does not matter.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}), len(digest({}))
        (True, 16)
    """
    return files.digest(json.dumps(description, sort_keys=True))


@once_for_each
def describe_cluster(cluster: Cluster) -> dict[str, Any]:
    """Workers and compute law; network, server, protocol and faults where they differ from a cluster's defaults."""
    defaults = Cluster(1, Constant(1.0))
    names = ("network", "server", "protocol", "faults")
    changed = {name: value for name in names if (value := getattr(cluster, name)) != getattr(defaults, name)}
    return {"workers": cluster.workers, "compute": describe_law(cluster.compute), **plain(changed)}


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
    """Name, options and hyper-parameters, and the hash of code that is not the library's."""
    if (found := taken_apart(rule)) is not None:
        how = {"compressor": plain(found.compressor), "error_feedback": found.error_feedback}
        return {**describe_rule(found.rule), "name": rule.name, **how}
    functions = {field.name: getattr(rule, field.name) for field in dataclasses.fields(rule)}
    functions = {name: function for name, function in functions.items() if callable(function)}
    described = _with_code(plain(rule.describe()), *functions.values())
    if rule.name in CONSTRUCTORS_OF_RULES and constructor_of(rule) is None:  # a rule of another mixture of functions
        described["functions"] = {name: _qualified(function) for name, function in functions.items()}
    return described


@once_for_each
def describe_workload(workload: Workload) -> dict[str, Any]:
    """Name, options and data set, and hashes of code and data that are not the library's."""
    described = plain(workload.describe())
    if workload.data is not None and workload.dataset is None:
        described["data"] = [hash_array(np.asarray(leaf)) for leaf in jax.tree.leaves(workload.data)]
        described["batch_size"] = workload.batch_size
    if workload.dataset is None and workload.parts is not None:
        described["parts"] = workload.parts.fingerprint
    if workload.name not in CONSTRUCTORS:
        own = {"workers": workload.workers, "weights": workload.weights}
        described |= {name: plain(value) for name, value in own.items() if value is not None}
    functions = (workload.init, workload.loss, workload.gradient, workload.noise, workload.evaluate)
    if workload.name not in CONSTRUCTORS:
        functions = (*functions, workload.evaluate_workers)
    if workload.name in CONSTRUCTORS:  # whose arguments, described above, are also bound to its functions
        functions = tuple(getattr(function, "func", function) for function in functions)
    return _with_code(described, *functions)


def plain(value: Any) -> Any:
    """The value as JSON can hold it: numbers, texts, lists, dictionaries; arrays as lists or hashes."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        return array.tolist() if array.size <= MOST_LISTED else f"array {array.shape} {hash_array(array)}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _describe_object(value)


def code_of(*values: Any) -> str:
    """Hash of the user's code and arrays in some functions or objects; "" where all of it is the library's.

    Example:
        >>> from asyncsim import rules
        >>> code_of(rules.gem(0.1).send), code_of(lambda params, batch, key: 0.0) != ""
        ('', True)
    """
    parts = [part for value in values for part in _parts(value)]
    return digest(parts) if parts else ""


def hash_array(array: np.ndarray) -> str:
    """Hash of an array's contents, shape and type."""
    return files.digest(f"{array.shape} {array.dtype}", array)


def _with_code(described: dict[str, Any], *functions: Any) -> dict[str, Any]:
    code = code_of(*(function for function in functions if function is not None))
    return {**described, "code": code} if code else described


def _qualified(function: Any) -> str:
    """The name of a function, or that of an object's class."""
    return getattr(function, "__qualname__", type(function).__qualname__)


def _describe_object(value: Any) -> dict[str, Any]:
    """Class, attributes and code of an object that does not describe itself."""
    described = {"class": type(value).__qualname__, **plain(_attributes(value))}
    return _with_code(described, value)


def _attributes(value: Any) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {} if callable(value) else getattr(value, "__dict__", {})


def _parts(value: Any, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """What a function or object consists of, beyond the library's code: source, and whatever it holds on to."""
    if id(value) in seen:
        return
    seen |= {id(value)}
    if isinstance(value, functools.partial):  # its arguments are the code's data; JAX's Partial is one as well
        yield from _parts(value.func, seen)
        yield json.dumps(plain([value.args, value.keywords]))
    elif (code := _code(value)) is not None and not Path(code.co_filename).is_relative_to(LIBRARY):
        yield f"{getattr(value, '__qualname__', type(value).__qualname__)} {_hash_source(code)}"
    for held in _held(value):
        if callable(held) or isinstance(held, tuple):
            yield from _parts(held, seen)
        else:
            yield json.dumps(plain(held))


def _held(value: Any) -> list[Any]:
    """The variables that a closure captures, or what a tuple of functions or a callable dataclass consists of.

    Two of optax's optimisers differ in nothing but the numbers that their functions have captured.
    """
    if isinstance(value, tuple):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and callable(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return [cell.cell_contents for cell in getattr(value, "__closure__", None) or () if not _is_empty(cell)]


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell  # always False; an empty cell raises, as it has no contents
    except ValueError:
        return True


def _code(value: Any) -> Any:
    """A code object from the file in which a function, or an object's class, stands; None if it is built in."""
    function = inspect.unwrap(value) if callable(value) else value
    if hasattr(function, "__code__"):
        return function.__code__
    codes = [method.__code__ for method in vars(type(value)).values() if inspect.isfunction(method)]
    return next((code for code in codes if Path(code.co_filename).is_file()), codes[0] if codes else None)


def _hash_source(code: Any) -> str:
    """Hash of the file that the code stands in, comments aside; of the code itself if there is no file."""
    try:
        path = Path(code.co_filename)
        return _hash_file(path, path.stat().st_mtime_ns)
    except (OSError, SyntaxError, UnicodeDecodeError):
        constants = [repr(constant) for constant in code.co_consts if not inspect.iscode(constant)]
        return files.digest(f"{code.co_code.hex()} {code.co_names} {constants}")


@functools.lru_cache(maxsize=64)
def _hash_file(path: Path, changed: int) -> str:
    """Hash of a file of Python, comments aside; `changed` is when it was written last."""
    del changed  # The file is read again when it is another.
    return files.digest(ast.dump(ast.parse(path.read_text(encoding="utf-8"))))
