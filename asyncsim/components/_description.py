"""Descriptions: a component as plain data, and the component of a description.

There is one function each for all components, without a case for any kind.
"""

import dataclasses
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

from asyncsim.components import _code_hash as code
from asyncsim.components._checked import Checked
from asyncsim.components._component import is_same
from asyncsim.components._families import FAMILIES, LIBRARY, import_families, is_ours
from asyncsim.components._remember import PerObject
from asyncsim.components._user_files import home_of_module, own_modules
from asyncsim.files._hash import DIGEST_DIGITS

KINDS = "iufb"  # of arrays that a description lists
MOST_LISTED = 1024  # numbers of an array that a description lists, since a larger array is hashed
MOST_CHARACTERS = 65_536  # of a text that a description has, since a longer one is hashed as an array of characters
NUMBER, ARRAY, KIND, IMPORT, CODE, FINGERPRINT = "number", "array", "kind", "import", "code", "fingerprint"
ITEMS = "items"  # of a dictionary whose keys are not all texts: pairs of a key and a value
DICT = "dict"  # kind of such a dictionary
RESERVED = (NUMBER, ARRAY, KIND, IMPORT)  # keys that say what an entry of a description is
INFINITE = {"infinity": math.inf, "-infinity": -math.inf}
OTHER_VERSION = "Use the version that wrote it."
# The module of a script that the command runs: not "__main__", so that no program starts itself.
SCRIPT = "__asyncsim__"
SCRIPTS = (SCRIPT, "__main__", "__mp_main__")  # modules that have another name where somebody imports them
PACKAGES = (
    *("calibration", "cluster", "compressors", "costs", "datasets", "delays"),
    *("rules", "scenario", "study", "trace", "workloads"),
)
# Classes of the library that are described, and are no `Checked`.
UNCHECKED_CLASSES = ("study.Comparison", "trace.Trace")
_descriptions = PerObject()


class NotRebuilt(ValueError):
    """A description from which no equal object can be made in this process."""


def describe(value: Any, name: str = "component") -> Any:
    """Return a component as plain data: its kind, and the fields that differ from their defaults.

    The kind is the family and the command-line name, as in "rules.gem", or else where the library has the class. For a
    class or a function of the user's, one entry is its import path, and another one is the hash of all code and all
    values that it reaches. A component with a `fingerprint`, such as a data set, has an entry with that, and one with a
    method `stand_in` is described by the object that this method returns. Infinity is `{"number": "infinity"}`, and a
    dictionary whose keys are not all texts is `{"kind": "dict", "items": […]}` with pairs of a key and a value.

    Args:
        value: A component: any frozen dataclass. Or a number, a text, an array, a list or a dictionary of several.
        name: Its name in error messages.

    Raises:
        ValueError: If a number is NaN, or something in it cannot be compared, such as an open file.

    Example:
        >>> import asyncsim as asim
        >>> describe(asim.delays.Gamma(mean=1.0, cv=0.3))
        {'kind': 'delays.gamma', 'mean': 1.0, 'cv': 0.3}
        >>> describe(asim.rules.GEM(0.1, kappa=2.0)), describe(np.array([1.0, np.inf]))
        ({'kind': 'rules.gem', 'learning_rate': 0.1, 'kappa': 2.0}, {'array': [1.0, {'number': 'infinity'}]})
    """
    if isinstance(value, np.generic) or (isinstance(value, (np.ndarray, jax.Array)) and not value.ndim):
        value = value.item()
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        value = np.frombuffer(value.encode("utf-32-le", "surrogatepass"), np.uint32)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError(
                f"`{name}` must not be NaN, which equals nothing; got nan. Give a number, or leave it out."
            )
        return float(value) if math.isfinite(value) else {NUMBER: "infinity" if value > 0 else "-infinity"}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [describe(item, name) for item in value]
    if isinstance(value, Mapping):
        if wrong := {*value}.intersection(RESERVED):
            raise ValueError(f"`{name}` must not have the key {wrong.pop()!r}, which means something in a description.")
        if all(isinstance(key, str) for key in value):
            return {str(key): describe(item, f"{name}.{key}") for key, item in value.items()}
        pairs = [[describe(key, name), describe(item, f"{name}.{key}")] for key, item in value.items()]
        return {KIND: DICT, ITEMS: sorted(pairs, key=lambda pair: json.dumps(pair[0], sort_keys=True))}
    if isinstance(value, (np.ndarray, jax.Array)) and not jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        return _describe_array(np.asarray(value), name)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if id(value) in _descriptions:
            return _descriptions[id(value)]
        described = _describe_component(value, name)
        return described if _has_code(described) else _descriptions.keep(value, described)  # globals of code may change
    return _describe_object(value, name)


def from_description(data: Any, *, name: str = "component", given: Iterable[Any] = ()) -> Any:
    """Return the object of a description: equal to the one that was described, and of the same hash and digest.

    A description may come from somebody else, so it imports nothing. Its classes are components of the library, and
    classes and functions of your own modules that you have imported, if their code has the hash that it names. Data
    sets are read from files that you have named yourself (see `asyncsim.load`), and nothing is downloaded.

    Args:
        data: The result of `describe`, also after a round trip through JSON.
        name: Its name in error messages.
        given: Objects that a description cannot hold, such as a recorded trace, of which it may be made.

    Raises:
        NotRebuilt: If a part of the user's own is not imported or has changed. The message names it.

    Example:
        >>> import json, asyncsim as asim
        >>> server = asim.Server(service=asim.delays.Exponential(0.1), slots=2)
        >>> from_description(json.loads(json.dumps(describe(server)))) == server
        True
        >>> from_description({"kind": "delays.gama", "mean": 1.0})
        Traceback (most recent call last):
        asyncsim.components.NotRebuilt: `component`: this asyncsim has no 'delays.gama'. Use the version that wrote it.
    """
    try:
        return _from_description(data, name, given)
    except NotRebuilt:
        raise
    except Exception as error:  # Arguments that no object was described with may lead to any error.
        raise NotRebuilt(f"`{name}` cannot be made from its description: {str(error).rstrip('.')}.") from error


def _from_description(data: Any, name: str, given: Iterable[Any]) -> Any:
    if isinstance(data, (list, tuple)):
        return tuple(from_description(item, name=name, given=given) for item in data)
    if not isinstance(data, Mapping):
        return data
    if NUMBER in data:
        return INFINITE[data[NUMBER]]
    if ARRAY in data:
        if isinstance(data[ARRAY], str):
            raise NotRebuilt(f"`{name}` is an array of shape {data['shape']}, of which only a hash is kept. Give it.")
        dtype = np.dtype(data.get("dtype", "float64"))
        if dtype.kind not in KINDS:
            raise NotRebuilt(f"`{name}` is an array of {dtype}, which no description lists. {OTHER_VERSION}")
        array = np.array(from_description(data[ARRAY], name=name), dtype)
        return array.reshape(data.get("shape", array.shape))
    if data.get(KIND) == DICT and data.keys() == {KIND, ITEMS}:
        return dict(from_description(data[ITEMS], name=name, given=given))
    if not data.keys() & {KIND, IMPORT}:
        return {key: from_description(item, name=f"{name}.{key}", given=given) for key, item in data.items()}
    for component in given:
        if describe(component, name) == data:
            return component
    return _rebuild(data, name, given)


def with_defaults(component: Any) -> Any:
    """Return a component as `describe` has it, and the fields that have their default values."""
    described = describe(component)
    if not (isinstance(described, Mapping) and KIND in described and dataclasses.is_dataclass(component)):
        return described
    if _is_ours_and_fingerprinted(type(component))[0] and hasattr(component, "stand_in"):
        return described
    values = {field.name: getattr(component, field.name) for field in dataclasses.fields(component) if field.init}
    return {**described, **{name: with_defaults(value) for name, value in values.items() if value is not None}}


def kind_of_class(cls: type, ours: bool) -> str:
    """Return the name of a class in a description: family and command-line name, or else where the library has it."""
    family, name = getattr(cls, "family", ""), vars(cls).get("name")
    if isinstance(name, str) and FAMILIES.get(family, {}).get(name) is cls:
        return f"{family}.{name}"
    if not ours:
        return cls.__qualname__
    parts = cls.__module__.split(".")
    places = [".".join(parts[:depth]) for depth in range(2, len(parts) + 1)]
    home = next((name for name in places if getattr(sys.modules[name], cls.__qualname__, None) is cls), cls.__module__)
    return f"{home}.{cls.__qualname__}".removeprefix(f"{LIBRARY}.")


def without_imports(data: Any) -> Any:
    """Return a description without import paths: no digest depends on them, since code may move to another module."""
    if isinstance(data, Mapping):
        return {key: without_imports(item) for key, item in data.items() if key != IMPORT}
    return [without_imports(item) for item in data] if isinstance(data, (list, tuple)) else data


def _describe_component(component: Any, name: str) -> dict[str, Any]:
    cls = type(component)
    ours, fingerprinted = _is_ours_and_fingerprinted(cls)
    described: dict[str, Any] = {KIND: kind_of_class(cls, ours)}
    if ours and hasattr(cls, "stand_in"):
        return described | component.stand_in()
    if not ours:
        described[IMPORT] = f"{cls.__module__}:{cls.__qualname__}"
    for field in dataclasses.fields(cls):
        value = getattr(component, field.name)
        if field.init and not _is_default(field, value):
            if field.name in (*RESERVED, CODE, FINGERPRINT):
                raise ValueError(f"`{field.name}` of {cls.__name__} needs another name, for its description.")
            described[field.name] = describe(value, f"{name}.{field.name}")
    if fingerprinted:
        described[FINGERPRINT] = component.fingerprint
    if not ours:
        described[CODE] = code_of(cls.__qualname__, {"class": cls})
        if attributes := code.attributes_beside(component):
            described[CODE] += f".{code_of(cls.__qualname__, {'attributes': attributes})}"
    return described


@lru_cache(maxsize=512)
def _is_ours_and_fingerprinted(cls: type) -> tuple[bool, bool]:
    """Return whether a class is the library's, and whether its objects have the `fingerprint` of a class of it."""
    return is_ours(cls), any(is_ours(base) for base in cls.__mro__ if FINGERPRINT in vars(base))


def _describe_object(value: Any, name: str) -> dict[str, Any]:
    """Return a function or a class by its import path, any other object by its class, and each with a hash."""
    if isinstance(value, (type, FunctionType)):
        described = {IMPORT: f"{value.__module__}:{value.__qualname__}"}
    else:
        described = {KIND: type(value).__qualname__}
    whole, _, part = name.rpartition(".")
    return {**described, CODE: code_of(whole or part, {part: value})}


def code_of(name: str, values: dict[str, Any]) -> str:
    """Hash all that functions and objects reach."""
    return code.hash_reachable(name, values).hex()[:DIGEST_DIGITS]


def _describe_array(array: np.ndarray, name: str) -> dict[str, Any]:
    kind = {} if array.dtype == np.float64 else {"dtype": str(array.dtype)}
    if array.size > MOST_LISTED or array.dtype.kind not in KINDS:
        return {ARRAY: code.hash_array(array).hex()[:DIGEST_DIGITS], **kind, "shape": list(array.shape)}
    return {ARRAY: describe(array.tolist(), name), **kind, **({"shape": list(array.shape)} if not array.size else {})}


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    default = field.default
    if value is default:
        return True
    if not _is_missing(field.default_factory):
        default = field.default_factory()  # type: ignore[misc]
    if _is_missing(default) or value is None or default is None:
        return value is default
    if isinstance(value, (np.ndarray, np.generic)) and not value.ndim:
        value = value.item()
    return type(value) is type(default) and is_same(value, default)


def _is_missing(default: Any) -> bool:
    """Return whether there is no default. (A class that was pickled by value has a `MISSING` of its own.)"""
    return isinstance(default, type(dataclasses.MISSING))


def _has_code(described: Any) -> bool:
    """Return whether a description holds a hash of code."""
    if isinstance(described, Mapping):
        return CODE in described or any(map(_has_code, described.values()))
    return isinstance(described, list) and any(map(_has_code, described))


def _rebuild(data: Mapping[str, Any], name: str, given: Iterable[Any]) -> Any:
    """Return the object of a description with a kind or an import path, checked to be described as this one."""
    maker = _own_part(data, name) if IMPORT in data else _library_class(data, name)
    if KIND in data:
        fields = {field.name for field in dataclasses.fields(maker) if field.init}
        unknown = data.keys() - fields - {KIND, IMPORT, CODE, FINGERPRINT}
        if unknown:
            raise NotRebuilt(f"`{name}`: {maker.__name__} of this asyncsim has no `{min(unknown)}`. {OTHER_VERSION}")
        values = {key: from_description(data[key], name=f"{name}.{key}", given=given) for key in data if key in fields}
        if reason := maker._obstacle(values) if issubclass(maker, Checked) else None:
            raise NotRebuilt(f"`{name}` cannot be made from its description: {reason}")
        component = maker(**values)
    else:
        component = maker
    now, data = without_imports(describe(component, name)), without_imports(data)
    if now != data:
        wrong = next(key for key in {**data, **now} if data.get(key) != now.get(key))
        why = f"this asyncsim makes another `{wrong}` of it. {OTHER_VERSION}"
        if wrong == FINGERPRINT:
            why = "it holds other data here. Give it the files that it was made from."
        raise NotRebuilt(
            f"`{name}`: {maker.__qualname__!r} is not what it was: {CODE_CHANGED if wrong == CODE else why}"
        )
    return component


CODE_CHANGED = "its code, or a value that it reaches, has changed. Go back to the code that it was run with."


def _own_part(data: Mapping[str, Any], name: str) -> Any:
    """Return the user's class or function that a description names, if it is imported and its code is the same."""
    module, _, path = str(data[IMPORT]).partition(":")
    places = [sys.modules.get(module), *(own_modules() if module in SCRIPTS else ())]
    parts = [part for place in places if (part := _find_definition(place, path, KIND in data)) is not None]
    if not parts:
        raise NotRebuilt(
            f"`{name}`: {path!r} is of your own, and no module {module!r} that is imported has it at its top level. "
            "Import the module that defines it."
        )
    key = path if KIND in data else name.rpartition(".")[0] or name
    for part in parts:
        named = {"class": part} if KIND in data else {name.rpartition(".")[2]: part}
        if code_of(key, named) == str(data.get(CODE)).partition(".")[0]:
            return part
    raise NotRebuilt(f"`{name}`: {path!r} is not what it was: {CODE_CHANGED}")


def _find_definition(module: ModuleType | None, path: str, is_object: bool) -> Any:
    """Return the class or function of the user's at a path in a module, or None. Nothing is called on the way there."""
    thing: Any = reduce(lambda part, step: getattr(part, "__dict__", {}).get(step), path.split("."), module)
    if is_object:
        fits = isinstance(thing, type) and dataclasses.is_dataclass(thing)
    else:
        fits = isinstance(thing, (type, FunctionType))
    is_component = isinstance(thing, type) and issubclass(thing, Checked)
    return thing if fits and (is_component or home_of_module(module).own) else None


def _library_class(data: Mapping[str, Any], name: str) -> Any:
    """Return the component of the library of a kind that `describe` gives."""
    kind = data[KIND]
    if CODE in data or not isinstance(kind, str):
        raise NotRebuilt(f"`{name}`: {kind!r} is of your own, and is no dataclass. Make it a frozen dataclass.")
    family, _, last = kind.rpartition(".")
    cls = FAMILIES.get(family, {}).get(last)
    home = family.partition(".")[0]
    if cls is None and home not in PACKAGES:  # such as "protocols", which the package `cluster` defines
        import_families()
        cls = FAMILIES.get(family, {}).get(last)
    if cls is None and home in PACKAGES:
        package: Any = import_module(f"{LIBRARY}.{home}")
        every = _subclasses(Checked)
        cls = getattr(package, last) if kind in UNCHECKED_CLASSES else FAMILIES.get(family, {}).get(last)
        cls = cls or next((each for each in every if is_ours(each) and kind_of_class(each, True) == kind), None)
    if cls is None or not is_ours(cls):
        raise NotRebuilt(f"`{name}`: this asyncsim has no {kind!r}. {OTHER_VERSION}")
    if hasattr(cls, "stand_in"):
        raise NotRebuilt(f"`{name}` is a recorded {last.lower()}, whose file is not there. Put it back.")
    return cls


def _subclasses(cls: type) -> Iterator[type]:
    for subclass in type.__subclasses__(cls):
        yield subclass
        yield from _subclasses(subclass)


NotRebuilt.__module__ = "asyncsim.components"  # where users find it, and what a traceback says
