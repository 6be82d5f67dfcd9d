"""A log as people have it, a file or a data frame: its columns as they are named there, and where each value stands.

Pandas reads the files, whose kind follows from their contents: CSV with any separator, JSON lines, JSON and parquet,
of which texts may be compressed. It is imported when the first log is read.
"""

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from asyncsim._checks import brief
from asyncsim.trace._columns import TraceError

SUFFIXES = {"a CSV file": ".csv", "JSON lines": ".jsonl", "a JSON file": ".json", "a parquet file": ".parquet"}
COMPRESSED: dict[bytes, Any] = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ": lzma}  # first bytes -> module
PARQUET = b"PAR1"
ARCHIVE = b"PK"  # first bytes of a .npz file, also of a damaged one
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
SEPARATORS = (",", ";", "\t", "|")
BLANKS = " "  # columns that are aligned by blanks
IN_NAMES = re.compile(r"[\w\s.\"'()\[\]/-]")  # characters that separate no columns
MISSING = ("", "nan", "NaN", "-nan", "NA", "N/A", "n/a", "<NA>", "null", "NULL", "None", "none", "NaT", "-")
NAMED_SEPARATOR = re.compile(r"sep=.")  # as spreadsheets write it
LONGEST_LINE = 1 << 20  # characters: a thousand in each of the most columns
BEFORE_CELLS = ("\n", "\r", "\t", " ", '"')  # characters before a cell, next to the separator
HEAD = 10_000  # characters of a header in which the separator is looked for
MOST_COLUMNS = 1000  # more are refused before they are read
INSTALL = "Run: pip install 'asyncsim[logs]'"


class Location(NamedTuple):
    """Where a row stands, and its values as they are written there."""

    unit: str
    number: int
    cells: Mapping[str, Any]


class Source(NamedTuple):
    """The columns of a log, under its own names."""

    kind: str
    columns: Mapping[str, Any]
    locate: Callable[[int], Location]


def import_pandas() -> Any:
    """Return the module, or say how it is installed."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"Logs are read by pandas, which is not installed. {INSTALL}") from error
    return pandas


@dataclass(frozen=True)
class Contents:
    """The bytes of a file, which is read once for its hash, its kind, its columns and the lines of its rows."""

    path: Path
    data: bytes

    @cached_property
    def text(self) -> bytes:
        """The bytes of the text, which may be compressed in the file."""
        module = next((module for mark, module in COMPRESSED.items() if self.data.startswith(mark)), None)
        try:
            return self.data if module is None else module.open(io.BytesIO(self.data)).read()
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            rule, remedy = "must be a whole file", "Copy or write it again."
            raise TraceError(None, rule, remedy, found=" ".join(str(error).split())) from None

    def open(self, errors: str = "strict") -> TextIO:
        """Open the text, in UTF-8 or, where it begins with their mark, UTF-16."""
        encoding = "utf-16" if self.text[:2] in UTF_16 else "utf-8-sig"  # spreadsheets begin a file with a mark
        return io.TextIOWrapper(io.BytesIO(self.text), encoding=encoding, errors=errors, newline="")

    @property
    def is_archive(self) -> bool:
        """Whether it is a trace as `Trace.save` writes it."""
        return self.data.startswith(ARCHIVE)

    @cached_property
    def kind(self) -> str:
        """What the file is by its beginning: "a trace" or one of `SUFFIXES`."""
        if self.data.startswith(PARQUET):
            return "a parquet file"
        if self.is_archive:
            return "a trace"
        start = self.open(errors="replace").read(LONGEST_LINE).lstrip()
        if re.match(r"\[\s*[{\]]", start):
            return "a JSON file"
        if start[:1] != "{":
            return "a CSV file"
        line = start.partition("\n")[0].rstrip()
        if (first := _parse_object(line)) is not None:
            return "a JSON file" if all(isinstance(value, list | dict) for value in first.values()) else "JSON lines"
        # The first line of JSON lines may be cut off or wrong, but that of a file in lines of its own is short.
        return "a JSON file" if len(line) == 1 or line.endswith((",", "[", "{")) else "JSON lines"


def contents_of(path: str | os.PathLike[str]) -> Contents:
    """Read a file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"`path` {str(path)!r} is not a file. Check the name, or export a trace there first.")
    return Contents(Path(path), Path(path).read_bytes())


def read_file(contents: Contents, accepted: Collection[str], texts: Collection[str]) -> Source:
    """Read a log.

    Args:
        contents: Those of its file.
        accepted: Names of columns that a log may have, by which the separator of a CSV file is found.
        texts: Names of the columns that hold names rather than numbers.
    """
    try:
        if contents.kind == "a trace":
            if b"xl/" in contents.data:
                remedy = "Save the sheet as CSV."
                raise TraceError(None, "must be a log", remedy, found="got a spreadsheet (.xlsx)")
            raise TraceError(None, "must be a log", "Read it by `Trace.load`.", found="got a trace (.npz)")
        if contents.kind == "a parquet file":
            return _read_parquet(contents)
        if contents.kind == "a CSV file":
            return _read_csv(_without_comments(contents, accepted), accepted, texts)
        return _read_json_lines(contents) if contents.kind == "JSON lines" else _read_json(contents)
    except UnicodeDecodeError as error:
        received = f"got byte 0x{error.object[error.start]:02x}"
        raise TraceError(None, "must be UTF-8 text", "Save it in UTF-8.", found=received) from None


def of_frame(frame: Any) -> Source:
    """Return the columns of a mapping, of records, or of a data frame, also one of polars or pyarrow."""
    columns = _columns_of(_as_mapping(frame.to_pandas() if hasattr(frame, "to_pandas") else frame))
    if len(columns) > MOST_COLUMNS:
        raise _too_many_columns(len(columns))

    def locate(row: int) -> Location:
        return Location("row", row, {name: _entry(values, row) for name, values in columns.items()})

    return Source("a table", columns, locate)


def _as_mapping(frame: Any) -> Any:
    """Return a mapping or a data frame of pandas."""
    if isinstance(frame, Mapping):
        return frame
    if names := getattr(getattr(frame, "dtype", None), "names", None):
        return {name: frame[name] for name in names}
    if _are_records(frame):
        return import_pandas().DataFrame.from_records(frame)
    if hasattr(frame, "columns") and hasattr(frame, "reset_index"):
        # A column of a log may be the index.
        indices = [name for name in frame.index.names if name is not None and name not in frame.columns]
        return frame.reset_index(level=indices) if indices else frame
    remedy = " Read a file by `from_csv`." if isinstance(frame, str | Path) else ""
    raise ValueError(f"`frame` must be a mapping, records or a data frame; got {brief(frame)}.{remedy}")


def _are_records(frame: Any) -> bool:
    return isinstance(frame, list) and bool(frame) and all(isinstance(record, Mapping) for record in frame)


def _columns_of(frame: Any) -> dict[str, Any]:
    names = [str(name).strip() for name in frame]
    _require_once(names)
    return dict(zip(names, (frame[name] for name in frame), strict=True))


def _require_once(names: list[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1 and name:
            raise TraceError(name, "must be named once", "Remove a column.", found=f"got it {times} times")


def _entry(values: Any, row: int) -> Any:
    value = values.iloc[row] if hasattr(values, "iloc") else values[row]
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufU" else value


def _read_parquet(contents: Contents) -> Source:
    pandas = import_pandas()
    try:
        table = pandas.read_parquet(io.BytesIO(contents.data), engine="pyarrow")
        # Texts of pyarrow are not decoded before they are looked at.
        frame = table.astype({name: object for name in table if isinstance(table[name].dtype, pandas.StringDtype)})
    except ImportError as error:
        needs = "Parquet files are read by pyarrow, which is not installed"
        raise ImportError(f"{needs}. Run: pip install 'asyncsim[parquet]'") from error
    except Exception as error:  # pyarrow has many kinds of errors for a damaged file
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        rule, remedy = "must be a whole parquet file", "Copy or write it again."
        raise TraceError(None, rule, remedy, found=brief(str(error))) from None
    return of_frame(frame)._replace(kind="a parquet file")


def _read_csv(contents: Contents, accepted: Collection[str], texts: Collection[str]) -> Source:
    pandas = import_pandas()
    with contents.open() as file:
        header_number, header = _next_line(file, 0)
        separator = _separator(header[:HEAD], accepted)
        names = _split_header(header, separator)
        if names[0] not in accepted and len(names) == 1:
            remedy = "Give a file made by `Trace.save`, or a log whose first line begins worker,commit_time."
            raise TraceError(None, "is neither a trace (.npz) nor a log", remedy, found=f"got {brief(names[0])}")
        # A row that begins with more cells than there are names has row labels for pandas, as many as are too many.
        number, line = _next_line(file, header_number)
        if (cells := len(_split(line, separator))) > len(names):
            raise wrong_count(len(names), number, cells)
    try:
        frame = _parse_csv(contents, separator, names, texts)
        # Categories that look like numbers become numbers, of which 01 is 1, and 1e2 is 100.
        kinds = {name: frame[name].cat.categories.dtype.kind for name in names if name in texts}
        merged = [name for name, kind in kinds.items() if kind in "iuf"]
        are_floats = "f" in kinds.values()
        may_differ = merged and (are_floats or _has_leading_zero(contents.text.replace(b"\0", b""), separator))
        as_written = _parse_csv(contents, separator, names, (), usecols=merged, dtype=str) if may_differ else {}
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise _explain_csv(contents, separator, names, str(error)) from None

    def locate(row: int) -> Location:
        with contents.open() as file:
            try:
                number, cells = next(islice(_rows(file, separator), row + 1, None))
            except (csv.Error, StopIteration):  # pandas takes some files apart that the module does not
                return Location("row", row, {})
        return Location("line", number, dict(zip(names, cells, strict=False)))

    return Source("a CSV file", _columns_of(frame) | _columns_of(as_written), locate)


def _without_comments(contents: Contents, accepted: Collection[str]) -> Contents:
    """Return a CSV file in which comments, and a first line that names the separator, are empty lines.

    A comment begins with # and is before the header, or has fewer cells than it. The header may begin with # itself.
    """
    begin = contents.text.removeprefix(codecs.BOM_UTF8)[:4]
    # A search for one byte takes far less time than one for two, and nearly no log has this byte.
    starts_line = b"#" in contents.text and (begin[:1] == b"#" or b"\n#" in contents.text or b"\r#" in contents.text)
    if not (starts_line or begin == b"sep="):
        return contents
    with contents.open() as file:
        lines = file.read().splitlines()
    marked = ["", *lines[1:]] if NAMED_SEPARATOR.fullmatch(lines[0]) else lines
    first = next((n for n, line in enumerate(marked) if line.strip() and not line.startswith("#")), len(marked) - 1)
    header = next((n for n, line in enumerate(marked[:first]) if _count_names(line, accepted) > 1), first)
    separator = _separator(marked[header][:HEAD], accepted)
    cells = len(_split(marked[header], separator))
    are_comments = [
        line.startswith("#") and n != header and (n < header or len(_split(line, separator)) < cells)
        for n, line in enumerate(marked)
    ]
    kept = ["" if is_comment else line for is_comment, line in zip(are_comments, marked, strict=True)]
    return Contents(contents.path, "\n".join(kept).encode())


def _count_names(line: str, accepted: Collection[str]) -> int:
    """Return how many accepted names stand in a line that begins with #."""
    names = line.lstrip("# ")
    return sum(name in accepted for name in _split(names, _separator(names[:HEAD], accepted)))


def _parse_csv(contents: Contents, separator: str, names: list[str], texts: Collection[str], **settings: Any) -> Any:
    pandas = import_pandas()
    exact = {"float_precision": "round_trip"} if _is_before_3_1(pandas) else {}
    by_default = {
        "dtype": {name: "category" for name in names if name in texts},
        "na_values": {name: MISSING for name in names if name not in texts},
    }
    with contents.open() as file:
        return pandas.read_csv(
            file,
            sep=r"\s+" if separator == BLANKS else separator,
            header=0,
            names=names,
            keep_default_na=False,
            skipinitialspace=True,
            low_memory=False,
            **exact | by_default | settings,
        )


def _has_leading_zero(text: bytes, separator: str) -> bool:
    """Return whether a cell may begin with 0 and another digit.

    Each pattern begins with a text, for which 100 MB are searched in 40 ms. One pattern for all takes a second.
    """
    return any(re.search(re.escape(start.encode()) + rb"0\d", text) for start in {*BEFORE_CELLS, separator})


def _next_line(file: TextIO, previous: int) -> tuple[int, str]:
    """Return the number of the next line that is not empty, and the line, or "" at the end of the file."""
    # A file without ends of lines is not read as a whole.
    for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), ""), start=previous + 1):
        if len(line) > LONGEST_LINE:
            rule = f"must have lines of at most {LONGEST_LINE} characters"
            raise TraceError(None, rule, "Is it a CSV file?", found=f"line {number} is longer")
        if line.strip():
            return number, line
    return previous, ""


def _is_before_3_1(pandas: Any) -> bool:
    """Return whether pandas has to be asked for exact numbers, and not to look for dates. Later versions need not."""
    return tuple(map(int, re.findall(r"\d+", pandas.__version__)[:2])) < (3, 1)


def _separator(line: str, accepted: Collection[str]) -> str:
    """Return the character between the names of a header: the one that gives most accepted names, else most names."""
    others = (character for character in line if not IN_NAMES.match(character))
    splits = {separator: _split(line, separator) for separator in (*SEPARATORS, *others)}
    best = max(
        splits, key=lambda separator: (sum(name in accepted for name in splits[separator]), len(splits[separator]))
    )
    # Names may have blanks in them where something else separates them.
    return best if len(splits[best]) > 1 else BLANKS


def _split(line: str, separator: str) -> list[str]:
    if separator == BLANKS:
        return line.split()
    try:
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    # Only the module can tell that a cell is longer than it takes, because it knows the quotation marks.
    except csv.Error:
        cells = line.split(separator)
    return [cell.strip() for cell in cells]


def _split_header(line: str, separator: str) -> list[str]:
    names = _split(line, separator)
    rule = "must name the columns in its first line"
    if not any(names):
        raise TraceError(None, rule, "Begin with worker,commit_time.", found="got nothing")
    if len(names) > MOST_COLUMNS:
        raise _too_many_columns(len(names))
    if all(re.fullmatch(r"[-+.\deE]+", name) for name in names):
        received = f"got {', '.join(map(brief, names[:3]))}"
        raise TraceError(None, rule, "Begin with worker,commit_time.", found=received)
    _require_once(names)
    return [name or f"column {number}" for number, name in enumerate(names, start=1)]


def _too_many_columns(count: int) -> TraceError:
    rule = f"must have at most {MOST_COLUMNS} columns"
    return TraceError(None, rule, "Keep those of a trace.", found=f"got {count}")


def _rows(file: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row, the header first. Empty lines are no rows."""
    if separator == BLANKS:
        yield from ((number, line.split()) for number, line in enumerate(file, start=1) if line.strip())
        return
    reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
    for cells in reader:
        if any(map(str.strip, cells)) or len(cells) > 1:
            yield reader.line_num, [cell.strip() for cell in cells]


def _explain_csv(contents: Contents, separator: str, names: list[str], reason: str) -> TraceError:
    """Return the error for a file that pandas cannot take apart, with the first line that has more cells than names."""
    try:
        with contents.open() as file:
            for number, cells in islice(_rows(file, separator), 1, None):
                if len(cells) > len(names):
                    return wrong_count(len(names), number, len(cells))
        cause = reason
    except csv.Error as error:
        cause = str(error)
    received = " ".join(cause.split()).removeprefix("Error tokenizing data. C error: ")
    return TraceError(None, "must be a CSV file", "Check the quotation marks.", found=received)


def wrong_count(expected: int, line: int, cells: int) -> TraceError:
    """Return the error for a line of a CSV file with too few or too many cells."""
    rule, remedy = f"must have {expected} cells in every row", "Complete or remove the row."
    return TraceError(None, rule, remedy, row=line, unit="line", value=cells)


def _read_json_lines(contents: Contents) -> Source:
    pandas = import_pandas()
    with contents.open() as file:
        settings = {"convert_dates": False} if _is_before_3_1(pandas) else {}
        try:
            frame = pandas.read_json(file, lines=True, dtype=False, precise_float=True, **settings)
        except (ValueError, AttributeError, TypeError):
            raise _explain_lines(contents) from None
    if not all(isinstance(name, str) for name in frame.columns):
        raise _explain_lines(contents)

    def locate(row: int) -> Location:
        with contents.open() as file:
            lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
            number, line = next(islice(lines, row, None))
        # pandas reads some lines that the module does not.
        return Location("line", number, _parse_object(line) or {})

    return Source("JSON lines", _columns_of(frame), locate)


def _explain_lines(contents: Contents) -> TraceError:
    rule, remedy = "must have a JSON object in every line", "Correct or remove the line."
    with contents.open() as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and _parse_object(line) is None:
                return TraceError(None, rule, remedy, row=number, unit="line", value=line.strip())
    return TraceError(None, rule, remedy, found="pandas cannot read it")


def _parse_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object of a line, or None if the line is none: to know is to parse it."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _read_json(contents: Contents) -> Source:
    with contents.open() as file:
        text = file.read()
    try:
        content = json.loads(text)
    except ValueError as error:
        remedy = "Write it again, or remove what follows that place."
        raise TraceError(None, "must be a JSON file", remedy, found=str(error)) from None
    if isinstance(content, list) and all(isinstance(record, dict) for record in content):
        frame = import_pandas().DataFrame.from_records(content)
        return Source(
            "a JSON file", _columns_of(frame), lambda row: Location("line", _line_of_record(text, row), content[row])
        )
    is_object = isinstance(content, dict)
    columns = content.values() if is_object else ()
    if all(isinstance(values, list) for values in columns) and len({len(values) for values in columns}) == 1:
        return of_frame(content)._replace(kind="a JSON file")
    received = f"an object with the keys {', '.join(map(brief, islice(content, 5)))}" if is_object else "else"
    rule, form = "must be an array of records", 'Begin with [{"worker": …, "commit_time": …}, …].'
    raise TraceError(None, rule, form, found=f"got {received}")


def _line_of_record(text: str, row: int) -> int:
    """Return the line on which a record of a JSON array begins."""
    decoder, between, position = json.JSONDecoder(), re.compile(r"[\s,]*"), text.index("[") + 1
    for _ in range(row):
        _, position = decoder.raw_decode(text, between.match(text, position).end())  # type: ignore[union-attr]
    return 1 + text.count("\n", 0, between.match(text, position).end())  # type: ignore[union-attr]
