"""The columns of a log as numbers: times in seconds, whether they come as numbers, dates or durations, and names.

What NumPy takes as it is needs no pandas, which parses texts and dates and knows columns of its own.
"""

import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import brief, require_all_finite
from asyncsim.trace._columns import TraceError, require_one_dimension
from asyncsim.trace._source import MISSING, import_pandas

Unit = Literal["s", "ms", "us", "ns"]
Units = Unit | Mapping[str, Unit] | None  # of all columns, of some, or as their names say
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# Seconds, three years: a log that begins later, and is shorter, counts from another year, as Unix time does.
EPOCH = 1e8
WORDS = {"true": 1.0, "false": 0.0}
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?|[-+]?\d+")
COMMA_OF_SECONDS = re.compile(r"(:\d\d),(\d)")  # as Python's logging writes dates
DATE = re.compile(r"\d{4}-?\d\d-?\d\d")
ZONE = re.compile(r"(Z|UTC|[+-]\d\d:?(\d\d)?)$")  # at the end of a date and time
COARSE = 0.01  # of the mean time between rows
TIME_REMEDY = "Give seconds, dates in ISO 8601 or durations."
OF_DURATION = re.compile(r"[A-Za-z:]")


class Times(NamedTuple):
    """Columns of times in seconds, NaN where they are missing."""

    columns: dict[str, NDArray[np.float64]]
    origin: float  # seconds, a whole number that was subtracted from all, so that Unix times lose no digits
    are_dates: bool
    notes: tuple[str, ...]


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return a column as numbers, dates (in UTC), durations, texts or objects. Masked entries are missing."""
    if isinstance(values, np.ma.MaskedArray):
        is_number = values.dtype.kind in "biuf"
        array = np.array(values.data, float if is_number else object)
        array[np.ma.getmaskarray(values)] = np.nan if is_number else None
    elif type(values).__module__.partition(".")[0] == "pandas":
        array = _from_pandas(values)
    else:
        array = np.asarray(values)
    require_one_dimension(name, array)
    return array


def _from_pandas(values: Any) -> NDArray[Any]:
    pandas = sys.modules["pandas"]
    kinds, dtype = pandas.api.types, values.dtype
    if kinds.is_datetime64_any_dtype(dtype):
        return pandas.DatetimeIndex(pandas.to_datetime(values, utc=True)).tz_localize(None).to_numpy()
    if kinds.is_timedelta64_dtype(dtype):
        return pandas.TimedeltaIndex(values).to_numpy()
    if kinds.is_bool_dtype(dtype) or kinds.is_numeric_dtype(dtype):
        array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
        return array if array.dtype.kind in "biuf" else values.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(values, dtype=object)


def as_numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Return a column as numbers, NaN where they are missing."""
    array = as_array(name, values)
    if array.dtype.kind in "cmM":
        raise TraceError(name, "must be a column of numbers", "Convert it.", found=f"got {array.dtype}")
    if (floats := _as_floats(array)) is not None:
        return floats
    codes, texts = factorize(array)
    numbers, bad = _parse_numbers(texts)
    _require_all(name, bad, codes, texts, "must be a number")
    return numbers[codes]


def _as_floats(array: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return an array as floats, or None if it has texts or objects that NumPy does not take for numbers."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return None


def as_texts(name: str, values: Any) -> tuple[NDArray[np.intp], list[str]]:
    """Return the different texts of a column and the number of that in each row, -1 where it is missing."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(getattr(values, "dtype", None), pandas.CategoricalDtype):
        column = pandas.Series(values).cat.remove_unused_categories().cat
        codes, texts = column.codes.to_numpy(dtype=np.intp), column.categories.tolist()
    else:
        codes, texts = factorize(as_array(name, values))
    # Texts that differ in blanks around them are one name.
    names = [str(text).strip() for text in texts]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([*(numbers[name] if name else -1 for name in names), -1])[codes], list(numbers)


def factorize(array: NDArray[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the different values of a column and the number of that in each row, -1 where it is missing."""
    if array.dtype.kind != "O":
        values, codes = np.unique(array, return_inverse=True)
        return codes.astype(np.intp), values.tolist()
    pandas = import_pandas()
    try:
        codes, objects = pandas.factorize(array)
    # Cells may hold lists, which have no hash. To ask each cell before would take longer than to factorize them.
    except TypeError:
        codes, objects = pandas.factorize(np.array([*map(str, array)], object))
    return codes, list(objects)


def as_durations(name: str, values: Any, unit: str) -> NDArray[np.float64]:
    """Return a column of durations in seconds."""
    array, _ = _as_times(name, values)
    if array.dtype.kind == "M":
        raise TraceError(name, "must be a column of durations", "Give seconds.", found=f"got {array.dtype}")
    return _to_seconds(array, 0, PER_SECOND[unit])


def as_seconds(columns: Mapping[str, Any], unit: str | Mapping[str, str]) -> Times:
    """Return columns of times in seconds. Numbers count in `unit`, dates and durations have units of their own."""
    per_second = {name: PER_SECOND[unit if isinstance(unit, str) else unit[name]] for name in columns}
    parsed = {name: _as_times(name, values) for name, values in columns.items()}
    arrays = {name: array for name, (array, _) in parsed.items()}
    notes = tuple(note for _, notes in parsed.values() for note in notes)
    notes += tuple(note for name, array in arrays.items() if (note := _note_precision(name, array)))
    notes += _note_zones({name: columns[name] for name, array in arrays.items() if array.dtype.kind == "M"})
    dates = {name: array for name, array in arrays.items() if array.dtype.kind == "M"}
    for name, array in arrays.items() if dates else ():
        # Unix times and dates are the same clock, times from the start of a run and dates are not.
        if array.dtype.kind == "m" or (array.dtype.kind != "M" and _is_early(array, per_second[name] * EPOCH)):
            rule = f"must be dates too, as `{next(iter(dates))}` is"
            raise TraceError(name, rule, "Give all times as dates, or all as numbers.", found=f"got {array.dtype}")
    # Integers have all their digits, as dates do, while a float has no nanoseconds of Unix time.
    of_dates = [
        array[~np.isnat(array)].min().astype("M8[s]").astype(int) for array in dates.values() if _has_date(array)
    ]
    of_integers = [
        array.min() // per_second[name]
        for name, array in arrays.items()
        if array.dtype.kind in "iu" and len(array) and per_second[name] > 1
    ]
    origin = min(map(int, (*of_dates, *of_integers)), default=0)
    seconds = {name: _to_seconds(array, origin, per_second[name]) for name, array in arrays.items()}
    return Times(seconds, float(origin), bool(dates), notes)


def _note_precision(name: str, array: NDArray[Any]) -> str:
    """Say if a column of floats of less than 64 bits cannot tell its times apart."""
    if array.dtype not in (np.float16, np.float32) or not np.isfinite(array).any():
        return ""
    finite = array[np.isfinite(array)]
    step = float(np.spacing(np.abs(finite).max()))
    if step <= COARSE * float(np.ptp(finite)) / len(finite):
        return ""
    return f"`{name}` is of {array.dtype}, which has steps of {step:.3g} at these times: log float64 or whole numbers."


def _note_zones(columns: Mapping[str, Any]) -> tuple[str, ...]:
    """Say if some dates have a time zone and others have none, which then count as UTC."""
    zones = {name: _zones_of(values) for name, values in columns.items()}
    if len(set[bool]().union(*zones.values())) < 2:
        return ()
    mixed = next((name for name, kinds in zones.items() if len(kinds) > 1), None)
    without = next((name for name, kinds in zones.items() if kinds == {False}), None)
    which = f"Some dates of `{mixed}` have" if mixed else f"Dates of `{without}` have"
    return (f"{which} no time zone, which others have: they were read as UTC. Log all with their zone.",)


def _zones_of(values: Any) -> set[bool]:
    """Return whether dates have time zones, for each way that occurs."""
    dtype = getattr(values, "dtype", None)
    if dtype is not None and getattr(dtype, "kind", "O") == "M":
        return {getattr(dtype, "tz", None) is not None}
    found = set[bool]()
    for value in values:
        if isinstance(value, str) and DATE.match(value.strip()):
            found.add(ZONE.search(value.strip()) is not None)
        elif isinstance(value, datetime):
            found.add(value.tzinfo is not None)
        if len(found) > 1:
            break
    return found


def _is_early(numbers: NDArray[Any], limit: float) -> bool:
    finite = numbers[np.isfinite(numbers)]
    return bool(len(finite)) and float(finite.max()) < limit


def start_in_seconds(start: float | str, per_second: int = 1) -> float:
    """Return when a run began, in seconds: a number, of whose unit `per_second` are a second, or a date (ISO 8601)."""
    if not isinstance(start, str):
        return require_all_finite("start", start) / per_second
    values, bad = _parse_dates([start]) if DATE.match(start) else (np.zeros(0), np.ones(1, bool))
    if bad.any():
        remedy = 'Give the time at which the run began, or "first" for the earliest time in the log.'
        raise ValueError(f"`start` must be a number, a date (ISO 8601) or 'first'; got {brief(start)}. {remedy}")
    return float(_to_seconds(values[:1], 0, 1)[0])


def _has_date(dates: NDArray[Any]) -> bool:
    return not bool(np.isnat(dates).all())


def _to_seconds(array: NDArray[Any], origin: int, per_second: int) -> NDArray[np.float64]:
    """Convert times to seconds since a whole second."""
    if array.dtype.kind == "M":
        whole = array.astype("M8[s]")
        seconds = (whole - np.datetime64(origin, "s")) / np.timedelta64(1, "s")
        return seconds + (array - whole) / np.timedelta64(1, "s")  # NaT becomes NaN
    if array.dtype.kind == "m":
        return array / np.timedelta64(1, "s") - origin
    if array.dtype.kind in "iu":
        return (array.astype(np.int64) - origin * per_second) / per_second
    return array.astype(np.float64) / per_second - origin


def _as_times(name: str, values: Any) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return a column as numbers, dates or durations, with notes."""
    column = as_array(name, values)
    if column.dtype.kind == "c":
        raise TraceError(name, "must be a column of numbers", "Convert it.", found=f"got {column.dtype}")
    are_moments = column.dtype == object and isinstance(next(iter(column), None), np.datetime64 | np.timedelta64)
    array = np.array(column.tolist()) if are_moments else column  # As objects they would be numbers of any unit.
    if array.dtype.kind in "biufmM":
        return array.astype(np.float64) if array.dtype.kind == "b" else array, ()
    if (floats := _as_floats(array)) is not None:
        return floats, ()
    codes, texts = factorize(array)
    return _parse_times(name, texts, codes)


class Reading(NamedTuple):
    """Different texts of a column, all parsed in one way."""

    rule: str  # what they must be
    values: NDArray[Any]
    bad: NDArray[np.bool_]  # whether a text is none


def _parse_times(name: str, texts: list[Any], codes: NDArray[np.intp]) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Parse each different text once, in all rows as a number, one with a decimal comma, a date or a duration."""
    written = [text.strip() if isinstance(text, str) else text for text in texts]
    fitting = next((reading for reading in _readings(written) if not reading.bad.any()), None)
    if fitting is None:
        nearest = min(_readings(written), key=lambda reading: reading.bad.sum())
        _require_all(name, nearest.bad, codes, texts, f"must be a {nearest.rule}", TIME_REMEDY)
        raise AssertionError(name)
    if fitting.rule != DECIMAL:
        return fitting.values[codes], ()
    example = next(text for text in written if isinstance(text, str) and "," in text)
    note = f"`{name}` has a decimal comma: {example} was read as {example.replace(',', '.')}."
    return fitting.values[codes], (note,)


def _readings(texts: list[Any]) -> Iterator[Reading]:
    """Yield the readings of a column of texts, each only when it is asked for."""
    yield from (Reading(rule, *parse(texts)) for rule, parse in PARSERS.items())


def _parse_commas(texts: list[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    # A column that has points as well may have them between thousands.
    plain = [
        text if _is_missing(text) else text.replace(",", ".") if DECIMAL_COMMA.fullmatch(text) else "with a point"
        for text in (text if isinstance(text, str) or _is_missing(text) else str(text) for text in texts)
    ]
    return _parse_numbers(plain)


def _parse_dates(texts: list[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    pandas = import_pandas()
    plain = [
        COMMA_OF_SECONDS.sub(r"\1.\2", text.removesuffix("UTC").rstrip())
        if isinstance(text, str) and DATE.match(text)
        else text
        for text in texts
    ]
    moments = [None if _is_missing(text) or isinstance(text, int | float) else text for text in plain]
    column = pandas.Series(moments, dtype=object)
    parsed = pandas.to_datetime(column, format="ISO8601", utc=True, errors="coerce")
    return _append_missing(pandas.DatetimeIndex(parsed).tz_localize(None).to_numpy(), texts)


def _parse_durations(texts: list[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    pandas = import_pandas()
    # A number without a unit would be one of nanoseconds.
    plain = [text if isinstance(text, str | int | float | timedelta) else str(text) for text in texts]
    spans = [None if isinstance(text, int | float) or not OF_DURATION.search(str(text)) else text for text in plain]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of units that pandas will spell otherwise
        parsed = pandas.to_timedelta(pandas.Series(spans, dtype=object), errors="coerce")
    return _append_missing(pandas.TimedeltaIndex(parsed).to_numpy(), texts)


def _append_missing(values: NDArray[Any], texts: list[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return times with a missing one at the end, for code -1, and which of the texts are wrong."""
    bad = np.isnat(values) & ~np.array([_is_missing(text) for text in texts], bool)
    return np.append(values, np.array("NaT", values.dtype)), bad


def _is_missing(text: Any) -> bool:
    return text in MISSING if isinstance(text, str) else text != text or text is None


def _parse_numbers(texts: list[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return numbers, with NaN at the end for code -1, and which of the texts are neither numbers nor missing."""
    numbers = np.array([_number(text) for text in texts], np.float64)
    is_bad = [
        no_number and not _is_missing(text) for no_number, text in zip(np.isnan(numbers).tolist(), texts, strict=True)
    ]
    return np.append(numbers, math.nan), np.array(is_bad, bool)


def _number(text: Any) -> float:
    """Return the number of a text or an object, or NaN if it is neither one for Python nor one of `WORDS`."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return WORDS.get(str(text).strip().lower(), math.nan)


def _require_all(
    name: str, bad: NDArray[np.bool_], codes: NDArray[np.intp], texts: list[Any], rule: str, remedy: str = "Correct it."
) -> None:
    rows = np.append(bad, False)[codes]
    if rows.any():
        row = int(rows.argmax())
        raise TraceError(name, rule, remedy, row=row, value=texts[codes[row]])


# Readings of a column of texts, the first of which fits all of them: rule -> parser.
DECIMAL = "number with a decimal comma, as in other rows"
PARSERS: dict[str, Callable[[list[Any]], tuple[NDArray[Any], NDArray[np.bool_]]]] = {
    "number": _parse_numbers,
    DECIMAL: _parse_commas,
    "date (ISO 8601), as in other rows": _parse_dates,
    "duration, as in other rows": _parse_durations,
}
