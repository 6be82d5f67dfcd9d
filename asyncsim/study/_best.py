"""The best of a sweep: for each group, the setting whose median over the seeds is best, with its quartiles."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from asyncsim import _checks as checks
from asyncsim._metrics import metric
from asyncsim.study.table import SweepTable, column

SEEDS = ("seed", "schedule_seed")  # fields over which there are medians
QUARTILES = {"lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75}


def medians(table: SweepTable, by: str = "final_loss", *, largest: bool | None = None) -> SweepTable:
    """Quartiles over the seeds of every setting of the other fields, where a run without a result counts as worst."""
    require_numbers("by", by, table)
    fields = [name for name in table.fields if name not in SEEDS]
    worst = -np.inf if is_better_larger(by, largest) else np.inf
    groups: dict[tuple[Any, ...], list[float]] = {}
    for place in range(table.rows):
        setting = values_at(table, fields, place)
        value = float(table[by][place])
        groups.setdefault(setting, []).append(worst if np.isnan(value) else value)
    columns: dict[str, Any] = {name: column([setting[i] for setting in groups]) for i, name in enumerate(fields)}
    columns["runs"] = [len(values) for values in groups.values()]
    for name, share in QUARTILES.items():
        if name == "median":
            found = [np.median(values) for values in groups.values()]
        else:  # one of the values, as between two of them there is nothing if one is infinite
            found = [np.quantile(values, share, method="inverted_cdf") for values in groups.values()]
        columns[name] = np.where(np.isfinite(found), found, np.nan)
    return SweepTable(columns, fields)


def best(
    results: Any, by: str = "final_loss", per: str | Sequence[str] = (), *, largest: bool | None = None
) -> SweepTable:
    """The best setting of each group: the one whose median over the seeds is best.

    Args:
        results: A `Sweep`, or its table.
        by: The column that is measured, such as "final_loss".
        per: Fields that make the groups: the best step size *per* rule and number of workers. By default all is one.
        largest: Whether larger is better. Known of an accuracy (yes), a loss and an error (no); to be given for
            anything else.

    Returns:
        One row per group: all fields in which the runs differ except for the seeds, "runs", and the quartiles of `by`,
        as `medians` has them; and "at_the_edge", whether a number that was chosen is the smallest or largest of those
        that were tried, so that the best may lie beyond.

    Raises:
        ValueError: If a name is unknown (the nearest is named), one of `per` is not a field in which the runs differ,
            or whether larger is better is not known.

    Example:
        >>> columns = {"workers": [2, 2, 4, 4], "learning_rate": [0.1, 0.2] * 2, "final_loss": [0.5, 0.4, 0.3, 0.6]}
        >>> table = best(SweepTable(columns, ["workers", "learning_rate"]), per="workers")
        >>> table["workers"].tolist(), table["learning_rate"].tolist(), table["median"].tolist()
        ([2, 4], [0.2, 0.1], [0.4, 0.3])
    """
    if not isinstance(results, SweepTable) and not hasattr(results, "table"):
        raise ValueError(f"`results` must be a sweep or its table; got {results!r:.60}. Give what `sweep` returns.")
    table = results if isinstance(results, SweepTable) else results.table()
    groups = (per,) if isinstance(per, str) else tuple(per)
    for name in groups:
        checks.one_of("per", name, [field for field in table.fields if field not in SEEDS])
    settings = medians(table, by, largest=largest)
    larger = is_better_larger(by, largest)
    score = np.where(np.isnan(settings["median"]), -np.inf, settings["median"] * (1 if larger else -1))
    chosen: dict[tuple[Any, ...], int] = {}
    for place in range(settings.rows):
        group = values_at(settings, groups, place)
        if group not in chosen or score[place] > score[chosen[group]]:
            chosen[group] = place
    places = list(chosen.values())
    columns = {name: values[places] for name, values in settings.items()}
    free = [name for name in settings.fields if name not in groups]
    columns["at_the_edge"] = np.array([_at_the_edge(settings, free, groups, place) for place in places], bool)
    return SweepTable(columns, settings.fields)


def is_better_larger(by: str, largest: bool | None = None) -> bool:
    """Whether a larger value of a column is better: as given, or as its name says."""
    if largest is not None:
        return largest
    known = metric(by).larger_is_better
    if known is None:
        raise ValueError(
            f"`largest` must be given for {by!r}: whether larger is better is known of losses, errors and accuracies. "
            "Give True or False (`--largest` or `--smallest`)."
        )
    return known


def require_numbers(name: str, column: str, table: Mapping[str, np.ndarray]) -> None:
    """Refuse a column that a table does not have, or that does not hold numbers."""
    known = [one for one, values in table.items() if values.dtype.kind in "iuf"]
    checks.one_of(name, column, known)


def values_at(table: Mapping[str, np.ndarray], names: Sequence[str], row: int) -> tuple[Any, ...]:
    """The values of some columns in a row; None where there is none, which is equal to itself, as NaN is not."""
    values = (table[name][row].item() for name in names)
    return tuple(None if value != value else value for value in values)


def _at_the_edge(settings: SweepTable, free: Sequence[str], groups: Sequence[str], place: int) -> bool:
    here = values_at(settings, groups, place)
    same = [row for row in range(settings.rows) if values_at(settings, groups, row) == here]
    for name in free:
        tried = [value for row in same for value in values_at(settings, [name], row) if value is not None]
        varied = tried and settings[name].dtype.kind in "iuf" and min(tried) < max(tried)
        if varied and settings[name][place] in (min(tried), max(tried)):
            return True
    return False
