"""Coverage of a digest: everything that the user's functions and objects reach."""

import importlib
import io
import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim.components._code_hash import _first, version_of
from tests.code_cases import CASES, closure, digests_of, with_loss
from tests.problems import assert_refused


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, list[str]]:
    """The digests of another process, which hashes texts in another way and has other addresses."""
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.code_cases"], env=environment, capture_output=True, check=True, text=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CASES)
def test_another_number_is_another_digest_and_two_processes_agree(name: str, elsewhere: dict[str, list[str]]) -> None:
    one, other = digests_of(name)
    assert one != other
    assert CASES[name](1.0).digest == one
    assert elsewhere[name] == [one, other]


def test_comments_and_layout_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = "def loss(params, batch, key):\n    return (params**2).sum()\n"
    with_comment = (
        "# A remark.\n\n\ndef loss(params, batch, key):\n    # And another.\n    return (params ** 2).sum()\n"
    )
    assert _digest_of(plain, tmp_path / "a") == _digest_of(with_comment, tmp_path / "b")


SCRIPT = """
    import jax.numpy as jnp
    {first}

    def other():
        return {other}

    def loss(params, batch, key):
        {inner}
        return jnp.sum(params**2) * {used}
"""
SAME = {"first": "", "other": "1.0", "inner": "pass", "used": "1.0"}


@pytest.mark.parametrize(
    ("parts", "files"),
    [
        ({"first": "import beside", "used": "beside.RATE"}, {"beside.py": "RATE = {}"}),
        ({"first": "from beside import RATE", "used": "RATE"}, {"beside.py": "RATE = {}"}),
        ({"first": "from beside import rate", "used": "rate()"}, {"beside.py": "def rate():\n    return {}"}),
        ({"inner": "import beside", "used": "beside.RATE"}, {"beside.py": "RATE = {}"}),
        ({"inner": "from folder import beside", "used": "beside.RATE"}, {"folder/beside.py": "RATE = {}"}),
        (
            {"first": "import folder.beside", "used": "folder.beside.RATE"},
            {
                "folder/__init__.py": "",
                "folder/beside.py": "from . import far\nRATE = far.RATE",
                "folder/far.py": "RATE = {}",
            },
        ),
        (
            {"first": "import beside", "used": "beside.rate()"},
            {"beside.py": "import far\nrate = far.rate", "far.py": "def rate(by={}): return by"},
        ),
        ({"other": "{}", "used": "globals()['other']()"}, {}),
    ],
    ids=["module", "constant", "function", "within", "namespace", "package", "further", "file"],
)
def test_files_of_the_user_count(parts: dict[str, str], files: dict[str, str], tmp_path: Path) -> None:
    """The script's own file and every module that it imports from a folder of the user's."""

    def digest(number: str, folder: str) -> str:
        def filled(texts: dict[str, str]) -> dict[str, str]:
            return {name: text.replace("{}", number) for name, text in texts.items()}

        return _digest_of(textwrap.dedent(SCRIPT).format(**filled({**SAME, **parts})), tmp_path / folder, filled(files))

    assert digest("1.0", "a") == digest("1.0", "b") != digest("100.0", "c")


def _digest_of(script: str, folder: Path, files: dict[str, str] | None = None) -> str:
    """Digest of a scenario with the `loss` of a script, as a process has it that runs the script."""
    for name, text in {"script_of_test.py": script, **(files or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sys.path.insert(0, str(folder))
    before = {*sys.modules}
    try:
        return with_loss(importlib.import_module("script_of_test").loss).digest
    finally:
        sys.path.remove(str(folder))
        for name in {*sys.modules} - before:
            del sys.modules[name]


def test_code_that_was_loaded_before_its_file_changed_is_another(tmp_path: Path) -> None:
    """A function of the old file, and one of the new file, of a session that goes on."""
    path = tmp_path / "script.py"
    made = []
    for number in ("1.0", "2.0"):
        path.write_text(f"def loss(params, batch, key):\n    return {number} * params.sum()\n")
        space: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), space)
        made.append(space["loss"])
    assert with_loss(made[0]).digest != with_loss(made[1]).digest


def typed(text: str) -> str:
    """The digest with a `loss` that was typed in, as in a notebook, where there is no file that could tell it apart."""
    space: dict[str, Any] = {"__name__": "typed_in"}
    exec(text, space)
    return with_loss(space["loss"]).digest


def calling(helper: str, call: str) -> str:
    """A loss that calls a helper."""
    return f"{helper}\ndef loss(params, batch, key):\n    return {call} * params.sum()"


LOSS = "def loss(params, batch, key, {}):\n    return {} * params.sum()"
AS_DATACLASS = """
import dataclasses
@dataclasses.dataclass(frozen=True)
class Term:
    {}
    def __call__(self, params, batch, key):
        return params.sum()
loss = Term()
"""
OF_CLASS = """
class Term:
    {}
    def __call__(self, params, batch, key):
        return params.sum()
loss = Term()
"""
AS_BUILT_IN = """
import dataclasses
@dataclasses.dataclass(init=False, eq=False)
class C({}):
    unused: int = 0
"""
WITH_ATTRIBUTE = """
import functools, inspect, jax
def plain(params, batch, key, *rest):
    return params.sum()
{}
"""
WITH_CACHED = """
from functools import cached_property
class C:
    x = cached_property(lambda self: 1)
"""
DIFFERENT = {
    "the argument that the library gives a loss": (
        LOSS.format("behaviour=2", "behaviour"),
        LOSS.format("worker=2", "worker"),
    ),
    "a keyword-only argument that the library gives": (
        LOSS.format("*, behaviour=2", "behaviour"),
        LOSS.format("*, worker=2", "worker"),
    ),
    "an argument by keyword or not": (LOSS.format("*, worker=2", "2"), LOSS.format("worker=2", "2")),
    "a positional-only argument": (LOSS.format("worker=2, /", "2"), LOSS.format("worker=2", "2")),
    "exchanged arguments of a helper": (
        calling("def h(a, b): return a - 2 * b", "h(a=1, b=2)"),
        calling("def h(b, a): return b - 2 * a", "h(a=1, b=2)"),
    ),
    "exchanged arguments of a lambda": (
        calling("h = lambda a, b: a - 2 * b", "h(a=1, b=2)"),
        calling("h = lambda b, a: b - 2 * a", "h(a=1, b=2)"),
    ),
    "exchanged arguments of an inner function": (
        calling("def h(f=lambda a, b: a - 2 * b): return f(a=1, b=2)", "h()"),
        calling("def h(f=lambda b, a: b - 2 * a): return f(a=1, b=2)", "h()"),
    ),
    "exchanged keywords of a partial": (
        calling("from functools import partial\nh = partial(lambda a, b: a - 2 * b, a=1)", "h(b=2)"),
        calling("from functools import partial\nh = partial(lambda b, a: b - 2 * a, a=1)", "h(b=2)"),
    ),
    "exchanged arguments of a method": (
        calling("class H:\n  def h(self, a, b): return a - 2 * b", "H().h(a=1, b=2)"),
        calling("class H:\n  def h(self, b, a): return b - 2 * a", "H().h(a=1, b=2)"),
    ),
    "exchanged keyword-only arguments": (
        calling("def h(*, a, b): return a - 2 * b", "h(a=1, b=2)"),
        calling("def h(*, b, a): return b - 2 * a", "h(a=1, b=2)"),
    ),
    "one value and all": (calling("def h(v): return v", "h(2)"), calling("def h(*v): return v", "h(2)")),
    "all values and all by name": (
        calling("def h(*v): return len(v)", "h()"),
        calling("def h(**v): return len(v)", "h()"),
    ),
    "one value and all by name": (calling("def h(v=0): return v", "h()"), calling("def h(**v): return v", "h()")),
    "names of variables that the code reads": (
        calling("def h(a):\n  b = a\n  return len(max(locals()))", "h(1)"),
        calling("def h(a):\n  bb = a\n  return len(max(locals()))", "h(1)"),
    ),
    "the name of an inner function": (
        calling("def h():\n  def a(): pass\n  return len(a.__name__)", "h()"),
        calling("def h():\n  def aa(): pass\n  return len(a.__name__)".replace("(a.", "(aa."), "h()"),
    ),
    "a generator": (calling("def h(): yield", "h()"), calling("async def h(): pass", "h()")),
    "the sign of zero": (calling("def h(): return 0.0", "h()"), calling("def h(): return -0.0", "h()")),
    "an integer and a float": (calling("def h(): return 1", "h()"), calling("def h(): return 1.0", "h()")),
    "a number and a switch": (calling("def h(x=1): return x", "h()"), calling("def h(x=True): return x", "h()")),
    "a name beside those of Python": (
        calling("import builtins; builtins.RATE_OF_TEST = 1.0", "RATE_OF_TEST"),
        calling("import builtins; builtins.RATE_OF_TEST = 2.0", "RATE_OF_TEST"),
    ),
    "annotations of a function": (
        calling("def h(x: 1): pass", "h.__annotations__['x']"),
        calling("def h(x: 2): pass", "h.__annotations__['x']"),
    ),
    "annotations of a class": (OF_CLASS.format("x: float"), OF_CLASS.format("x: int")),
    "a check in an annotation": (
        OF_CLASS.format("from typing import Annotated as A; x: A[float, lambda n, v: v]"),
        OF_CLASS.format("from typing import Annotated as A; x: A[float, lambda n, v: -v]"),
    ),
    "the base of a generic class": (
        OF_CLASS.replace("Term:", "Term({}):").format(
            "__import__('typing').Sequence[int]", "__len__ = __getitem__ = None"
        ),
        OF_CLASS.replace("Term:", "Term({}):").format(
            "__import__('typing').Sequence[str]", "__len__ = __getitem__ = None"
        ),
    ),
    "the order of a class": (OF_CLASS.format("a, b = 1, 2"), OF_CLASS.format("b, a = 2, 1")),
    "slots": (OF_CLASS.format("__slots__ = 'a', 'b'"), OF_CLASS.format("__slots__ = 'b', 'a'")),
    "places of a pattern": (OF_CLASS.format("__match_args__ = 'a',"), OF_CLASS.format("__match_args__ = 'b',")),
    "metadata of a field": (
        AS_DATACLASS.format("x: int = dataclasses.field(default=1, metadata={'static': True})"),
        AS_DATACLASS.format("x: int = dataclasses.field(default=1)"),
    ),
    "what makes the default of a field": (
        AS_DATACLASS.format("x: list = dataclasses.field(default_factory=lambda: [1.0])"),
        AS_DATACLASS.format("x: list = dataclasses.field(default_factory=lambda: [2.0])"),
    ),
    "a field by keyword or not": (
        AS_DATACLASS.format("x: int = dataclasses.field(default=1, kw_only=True)"),
        AS_DATACLASS.format("x: int = 1"),
    ),
    "a signature": (
        WITH_ATTRIBUTE.format(
            "loss = plain; loss.__signature__ = inspect.signature(lambda params, batch, key, worker: 0)"
        ),
        WITH_ATTRIBUTE.format("loss = plain; loss.__signature__ = inspect.signature(lambda params, batch, key: 0)"),
    ),
    "a signature of a partial": (
        WITH_ATTRIBUTE.format("loss = functools.partial(plain); loss.__signature__ = inspect.signature(lambda a: 0)"),
        WITH_ATTRIBUTE.format("loss = functools.partial(plain); loss.__signature__ = inspect.signature(lambda b: 0)"),
    ),
    "an attribute of a compiled function": (
        WITH_ATTRIBUTE.format("loss = jax.jit(plain); loss.rate = 1"),
        WITH_ATTRIBUTE.format("loss = jax.jit(plain); loss.rate = 2"),
    ),
    "an attribute of a package's function": (
        WITH_ATTRIBUTE.format("loss = jax.checkpoint(plain); loss.rate = 1"),
        WITH_ATTRIBUTE.format("loss = jax.checkpoint(plain); loss.rate = 2"),
    ),
    "arguments of a compiled function that are not traced": (
        WITH_ATTRIBUTE.format("loss = jax.jit(plain)"),
        WITH_ATTRIBUTE.format("loss = jax.jit(plain, static_argnums=1)"),
    ),
    "an attribute of a metaclass": (
        calling("class M(type): rate = 1\nclass C(metaclass=M): pass", "C.rate"),
        calling("class M(type): rate = 2\nclass C(metaclass=M): pass", "C.rate"),
    ),
    "a class that a package's function made": (
        calling("import dataclasses\nC = dataclasses.make_dataclass('C', [('x', int, 1)])", "C().x"),
        calling("import dataclasses\nC = dataclasses.make_dataclass('C', [('x', int, 2)])", "C().x"),
    ),
    "an attribute whose name JAX uses": (
        OF_CLASS.format("_fun = 0") + "vars(loss)['_fun'] = lambda: 1",
        OF_CLASS.format("_fun = 0") + "vars(loss)['_fun'] = lambda: 2",
    ),
    "the order of attributes": (
        OF_CLASS.format("") + "loss.a = 1; loss.b = 2",
        OF_CLASS.format("") + "loss.b = 2; loss.a = 1",
    ),
    "Equinox's derivative of a function": (
        calling("import equinox\nh = equinox.filter_grad(lambda x: 1 * x)", "h(1.0)"),
        calling("import equinox\nh = equinox.filter_grad(lambda x: 2 * x)", "h(1.0)"),
    ),
    **{
        f"contents of a dataclass that is a {base}": (
            calling(f"{AS_BUILT_IN.format(base)}\nh = C({one})", "bool(h)"),
            calling(f"{AS_BUILT_IN.format(base)}\nh = C({other})", "bool(h)"),
        )
        for base, one, other in (
            ("dict", "{'x': 1}", "{'x': 2}"),
            ("list", "[1]", "[2]"),
            ("set", "{1}", "{2}"),
            ("tuple", "[1]", "[2]"),
            ("float", "1", "2"),
            ("str", "1", "2"),
            ("Exception", "1", "2"),
        )
    },
    "an array that promotes and one that does not": (
        calling("import jax.numpy as jnp\nh = jnp.asarray(3.0)", "h"),
        calling("import jax.numpy as jnp\nh = jnp.asarray(3.0, 'float32')", "h"),
    ),
    "arrays of NumPy and of JAX": (
        calling("import numpy as np\nh = np.ones(3, np.int32)", "(h / 3).sum()"),
        calling("import jax.numpy as jnp\nh = jnp.ones(3, jnp.int32)", "(h / 3).sum()"),
    ),
    "a number and an array of it": (
        calling("import numpy as np\nh = np.float64(3)", "isinstance(h, float)"),
        calling("import numpy as np\nh = np.array(3.0)", "isinstance(h, float)"),
    ),
    "decorators of a package that keep the name": (
        calling("import contextlib\ndef g(): yield\nh = contextlib.contextmanager(g)", "hasattr(h(), '__enter__')"),
        calling(
            "import contextlib\ndef g(): yield\nh = contextlib.asynccontextmanager(g)", "hasattr(h(), '__enter__')"
        ),
    ),
    "an integer beyond Python's texts": (calling("h = 10**5000", "h % 7"), calling("h = 10**5000 + 1", "h % 7")),
    "a regular expression": (
        calling("import re; h = re.compile('a')", "len(h.findall('ab'))"),
        calling("import re; h = re.compile('.')", "len(h.findall('ab'))"),
    ),
}
ALIKE = {
    "names of variables": (
        calling("def h(a):\n  b = a + 1\n  return 2 * b", "h(1)"),
        calling("def h(a):\n  c = a + 1\n  return 2 * c", "h(1)"),
    ),
    "names of variables that an inner function reads": (
        calling("def h(a):\n  b = a + 1\n  return (lambda: b)()", "h(1)"),
        calling("def h(a):\n  c = a + 1\n  return (lambda: c)()", "h(1)"),
    ),
    "whether a cached property has been read": (
        calling(f"{WITH_CACHED}\nh = C()", "h.x"),
        calling(f"{WITH_CACHED}\nh = C(); h.x", "h.x"),
    ),
    "lines": (calling("def h(a): return a", "h(1)"), calling("\n\ndef h(a):\n\n    return a", "h(1)")),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_functions_that_may_compute_other_numbers_have_other_digests(name: str) -> None:
    one, other = DIFFERENT[name]
    assert typed(one) == typed(one)
    assert typed(one) != typed(other)


@pytest.mark.parametrize("name", ALIKE)
def test_a_digest_does_not_depend_on(name: str) -> None:
    assert typed(ALIKE[name][0]) == typed(ALIKE[name][1])


def test_functions_that_were_typed_in() -> None:
    """As in a notebook, where there is no file."""
    text = "RATE = 1.0\ndef loss(params, batch, key):\n    return RATE * params.sum()"
    assert typed(text) == typed(text) == typed(f"UNUSED = 3\n{text}")
    assert typed(text) != typed(text.replace("1.0", "2.0"))
    assert typed(text) != typed(text.replace("sum", "mean"))


def test_functions_and_lists_in_cycles_have_a_digest() -> None:
    def even(count: int) -> bool:
        return count == 0 or odd(count - 1)

    def odd(count: int) -> bool:
        return count != 0 and even(count - 1)

    itself: list[Any] = [1.0]
    itself.append(itself)
    assert with_loss(lambda params, batch, key: params.sum() * even(2)).digest
    assert with_loss(lambda params, batch, key: params.sum() * itself[0]).digest


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held

    def __call__(self, params: Any, batch: Any, key: Any) -> Any:
        return params.sum()


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        (lambda: (number for number in range(3)), "generator"),
        (threading.Lock, "lock"),
        (io.BytesIO(b"").getbuffer, "memoryview"),
        (lambda: np.frompyfunc(abs, 1, 1), "ufunc"),
        (lambda: open(os.devnull), "TextIOWrapper"),  # noqa: SIM115  # closed below
    ],
    ids=["generator", "lock", "memory", "ufunc", "file"],
)
def test_what_cannot_be_seen_through_is_refused(held: Any, kind: str) -> None:
    thing = held()
    for loss, way in ((closure(thing), "variable 'decay'"), (Holder([thing]), "attribute 'held', element 0")):
        message = rf"`workload` must not depend on a {kind}; got one as `loss`, {way}\..*frozen dataclass"
        assert_refused(lambda loss=loss: with_loss(loss).digest, message)
    getattr(thing, "close", lambda: None)()


def test_arrays_that_change_in_place() -> None:
    """A mutable array is read each time; a workload's own data count as they were when it was described first."""
    decay = np.ones(2)
    loss = closure(decay)
    before = with_loss(loss).digest
    decay[0] = 2.0
    assert with_loss(loss).digest != before


def test_installed_packages_count_by_name_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what their modules hold, which may be anything."""

    def digest() -> str:
        return with_loss(lambda params, batch, key: optax.losses.l2_loss(params).sum()).digest

    before = digest()
    monkeypatch.setattr(optax.losses, "lock", threading.Lock(), raising=False)
    assert digest() == before


def test_long_chains_of_functions() -> None:
    def chained(first: float, count: int = 500) -> Any:
        space: dict[str, Any] = {}
        exec(
            f"def f0(): return {first}\n" + "\n".join(f"def f{i}(): return f{i - 1}()" for i in range(1, count)), space
        )
        return with_loss(lambda params, batch, key: params.sum() * space[f"f{count - 1}"]())

    assert chained(1.0).digest != chained(2.0).digest
    nested: list[Any] = []
    for _ in range(20_000):
        nested = [nested]
    assert_refused(lambda: with_loss(closure(nested)).digest, "`workload` is nested too deeply for a digest")


def test_a_module_that_a_function_imports_counts_before_the_function_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_within.py").write_text("RATE = 1.0")
    monkeypatch.syspath_prepend(tmp_path)

    def loss(params: Any, batch: Any, key: Any) -> Any:
        import imported_within  # type: ignore[import-not-found]

        return imported_within.RATE * params.sum()

    before = with_loss(loss).digest
    loss(np.ones(2), None, None)
    assert with_loss(loss).digest == before
    monkeypatch.setattr("imported_within.RATE", 2.0)
    assert with_loss(loss).digest != before
    del sys.modules["imported_within"]


def test_losses_that_ask_for_other_arguments_keep_their_own_numbers(tmp_path: Path) -> None:
    """The library decides by the names of parameters what a loss receives."""
    made = []
    for name in ("worker", "behaviour"):
        space: dict[str, Any] = {}
        exec(f"def loss(params, batch, key, {name}):\n    return (params**2 * {name}).sum()", space)
        made.append(with_loss(space["loss"]))
    alone = [asim.run(scenario).run.loss.tolist() for scenario in made]
    swept = asim.sweep(made, tmp_path, jobs=0)
    assert alone[0] != alone[1]
    assert [swept.result(scenario).run.loss.tolist() for scenario in made] == alone


MAKE_NONE, APPENDED = type(None).__new__, [].append


def test_built_in_functions_of_classes_are_not_watched() -> None:
    """A finaliser of `NoneType.__new__` is called when Python has already taken itself apart, and crashes it."""
    version_of(loss=lambda params: (MAKE_NONE, APPENDED))
    assert id(MAKE_NONE) not in _first
    assert id(APPENDED) in _first  # a list may change
