"""Quick compilation, two CPU devices so that sharing lanes is tested too, and shared fixtures."""

import ctypes
import functools
import gc
import os
import signal
import sys
import threading
from pathlib import Path

import jax
import pytest
from hypothesis import settings
from jax._src.interpreters import mlir

from asyncsim.components._families import FAMILIES, is_ours
from asyncsim.engine import _chunks as chunks
from asyncsim.workloads import _programs as programs
from tests.animation.browser import browser

__all__ = ["browser"]  # one for all folders: a process can drive one at a time

# The code generator that takes longest, and compiling in many pieces. XLA aborts at a flag that it does not know, so
# these are set only for the versions of JAX with which they were tried, and its internals are touched only there.
QUICK_XLA_FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
UNTRIED_JAX = (0, 12)

CALLS = ("jit", "closed_call", "custom_jvp_call", "custom_vjp_call")  # lowered once, however often they are called

jax.config.update("jax_num_cpu_devices", 2)
settings.register_profile("patient", deadline=None)  # a first example compiles, and tests share the cores
settings.load_profile("patient")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Only `-n` lets processes share tests; the programs of benchmarks that measure are compiled as a user's are."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
    if not config.getoption("tx", None):
        config.option.dist = "no"  # else pytest-benchmark takes the option for processes that share the cores
    if config.getoption("smoke", False) or not all("benchmarks" in argument for argument in config.args):
        compile_quickly()
        config.pluginmanager.register(ProgramsDropped())


def compile_quickly():
    """What is tested is what a program computes, and most of the time is compilation: compile quickly, run slowly."""
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_traceback_in_locations_limit", 0)  # programs that do not say where they come from
    gc.set_threshold(100_000, 20, 50)  # tracing makes many objects, few of them in circles
    programs.MOST_SIGNATURES = 1000  # tests of a file share programs, of which they need more than a user
    chunks.LONGEST = 4096  # else noise is drawn for 65536 commits where a test has sixty
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "true"  # for the processes that tests start
    flags = os.environ.get("XLA_FLAGS", "")
    if jax.version.__version_info__ >= UNTRIED_JAX:
        return
    if QUICK_XLA_FLAGS not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {QUICK_XLA_FLAGS}".strip()
    # JAX lowers each program in an MLIR context of its own, with all dialects loaded: half of the time that lowering a
    # small program takes, and a megabyte for as long as the program is kept. Here all programs share one.
    mlir.make_ir_context = functools.cache(mlir.make_ir_context)
    # And it builds a function of each operation before it inlines it, for the sake of operations that are alike. Where
    # few are, lowering without that takes two thirds of the time.
    rules = [*mlir._lowerings.items(), *mlir._platform_specific_lowerings["cpu"].items()]
    mlir._uncacheable_primitives.update(
        primitive for primitive, rule in rules if rule.inline and primitive.name not in CALLS
    )


class ProgramsDropped:
    """A process forgets its compiled programs once it has grown by so much: each of them takes megabytes.

    Tests of a file share programs, so that the end of a file is the place to forget them.
    """

    GROWTH_AT_LAST = 500e6  # bytes, at the end of a file
    GROWTH = 700e6  # within one

    def __init__(self):
        self.least = resident()

    def pytest_collection_finish(self, session):
        gc.collect()
        gc.freeze()  # what has been imported stays: no collection need look at it again

    def pytest_runtest_teardown(self, item, nextitem):
        last = nextitem is None or nextitem.path != item.path
        if resident() > self.least + (self.GROWTH_AT_LAST if last else self.GROWTH):
            jax.clear_caches()
            gc.collect()
            if sys.platform == "linux":
                ctypes.CDLL(None).malloc_trim(0)  # else the C library keeps what it was given back
            self.least = resident()


def resident():
    """Bytes of memory that this process takes; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


@pytest.fixture(autouse=True, scope="session")
def no_own_places(tmp_path_factory):
    """The tags of whoever runs the tests are neither read nor written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASYNCSIM_TAGS", str(tmp_path_factory.mktemp("tags") / "tags.json"))
        yield


@pytest.fixture
def x64():
    """JAX in 64-bit mode, for comparisons to rounding."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def ranks_agree(request):
    """Arrays of different ranks are not broadcast silently: rooms that ask for it find shapes that only happen to fit.

    A test with the mark `networks` is left out: everybody writes `x @ w + b`.
    """
    with jax.numpy_rank_promotion("allow" if request.node.get_closest_marker("networks") else "raise"):
        yield


@pytest.fixture
def optimised():
    """XLA's optimisations, for what is computed for long."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def empty_pages(request, monkeypatch):
    """Small pages of runs and comparisons that hold only their title, in a tenth of the time.

    A test with the mark `whole_pages` draws them in full; what they hold is tested among the plots.
    """
    if not request.node.get_closest_marker("whole_pages"):
        draw_empty_pages(monkeypatch)


def draw_empty_pages(patch):
    """What `empty_pages` does, for fixtures of a module."""
    from asyncsim.study import _compare, _run  # which hold the functions under their own names

    def draw(figure, *args, **options):
        figure.text(0, 0, " ".join(text for text in args if isinstance(text, str)))

    patch.setattr(_run, "draw_report", draw)
    for name in ("draw_comparison", "draw_side_by_side"):
        patch.setattr(_compare, name, draw)
    for module, name in ((_run, "SIZE"), (_compare, "SIZE"), (_compare, "SIDE_SIZE")):
        patch.setattr(module, name, (1.0, 1.0))  # inches


@pytest.fixture(autouse=True)
def families_as_before():
    """A class that a test defines is registered under its name, and other tests go over all that there are."""
    before = {family: dict(classes) for family, classes in FAMILIES.items()}
    yield
    for family, classes in FAMILIES.items():
        for name in [name for name, cls in classes.items() if not is_ours(cls)]:
            del classes[name]
        classes.update(before.get(family, {}))
