"""Which runs of a sweep a picture can show, and what is said of the others."""

from collections.abc import Mapping, Sequence

import numpy as np

from asyncsim.cli.tables import spaced
from asyncsim.study.best import values_at
from asyncsim.study.store import DONE, FAILURE, MISSING, RUNNING
from asyncsim.study.sweep_table import STATUS, SweepTable

DIVERGED = "diverged_at"
STATES = {FAILURE: "failed", RUNNING: "still running", MISSING: "missing"}  # state -> what is said of its runs


def showable(table: SweepTable, names: Sequence[str]) -> tuple[SweepTable, dict[str, int]]:
    """The runs that have all of these fields, and field -> how many of the others lack it.

    Runs of several scripts, or of several rules, may differ in fields that only some of them have.

    Example:
        >>> columns = {"rule": ["gem", "gem", "agn"], "kappa": [1.0, 2.0, float("nan")], "workers": [2, 4, 2]}
        >>> some, lacking = showable(SweepTable(columns, ["rule", "kappa", "workers"]), ["kappa"])
        >>> some.rows, some.fields, lacking
        (2, ['kappa', 'workers'], {'kappa': 1})
    """
    there = {name: has_value(table[name]) for name in names}
    kept = np.logical_and.reduce(list(there.values()))
    columns = {name: column[kept] for name, column in table.items()}
    fields = [name for name in table.fields if name in names or len(set(_comparable(columns[name]))) > 1]
    return SweepTable(columns, fields), {name: int((~has).sum()) for name, has in there.items() if not has.all()}


def chosen_among(settings: SweepTable, shown: Sequence[str]) -> list[str]:
    """The other fields of which a point of the picture has several values, so that the best of them is drawn.

    A field that one rule has and another has not is no choice of its own: the rule is.

    Example:
        >>> columns = {"rate": [0.1, 0.1, 0.2], "rule": ["gem", "sgd", "gem"], "kappa": [1.0, float("nan"), 1.0]}
        >>> table = SweepTable(columns, ["rate", "rule", "kappa"])
        >>> chosen_among(table, ["rate"]), chosen_among(table, ["rate", "rule"])
        (['rule'], [])
    """
    free = [name for name in settings.fields if name not in shown]
    points: dict[tuple[object, ...], list[int]] = {}
    for row in range(settings.rows):
        points.setdefault(values_at(settings, shown, row), []).append(row)
    found = dict.fromkeys(free, 0)
    for rows in points.values():
        values = {name: {value for row in rows for value in values_at(settings, [name], row)} for name in free}
        several = [name for name in free if len(values[name] - {None, ""}) > 1]
        for name in several or [name for name in free if len(values[name]) > 1]:
            found[name] += 1
    return [name for name in free if found[name]]


def has_value(column: np.ndarray) -> np.ndarray:
    """Where a column holds anything: a number that exists, or a text."""
    if column.dtype.kind == "f":
        return ~np.isnan(column)
    return column != "" if column.dtype.kind == "U" else np.ones(len(column), bool)


def unmeasured(table: SweepTable, y: str) -> dict[str, int]:
    """What became of the runs without a value -> how many; they count as the worst.

    Example:
        >>> columns = {"final_loss": [0.5, float("nan")], "diverged_at": [float("nan"), 3.0], "status": ["done"] * 2}
        >>> unmeasured(SweepTable(columns, []), "final_loss")
        {'diverged': 1}
    """
    without = ~has_value(table[y])
    states, diverged = table[STATUS][without], has_value(table[DIVERGED])[without]
    told = {word: int((states == state).sum()) for state, word in STATES.items()}
    done = states == DONE
    told = {"diverged": int((done & diverged).sum()), **told, f"without {spaced(y)}": int((done & ~diverged).sum())}
    return {words: count for words, count in told.items() if count}


def told(lacking: Mapping[str, int], lost: Mapping[str, int]) -> str:
    """Both of them in words; empty if every run is shown.

    Example:
        >>> told({"kappa": 6}, {"diverged": 2, "failed": 1})
        '6 runs without kappa left out; 2 diverged and 1 failed, which counts as worst'
    """
    left_out = [f"{_runs(count)} without {spaced(name)} left out" for name, count in lacking.items()]
    worst = " and ".join(f"{count:,} {words}" for words, count in lost.items())
    return "; ".join([*left_out, *([f"{worst}, which counts as worst"] if worst else [])])


def _runs(count: int) -> str:
    return f"{count:,} run{'s' * (count != 1)}"


def _comparable(column: np.ndarray) -> list[object]:
    return [None if value != value else value for value in column.tolist()]
