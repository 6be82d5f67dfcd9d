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


def test_functions_that_were_typed_in() -> None:
    """As in a notebook, where there is no file."""

    def typed(text: str) -> str:
        space: dict[str, Any] = {"__name__": "__main__"}
        exec(text, space)
        return with_loss(space["loss"]).digest

    text = "RATE = 1.0\ndef loss(params, batch, key):\n    return RATE * params.sum()"
    assert typed(text) == typed(text) == typed(f"UNUSED = 3\n{text}")
    assert typed(text) != typed(text.replace("1.0", "2.0"))
    assert typed(text) != typed(text.replace("sum", "mean"))


def test_cycles() -> None:
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
        (lambda: open(os.devnull), "TextIOWrapper"),  # noqa: SIM115  # closed below
    ],
    ids=["generator", "lock", "memory", "file"],
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
