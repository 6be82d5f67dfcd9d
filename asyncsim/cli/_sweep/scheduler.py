"""A Dask cluster that computes a sweep, and what to say where it cannot be reached."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from asyncsim.store._files import read_json

ADDRESS = r"([a-z]+://)?[^/\s]+:\d+"
REACHED = 5.0  # seconds in which a scheduler must answer


@contextmanager
def dask_executor(address: str | None, file: str | None) -> Iterator[Any]:
    """The executor of a Dask cluster."""
    if file is not None:
        _require_file(file)
    elif address is not None and not re.fullmatch(ADDRESS, address):
        example = "such as tcp://localhost:8786"
        raise click.UsageError(f"`--scheduler` must be an address with a port, {example}; got {address!r}.")
    try:
        from distributed import Client
    except ImportError as error:
        raise click.ClickException(
            "a Dask cluster needs dask[distributed], which is not installed. Run: pip install 'asyncsim[cluster]'"
        ) from error
    import logging

    for name in ("distributed", "distributed.client", "distributed.core", "tornado"):  # Dask sets some of them itself
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what is worth knowing is said here
    where = f"`--scheduler-file` {file!r}" if file is not None else f"`--scheduler` {address!r}"
    try:
        client = Client(address, scheduler_file=file, timeout=REACHED, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise click.ClickException(f"{where} cannot be reached within {REACHED:g} seconds: {reason}") from error
    try:
        if not client.nthreads():
            raise click.ClickException(f"{where} has no workers yet. Start some: dask worker …")
        yield client.get_executor()
    finally:
        with suppress(Exception):
            client.close(timeout=REACHED)


def _require_file(file: str) -> None:
    if not Path(file).is_file():
        raise click.ClickException(f"`--scheduler-file` {file!r} is not a file. Has the scheduler been started?")
    content = read_json(Path(file))
    if not isinstance(content, dict) or "address" not in content:
        remedy = "Start the scheduler anew: dask scheduler --scheduler-file FILE."
        raise click.ClickException(f"`--scheduler-file` {file!r} is not one that Dask has written. {remedy}")
