"""Pages with code are run before Sphinx reads any page: by as many kernels as it has processes, the longest first.

Sphinx hands out pages in alphabetical batches, so that one process would run nearly all how-tos while another has long
finished; and it would start a kernel for each page, whose imports take longer than the code of many a page. Here a
kernel forgets the names of one page before it runs the next. How-tos have kernels that compile quickly, as the tests
do; other pages run long programs, and show the numbers that a reader gets. Results go where
`nb_execution_mode = "cache"` looks for them. A page that fails is left alone: Sphinx runs it again, in a kernel of its
own, and says what is wrong.
"""

import asyncio
import multiprocessing
import os
import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_client.manager import AsyncKernelManager
from myst_nb.core.read import create_nb_reader
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell
from sphinx.application import Sphinx
from sphinx.util.parallel import parallel_available

STARTUP = Path(__file__).parents[1] / "kernel" / "startup.py"
# Without `import`, which would leave names behind.
FORGET = """
get_ipython().run_line_magic("reset", "-f")
__import__("os").chdir({folder!r})
__import__("matplotlib.pyplot").pyplot.close("all")
get_ipython().safe_execfile({startup!r}, get_ipython().user_ns, raise_exceptions=True)
"""
# As in tests/conftest.py: XLA aborts at a flag that it does not know.
UNTRIED_JAX = (0, 12)
QUICK = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
}
QUICKLY, SPEED = "how-to", ("cores", "gpu")  # pages that compile quickly, but for those that show a speed
COMMAND = re.compile(r"^!asyncsim (run|sweep|animate)|Popen", re.MULTILINE)  # a process that imports JAX and compiles
PROGRAM = re.compile(r"\b(replay|train|calibrate|run|sweep|curvature)\(")  # likely to be compiled


def run_pages(app: Sphinx, env: Any, docnames: list[str]) -> None:
    """Run what is to be read, has code and was not run before."""
    if not parallel_available or env.mystnb_config.execution_mode != "cache":
        return
    cache = get_cache(env.mystnb_config.execution_cache_path)
    notebooks = dict(_not_run(env, docnames, cache))
    longest = sorted(notebooks, key=lambda path: effort(path.read_text(encoding="utf-8")), reverse=True)
    for path, notebook, seconds in _all_run(notebooks, longest, app.parallel, env.mystnb_config.execution_timeout):
        bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": seconds})
        cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def effort(text: str) -> int:
    """About how many seconds a page takes.

    Example:
        >>> effort("!asyncsim run study.py\\nasim.replay(trace, rule, workload)")
        6
    """
    return 4 * len(COMMAND.findall(text)) + 2 * len(PROGRAM.findall(text))


def _not_run(env: Any, docnames: list[str], cache: Any) -> Iterator[tuple[Path, Any]]:
    """Pages with code that the cache does not know, each as a notebook."""
    for path in map(Path, map(env.doc2path, docnames)):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".md" and "{code-cell}" in text:
            reader = create_nb_reader(str(path), env.myst_config, env.mystnb_config, text)
            assert reader is not None
            notebook = reader.read(text)
            try:
                cache.match_cache_notebook(notebook)
            except KeyError:
                yield path, notebook


def _all_run(
    notebooks: dict[Path, Any], order: list[Path], kernels: int, timeout: int
) -> Iterator[tuple[Path, Any, float]]:
    """Pages that ran without an error, as notebooks with results; each process takes the next page when it is free."""
    context = multiprocessing.get_context("fork")  # as Sphinx itself does; nothing here has started JAX
    todo = context.SimpleQueue()
    for path in [*order, *[None] * kernels]:
        todo.put(path)
    with ProcessPoolExecutor(kernels, context, _inherit, (todo, notebooks, timeout)) as pool:
        for process in [pool.submit(_run_next) for _ in range(min(kernels, len(order)))]:
            try:
                yield from process.result()
            except BrokenProcessPool:  # killed for want of memory, say: Sphinx runs what is missing
                return


_inherited: Any = None


def _inherit(*given: Any) -> None:
    global _inherited
    _inherited = given


def _run_next() -> list[tuple[Path, Any, float]]:
    todo, notebooks, timeout = _inherited
    return asyncio.run(_run(((path, notebooks[path]) for path in iter(todo.get, None)), timeout))


async def _run(pages: Iterable[tuple[Path, Any]], timeout: int) -> list[tuple[Path, Any, float]]:
    """Those that fail are left out."""
    done = []
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        kernels: dict[bool, AsyncKernelManager] = {}
        for place, (path, notebook) in enumerate(pages):
            quick = compiles_quickly(path)
            if quick not in kernels:
                kernels[quick] = AsyncKernelManager(kernel_name="python3")
                home = Path(folder, f"kernel {len(kernels)}")  # the startup file writes there
                home.mkdir()
                await kernels[quick].start_kernel(cwd=str(home), env={**os.environ, **(QUICK if quick else {})})
                stack.push_async_callback(kernels[quick].shutdown_kernel, now=True)
            here = Path(folder, str(place))
            here.mkdir()
            start = time.perf_counter()
            if await _run_page(notebook, kernels[quick], here, timeout):
                done.append((path, notebook, time.perf_counter() - start))
    return done


def compiles_quickly(path: Path) -> bool:
    """Whether a page's kernel compiles quickly rather than well."""
    known = tuple(map(int, version("jax").split(".")[:2])) < UNTRIED_JAX
    return known and path.parent.name == QUICKLY and path.stem not in SPEED


async def _run_page(notebook: Any, kernel: AsyncKernelManager, here: Path, timeout: int) -> bool:
    """Run a page in a folder of its own; whether it ran without an error."""
    forget = new_code_cell(FORGET.format(folder=str(here), startup=str(STARTUP)))
    notebook.cells.insert(0, forget)
    client = NotebookClient(notebook, km=kernel, timeout=timeout, record_timing=False)
    try:
        await client.async_execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError):
        return False
    finally:
        notebook.cells.remove(forget)
        if client.kc is not None:
            client.kc.stop_channels()
    return True


def setup(app: Sphinx) -> dict[str, Any]:
    """Before Sphinx reads pages."""
    app.connect("env-before-read-docs", run_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
