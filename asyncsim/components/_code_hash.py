"""The code and values that an object reaches, and one hash of them.

A result depends on everything that the user's functions can reach. The hash covers whatever their code names:
parameters, captured variables, defaults, attributes, annotations, wrapped functions, globals, and the files of their
modules. It does not cover values that are looked up at run time, such as a file, an environment variable or
`globals()["NAME"]`, which docs/reference/scenario.md lists. Code of asyncsim, of installed packages and of Python
itself counts by name and version. An object whose contents cannot be read, such as an open file, is refused.

The hash of an object is made of the hashes of its parts, so that it depends neither on addresses nor on the order of
sets, and is the same in every process.
"""

import copyreg
import dataclasses
import dis
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np
from jax.core import Tracer

from asyncsim._checks import brief
from asyncsim.components._checked import own_annotations
from asyncsim.components._frozen import cache_of
from asyncsim.components._remember import PerObject, cached_per_object
from asyncsim.components._user_files import (
    LIBRARY,
    PYTHON,
    Import,
    hash_files,
    home_of_file,
    home_of_module,
    home_of_name,
    modules_of,
)

MOST_NESTED_CALLS = 10_000  # calls in one another: some 1 500 of the user's functions, each of which names the next
# JAX knows a compiled function by its identity, and would go on with the values of globals that it has compiled in. In
# `with traced_as(version):` it compiles functions that it has not compiled at this version.
traced_as = jax.make_user_context()
_first = PerObject()  # functions, classes and objects of the user's -> hash of what they reached first
NUMBERS_AND_TEXT = (type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes)
# Objects of subclasses of these have contents that no attribute shows, and that are hashed with the attributes.
BUILT_ON = (*NUMBERS_AND_TEXT[4:], tuple, list, dict, set, frozenset, BaseException)
DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)
BUILT_IN = (types.BuiltinFunctionType, types.MethodWrapperType)
METHOD_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
# Wrappers written in C: their function is all that they consist of.
WRAPPERS: tuple[Any, ...] = (type(jax.jit(abs)), type(functools.lru_cache(abs)))
NOTES_OF_PYTHON = {  # attributes of a class or a function that nothing computes with, or that other parts follow from
    *("__abstractmethods__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__dataclass_fields__"),
    *("__dataclass_params__", "__dict__", "__doc__", "__firstlineno__", "__module__", "__parameters__", "__qualname__"),
    *("__slotnames__", "__static_attributes__", "__weakref__", "_abc_impl"),
}
NOTES_OF_JAX = {"_fun", "_jit_info"}  # attributes that `jax.jit` adds to a function
GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")  # instructions that read a global
ATTRIBUTE = ("_ATTR", "LOAD_METHOD")  # ends of the names of instructions that use an attribute
STARRED_FLAGS = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS
SUSPENDING_FLAGS = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR
)
FRAME_READERS = {"locals", "vars", "dir", "eval", "exec"}  # functions that see the names of their caller's variables
REMEDY = (
    "Use a module-level function of plain values and arrays, or a frozen dataclass with `__call__` that holds them as "
    "fields."
)


def hash_reachable(name: str, values: dict[str, Any]) -> bytes:
    """Hash all that values reach."""
    hashes, _ = _walk_through(name, values)
    return _hash(*(part for key, value in hashes.items() for part in (key.encode(), value)))


def version_of(**values: Any) -> bytes | None:
    """Hash what the user's functions reach, and return None if it has not changed since this process first saw them.

    If an array has changed in place, JAX forgets compiled programs: it would go on with its own copy of the array.
    """
    try:
        hashes, walk = _walk_through("values", values)
    except ValueError:
        return None  # No digest can cover such code.
    pairs = [pair for pair in walk.known.values() if walk.own and not _is_permanent(pair[1])]
    changed = [(hash, thing) for hash, thing in pairs if _first.get(id(thing), hash) != hash]
    for hash, thing in pairs:
        if id(thing) not in _first:
            # Plain values cannot be watched. They count with the object that holds them.
            with suppress(TypeError):
                _first.keep(thing, hash)
    if arrays := {id(thing): hash for hash, thing in changed if isinstance(thing, np.ndarray)}:
        jax.clear_caches()
        _first.update(arrays)
    return _hash(*hashes.values()) if changed else None


def _is_permanent(thing: Any) -> bool:
    """Return whether a value is a module, or a built-in function of one or of a class, which nobody can change.

    Watching `NoneType.__new__`, for one, would crash Python at its end, when nothing can be called any more.
    """
    if isinstance(thing, types.BuiltinFunctionType):
        return isinstance(thing.__self__, (type, types.ModuleType))
    return isinstance(thing, types.ModuleType)


def _walk_through(name: str, values: dict[str, Any]) -> "tuple[dict[str, bytes], _Walk]":
    walk, limit = _Walk(name), sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(max(limit, MOST_NESTED_CALLS))
        hashes = walk.hash_all(values)
    except RecursionError:
        raise ValueError(f"`{name}` is nested too deeply for a digest. {REMEDY}") from None
    finally:
        sys.setrecursionlimit(limit)
    return hashes, walk


def attributes_beside(component: Any) -> dict[str, Any]:
    """Return attributes of a dataclass's instance that are neither fields nor computed again."""
    named = {field.name for field in dataclasses.fields(component)}
    return {name: value for name, value in _attributes_of_dataclass(component).items() if name not in named}


def hash_array(array: np.ndarray | jax.Array) -> bytes:
    """Hash an array's contents, shape and type, computed once for an array that cannot be changed."""
    if isinstance(array, jax.Array):
        return _hash_constant(array)
    cache = cache_of(array)
    if cache is None:
        return _hash_contents(array)
    place = array.ctypes.data, array.shape, array.strides, array.dtype
    if place not in cache:
        cache[place] = _hash_contents(array)
    return cache[place]


@cached_per_object
def _hash_constant(array: jax.Array) -> bytes:
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        return _hash(str(array.dtype).encode(), _hash_contents(np.asarray(jax.random.key_data(array))))
    return _hash_contents(np.asarray(array))


def _hash_contents(array: np.ndarray) -> bytes:
    total = hashlib.sha256(f"{array.shape} {array.dtype}".encode())
    total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.digest()


def _hash(*parts: bytes) -> bytes:
    """Hash hashes and short texts, of which none can be mistaken for two others."""
    total = hashlib.sha256()
    for part in parts:
        total.update(b"%d:" % len(part))
        total.update(part)
    return total.digest()


class _Walk:
    """One walk through everything that a value reaches."""

    def __init__(self, name: str) -> None:
        self.own = False
        self.way = [f"`{name}`"]  # from the value to where the walk is, in words
        self.within: dict[Any, int] = {}  # place of an object whose parts are being walked -> depth
        self.known: dict[Any, tuple[bytes, Any]] = {}  # place -> hash, and the object, so that the place stays its own
        self.file = functools.cache(lambda path: hash_files(path) if path else b"")  # one state of each user's file
        self.mentioned = set[str]()  # names in the user's code
        self.submodules: dict[tuple[str, str], types.ModuleType] = {}  # package and name -> module in a package

    def hash_all(self, values: Mapping[str, Any]) -> dict[str, bytes]:
        """Hashes of values by name.

        Where a package is passed on, those of its modules count whose names some code mentions. Others may have been
        imported in this process and not in the next one.
        """
        hashes = {key: self.hash(value, f"`{key}`") for key, value in values.items()}
        modules: dict[tuple[str, str], bytes] = {}
        # The code of a module may mention further ones.
        while new := sorted(key for key in self.submodules.keys() - modules.keys() if key[1] in self.mentioned):
            modules |= {key: self.hash(self.submodules[key], f"module {'.'.join(key)!r}") for key in new}
        return {key: _hash(value, *modules.values()) for key, value in hashes.items()} if modules else hashes

    def hash(self, value: Any, step: str = "", names: "_Names | None" = None) -> bytes:
        """Hash a value. If it is a module, `names` are those by which its parts are used, or None for all."""
        if type(value) in NUMBERS_AND_TEXT:
            return _hash_plain(value)
        place = (id(value), names) if isinstance(value, types.ModuleType) else id(value)
        if place in self.known:
            return self.known[place][0]
        if place in self.within:
            return b"cycle %d" % (len(self.within) - self.within[place])
        self.within[place] = len(self.within)
        self.way.append(step)
        result = _hash(*self.parts(value, names))
        self.way.pop()
        del self.within[place]
        self.known[place] = result, value
        return result

    def parts(self, value: Any, names: "_Names | None") -> Iterator[bytes]:
        """Hashes of the constituents of a value."""
        kind = type(value)
        if isinstance(value, types.ModuleType):
            yield from self.module(value, names)
        elif (published := _hash_published(value)) is not None:
            yield published
        elif isinstance(value, types.FunctionType):
            yield from self.function(value)
        elif isinstance(value, type):
            yield from self.type(value)
        elif kind in (list, tuple, dict, types.MappingProxyType, set, frozenset):
            yield from self.collection(value)
        elif kind in (np.ndarray, np.memmap) or isinstance(value, (np.generic, jax.Array)):
            yield from self.array(value)
        elif isinstance(value, types.MethodType):
            yield from (self.hash(value.__func__), self.hash(value.__self__, "its object"))
        elif isinstance(value, BUILT_IN):
            yield from (value.__qualname__.encode(), self.hash(value.__self__, f"the object of {value.__name__!r}"))
        elif isinstance(value, METHOD_DESCRIPTORS):
            yield from (value.__qualname__.encode(), self.hash(value.__objclass__))
        elif isinstance(value, WRAPPERS):
            # Sorted, since JAX and a pool write them in orders of their own.
            attributes = {name: part for name, part in sorted(vars(value).items()) if name not in NOTES_OF_JAX}
            yield from (kind.__name__.encode(), _options_of_compiled(value), self.attributes(attributes))
        elif isinstance(value, types.CodeType):
            yield _hash_code(value)
        elif isinstance(value, types.CellType):
            yield b"cell" if _is_empty(value) else self.hash(value.cell_contents)
        else:
            yield from self.object(value)

    def collection(self, value: Any) -> Iterator[bytes]:
        """Elements, where those of a set are in the order of their hashes."""
        yield type(value).__name__.encode()
        if isinstance(value, (set, frozenset)):
            yield from sorted(map(self.element, value))
        elif isinstance(value, Mapping):
            for key, item in value.items():
                yield self.hash(key, "a key")
                yield self.hash(item, f"entry {brief(key)}")
        else:
            yield from (self.hash(item, f"element {place}") for place, item in enumerate(value))

    def element(self, item: Any) -> bytes:
        """Hash an element of a set, which must not depend on the elements before it, because their order is random.

        In a cycle, a hash depends on where the walk has entered the cycle.
        """
        if type(item) in NUMBERS_AND_TEXT:
            return self.hash(item)
        before = self.known
        self.known = dict(before)
        result = self.hash(item, "an element")
        self.known = before
        return result

    def array(self, value: Any) -> Iterator[bytes]:
        """Yield class, contents, shape and type, since NumPy and JAX round and promote in ways of their own."""
        if isinstance(value, Tracer):
            self.refuse(value)
        kind = np.ndarray if isinstance(value, np.memmap) else type(value)
        yield f"{kind.__name__} {getattr(value, 'weak_type', False)}".encode()
        array = np.asarray(value) if isinstance(value, np.generic) else value
        if isinstance(array, np.ndarray) and array.dtype.hasobject:
            yield f"{array.shape} {array.dtype}".encode()
            yield from (self.hash(item, "an element") for item in array.ravel().tolist())
        else:
            yield hash_array(array)

    def function(self, function: types.FunctionType) -> Iterator[bytes]:
        """Yield code, captured variables, defaults and attributes, and of the user's functions globals and files."""
        code = function.__code__
        home = home_of_file(code.co_filename)
        yield from (function.__name__.encode(), function.__qualname__.encode(), home.name.encode())
        # Of code that a name and a version stand for, only the name: `functools.wraps` gives functions that of others.
        yield code.co_qualname.encode() if home.name in (LIBRARY, PYTHON.name) else _hash_code(code)
        names = _names(code)
        if home.own:
            self.own = True
            self.mentioned |= names.attributes
            yield self.file(home.path)
            yield from self.globals(function, names)
            yield self.hash(_annotations(function), "an annotation")
        yield self.attributes(vars(function))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            yield name.encode()
            yield b"" if _is_empty(cell) else self.hash(cell.cell_contents, f"variable {name!r}", names.of(name))
        yield self.hash(function.__defaults__, "a default")
        yield self.hash(function.__kwdefaults__, "a default")

    def globals(self, function: types.FunctionType, names: "_Names") -> Iterator[bytes]:
        """Yield values of the globals that a function names, and of the modules that it imports itself."""
        for name in names.variables:
            scope = next((space for space in (function.__globals__, function.__builtins__) if name in space), None)
            if scope is not None:
                yield name.encode()
                yield self.hash(scope[name], f"global {name!r}", names.of(name))
        for statement in names.imports:
            for module in modules_of(statement, function.__globals__):
                yield self.hash(module, f"module {module.__name__!r}", names.of(statement.name))

    def module(self, module: types.ModuleType, names: "_Names | None") -> Iterator[bytes]:
        """Yield the file of a module, with all that it imports, and present values of the names that are used."""
        home = home_of_module(module)
        yield home.name.encode()
        if home.own:
            self.own = True
            yield self.file(home.path)
            held = vars(module)
            for name in sorted(held if names is None else names.attributes & held.keys()):
                part = held[name]
                if (
                    names is None
                    and isinstance(part, types.ModuleType)
                    and part.__name__ == f"{module.__name__}.{name}"
                ):
                    self.submodules[module.__name__, name] = part
                elif names is not None or not (name.startswith("__") and name.endswith("__")):
                    yield name.encode()
                    yield self.hash(part, f"{module.__name__}.{name}", names and names.of(name))

    def type(self, kind: type) -> Iterator[bytes]:
        """Yield name and home of a class, and if it is the user's or made by Python, its bases and contents."""
        home = home_of_name(kind.__module__)
        yield from (kind.__qualname__.encode(), home.name.encode())
        if not home.own and home.name != PYTHON.name:
            return
        self.own = True
        yield self.file(home.path)
        yield from (self.hash(base, f"base {base.__name__!r}") for base in (*kind.__bases__, type(kind)))
        yield self.hash(_annotations(kind), "an annotation")
        for field in vars(kind).get("__dataclass_fields__", {}).values():
            yield f"{field.name} {field.init} {field.kw_only is True}".encode()
            yield self.hash(field.metadata, f"metadata of field {field.name!r}")
        for name, value in [*vars(kind).items()]:  # in their order, by which a program may go through them
            if name not in NOTES_OF_PYTHON and not isinstance(value, DESCRIPTORS) and not _is_salted(name, value):
                yield name.encode()
                yield self.hash(value, f"class attribute {name!r}")

    def object(self, value: Any) -> Iterator[bytes]:
        """Yield class and attributes, or the state that pickle would keep."""
        yield self.hash(type(value))
        if (fingerprint := _fingerprint(value)) is not None:
            yield fingerprint
        elif isinstance(value, (property, staticmethod, classmethod, functools.cached_property)):
            yield from (self.hash(getattr(value, name, None)) for name in ("fget", "fset", "func", "__func__"))
        elif isinstance(value, functools.partial):  # JAX's Partial is one as well
            yield from (self.hash(value.func), self.hash(value.args), self.hash(value.keywords))
            yield self.attributes(vars(value))
        elif dataclasses.is_dataclass(value) and not isinstance(value, BUILT_ON):
            yield self.attributes(_attributes_of_dataclass(value))
        else:
            yield from self.reduced(value)

    def attributes(self, values: Mapping[str, Any]) -> bytes:
        """Return attributes in their order, by which a program may go through them."""
        names = [name for name in values if name not in NOTES_OF_PYTHON]
        parts = ((name.encode(), self.hash(values[name], f"attribute {name!r}")) for name in names)
        return _hash(*(part for pair in parts for part in pair))

    def reduced(self, value: Any) -> Iterator[bytes]:
        """Yield the state that pickle would keep of an object."""
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            reduction = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception:  # Each class has words of its own for an object that cannot be pickled.
            self.refuse(value)
        self.own = True  # The object may be changed in place.
        if isinstance(reduction, str):
            if not all(map(str.isidentifier, reduction.split("."))):  # of no global, as of `np.frompyfunc`
                self.refuse(value)
            yield reduction.encode()
            return
        make, arguments, state, *items = [*reduction, None, None, None][:5]
        if isinstance(value, (set, frozenset)):  # of a class of the user's
            arguments = (set(value),)
        yield from (self.hash(make), self.hash(list(arguments)))
        for part in state if isinstance(state, tuple) else (state,):  # attributes, and those of `__slots__`
            if part is None or (isinstance(part, dict) and all(isinstance(name, str) for name in part)):
                yield self.attributes(_without_cached(type(value), part or {}))
            else:
                yield self.hash(part, "its state")
        for part in items:
            yield self.hash(None if part is None else list(part), "its contents")

    def refuse(self, value: Any) -> NoReturn:
        """Name the object that cannot be compared, and how it was reached."""
        name, *way = filter(None, self.way)
        raise ValueError(
            f"{name} must not depend on a {type(value).__name__}; got one as {', '.join(way)}. No digest can cover its "
            f"contents. {REMEDY}"
        )


def _hash_published(value: Any) -> bytes | None:
    """Return name and version of an object that the library, a package or Python offers under its own name, or None."""
    name, module = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        return None
    owner = sys.modules.get(module)
    attribute: Any = owner
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    if attribute is not value or (home := home_of_module(owner)).own:
        return None
    return f"{home.name} {module}.{name}".encode()


def _fingerprint(value: Any) -> bytes | None:
    """Return the hash that an object of the library, such as a data set, has of itself."""
    kind = type(value)
    if kind.__module__.partition(".")[0] != LIBRARY:
        return None
    attribute = getattr(kind, "fingerprint", None)
    return value.fingerprint.encode() if isinstance(attribute, (property, functools.cached_property)) else None


def _attributes_of_dataclass(value: Any) -> dict[str, Any]:
    """Fields and other attributes, except cached properties and the private attributes of a package's base class."""
    named = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    others = _without_cached(type(value), getattr(value, "__dict__", {}))
    from_package = any(not home_of_name(base.__module__).own for base in type(value).__mro__[:-1])
    return {**{name: item for name, item in others.items() if not (from_package and name[:1] == "_")}, **named}


def _without_cached(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes without those that `functools.cached_property` has added."""
    return {
        name: value
        for name, value in values.items()
        if not isinstance(getattr(kind, name, None), functools.cached_property)
    }


def _is_salted(name: str, method: Any) -> bool:
    """Return whether attrs has written a class's `__hash__`, which holds a number that is another in every process."""
    return (
        name == "__hash__"
        and isinstance(method, types.FunctionType)
        and (method.__code__.co_filename.startswith("<attrs generated"))
    )


def _is_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is cell  # always False, because an empty cell raises
    except ValueError:
        return True


def _annotations(value: Any) -> Any:
    """Return annotations of a function, or of a class without its bases, or None if they name what does not exist."""
    try:
        return (own_annotations(value) or None) if isinstance(value, type) else value.__annotations__
    except NameError:  # since Python 3.14, where they are evaluated when somebody reads them
        return None


def _options_of_compiled(function: Any) -> bytes:
    """Return options of `jax.jit` on which a result can depend. A function that is cached otherwise has none."""
    if type(function) is not WRAPPERS[0]:
        return b""
    state = function.__reduce_ex__(4)[2]
    options = getattr(state.get("global_cache_key"), "compiler_options_kvs", ())
    return repr((state.get("static_argnums"), state.get("static_argnames"), options)).encode()


@functools.lru_cache(maxsize=4096)
def _hash_code(code: types.CodeType) -> bytes:
    """Hash a function's code, wherever it stands in its file.

    Names and kinds of parameters count, since callers use them, and other variables only if the code reads names.
    """
    starred = [bool(code.co_flags & kind) for kind in STARRED_FLAGS]
    counts = [
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        *starred,
        code.co_flags & SUSPENDING_FLAGS,
    ]
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + sum(starred)]
    if not FRAME_READERS.isdisjoint(code.co_names):
        named = (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    names = repr((code.co_name, counts, named, code.co_names))
    constants = (_hash_constant_of_code(constant) for constant in code.co_consts)
    return _hash(code.co_code, code.co_exceptiontable, names.encode(), *constants)


def _hash_constant_of_code(constant: Any) -> bytes:
    if isinstance(constant, types.CodeType):
        return _hash_code(constant)
    if isinstance(constant, (tuple, frozenset)):
        parts = [_hash_constant_of_code(item) for item in constant]
        return _hash(type(constant).__name__.encode(), *(parts if isinstance(constant, tuple) else sorted(parts)))
    return _hash_plain(constant)


def _hash_plain(value: Any) -> bytes:
    """Name the class and the value of a number or a text, in place of a hash."""
    return f"{type(value).__name__} {hex(value) if type(value) is int else repr(value)}".encode()


class _Names(NamedTuple):
    """Names that some code mentions, including those in functions that it defines."""

    variables: tuple[str, ...]
    attributes: frozenset[str]
    imports: tuple[Import, ...]
    passed: frozenset[str]  # names of which the code does more than read an attribute, as when it calls `f(module)`

    def of(self, name: str) -> "_Names | None":
        """Return the names by which the parts of a module are used that has this name, or None if any part may be."""
        return None if name in self.passed else self


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> _Names:
    variables, attributes, passed = set[str](), set(code.co_names), set[str]()
    imports, aliases = set[Import](), dict[str, set[str]]()  # variable -> modules that it may hold
    cells = {*code.co_cellvars, *code.co_freevars}
    importing, constants = set[str](), list[Any]()
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("EXTENDED_ARG", "CACHE", "NOP")]
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        kind, name = step.opname, step.argval
        if kind in GLOBAL:
            variables.add(name)
        if kind == "IMPORT_NAME":
            importing = {name}
            imports.add(Import(name, constants[-2], constants[-1] or ()))
        elif kind == "IMPORT_FROM":
            importing.add(name)
        elif kind.startswith("STORE_") and isinstance(name, str) and importing:
            aliases.setdefault(name, set()).update(importing)
        elif kind not in ("SWAP", "COPY", "POP_TOP"):
            importing = set()
        if kind in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constants.append(name)
        elif "LOAD_" in kind and kind != "LOAD_CLOSURE" and (after is None or not after.opname.endswith(ATTRIBUTE)):
            loaded = name if isinstance(name, tuple) else (name,)
            passed.update(n for n in loaded if isinstance(n, str) and not ("_FAST" in kind and n in cells))
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            nested = _names(inner)
            variables.update(nested.variables)
            attributes.update(nested.attributes)
            imports.update(nested.imports)
            passed.update(nested.passed)
    passed.update(*(names for alias, names in aliases.items() if alias in passed))
    return _Names(tuple(sorted(variables)), frozenset(attributes), tuple(sorted(imports)), frozenset(passed))
