"""Where code comes from, and the user's files that a file of Python needs.

Code is the library's, an installed package's, Python's own, or the user's. Of the user's, whole files count, without
comments and layout: a function may call any other of its file, and any that its file imports.
"""

import ast
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import site
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

LIBRARY = "asyncsim"


class Home(NamedTuple):
    """Where code comes from."""

    name: str  # name and version of code that is not the user's, else ""
    own: bool = False  # whether it is the user's
    path: str | None = None  # the user's file, if there is one


PYTHON = Home(f"python {sys.version_info.major}.{sys.version_info.minor}")
HOME_WITHOUT_FILE = Home("", own=True)


def home_of_file(path: str) -> Home:
    """Return where a file stands: in the library, an installed package, Python itself or the user's folders."""
    return _home_of(path if path.startswith("<") else os.path.abspath(path))


@functools.lru_cache(maxsize=4096)
def _home_of(path: str) -> Home:
    real = os.path.realpath(path)
    if real.startswith(_LIBRARY_FOLDER):
        return Home(LIBRARY)
    for folder in _INSTALLED_FOLDERS:
        if real.startswith(folder):
            package = real[len(folder) :].split(os.sep)[0].split(".")[0]
            return Home(f"{package} {_version(package)}")
    if real.startswith(_STANDARD_FOLDERS) or path.startswith("<frozen "):
        return PYTHON
    return Home("", own=True, path=real) if os.path.isfile(real) else HOME_WITHOUT_FILE


_LIBRARY_FOLDER = os.path.realpath(Path(__file__).parents[1]) + os.sep
_INSTALLED_FOLDERS = tuple(
    dict.fromkeys(
        os.path.realpath(folder) + os.sep
        for folder in (*site.getsitepackages(), site.getusersitepackages(), *sys.path)
        if os.path.basename(folder) in ("site-packages", "dist-packages")
    )
)
_STANDARD_FOLDERS = tuple(os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib"))


def home_of_name(name: str) -> Home:
    """Return where a module of this name stands. If nobody can import it, the package that it is in decides."""
    while name not in sys.modules and "." in name:
        name = name.rpartition(".")[0]
    return home_of_module(sys.modules.get(name))


def home_of_module(module: types.ModuleType | None) -> Home:
    """Return where a module stands. One that is not there, or was typed in, is the user's."""
    if module is None:
        return HOME_WITHOUT_FILE
    file = getattr(module, "__file__", None)
    if file is not None:
        return home_of_file(file)
    places = [*getattr(module, "__path__", [])]  # of a namespace package
    if places:
        home = home_of_file(os.path.join(places[0], "__init__.py"))
        return HOME_WITHOUT_FILE if home.own else home
    name, _, rest = module.__name__.partition(".")
    if rest:  # made by the package that it is in
        return home_of_name(module.__name__.rpartition(".")[0])
    return PYTHON if name in sys.stdlib_module_names and name != "__main__" else HOME_WITHOUT_FILE


def own_modules() -> list[types.ModuleType]:
    """Return the modules of the user's that this process has imported from files."""
    return [
        module
        for name, module in [*sys.modules.items()]
        if name not in ("__main__", "__mp_main__")
        and isinstance(module, types.ModuleType)
        and sys.modules.get(module.__name__) is module
        and isinstance(getattr(module, "__file__", None), str)
        and home_of_module(module).path is not None
    ]


class Import(NamedTuple):
    """A statement `from ..name import names` within a function, or `import name` without names."""

    name: str
    level: int
    names: tuple[str, ...]


def modules_of(statement: Import, scope: Mapping[str, Any]) -> Iterator[types.ModuleType]:
    """Yield the modules that a statement imports, and the packages that they are in.

    Those of the user's are imported: their values count from the first digest on, and not only once the function has
    been called. One that fails to import is left out.
    """
    name, level, names = statement
    if level:
        try:
            name = importlib.util.resolve_name("." * level + name, scope.get("__package__") or "")
        except ImportError:
            return
    top = name.partition(".")[0]
    if level or (top not in sys.stdlib_module_names and any(_locations(name, 0, ""))):
        with suppress(Exception, SystemExit):  # whatever the module does
            __import__(name, fromlist=names)
    for part in accumulate(name.split("."), "{}.{}".format):
        if (module := sys.modules.get(part)) is not None:
            yield module


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # it has another name than what installs it, as haiku has
        installed = sorted({*importlib.metadata.packages_distributions().get(package, ())})
        versions = " ".join(map(importlib.metadata.version, installed))
        return versions or str(getattr(sys.modules.get(package), "__version__", ""))


class _File(NamedTuple):
    """A file of Python: its state on the disk, the hash of its code, and its imports."""

    stamp: tuple[int, ...]
    hash: bytes
    imports: tuple[tuple[str, int], ...]  # of a module "a.b", or of "a.b" next to the file, so many folders up


_files: dict[str, _File] = {}
_together: dict[str, tuple[dict[str, tuple[int, ...]], bytes]] = {}  # path -> states of all its files, and their hash


def hash_files(path: str) -> bytes:
    """Hash a file of the user's, and all files of the user's that it imports, in the order of its imports."""
    stamps, result = _together.get(path, ({}, b""))
    if not stamps or any(_stamp(place) != stamp for place, stamp in stamps.items()):
        files, unread = dict[str, _File](), [path]
        while unread:
            place = unread.pop()
            if place not in files:
                files[place] = _read(place)
                unread.extend(other for name in files[place].imports for other in _locations(*name, place))
        stamps = {place: file.stamp for place, file in files.items()}
        result = hashlib.sha256(b"".join(file.hash for file in files.values())).digest()
        _together[path] = stamps, result
    return result


def _read(path: str) -> _File:
    """Return a file as it is now."""
    stamp = _stamp(path)
    if path not in _files or _files[path].stamp != stamp:
        content = Path(path).read_bytes() if stamp else b""
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError):  # compiled code, say
            _files[path] = _File(stamp, hashlib.sha256(content).digest(), ())
        else:
            code = hashlib.sha256(ast.dump(tree).encode("utf-8", "surrogatepass")).digest()
            imports: list[tuple[str, int]] = []  # wherever in the file, and imported names that may be modules
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    imports += ((alias.name, 0) for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    start = f"{node.module}." if node.module else ""
                    imports += ((f"{start}{alias.name}", node.level) for alias in node.names)
            _files[path] = _File(stamp, code, tuple(dict.fromkeys(imports)))
    return _files[path]


def _stamp(path: str) -> tuple[int, ...]:
    """When a file was written last, and other numbers that change with its contents, or () if there is none."""
    try:
        state = os.stat(path)
    except OSError:
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


def _locations(name: str, level: int, importer: str) -> Iterator[str]:
    """Yield the user's files that run when a file imports a module: the module, and the packages that it is in."""
    names = [part for part in name.split(".") if part != "*"]
    if level:
        folder = Path(importer).parents[level - 1]
        yield from _files_below(str(folder), names)
        return
    if names[0] in sys.stdlib_module_names or names[0] == LIBRARY:
        return
    file, folders = _place_of(names[0], os.path.dirname(importer))
    if file is not None and (home := home_of_file(file)).own and home.path is not None:
        yield home.path
    for folder in folders:
        yield from _files_below(folder, names[1:])


def _files_below(folder: str, names: list[str]) -> Iterator[str]:
    """Yield files of the packages and the module that dotted names lead to, as far as there are any."""
    paths = [os.path.join(folder, "__init__.py")]
    for name in names:
        folder = os.path.join(folder, name)
        paths += [f"{folder}.py", os.path.join(folder, "__init__.py")]
    yield from (os.path.realpath(path) for path in paths if os.path.isfile(path) and home_of_file(path).own)


def _place_of(top: str, folder: str) -> tuple[str | None, list[str]]:
    """Return file and folders of a module, possibly not imported yet, or next to the file that imports it."""
    if (module := sys.modules.get(top)) is not None:
        return getattr(module, "__file__", None), [*getattr(module, "__path__", [])]
    for folders in (None, [folder]):
        spec = importlib.machinery.PathFinder.find_spec(top, folders)
        if spec is not None:
            return spec.origin if spec.has_location else None, [*(spec.submodule_search_locations or [])]
    return None, []
