"""The layers as CONTRIBUTING describes them: imports run one way, and each package keeps to its own."""

import ast
import re
from pathlib import Path

import pytest
from click import Context

from asyncsim.cli._command import app

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "asyncsim"
TESTED = sorted({path.parent for path in (ROOT / "tests").rglob("test_*.py")})  # folders with tests
# From the ground up: a package imports from itself and from those in lower layers.
LAYERS = (
    ("checks", "files", "memory", "recorder", "version"),
    ("components", "metrics", "trees"),
    ("compressors", "delays", "energy", "datasets"),
    ("rules", "workloads", "trace"),
    ("engine", "cluster", "theory"),
    ("costs", "trainers"),
    ("plots",),
    ("animation",),
    ("store",),
    ("pool", "scenario"),
    ("calibration", "reports"),
    ("study",),
    ("cli",),
    ("main__",),
)
LAYER_OF = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}


def modules():
    """Dotted name -> file, of the library."""
    found = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name, path, known):
    """The modules that a module imports, also for types only and inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found - {name}


@pytest.fixture(scope="module")
def imported():
    known = modules()
    return {name: imports(name, path, known) for name, path in known.items()}


@pytest.fixture(scope="module")
def graph(imported):
    """The same without the modules of others."""
    return {name: found & imported.keys() for name, found in imported.items()}


def package_of(name):
    return name.split(".")[1].lstrip("_") if "." in name else ""


def test_no_circle(graph):
    """Not even for types. The package itself only names what it offers, and nobody imports it."""
    arrows = {name: set(found) for name, found in graph.items() if name != "asyncsim"}
    assert not [name for name, found in arrows.items() if "asyncsim" in found]
    while free := [name for name, found in arrows.items() if not found & arrows.keys()]:
        for name in free:
            del arrows[name]
    assert not arrows, f"in circles, or above one: {sorted(arrows)}"


def test_imports_run_down(graph):
    upward = [
        f"{name} -> {other}"
        for name, found in graph.items()
        for other in found
        if "asyncsim" not in (name, other)
        if package_of(name) != package_of(other) and LAYER_OF[package_of(name)] <= LAYER_OF[package_of(other)]
    ]
    assert not upward


def test_every_package_has_a_layer(graph):
    assert {package_of(name) for name in graph} - {""} == set(LAYER_OF)


def test_a_package_names_the_private_modules_that_others_use(graph):
    """In the docstring of its `__init__`, where a reader looks before changing them."""
    files = modules()
    used = {other for name, found in graph.items() for other in found if package_of(name) != package_of(other)}
    unnamed = []
    for package, _, module in (name.rpartition(".") for name in sorted(used)):
        if package.startswith("asyncsim.") and module.startswith("_"):
            about = ast.get_docstring(ast.parse(files[package].read_text(encoding="utf-8"))) or ""
            unnamed += [] if re.search(f"`_?{module[1:]}`", about) else [f"{package}.{module}"]
    assert not unnamed


def test_this_half_does_without_jax(imported):
    for name, found in imported.items():
        if package_of(name) in ("cluster", "delays", "files", "store", "theory", "trace"):
            assert not {one.partition(".")[0] for one in found} & {"jax", "jaxlib", "optax"}, name


def test_tests_mirror_the_library():
    """A folder of tests stands for a folder of the library, of figures or of scenarios, or holds no tests."""
    for folder in (path for path in (ROOT / "tests").rglob("*") if path.is_dir() and path.name != "__pycache__"):
        place = folder.relative_to(ROOT / "tests")
        places = (LIBRARY / place, ROOT / place, LIBRARY / place.with_name(f"_{place.name}"))
        by_themselves = Path("benchmarks"), Path("digits"), Path("hostile")
        assert place in by_themselves or any(path.is_dir() for path in places), place


@pytest.mark.quick
@pytest.mark.parametrize("folder", TESTED, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_every_folder_has_a_quick_test(folder):
    assert any("pytest.mark.quick" in path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))


def test_every_command_says_where_its_results_are():
    """Those that compute stand in CONTRIBUTING's table of results; these write nothing."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where a result is kept")[2]
    rows = [line for line in page.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    named = {word.split()[0] for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert named == set(app.list_commands(Context(app))) - {
        "rules",
        "cost",
        "runs",
        "show",
        "tags",
        "path",
        "completion",
    }
