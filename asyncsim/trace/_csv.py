"""A trace as a CSV file, for spreadsheets and data frames, and the log of a real cluster as a trace."""

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import nearest
from asyncsim.store._files import atomic_write
from asyncsim.trace._columns import COMMIT_COLUMNS, FAULT_COLUMNS, Fault, Faults, Tables, TraceError, group_of
from asyncsim.trace._infer_columns import (
    COMMITTED,
    EMPTY,
    Start,
    Table,
    empty_of,
    number_workers,
    parse_column,
    require_plausible,
    since,
    start_of,
)
from asyncsim.trace._table import NEEDED, AnyTrace, assemble, require_names, require_rows, to_columns, with_commit_times

FLAGS = [name for name, dtype in COMMIT_COLUMNS.items() if dtype is np.bool_]
KINDS = [fault.name.lower() for fault in Fault]

_BLOCK = 1 << 15  # rows that are text at one time
_LONGEST_LINE = 1 << 20  # characters: a thousand in each of the most columns
_LONGEST_NAME = 200  # characters of a worker's name or a fate
_ARCHIVE = b"PK"  # first bytes of a .npz file
_HEAD = 1000  # bytes in which the names of all columns fit
_MOST_COMPARED = 1000  # names that a misspelt one is compared with
_WORDS = {"": "nan", "true": "1", "false": "0"}


def write(trace: Tables, path: str | os.PathLike[str]) -> None:
    """Write the trace and its faults (see `Trace.to_csv`)."""
    atomic_write(path, partial(_write_cells, to_columns(trace, unfinished=True)))
    faults, place = {name: getattr(trace.faults, name) for name in FAULT_COLUMNS}, faults_path(path)
    if len(trace.faults):
        atomic_write(place, partial(_write_cells, faults | {"kind": np.array(KINDS)[trace.faults.kind]}))
    elif place.is_file() and _head(place).partition(b"\n")[0].strip() == ",".join(faults).encode():
        place.unlink()  # of the trace that was here before


def read(
    make: type[AnyTrace], path: str | os.PathLike[str], workers: int | None, start: Start, resume: str
) -> AnyTrace:
    """Read a trace, or the log of a real cluster (see `Trace.from_csv`)."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"`path` {str(path)!r} is not a file. Check the name, or export a trace there first.")
    try:
        return _read(make, Path(path), workers, start, resume)
    except TraceError as error:
        raise error.replace(source=f"{str(path)!r} holds no valid trace: {error.source}") from None


def faults_path(path: str | os.PathLike[str]) -> Path:
    """The file of the faults, next to that of a trace."""
    return Path(path).with_suffix(".faults.csv")


def seems_csv(path: str | os.PathLike[str]) -> bool:
    """Whether a file that is no trace is the table of one, by its first bytes."""
    head = _head(path)
    return all(name.encode() in head for name in NEEDED)


def is_neither(path: str | os.PathLike[str]) -> bool:
    """Whether a file claims by neither its name nor its first bytes to be an archive, as a damaged trace does."""
    return not _head(path).startswith(_ARCHIVE) and Path(path).suffix != ".npz"


def _head(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read(_HEAD)


class _Cells(NamedTuple):
    """The cells of a file, column by column."""

    text: dict[str, tuple[list[str], NDArray[np.intp]]]
    numbers: dict[str, NDArray[np.float64]]
    lines: NDArray[np.int64]  # (rows,) line of the file, from 1

    def in_lines(self, error: TraceError, **changes: Any) -> TraceError:
        """The error with the line of the file instead of the row."""
        return error.renumber(self.lines, unit="line", **changes)


def _read(make: type[AnyTrace], path: Path, workers: int | None, start: Start, resume: str) -> AnyTrace:
    cells = read_cells(path, require_names, {"worker", "fate"})
    try:
        table = with_commit_times(_parse(cells))
        require_rows(table)
        begin = start_of(table, start)
    except TraceError as error:
        raise cells.in_lines(error) from None
    numbers = dict(zip(cells.text["worker"][1].tolist(), table["worker"].tolist(), strict=True))
    names = {name: numbers[code] for code, name in enumerate(cells.text["worker"][0])}
    faults, fault_cells = _read_faults(faults_path(path), names, begin)
    try:
        return assemble(make, since(begin, table), workers, faults, resume)
    except TraceError as error:
        if fault_cells is not None and error.column is not None and error.column.startswith("faults."):
            raise fault_cells.in_lines(error, source=f"{faults_path(path).name}: ") from None
        raise cells.in_lines(error) from None


def _parse(cells: _Cells) -> Table:
    """The columns in their types."""
    names, codes = cells.text["worker"]
    table: Table = {"worker": number_workers(names, codes)}
    if "fate" in cells.text:
        table["fate"] = np.array([*cells.text["fate"][0], ""])[cells.text["fate"][1]]
    other = table["fate"] != COMMITTED if "fate" in table else np.zeros(len(codes), bool)
    for name, values in cells.numbers.items():
        empty = np.isnan(values)
        if name in FLAGS:
            empty &= other  # whether a commit closes its step cannot be left open
        table[name] = parse_column(name, np.where(empty, empty_of(name), values))
    return table


def _read_faults(path: Path, workers: Mapping[str, int], start: float) -> tuple[Faults, _Cells | None]:
    """The faults and their cells, None without a file. `workers` are the numbers of the names in the other file."""
    if not path.is_file():
        return Faults(), None
    try:
        cells = read_cells(path, _require_fault_names, {"kind", "worker"})
        kind = _look_up("kind", cells, {name: number for number, name in enumerate(KINDS)})
        worker = _look_up("worker", cells, {"": -1, "-1": -1} | dict(workers))
        times = {name: np.where(np.isnan(values), np.inf, values) for name, values in cells.numbers.items()}
        try:
            require_plausible(times)
        except TraceError as error:
            raise cells.in_lines(error) from None
        return Faults(kind=kind.astype(np.int8), worker=worker, **since(start, times)), cells
    except TraceError as error:
        raise error.replace(source=f"{path.name}: ") from None


def _look_up(name: str, cells: _Cells, known: Mapping[str, int]) -> NDArray[np.int32]:
    texts, codes = cells.text[name]
    for code, text in enumerate(texts):
        if text not in known:
            near = nearest(text, islice(known, _MOST_COMPARED))
            remedy = f"Did you mean {near!r}?" if near else "Correct it."
            line = int(cells.lines[(codes == code).argmax()])
            raise TraceError(name, "must be known", remedy, row=line, unit="line", value=text)
    return np.array([known[text] for text in texts], np.int32)[codes]


def _require_fault_names(names: list[str]) -> None:
    if sorted(names) != sorted(FAULT_COLUMNS):
        rule = f"must have the columns {', '.join(FAULT_COLUMNS)}"
        raise TraceError(None, rule, "Rename them.", found=f"got {', '.join(names)}")


def _write_cells(columns: Table, file: BinaryIO) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    begin = 0
    while rows := list(zip(*(_cells(name, v[begin : begin + _BLOCK]) for name, v in columns.items()), strict=True)):
        writer.writerows(rows)
        begin += _BLOCK
    text.detach()  # else it would close the file


def _cells(name: str, block: NDArray[Any]) -> list[Any]:
    """Entries as the writer takes them. It writes floats by `repr`, which loses nothing."""
    empty = empty_of(name) if name in EMPTY or group_of(name) else None
    if block.dtype.kind not in "if" or not (block == empty).any():
        return block.tolist()
    return ["" if value == empty else value for value in block.tolist()]


def read_cells(path: Path, check: Callable[[list[str]], None], text: Collection[str]) -> _Cells:
    """Read a file whose first line names the columns."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:  # spreadsheets begin a file with a mark
            return _read_blocks(csv.reader(_lines(file), strict=True), check, text)
    except UnicodeDecodeError as error:
        found = f"got byte 0x{error.object[error.start]:02x}"
        raise TraceError(None, "must be UTF-8 text", "Save it as CSV in UTF-8.", found=found) from None
    except csv.Error as error:
        raise TraceError(None, "must be a CSV file", "Separate cells by commas.", found=str(error)) from None


def _lines(file: TextIO) -> Iterator[str]:
    """The lines of a file. A file without ends of lines is not read as a whole."""
    number = 0
    while line := file.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            rule = f"must have lines of at most {_LONGEST_LINE} characters"
            raise TraceError(None, rule, "Is it a CSV file?", found=f"line {number} is longer")
        yield line


def _read_blocks(reader: Any, check: Callable[[list[str]], None], text: Collection[str]) -> _Cells:
    header = [name.strip() for name in next(reader, [])]
    _require_header(header)
    check(header)
    known: dict[str, dict[str, int]] = {name: {} for name in header if name in text}
    blocks: dict[str, list[NDArray[Any]]] = {name: [] for name in header}
    lines: list[int] = []
    rows = ((reader.line_num, row) for row in reader if row)
    while block := list(islice(rows, _BLOCK)):
        lines += [line for line, _ in block]
        for name, cells in zip(header, _transposed(block, len(header)), strict=True):
            codes = known.get(name)
            blocks[name].append(_numbers(name, cells, block) if codes is None else _codes(name, codes, cells, block))
    columns = {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in blocks.items()}
    return _Cells(
        text={name: (list(codes), columns[name].astype(np.intp)) for name, codes in known.items()},
        numbers={name: columns[name] for name in header if name not in known},
        lines=np.array(lines, np.int64),
    )


def _require_header(header: list[str]) -> None:
    if not any(header):
        rule = "must name the columns in its first line"
        raise TraceError(None, rule, "Begin with worker,commit_time.", found="got nothing")
    for name, times in Counter(header).items():
        if times > 1:
            raise TraceError(name, "must be named once", "Remove a column.", found=f"got it {times} times")


def _transposed(block: list[tuple[int, list[str]]], columns: int) -> Iterable[tuple[str, ...]]:
    for line, row in block:
        if len(row) != columns:
            rule = f"must have {columns} cells in every row"
            raise TraceError(None, rule, "Complete or remove the row.", row=line, unit="line", value=len(row))
    return zip(*(row for _, row in block), strict=True)


def _codes(
    name: str, codes: dict[str, int], cells: tuple[str, ...], block: list[tuple[int, list[str]]]
) -> NDArray[np.intp]:
    before = len(codes)
    numbers = np.array([codes.setdefault(cell.strip(), len(codes)) for cell in cells], np.intp)
    for text in islice(codes, before, None):
        if len(text) > _LONGEST_NAME:
            line = block[int((numbers == codes[text]).argmax())][0]
            rule = f"must have at most {_LONGEST_NAME} characters"
            raise TraceError(name, rule, "Shorten it.", row=line, unit="line", value=text)
    return numbers


def _numbers(name: str, cells: tuple[str, ...], block: list[tuple[int, list[str]]]) -> NDArray[np.float64]:
    try:
        numbers = np.array(list(map(float, cells)))
    except ValueError:
        parsed = {cell: _number(_WORDS.get(cell.strip().lower(), cell)) for cell in set(cells)}  # True and False: two
        numbers = np.array([parsed[cell] for cell in cells])
    for row in np.flatnonzero(np.isnan(numbers)):
        if cells[row].strip():
            raise TraceError(name, "must be a number", "Correct it.", row=block[row][0], unit="line", value=cells[row])
    return numbers


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan
