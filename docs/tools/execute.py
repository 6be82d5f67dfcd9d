"""Pages with code are run before Sphinx reads any page: as many at once as it has processes, the longest first.

Sphinx hands out pages in alphabetical batches, so that one process would run nearly all how-tos while another has long
finished. Results go where `nb_execution_mode = "cache"` looks for them. A page that fails is left alone: Sphinx runs it
again when it reads it, and says what is wrong.
"""

import multiprocessing
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from myst_nb.core.read import create_nb_reader
from sphinx.application import Sphinx
from sphinx.util.parallel import parallel_available

COMMAND = re.compile(r"^!asyncsim (run|sweep|animate)|Popen", re.MULTILINE)  # a process that imports JAX and compiles
PROGRAM = re.compile(r"\b(replay|train|calibrate|run|sweep|curvature)\(")  # likely to be compiled


def run_pages(app: Sphinx, env: Any, docnames: list[str]) -> None:
    """Run what is to be read, has code and was not run before."""
    if not parallel_available or env.mystnb_config.execution_mode != "cache":
        return
    cache = get_cache(env.mystnb_config.execution_cache_path)
    notebooks = dict(_not_run(env, docnames, cache))
    run = partial(_run, timeout=env.mystnb_config.execution_timeout)
    longest = sorted(notebooks, key=lambda path: effort(path.read_text(encoding="utf-8")), reverse=True)
    context = multiprocessing.get_context("fork")  # as Sphinx itself does; nothing here has started JAX
    with ProcessPoolExecutor(max_workers=app.parallel, mp_context=context) as pool:
        for path, done in zip(longest, pool.map(run, map(notebooks.get, longest)), strict=True):
            if done.err is None:
                bundle = CacheBundleIn(done.nb, str(path), data={"execution_seconds": done.time})
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


def _run(notebook: Any, timeout: int) -> Any:
    with TemporaryDirectory() as folder:
        return single_nb_execution(notebook, cwd=folder, timeout=timeout, allow_errors=False)


def setup(app: Sphinx) -> dict[str, Any]:
    """Before Sphinx reads pages."""
    app.connect("env-before-read-docs", run_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
