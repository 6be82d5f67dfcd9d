"""A trace as a CSV file, for spreadsheets and data frames, and the log of a real cluster as a trace."""

import csv
import io
import os
import re
from collections.abc import Collection, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import nearest
from asyncsim.files._atomic import atomic_write
from asyncsim.trace import _rollout_log as rollout_log
from asyncsim.trace._columns import (
    FAULT_COLUMNS,
    Fault,
    Faults,
    Mixings,
    Tables,
    TraceError,
    group_of,
    refuse,
    reworded,
)
from asyncsim.trace._csv_variables import PUSH_COLUMNS, VARIABLE_COLUMNS, assemble_variables, read_mixings, to_tables
from asyncsim.trace._durations import DURATION
from asyncsim.trace._flat import EMPTY, KNOWN, Table, empty_of, named
from asyncsim.trace._log import Log, read_log
from asyncsim.trace._source import Contents, contents_of
from asyncsim.trace._table import AnyTrace, assemble
from asyncsim.trace._typed import Start, Typed, count_from, read_columns, require_plausible
from asyncsim.trace._values import Units, as_seconds, as_texts

KINDS = [fault.name.lower() for fault in Fault]
NOTES = ("kind", "text")  # columns of the file of notes

_BLOCK = 1 << 15  # rows that are text at one time
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz")
_HEAD = 1000  # bytes in which the names of all columns fit
_MOST_COMPARED = 1000  # names that a misspelt one is compared with


def write(trace: Tables, path: str | os.PathLike[str]) -> None:
    """Write the trace, and its faults and notes into files beside it (see `Trace.to_csv`)."""
    texts = {"kind": np.array(KINDS)[trace.faults.kind], "worker": named(trace, trace.faults.worker)}
    faults = {name: getattr(trace.faults, name) for name in FAULT_COLUMNS} | texts
    about = {"note": trace.notes, "derived": trace.derived}
    notes = {"kind": np.repeat([*about], [*map(len, about.values())]), "text": np.array(sum(about.values(), ()), str)}
    jobs, mixings = to_tables(trace)
    filled, outdated = {path: jobs}, []
    for part, table in {"faults": faults, "notes": notes, "mixings": mixings}.items():
        file, is_own = part_path(path, part), _is_own(part_path(path, part), table)
        # The file of mixings is needed without rows, too.
        is_needed = len(next(iter(table.values()))) > 0 or (part == "mixings" and trace.variables > 1)
        if is_needed and os.path.lexists(file) and not is_own:
            message = f"`path` {str(path)!r} would replace {file.name!r}, which holds no {part} of a trace"
            raise FileExistsError(f"{message}. Move it elsewhere, or choose another name.")
        if is_needed:
            filled[file] = table
        elif is_own:
            outdated.append(file)
    for target, columns in filled.items():
        atomic_write(target, partial(_write_cells, columns))
    for leftover in outdated:
        leftover.unlink()


def read(
    make: type[AnyTrace],
    contents: Contents,
    workers: int | None = None,
    start: Start = None,
    resume: str = "central",
    columns: Mapping[str, str] | None = None,
    unit: Units = None,
) -> tuple[AnyTrace, bool]:
    """Read a trace or a log (see `Trace.from_csv`). Also whether it is one of rollouts."""
    with reworded(lambda error: error.replace(source=f"{str(contents.path)!r} holds no valid trace: {error.source}")):
        accepted = (*KNOWN, *VARIABLE_COLUMNS, *PUSH_COLUMNS) if _has_variables(contents) else (*KNOWN, DURATION)
        log = read_log(contents, columns, accepted, rollout_log.COLUMNS)
        if log.is_of_rollouts:
            return rollout_log.from_log(make, log, start, unit), True
        return _read_commits(make, contents.path, log, workers, start, resume, unit), False


def _read_commits(
    make: type[AnyTrace], path: Path, log: Log, workers: int | None, start: Start, resume: str, unit: Units
) -> AnyTrace:
    # Files beside a table of ours count in its unit.
    unit_of_parts = unit if isinstance(unit, str) else "s"
    with reworded(log.with_location):
        of_log = read_columns(log, workers, start, unit)
        of_file = _read_notes(part_path(path, "notes"))
    notes = tuple(dict.fromkeys((*of_log.notes, *of_file["notes"])))
    derived = tuple(dict.fromkeys((*of_log.derived, *of_file["derived"])))
    typed = of_log._replace(notes=notes, derived=derived)
    faults, log_of_faults = _read_faults(part_path(path, "faults"), typed, unit_of_parts)
    has_variables = "variables" in log.columns
    mixings, log_of_mixings = (
        read_mixings(part_path(path, "mixings"), typed, unit_of_parts) if has_variables else (Mixings(), None)
    )

    def in_lines(error: TraceError) -> TraceError:
        part = (error.column or "").partition(".")[0]
        other = {"faults": log_of_faults, "mixings": log_of_mixings}.get(part)
        if other is None:
            return log.with_location(error)
        return other.with_location(error, source=f"{part_path(path, part).name}: ")

    with reworded(in_lines):
        if has_variables:
            return assemble_variables(make, log, typed, workers, faults, mixings)
        return assemble(make, typed, workers, faults, resume)


def part_path(path: str | os.PathLike[str], part: str) -> Path:
    """Return the file of the faults, of the notes or of the mixings, next to that of a trace."""
    file = Path(path)
    table = file.with_suffix("") if file.suffix in COMPRESSED_SUFFIXES else file  # A table may be compressed later.
    return table.with_suffix(f".{part}.csv")


def _has_variables(contents: Contents) -> bool:
    """Return whether a table is one of ours that says how many variables there are."""
    names = re.split(r"\W+", contents.open(errors="replace").readline(_HEAD))
    return {"variable", "variables", "fate", "pull_version"} <= {*names}


def _is_own(path: Path, columns: Collection[str]) -> bool:
    """Return whether a file begins as `write` begins one."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.readline(_HEAD).strip() == ",".join(columns).encode()


def _read_notes(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the notes and the names of derived columns, none without a file of ours."""
    if not _is_own(path, NOTES):
        return {"notes": (), "derived": ()}
    with reworded(lambda error: error.replace(source=f"{path.name}: ")):
        log = read_log(contents_of(path), None, NOTES)
        with reworded(log.with_location):
            kind = _look_up("kind", log, {"note": 0, "derived": 1})
            codes, texts = as_texts("text", log.columns["text"])
            refuse(codes < 0, "text", None, "be known", "Remove the row.")
    rows = [(texts[code], number) for code, number in zip(codes, kind, strict=True)]
    return {name: tuple(text for text, n in rows if n == number) for number, name in enumerate(("notes", "derived"))}


def _read_faults(path: Path, typed: Typed, unit: str) -> tuple[Faults, Log | None]:
    """Return the faults and their log, None without a file, which names workers and counts times as the trace does."""
    if not path.is_file():
        return Faults(), None
    with reworded(lambda error: error.replace(source=f"{path.name}: ")):
        log = read_log(contents_of(path), None, FAULT_COLUMNS)
        if log.others or len(log.columns) < len(FAULT_COLUMNS):
            rule = f"must have the columns {', '.join(FAULT_COLUMNS)}"
            raise TraceError(None, rule, "Rename them.", found=f"got {', '.join(log.source.columns)}")
        with reworded(log.with_location):
            kind = _look_up("kind", log, {name: number for number, name in enumerate(KINDS)})
            workers = typed.names or map(str, np.unique(typed.table["worker"]).tolist())
            worker = _look_up("worker", log, {"-1": -1} | {name: number for number, name in enumerate(workers)})
            times = as_seconds({name: log.columns[name] for name in ("start_time", "end_time")}, unit)
            require_plausible(times.columns, times.origin)
            # An empty time of a fault is an end that never comes.
            columns = {name: np.where(np.isnan(values), np.inf, values) for name, values in times.columns.items()}
    return Faults(kind=kind.astype(np.int8), worker=worker, **count_from(typed.begin - times.origin, columns)), log


def _look_up(name: str, log: Log, numbers: Mapping[str, int]) -> NDArray[np.int32]:
    # Each text is looked up once, however many rows have it. An empty one is the server.
    codes, texts = as_texts(name, log.columns[name])
    for code, text in enumerate(texts):
        if text not in numbers and (text or name == "kind"):
            near = nearest(text, islice(numbers, _MOST_COMPARED))
            remedy = f"Did you mean {near!r}?" if near else "Correct it."
            raise TraceError(name, "must be known", remedy, row=int((codes == code).argmax()), value=text)
    return np.array([*(numbers.get(text, -1) for text in texts), -1], np.int32)[codes]


def _write_cells(columns: Table, file: BinaryIO) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    # A block of rows is text at one time, so that a long trace needs little memory.
    for begin in range(0, len(next(iter(columns.values()))), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        writer.writerows(zip(*(_cells(name, values[block]) for name, values in columns.items()), strict=True))
    text.detach()  # else it would close the file


def _cells(name: str, block: NDArray[Any]) -> list[Any]:
    """Return entries as the writer takes them. It writes floats by `repr`, which loses nothing."""
    empty = empty_of(name) if name in EMPTY or group_of(name) else None
    if block.dtype.kind not in "if" or not (block == empty).any():
        return block.tolist()
    return ["" if value == empty else value for value in block.tolist()]
