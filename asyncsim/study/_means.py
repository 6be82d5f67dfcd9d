"""Means over seeds with standard errors, as columns, as cells and as a LaTeX table."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from asyncsim._metrics import ABSENT, field_text, metric, spaced
from asyncsim.study._columns import SEEDS, STATUS, column, require_numbers, rows_by, rows_in

ERROR = "_error"  # end of the name of the column with the standard errors of another
DEFAULT_COLUMNS = ("final_loss", "test_accuracy")  # columns whose means are taken if none is named
DIVERGED, DONE = "diverged_at", "done"
MOST_DIGITS = 15  # digits that a number has in any case
LEAST_FIXED, MOST_FIXED = 1e-4, 1e6  # sizes of a number between which it is written without an exponent
Columns = Mapping[str, np.ndarray]


def means(table: Columns, all_fields: Sequence[str], columns: Sequence[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """Take means over the seeds of every setting of the other fields, with their standard errors."""
    chosen = list(columns) or [name for name in DEFAULT_COLUMNS if name in table and np.isfinite(table[name]).any()]
    for name in chosen:
        require_numbers("columns", name, table)
    fields = [name for name in all_fields if name not in SEEDS]
    groups = rows_by(table, fields)
    table_of_means: dict[str, Any] = {name: column([setting[i] for setting in groups]) for i, name in enumerate(fields)}
    usable = {name: usable_in(table, name) for name in chosen}
    for name in chosen:
        values = [table[name][[row for row in rows if usable[name][row]]].astype(float) for rows in groups.values()]
        table_of_means[name] = np.array([group.mean() if len(group) else np.nan for group in values])
        table_of_means[name + ERROR] = np.array([standard_error(group) for group in values])
    lost, missing = has_diverged(table), _is_missing(table)
    table_of_means["runs"] = np.array([len(rows) for rows in groups.values()])
    table_of_means["diverged"] = np.array([int(lost[rows].sum()) for rows in groups.values()])
    table_of_means["missing"] = np.array([int(missing[rows].sum()) for rows in groups.values()])
    return table_of_means, fields


def rounded(value: float, error: float) -> str:
    """Write a number with as many digits as an error of two digits has."""
    size = max(abs(value), abs(error))  # A value that is small beside its error has the exponent of the error.
    if not size or LEAST_FIXED <= size < MOST_FIXED:
        return f"{value:.{_digits(error)}f}".replace("-", "−")
    digits = 2
    if value and error > 0 and math.isfinite(value) and math.isfinite(error):
        digits += math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
    return f"{value:.{min(max(digits, 2), MOST_DIGITS)}g}".replace("-", "−")


def _digits(error: float) -> int:
    """Count the digits after the point of an error with two digits."""
    return max(0, 1 - math.floor(math.log10(error))) if error > 0 and math.isfinite(error) else 3


def has_diverged(table: Columns) -> np.ndarray:
    """Tell in which rows a run diverged."""
    return np.isfinite(table[DIVERGED]) if DIVERGED in table else np.zeros(rows_in(table), bool)


def _is_missing(table: Columns) -> np.ndarray:
    """Tell in which rows a run has no result, or none yet."""
    return table[STATUS] != DONE if STATUS in table else np.zeros(rows_in(table), bool)


def usable_in(table: Columns, name: str) -> np.ndarray:
    """Tell in which rows a run did not diverge and has a value."""
    return np.isfinite(table[name].astype(float)) & ~has_diverged(table)


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of a mean, NaN for fewer than two values."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "−": "$-$", "–": "--", **{character: "\\" + character for character in "&%$#_"},
}  # fmt: skip


def mean_text(row: Mapping[str, Any], name: str) -> str:
    """Write a cell of a table of means: a mean with its standard error, a count or the value of a field."""
    value = row[name]
    if name + ERROR not in row:
        return field_text(value) or ABSENT
    error = row[name + ERROR]
    if value != value or error != error:
        return field_text(value)
    return f"{rounded(value, error or abs(value))} ± {rounded(error, error)}"


def latex(table: Columns, fields: Sequence[str]) -> str:
    """Write a `tabular` of the package booktabs, where a column and that of its standard errors are one."""
    names = [name for name in table if not name.endswith(ERROR)]
    names = [name for name in names if name not in ("diverged", "missing") or table[name].any()]
    heads = [_escaped(spaced(name) if name in fields else metric(name).label) for name in names]
    flush = "".join("l" if table[name].dtype.kind not in "iuf" else "r" for name in names)
    lines = [rf"\begin{{tabular}}{{{flush}}}", r"\toprule", " & ".join(heads) + r" \\", r"\midrule"]
    for row in range(rows_in(table)):
        lines.append(" & ".join(_tex_cell(table, name, row) for name in names) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _tex_cell(table: Columns, name: str, row: int) -> str:
    value = table[name][row].item()
    if name + ERROR not in table:
        return _escaped(field_text(value) or ABSENT)
    error = table[name + ERROR][row].item()
    if value != value:
        return "--"
    if error != error:  # One run has no standard error.
        return _power(f"{value:.3g}")
    size = max(abs(value), error)
    if size and not LEAST_FIXED * 10 <= size < MOST_FIXED:
        power = math.floor(math.log10(size))
        digits = _digits(error / 10**power)
        return rf"$({value / 10**power:.{digits}f} \pm {error / 10**power:.{digits}f}) \times 10^{{{power}}}$"
    return rf"${value:.{_digits(error)}f} \pm {error:.{_digits(error)}f}$"


def _power(text: str) -> str:
    """Write a number of Python in TeX."""
    mantissa, e, power = text.partition("e")
    return rf"${mantissa} \times 10^{{{int(power)}}}$" if e else f"${mantissa}$"


def _escaped(text: str) -> str:
    """Escape the characters that mean something in TeX."""
    return "".join(TEX.get(character, character) for character in text)
