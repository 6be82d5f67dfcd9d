"""A trace as a CSV file, for spreadsheets and data frames, and the log of a real cluster as a trace."""

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import nearest
from asyncsim.files._atomic import atomic_write
from asyncsim.trace._columns import (
    FAULT_COLUMNS,
    Fault,
    Faults,
    Tables,
    TraceError,
    group_of,
    restated,
)
from asyncsim.trace._table import (
    COMMITTED,
    EMPTY,
    TYPES,
    AnyTrace,
    Start,
    Table,
    assemble,
    empty_of,
    fates,
    named,
    number_of,
    number_workers,
    require_names,
    require_plausible,
    since,
    to_columns,
    typed,
)

KINDS = [fault.name.lower() for fault in Fault]

_BLOCK = 1 << 15  # rows that are text at one time
_LONGEST_LINE = 1 << 20  # characters: a thousand in each of the most columns
_LONGEST_NAME = 200  # characters of a worker's name or a fate
_HEAD = 1000  # bytes in which the names of all columns fit
_MOST_COMPARED = 1000  # names that a misspelt one is compared with
_WORDS = {"": "nan", "true": "1", "false": "0"}


def write(trace: Tables, path: str | os.PathLike[str]) -> None:
    """Write the trace and its faults (see `Trace.to_csv`)."""
    faults, place = {name: getattr(trace.faults, name) for name in FAULT_COLUMNS}, faults_path(path)
    is_own = place.is_file() and head_of(place).partition(b"\n")[0].strip() == ",".join(faults).encode()
    if len(trace.faults) and os.path.lexists(place) and not is_own:
        message = f"`path` {str(path)!r} would replace {place.name!r}, which holds no faults of a trace"
        raise FileExistsError(f"{message}. Move it elsewhere, or choose another name.")
    atomic_write(path, partial(_write_cells, to_columns(trace, unfinished=True)))
    if len(trace.faults):
        faults |= {"kind": np.array(KINDS)[trace.faults.kind], "worker": named(trace, trace.faults.worker)}
        atomic_write(place, partial(_write_cells, faults))
    elif is_own:
        place.unlink()  # of the trace that was here before


def read(
    make: type[AnyTrace], path: str | os.PathLike[str], workers: int | None, start: Start, resume: str
) -> AnyTrace:
    """Read a trace, or the log of a real cluster (see `Trace.from_csv`)."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"`path` {str(path)!r} is not a file. Check the name, or export a trace there first.")
    with restated(lambda error: error.replace(source=f"{str(path)!r} holds no valid trace: {error.source}")):
        cells = read_cells(Path(path), require_names, {"worker", "fate"})
        names, codes = cells.text["worker"]
        with restated(cells.in_lines):
            columns, worker_names = _columns(cells)
            table, begin = typed(columns, start)
        # The file of faults names workers as this file does, so their numbers are looked up.
        numbers = dict(zip(codes.tolist(), table["worker"].tolist(), strict=True))
        number_of = {name: numbers[code] for code, name in enumerate(names)}
        faults, fault_cells = _read_faults(faults_path(path), number_of, begin)

        def in_lines(error: TraceError) -> TraceError:
            if fault_cells is not None and error.column is not None and error.column.startswith("faults."):
                return fault_cells.in_lines(error, source=f"{faults_path(path).name}: ")
            return cells.in_lines(error)

        with restated(in_lines):
            return assemble(make, since(begin, table), workers, faults, resume, worker_names)


def faults_path(path: str | os.PathLike[str]) -> Path:
    """Return the file of the faults, next to that of a trace."""
    return Path(path).with_suffix(".faults.csv")


def head_of(path: str | os.PathLike[str]) -> bytes:
    """Return the first bytes of a file, in which the names of all columns fit."""
    with open(path, "rb") as file:
        return file.read(_HEAD)


class _Cells(NamedTuple):
    """The cells of a file, column by column."""

    text: dict[str, tuple[list[str], NDArray[np.intp]]]
    numbers: dict[str, NDArray[np.float64]]
    lines: NDArray[np.int64]  # (rows,) line of the file, from 1

    def in_lines(self, error: TraceError, **changes: Any) -> TraceError:
        """Return the error with the line of the file instead of the row."""
        return error.renumber(self.lines, unit="line", **changes)


def _columns(cells: _Cells) -> tuple[Table, tuple[str, ...]]:
    """Return the columns of a flat table, with the value of `EMPTY` in empty cells, and the names of the workers."""
    worker, names = number_workers(*cells.text["worker"])
    table: Table = {"worker": worker}
    if "fate" in cells.text:
        # The empty text makes an array of texts also where the column has no rows.
        table["fate"] = np.array([*cells.text["fate"][0], ""])[cells.text["fate"][1]]
    other = fates(table) != COMMITTED
    for name, values in cells.numbers.items():
        empty = np.isnan(values)
        if TYPES.get(name) is np.bool_:
            empty &= other  # whether a commit closes its step cannot be left open
        table[name] = np.where(empty, empty_of(name), values)
    return table, names


def _read_faults(path: Path, workers: Mapping[str, int], start: float) -> tuple[Faults, _Cells | None]:
    """Return the faults and their cells, None without a file. `workers` numbers the names in the other file."""
    if not path.is_file():
        return Faults(), None

    def check(names: list[str]) -> None:
        if sorted(names) != sorted(FAULT_COLUMNS):
            rule = f"must have the columns {', '.join(FAULT_COLUMNS)}"
            raise TraceError(None, rule, "Rename them.", found=f"got {', '.join(names)}")

    with restated(lambda error: error.replace(source=f"{path.name}: ")):
        cells = read_cells(path, check, {"kind", "worker"})
        kind = _look_up("kind", cells, {name: number for number, name in enumerate(KINDS)})
        worker = _look_up("worker", cells, {"": -1, "-1": -1} | dict(workers))
        # An empty time of a fault is an end that never comes.
        times = {name: np.where(np.isnan(values), np.inf, values) for name, values in cells.numbers.items()}
        with restated(cells.in_lines):
            require_plausible(times)
        return Faults(kind=kind.astype(np.int8), worker=worker, **since(start, times)), cells


def _look_up(name: str, cells: _Cells, numbers: Mapping[str, int]) -> NDArray[np.int32]:
    # Each text is looked up once, however many rows have it.
    texts, codes = cells.text[name]
    for code, text in enumerate(texts):
        if text not in numbers:
            near = nearest(text, islice(numbers, _MOST_COMPARED))
            remedy = f"Did you mean {near!r}?" if near else "Correct it."
            line = int(cells.lines[(codes == code).argmax()])
            raise TraceError(name, "must be known", remedy, row=line, unit="line", value=text)
    return np.array([numbers[text] for text in texts], np.int32)[codes]


def _write_cells(columns: Table, file: BinaryIO) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    begin = 0
    # A block of rows is text at one time, so that a long trace needs little memory.
    while rows := list(zip(*(_cells(name, v[begin : begin + _BLOCK]) for name, v in columns.items()), strict=True)):
        writer.writerows(rows)
        begin += _BLOCK
    text.detach()  # else it would close the file


def _cells(name: str, block: NDArray[Any]) -> list[Any]:
    """Return entries as the writer takes them. It writes floats by `repr`, which loses nothing."""
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
        received = f"got byte 0x{error.object[error.start]:02x}"
        raise TraceError(None, "must be UTF-8 text", "Save it as CSV in UTF-8.", found=received) from None
    except csv.Error as error:
        raise TraceError(None, "must be a CSV file", "Separate cells by commas.", found=str(error)) from None


def _lines(file: TextIO) -> Iterator[str]:
    """Return the lines of a file. A file without ends of lines is not read as a whole."""
    number = 0
    while line := file.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            rule = f"must have lines of at most {_LONGEST_LINE} characters"
            raise TraceError(None, rule, "Is it a CSV file?", found=f"line {number} is longer")
        yield line


def _read_blocks(reader: Any, check: Callable[[list[str]], None], text: Collection[str]) -> _Cells:
    header = [name.strip() for name in next(reader, [])]
    if not any(header):
        rule = "must name the columns in its first line"
        raise TraceError(None, rule, "Begin with worker,commit_time.", found="got nothing")
    for name, times in Counter(header).items():
        if times > 1:
            raise TraceError(name, "must be named once", "Remove a column.", found=f"got it {times} times")
    check(header)
    numbers: dict[str, dict[str, int]] = {name: {} for name in header if name in text}
    columns: dict[str, list[NDArray[Any]]] = {name: [np.zeros(0)] for name in header}
    lines: list[int] = []
    # The number of a line is not that of a row: cells in quotes may span lines, and empty lines are skipped.
    rows = ((reader.line_num, row) for row in reader if row)
    while block := list(islice(rows, _BLOCK)):
        block_lines, block_rows = zip(*block, strict=True)
        for line, row in block:
            if len(row) != len(header):
                rule = f"must have {len(header)} cells in every row"
                raise TraceError(None, rule, "Complete or remove the row.", row=line, unit="line", value=len(row))
        for name, cells in zip(header, zip(*block_rows, strict=True), strict=True):
            codes = numbers.get(name)
            part = _numbers(name, cells, block_lines) if codes is None else _codes(name, codes, cells, block_lines)
            columns[name].append(part)
        lines += block_lines
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return _Cells(
        text={name: (list(codes), joined[name].astype(np.intp)) for name, codes in numbers.items()},
        numbers={name: joined[name] for name in header if name not in numbers},
        lines=np.array(lines, np.int64),
    )


def _codes(name: str, codes: dict[str, int], cells: tuple[str, ...], lines: tuple[int, ...]) -> NDArray[np.intp]:
    """Return the number of each text in the order of its first appearance."""
    before = len(codes)
    numbers = np.array([codes.setdefault(cell.strip(), len(codes)) for cell in cells], np.intp)
    for text in islice(codes, before, None):
        if len(text) > _LONGEST_NAME:
            line = lines[int((numbers == codes[text]).argmax())]
            rule = f"must have at most {_LONGEST_NAME} characters"
            raise TraceError(name, rule, "Shorten it.", row=line, unit="line", value=text)
    return numbers


def _numbers(name: str, cells: tuple[str, ...], lines: tuple[int, ...]) -> NDArray[np.float64]:
    """Return cells as numbers, NaN where they are empty."""
    try:
        # Most columns hold numbers only, and this is the fastest way to read them.
        numbers = np.array(list(map(float, cells)))
    except ValueError:
        # Otherwise each different cell is parsed once. Words such as "true" stand for numbers.
        parsed = {cell: number_of(_WORDS.get(cell.strip().lower(), cell)) for cell in set(cells)}
        numbers = np.array([parsed[cell] for cell in cells], np.float64)
    for row in np.flatnonzero(np.isnan(numbers)):
        if cells[row].strip():
            raise TraceError(name, "must be a number", "Correct it.", row=lines[row], unit="line", value=cells[row])
    return numbers
