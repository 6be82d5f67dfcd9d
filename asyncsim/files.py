"""Writing files so that a failure never costs the file that was there."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def atomic_write(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Write a file whole or not at all.

    `write` fills a temporary file in the same folder, which is flushed to the disk and then renamed over
    `path`. Whatever goes wrong before the rename (a full disk, an error in `write`, Ctrl-C), the file that
    was there stays whole and the temporary file is removed.

    Args:
        path: The file to write. A symbolic link is followed; the folder must exist.
        write: Called once with the binary file, open for writing.

    Raises:
        OSError: If the file cannot be written; the message names `path` and what to do, `errno` is kept.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     atomic_write(Path(folder, "a.txt"), lambda file: file.write(b"whole"))
        ...     Path(folder, "a.txt").read_bytes()
        b'whole'
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        _write_and_sync(temporary, write)
        os.replace(temporary, target)
    except OSError as error:
        raise _explained(error, target) from error
    finally:
        temporary.unlink(missing_ok=True)


def _write_and_sync(path: Path, write: Callable[[BinaryIO], object]) -> None:
    with open(path, "xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _explained(error: OSError, target: Path) -> OSError:
    reason = error.strerror or str(error)
    remedy = "Free some space, or choose an existing folder that can be written; nothing there was changed."
    return OSError(error.errno, f"`path` {str(target)!r} could not be written: {reason}. {remedy}")
