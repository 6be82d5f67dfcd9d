"""CSV files as typed columns, and back: where a cell does not fit, the error names the line."""

import csv
import io
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.files import atomic_write

_BLOCK = 1 << 15  # rows that are text at one time
_WORDS = {"": "nan", "true": "1", "false": "0"}


class Cells(NamedTuple):
    """The cells of a file, column by column.

    Attributes:
        header: Names of the columns.
        text: Name of a column of text -> its distinct cells, and for each row which of them.
        numbers: Name of a column of numbers -> its values, NaN where a cell is empty; 1 and 0 for True and False.
        lines: (rows,) line of the file.
    """

    header: list[str]
    text: dict[str, tuple[list[str], NDArray[np.intp]]]
    numbers: dict[str, NDArray[np.float64]]
    lines: NDArray[np.int64]

    def place(self, row: int) -> str:
        """How to name a row in an error."""
        return f"line {self.lines[row]}"


def write_cells(path: str | os.PathLike[str], columns: Mapping[str, Callable[[slice], Iterable[Any]]]) -> None:
    """Write columns, whole or not at all; floats so that reading them gives the same to the last bit.

    Args:
        path: The file.
        columns: Name -> `(rows) -> cells`; all give equally many.

    Raises:
        OSError: If the file cannot be written; what was there stays whole.
    """

    def write(file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        begin, wrote = 0, True
        while wrote:
            block = slice(begin, begin := begin + _BLOCK)
            rows = list(zip(*(cells(block) for cells in columns.values()), strict=True))
            writer.writerows(rows)
            wrote = bool(rows)
        text.detach()  # else it would close the file

    atomic_write(path, write)


def read_cells(path: str | os.PathLike[str], check: Callable[[list[str]], None], text: Collection[str]) -> Cells:
    """Read a file whose first line names the columns.

    Args:
        path: The file, in UTF-8; empty lines are skipped.
        check: Raises for names that will not do.
        text: Which columns hold text; the others hold numbers.

    Returns:
        Its cells.

    Raises:
        ValueError: If it is empty or no UTF-8, a name comes twice, or a row or cell does not fit.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return _read(csv.reader(file, strict=True), check, text)
    except UnicodeDecodeError as error:
        value = error.object[error.start]
        raise ValueError(f"it must be UTF-8 text; got byte 0x{value:02x}. Save it as CSV in UTF-8.") from error
    except csv.Error as error:
        raise ValueError(f"it must be a CSV file; {error}. Separate cells by commas.") from error


def _read(reader: Any, check: Callable[[list[str]], None], text: Collection[str]) -> Cells:
    header = [name.strip() for name in next(reader, [])]
    if not any(header):
        raise ValueError("its first line must name the columns; got nothing. Begin with worker,commit_time.")
    for name in header:
        if header.count(name) > 1:
            raise ValueError(f"`{name}` must be named once; got it {header.count(name)} times. Remove a column.")
    check(header)
    known: dict[str, dict[str, int]] = {name: {} for name in header if name in text}
    blocks: dict[str, list[NDArray[Any]]] = {name: [] for name in header}
    lines: list[int] = []
    rows = ((reader.line_num, row) for row in reader if row)
    while block := list(islice(rows, _BLOCK)):
        lines += [line for line, _ in block]
        for name, cells in zip(header, _transposed(block, len(header)), strict=True):
            codes = known.get(name)
            blocks[name].append(_numbers(name, cells, block) if codes is None else _codes(codes, cells))
    columns = {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in blocks.items()}
    return Cells(
        header=header,
        text={name: (list(codes), columns[name].astype(np.intp)) for name, codes in known.items()},
        numbers={name: columns[name] for name in header if name not in known},
        lines=np.array(lines, np.int64),
    )


def _transposed(block: list[tuple[int, list[str]]], columns: int) -> Iterable[tuple[str, ...]]:
    for line, row in block:
        if len(row) != columns:
            raise ValueError(f"a row must have {columns} cells; line {line} has {len(row)}. Complete or remove it.")
    return zip(*(row for _, row in block), strict=True)


def _codes(codes: dict[str, int], cells: Iterable[str]) -> NDArray[np.intp]:
    return np.array([codes.setdefault(cell.strip(), len(codes)) for cell in cells], np.intp)


def _numbers(name: str, cells: tuple[str, ...], block: list[tuple[int, list[str]]]) -> NDArray[np.float64]:
    try:
        numbers = np.array(list(map(float, cells)))
    except ValueError:
        known = _WORDS.get
        numbers = np.array([_number(known(cell.strip().lower(), cell)) for cell in cells])
    for row in np.flatnonzero(np.isnan(numbers)):
        if cells[row].strip():
            line, value = block[row][0], cells[row]
            raise ValueError(f"`{name}` must be a number; line {line} has {value!r}. Correct it.")
    return numbers


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan


def beside(path: str | os.PathLike[str]) -> Path:
    """The file of the faults beside that of a trace.

    Example:
        >>> beside("runs/study.csv").name
        'study.faults.csv'
    """
    return Path(path).with_suffix(".faults.csv")
