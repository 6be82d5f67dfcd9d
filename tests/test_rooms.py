"""The house as CONTRIBUTING describes it: imports run one way, never in a circle, and each room keeps to its own."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "asyncsim"
# From the ground up: a room imports from itself and from those on lower floors.
FLOORS = (
    ("checks", "files", "median", "memory", "remember", "trees", "version"),
    ("arguments", "components", "folders", "npz", "priors"),
    ("compressors", "delays", "energy", "datasets"),
    ("rules", "workloads", "trace"),
    ("engine", "cluster", "theory"),
    ("plots",),
    ("animation",),
    ("scenario",),
    ("reports",),
    ("study",),
    ("calibration",),
    ("cli",),
    ("__main__",),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def modules():
    """Dotted name -> file, of the library."""
    found = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name, path, known):
    """The library's modules that a module imports, also for types only and inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return {one for one in found if one in known and one != name}


@pytest.fixture(scope="module")
def graph():
    known = modules()
    return {name: imports(name, path, known) for name, path in known.items()}


def room_of(name):
    return name.split(".")[1] if "." in name else ""


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
        if room_of(name) != room_of(other) and FLOOR_OF[room_of(name)] <= FLOOR_OF[room_of(other)]
    ]
    assert not upward


def test_every_room_has_a_floor(graph):
    assert {room_of(name) for name in graph} - {""} == set(FLOOR_OF)


@pytest.mark.parametrize("room", ["cluster", "delays", "trace", "theory"])
def test_this_half_does_without_jax(room):
    for path in (LIBRARY / room).rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        names = {
            name.partition(".")[0]
            for node in ast.walk(ast.parse(source))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not names & {"jax", "jaxlib", "optax"}, path


def test_tests_mirror_the_library():
    """A folder of tests stands for a folder of the library, of figures or of scenarios, or holds no tests."""
    for folder in (path for path in (ROOT / "tests").rglob("*") if path.is_dir() and path.name != "__pycache__"):
        place = folder.relative_to(ROOT / "tests")
        places = (LIBRARY / place, ROOT / place)
        assert place in (Path("benchmarks"), Path("hostile")) or any(path.is_dir() for path in places), place
