"""A trace as a CSV file, for spreadsheets and data frames, and the log of a real cluster as a trace."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.checks import finite, nearest
from asyncsim.trace import table as tables
from asyncsim.trace.columns import COMMIT_COLUMNS, FAULT_COLUMNS, Fault
from asyncsim.trace.infer_columns import COMMITTED
from asyncsim.trace.io.csv_cells import Cells, beside, read_cells, write_cells
from asyncsim.trace.parse import NOTHING, Table, column, number_workers
from asyncsim.trace.table_rules import require_names
from asyncsim.trace.tables import Faults

if TYPE_CHECKING:
    from asyncsim.trace.trace import Trace

FLAGS = [name for name, dtype in COMMIT_COLUMNS.items() if dtype is np.bool_]
KINDS = [fault.name.lower() for fault in Fault]


def to_csv(trace: "Trace", path: str | os.PathLike[str]) -> None:
    """Write the columns of `to_columns` as CSV, so that `from_csv` gives the same trace to the last bit.

    A cell is empty where there is nothing: a time that never came, a number that does not apply. Faults go into a
    second file beside it, run.faults.csv beside run.csv, only if there are any; else such a file is removed, because
    it would belong to another trace. Each file is written whole or not at all.

    Args:
        path: The file; the name is used as it is.

    Raises:
        OSError: If a file cannot be written; what was there stays whole.

    Example:
        >>> import tempfile
        >>> from asyncsim.trace import Trace
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Trace.from_commits([0, 1]).to_csv(Path(folder, "run.csv"))
        ...     print(Path(folder, "run.csv").read_text()[:60])
        worker,fate,read_version,version,pull_version,closes_step,re
    """
    write_cells(path, {name: partial(_cells, name, values) for name, values in tables.to_columns(trace).items()})
    if not len(trace.faults):
        beside(path).unlink(missing_ok=True)
        return
    faults = {name: getattr(trace.faults, name) for name in FAULT_COLUMNS}
    faults["kind"] = np.array(KINDS)[trace.faults.kind]
    write_cells(beside(path), {name: partial(_cells, name, values) for name, values in faults.items()})


def from_csv(
    cls: type["Trace"], path: str | os.PathLike[str], workers: int | None = None, *, start: float = 0.0
) -> "Trace":
    """Read a trace that `to_csv` wrote, or the log of a real cluster.

    Only the columns `worker` and `commit_time` are needed; see `from_columns` for what is made of the others, of
    names of workers, and of rows in another order. The first line names the columns, and cells are separated by
    commas; an empty cell is nothing. Faults are read from the file beside it (run.faults.csv beside run.csv) if there
    is one, with the columns `kind` (the name of a `Fault` in small letters), `worker` (empty for the server),
    `start_time` and `end_time` (empty if it lasts beyond the record).

    Args:
        path: The file.
        workers: Number of workers; by default the largest number in `worker` plus one, where every smaller one
            occurs.
        start: When the run began, in the file's seconds; it is subtracted from every time. By default times are
            taken as they are: give it for Unix time.

    Returns:
        A checked trace.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it holds no valid trace; names the line, the column, the value and the remedy.

    Example:
        >>> import tempfile
        >>> from asyncsim.trace import Trace
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "log.csv")
        ...     _ = path.write_text("worker,commit_time\\ngpu-1,1002.5\\ngpu-0,1002\\ngpu-1,1004.25\\n")
        ...     trace = Trace.from_csv(path, start=1000.0)
        >>> trace.worker.tolist(), trace.commit_time.tolist(), trace.staleness.tolist()
        ([0, 1, 1], [2.0, 2.5, 4.25], [0, 1, 0])
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"`path` {str(path)!r} is no file. Check the name, or export a trace there first.")
    start = finite("start", start)
    try:
        cells = read_cells(path, require_names, {"worker", "fate"})
        table = _typed(cells)
        numbers = dict(zip(cells.text["worker"][1].tolist(), table["worker"].tolist(), strict=True))
        names = {name: numbers[code] for code, name in enumerate(cells.text["worker"][0])}
        faults, fault_place = _read_faults(beside(path), names, start)
        trace = tables.assemble(cls, _since(start, table), workers, faults, cells.place, fault_place)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} holds no valid trace: {error}") from error
    return trace


def _cells(name: str, values: NDArray[Any], rows: slice) -> Iterable[Any]:
    """Entries as the writer takes them; it writes floats by `repr`, which loses nothing."""
    part = values[rows]
    nothing = NOTHING.get(name)
    if part.dtype.kind not in "if" or not (part == nothing).any():
        return part.tolist()
    return ["" if value == nothing else value for value in part.tolist()]


def _typed(cells: Cells) -> Table:
    """The columns in their types."""
    names, codes = cells.text["worker"]
    table: Table = {"worker": number_workers(names, codes, cells.place)}
    if "fate" in cells.text:
        table["fate"] = np.array([*cells.text["fate"][0], ""])[cells.text["fate"][1]]
    other = table["fate"] != COMMITTED if "fate" in table else np.zeros(len(codes), bool)
    for name, values in cells.numbers.items():
        empty = np.isnan(values)
        if name in FLAGS:
            empty &= other  # whether a commit closes its step cannot be left open
        table[name] = column(name, np.where(empty, NOTHING[name], values), cells.place)
    return table


def _since(start: float, table: Table) -> Table:
    return {name: values - start if start and name.endswith("_time") else values for name, values in table.items()}


def _read_faults(path: Path, workers: Mapping[str, int], start: float) -> tuple[Faults, Callable[[int], str]]:
    """The faults, and how to name their rows; `workers` are the numbers of the names in the other file."""
    if not path.is_file():
        return Faults(), "row {}".format
    try:
        cells = read_cells(path, _require_fault_names, {"kind", "worker"})
        kind = _look_up("kind", cells, {name: number for number, name in enumerate(KINDS)})
        worker = _look_up("worker", cells, {"": -1, "-1": -1} | dict(workers))
        times = {name: np.where(np.isnan(values), np.inf, values) for name, values in cells.numbers.items()}
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    faults = Faults(kind=kind.astype(np.int8), worker=worker, **_since(start, times))
    return faults, lambda row: f"{path.name}, {cells.place(row)},"


def _look_up(name: str, cells: Cells, known: Mapping[str, int]) -> NDArray[np.int32]:
    texts, codes = cells.text[name]
    for code, text in enumerate(texts):
        if text not in known:
            near = nearest(text, known)
            hint = f"Did you mean {near!r}?" if near else "Correct it."
            where = cells.place(int((codes == code).argmax()))
            raise ValueError(f"`{name}` must be known; {where} has {text!r}. {hint}")
    return np.array([known[text] for text in texts], np.int32)[codes]


def _require_fault_names(names: list[str]) -> None:
    if sorted(names) != sorted(FAULT_COLUMNS):
        raise ValueError(f"the columns must be {', '.join(FAULT_COLUMNS)}; got {', '.join(names)}. Rename them.")
