"""Paired differences over seeds, with intervals.

A run that diverged has no result. It is counted and never enters a mean.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsim import _checks as checks
from asyncsim._metrics import field_text
from asyncsim.components._checked import checked
from asyncsim.scenario._tree import LENGTHS
from asyncsim.study._columns import SEEDS, column, distinct, require_numbers, rows_by, values_in
from asyncsim.study._means import has_diverged, rounded, standard_error, usable_in
from asyncsim.study.table import SweepTable, best, is_larger_better, require_one_length, table_in

LEVEL = 0.95  # probability that an interval contains the mean


@checked
def differences(
    results: Any,
    of: str,
    by: str = "final_loss",
    *,
    baseline: Any = None,
    at_best: bool = False,
    largest: bool | None = None,
) -> SweepTable:
    """Take paired differences between the values of a field, over the seeds that they have in common.

    Two runs are a pair if they have the same seed and the same values of all other fields that both have and that vary
    within one of the two. The mean of the differences has a 95 % interval of Student's t distribution: if no
    difference exists, 1 interval in 20 excludes zero, so of many intervals some do by chance.

    Args:
        results: A `Sweep`, or its table.
        of: The field that is compared, such as "rule", or the axis of named cases, such as "case".
        by: The column that is measured.
        baseline: The value from which the others differ, by default the first.
        at_best: Compare each value at its best setting of the other fields, as `best` finds it.
        largest: Whether larger is better, as in `best`.

    Returns:
        A row for each other value and each setting that both have: the fields of the setting, `of`, "baseline",
        "difference" (other − baseline), "low" and "high", which are NaN with fewer than two pairs, "pairs",
        "diverged" and "baseline_diverged" (seeds that are left out because that run diverged), "unpaired" (seeds
        that only one has a result for), "also" (other fields in which the two differ), and "verdict", a sentence.

    Raises:
        ValueError: If a name is unknown, `of` has one value, a value has several runs of one seed and setting, or the
            runs differ in their length.

    Example:
        >>> losses = [0.30, 0.32, 0.31, 0.25, 0.26, 0.28]
        >>> table = SweepTable(
        ...     {"rule": ["downpour"] * 3 + ["gem"] * 3, "seed": [0, 1, 2] * 2, "final_loss": losses}, ["rule", "seed"]
        ... )
        >>> differences(table, "rule")["verdict"].tolist()
        ['gem − downpour: −0.047 (95 %: −0.085 to −0.009, 3 seeds); gem is better']
    """
    table = table_in(results)
    fields = [name for name in table.fields if name not in SEEDS]
    checks.require_one_of("of", of, choices=fields)
    require_numbers("by", by, table)
    larger = is_larger_better(by, largest)
    if at_best:
        table = at_best_settings(table, of, by, larger)
    names = [value for value in dict.fromkeys(values_in(table[of])) if value not in (None, "")]
    if len(names) < 2:
        raise ValueError(
            f"`of` must be a field with two values or more; {of!r} has {', '.join(map(field_text, names))}."
        )
    first = names[0] if baseline is None else _value_of(baseline, names)
    rows = [row for name in names if name != first for row in _differences(table, of, by, (first, name), larger)]
    matched = [name for name in fields if name != of and any(row[name] is not None for row in rows)]
    columns = {name: column([row[name] for row in rows], numbers=name in NUMBERS) for name in (*matched, of, *COLUMNS)}
    return SweepTable(columns, [*matched, of])


NUMBERS = ("difference", "low", "high")
COLUMNS = ("baseline", *NUMBERS, "pairs", "diverged", "baseline_diverged", "unpaired", "also", "verdict")


def at_best_settings(table: SweepTable, per: str, by: str, larger: bool) -> SweepTable:
    """Select the rows of a table in the best setting of each value of a field."""
    fields = [name for name in table.fields if name not in SEEDS]
    chosen = {*rows_by(best(table, by, per, largest=larger), fields)}
    rows = sorted(row for setting, group in rows_by(table, fields).items() if setting in chosen for row in group)
    return SweepTable({name: values[rows] for name, values in table.items()}, table.fields)


def _differences(table: SweepTable, of: str, by: str, pair: tuple[Any, Any], larger: bool) -> list[dict[str, Any]]:
    """Return the differences between two values, one for each setting that both have."""
    others = [name for name in table.fields if name not in (of, *SEEDS)]
    sides = [[row for row, value in enumerate(values_in(table[of])) if value == name] for name in pair]
    # Fields that vary within one side are matched, and those that differ only between the sides are mentioned.
    values = {name: [distinct(table[name][rows]) for rows in sides] for name in others}
    varied = [name for name in others if any(len(side) > 1 for side in values[name])]
    matched = [name for name in varied if not any({None, ""} & side for side in values[name])]
    also = [name for name in others if name not in varied and len(set.union(*values[name])) > 1]
    require_one_length({name: table[name][sides[0] + sides[1]] for name in also if name in LENGTHS})
    first, second = (_by_setting(table, of, matched, rows) for rows in sides)
    lost, usable, measured = has_diverged(table), usable_in(table, by), table[by].astype(float)
    table_rows = []
    # Without a common setting there is one row, which says so.
    for setting in [setting for setting in first if setting in second] or [None]:
        runs, others_runs = (side.get(setting, {}) for side in (first, second))
        both = [(runs[seed], others_runs[seed]) for seed in runs if seed in others_runs]
        pairs = [(a, b) for a, b in both if usable[a] and usable[b]]
        diverged, of_baseline = (sum(bool(lost[rows[side]]) for rows in both) for side in (1, 0))
        # Some pairs lack a run that has not been computed.
        waiting = sum(not (lost[a] or lost[b] or (usable[a] and usable[b])) for a, b in both)
        row: dict[str, Any] = dict.fromkeys(others) | dict(zip(matched, setting or (), strict=False))
        row |= {of: pair[1], "baseline": pair[0], **_interval([measured[b] - measured[a] for a, b in pairs])}
        row |= {"pairs": len(pairs), "diverged": diverged, "baseline_diverged": of_baseline}
        row |= {"unpaired": len(runs.keys() ^ others_runs.keys()) + waiting, "also": ", ".join(also)}
        table_rows.append({**row, "verdict": _verdict(row, field_text(pair[1]), field_text(pair[0]), larger)})
    return table_rows


def _by_setting(table: SweepTable, of: str, matched: Sequence[str], rows: Sequence[int]) -> dict[Any, dict[Any, int]]:
    """Return values of the matched fields -> seed -> row of that run."""
    seeds = [values_in(table[name]) for name in SEEDS if name in table.fields]
    columns = [values_in(table[name]) for name in matched]
    settings: dict[Any, dict[Any, int]] = {}
    for row in rows:
        seed = tuple(column[row] for column in seeds)
        runs = settings.setdefault(tuple(column[row] for column in columns), {})
        if (other := runs.setdefault(seed, row)) != row:
            differ = [n for n in table.fields if len(distinct(table[n][[row, other]])) > 1]
            raise ValueError(
                f"`of` {field_text(table[of][row].item())!r} has several runs of one seed, which differ in "
                f"{', '.join(differ) or 'nothing'}. Select one of them (--where FIELD=VALUE), or compare each at its "
                "best setting (--best; in Python, `at_best=True`)."
            )
    return settings


def _interval(values: Sequence[float]) -> dict[str, float]:
    """Return the mean of differences, and the ends of its 95 % interval of Student's t, NaN with fewer than two."""
    from scipy import special  # The command line needs it for nothing else.

    mean = float(np.mean(values)) if len(values) else math.nan
    half = math.nan
    if len(values) > 1:
        half = float(special.stdtrit(len(values) - 1, (1 + LEVEL) / 2)) * standard_error(np.asarray(values))
    return {"difference": mean, "low": mean - half, "high": mean + half}


def _verdict(row: dict[str, Any], name: str, baseline: str, larger: bool) -> str:
    """State the difference in a sentence that says what it rests on."""
    mean, low, high, pairs = row["difference"], row["low"], row["high"], row["pairs"]
    words = f"{name} − {baseline}: "
    if not pairs:
        words += "no seed at which both have a result"
    elif pairs == 1:
        words += f"{rounded(mean, abs(mean))} at 1 seed, so there is no interval; give two seeds or more"
    else:
        error = (high - low) / 2
        mean_text, low_text, high_text = (rounded(value, error or abs(mean)) for value in (mean, low, high))
        words += f"{mean_text} (95 %: {low_text} to {high_text}, {pairs:,} seeds)"
        better = "better" if (mean > 0) == larger else "worse"
        words += "; no difference shown" if low <= 0 <= high else f"; {name} is {better}"
    lost = [(name, row["diverged"]), (baseline, row["baseline_diverged"])]
    if any(count for _, count in lost):
        counts = " and ".join(f"{side} diverged at {count:,}" for side, count in lost if count)
        words += f"; {counts} of the seeds, which are left out"
    if row["unpaired"]:
        words += f"; {row['unpaired']:,} seed{'s' * (row['unpaired'] > 1)} without a partner left out"
    return words


def _value_of(baseline: Any, names: Sequence[Any]) -> Any:
    """Return the value that is meant. The command line gives it as a text."""
    by_text = {field_text(name): name for name in names} | {str(name): name for name in names}
    return by_text[checks.require_one_of("baseline", str(baseline), choices=list(by_text))]
