"""The table of a sweep, with a row for each scenario, and the best settings in it.

A table is a dictionary of columns of one length, which becomes a CSV file.
"""

import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim import _checks as checks
from asyncsim._metrics import COST_METRICS, KEYS, field_text, metric, own_metrics, sort_key
from asyncsim.components._address import shorten
from asyncsim.components._checked import checked
from asyncsim.components._component import is_same
from asyncsim.components._description import from_description
from asyncsim.components._digest import hash_of
from asyncsim.components._field import Field
from asyncsim.costs import Power, Price, cost
from asyncsim.costs._usage import sizes_in
from asyncsim.files._atomic import atomic_write
from asyncsim.scenario._rebuild import LANES, lanes_of
from asyncsim.scenario._scenario import Scenario, every_setting_of_scenarios
from asyncsim.scenario._tree import LENGTHS, STUDY_FIELDS
from asyncsim.scenario._tree import values_of as values_of_parts
from asyncsim.store._entries import DONE, FAILURE, Entries, now
from asyncsim.store._labels import TRACE
from asyncsim.store._sweeps import SweepSettings, settings_of, write_sweep
from asyncsim.study._columns import SEEDS, STATUS, column, distinct, require_numbers, rows_by, rows_in
from asyncsim.study._means import ERROR, latex, means
from asyncsim.trace import Trace

__all__ = ["SweepTable", "column", "csv_text", "record_sweep", "settings_of_sweep", "table_of", "values_of"]

DIGEST, REASON = "digest", "reason"


class SweepTable(dict[str, np.ndarray]):
    """Columns of one length by name, which pandas, polars and csv take as they are.

    Attributes:
        fields: Names of the columns that are fields in which the scenarios differ.

    Numbers that do not exist are NaN, texts that do not exist are empty.

    Example:
        >>> table = SweepTable({"workers": np.array([2, 4]), "final_loss": np.array([0.5, np.nan])}, ["workers"])
        >>> table.fields, len(table), table.rows
        (['workers'], 2, 2)
    """

    def __init__(self, columns: Mapping[str, Any], fields: Iterable[str]) -> None:
        super().__init__({name: np.asarray(column) for name, column in columns.items()})
        self.fields = list(fields)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return rows_in(self)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write the table as CSV with all digits and an empty cell for a missing value, also to `path` if given."""
        text = csv_text(self, _cell)
        if path is not None:
            atomic_write(path, lambda file: file.write(text.encode()))
        return text

    def means(self, *columns: str) -> "SweepTable":
        """Return the means over the seeds, one row for each setting of the other fields.

        A run that diverged counts in "diverged" and not in the means, one that is not there in "missing".

        Args:
            *columns: The measured columns, by default "final_loss" and "test_accuracy" as far as there are any.

        Returns:
            All fields except for the seeds, each measured column with its standard error (as in "final_loss_error",
            NaN with fewer than two runs), "runs", "diverged" and "missing".

        Example:
            >>> table = SweepTable({"seed": [0, 1], "final_loss": [0.1, 0.3]}, ["seed"]).means("final_loss")
            >>> {name: values.round(3).item() for name, values in table.items()}
            {'final_loss': 0.2, 'final_loss_error': 0.1, 'runs': 2, 'diverged': 0, 'missing': 0}
        """
        return SweepTable(*means(self, self.fields, columns))

    def latex(self, *columns: str) -> str:
        """Return the table for a paper: a LaTeX `tabular` with the rules of the package booktabs.

        A table of runs becomes one of `means`, which stand with their standard errors. No number is bold, because the
        lowest mean need not be the lowest expectation: `asyncsim.differences` says which differences are shown.

        Args:
            *columns: As in `means`.

        Example:
            >>> columns = {"rule": ["easgd_x"] * 2, "seed": [0, 1], "final_loss": [0.1, 0.3]}
            >>> print(SweepTable(columns, ["rule", "seed"]).latex())
            \\begin{tabular}{lrr}
            \\toprule
            rule & final loss & runs \\\\
            \\midrule
            easgd\\_x & $0.20 \\pm 0.10$ & 2 \\\\
            \\bottomrule
            \\end{tabular}
            <BLANKLINE>
        """
        table = self if any(name.endswith(ERROR) for name in self) else self.means(*columns)
        return latex(table, table.fields)

    def to_pandas(self) -> Any:
        """Convert the table to a pandas.DataFrame.

        Raises:
            ImportError: If pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-not-found]
        except ImportError as error:
            raise ImportError("`to_pandas` needs pandas, which is not installed. Run: pip install pandas") from error
        return pandas.DataFrame(dict(self))


def settings_of_sweep(scenarios: Sequence[Scenario]) -> SweepSettings:
    """Return the settings and labels of scenarios, those in which they agree apart from the others."""
    labels = list(dict.fromkeys(name for scenario in scenarios for name in scenario.labels))
    return settings_of([(scenario.digest, values_of(scenario)) for scenario in scenarios], labels)


def record_sweep(store: Entries, scenarios: Sequence[Scenario]) -> None:
    """Write into a store what a sweep asks for."""
    sweep = settings_of_sweep(scenarios)
    write_sweep(store.path, hash_of(sweep.rows), replace(sweep, when=now()))


def values_of(scenario: Scenario) -> dict[str, Any]:
    """Return path or label -> value, as plain data."""
    study = {name: getattr(scenario, name) for name in STUDY_FIELDS}
    # What is recorded by default depends on the number of workers, so it would seem to differ.
    study["record"] = None if scenario.record is None else scenario.strides
    if (lanes := lanes_of(scenario)) is not None:
        study[LANES] = lanes
    values = {**values_of_parts(scenario.cluster, scenario.rule, scenario.workload), **study}
    return {**scenario.labels, **values, **scenario.labels}  # Labels come first, and hide settings of their names.


def table_of(
    store: Entries, sweeps: Iterable[SweepSettings], power: Power | None = None, price: Price | None = None
) -> SweepTable:
    """Make the table of one or several sweeps. A scenario of several of them has one row.

    Energy and money are columns if you give the power or the prices. The schedules are then read.
    """
    rows: dict[str, dict[str, Any]] = {}
    for sweep in sweeps:
        for digest, settings in sweep.scenarios():
            rows.setdefault(digest, from_description(settings))  # JSON has no infinity, so values are descriptions.
    # A column has the shortest name that means its setting among those of this table.
    short = short_names(path for row in rows.values() for path in row)
    rows = {digest: {short[path]: value for path, value in row.items()} for digest, row in rows.items()}
    first = next(iter(rows.values()), {})
    fields = [
        path for path in short.values() if any(not is_same(row.get(path), first.get(path)) for row in rows.values())
    ]
    states = store.states(rows)
    summaries = {digest: (store.summary(digest) or {}) if states[digest] == DONE else {} for digest in rows}
    columns = {name: column([row.get(name) for row in rows.values()]) for name in fields}
    for name in (*KEYS, *own_metrics(summaries.values())):
        columns[name] = column([summary.get(name) for summary in summaries.values()], numbers=True)
    spent = [spent_in(store.folder(digest), summary, power, price) for digest, summary in summaries.items()]
    for name in spent[0] if spent else ():
        columns[name] = column([amounts[name] for amounts in spent], numbers=True)
    # All runs of a sweep may have the same lanes, which is no field then, but results in lanes differ from others.
    if LANES not in fields and any(LANES in row for row in rows.values()):
        columns[LANES] = column([row.get(LANES) for row in rows.values()])
    columns[STATUS] = np.array(list(states.values()), np.str_)
    if FAILURE in states.values():
        failures = [store.read_failure(digest) or {} if states[digest] == FAILURE else {} for digest in rows]
        columns[REASON] = np.array([str(failure.get("reason", "")) for failure in failures], np.str_)
    columns[DIGEST] = np.array(list(rows), np.str_)
    return SweepTable(columns, fields)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return path -> name of a column, of the settings of scenarios."""
    settings = every_setting_of_scenarios()

    def field_of(path: str) -> Field:
        names = path.split(".")
        numbers = [place for place, name in enumerate(names) if name.isdigit()]
        # A name of a region's setting begins with "regions", which stands before the number.
        least = len(names) - numbers[0] + 1 if numbers else 1
        return settings.get(path) or Field(path, "text", "", least=least)

    return shorten({path: field_of(path) for path in paths})


def _cell(name: str, value: Any) -> str:
    """Write a cell of a CSV file. Integers and switches keep their type where others of their column are absent."""
    if value != value:  # NaN stands for a missing value.
        return ""
    kind = metric(name).kind
    exact = int(value) if kind in ("count", "commit") else bool(value) if kind == "switch" else value
    return repr(exact) if isinstance(exact, float) else str(exact)


def spent_in(
    folder: Path, summary: Mapping[str, Any], power: Power | None, price: Price | None
) -> dict[str, float | None]:
    """Compute energy and money of a run, of those that somebody asks for, or None where they are not known."""
    names = [name for name, model in zip(COST_METRICS, (power, price), strict=True) if model is not None]
    trace = Trace.load(folder / TRACE) if names and (folder / TRACE).is_file() else None
    sizes = {} if trace is None else sizes_in(trace, summary)  # Messages of one's own rules have no known size.
    spent = None if trace is None or not sizes else cost(trace, **sizes, power=power, price=price)
    return {name: getattr(spent, name, None) for name in names}


QUARTILES: dict[str, Callable[..., Any]] = {
    # A quartile is one of the values: halfway between two of them is no number if one is infinite.
    "lower_quartile": partial(np.quantile, q=0.25, method="inverted_cdf"),
    "median": np.median,
    "upper_quartile": partial(np.quantile, q=0.75, method="inverted_cdf"),
}


def medians(table: SweepTable, by: str = "final_loss", *, largest: bool | None = None) -> SweepTable:
    """Take quartiles over the seeds of every setting of other fields. A run without a result counts as worst."""
    require_numbers("by", by, table)
    fields = [name for name in table.fields if name not in SEEDS]
    # A diverged run has no loss. Left out, it would make a step size look good that diverges at most seeds.
    worst = -np.inf if is_larger_better(by, largest) else np.inf
    values = np.where(np.isnan(table[by]), worst, table[by].astype(float))
    groups = rows_by(table, fields)
    columns: dict[str, Any] = {name: column([setting[i] for setting in groups]) for i, name in enumerate(fields)}
    columns["runs"] = [len(rows) for rows in groups.values()]
    for name, quartile in QUARTILES.items():
        of_groups = [quartile(values[rows]) for rows in groups.values()]
        columns[name] = np.where(np.isfinite(of_groups), of_groups, np.nan)
    return SweepTable(columns, fields)


@checked
def best(
    results: Any,
    by: str = "final_loss",
    per: str | Sequence[str] = (),
    *,
    largest: bool | None = None,
    any_length: bool = False,
) -> SweepTable:
    """Find the best setting of each group: the one whose median over the seeds is best.

    Args:
        results: A `Sweep`, or its table.
        by: The column that is measured, such as "final_loss".
        per: Fields that make the groups: the best step size *per* rule and number of workers. By default all is one.
        largest: Whether larger is better. Known for an accuracy (yes), a loss and an error (no). You must give it for
            anything else.
        any_length: Whether runs of a group may differ in commits, commits_per_worker or seconds.

    Returns:
        One row per group: all fields in which the runs differ except for the seeds, "runs", the quartiles of `by`, as
        `medians` has them, and "at_the_edge", whether a chosen number is the smallest or largest of those that were
        tried, so that the best may lie beyond.

    Raises:
        ValueError: If a name is unknown (the nearest is named), one of `per` is not a field in which the runs differ,
            whether larger is better is not known, or runs of a group differ in their length.

    Example:
        >>> columns = {"workers": [2, 2, 4, 4], "learning_rate": [0.1, 0.2] * 2, "final_loss": [0.5, 0.4, 0.3, 0.6]}
        >>> table = best(SweepTable(columns, ["workers", "learning_rate"]), per="workers")
        >>> table["workers"].tolist(), table["learning_rate"].tolist(), table["median"].tolist()
        ([2, 4], [0.2, 0.1], [0.4, 0.3])
    """
    table = table_in(results)
    groups = (per,) if isinstance(per, str) else tuple(per)
    for name in groups:
        checks.require_one_of("per", name, choices=[field for field in table.fields if field not in SEEDS])
    settings = medians(table, by, largest=largest)
    larger = is_larger_better(by, largest)
    score = np.where(np.isnan(settings["median"]), -np.inf, settings["median"] * (1 if larger else -1))
    rows_of = rows_by(settings, groups).values()
    for rows in () if any_length else rows_of:
        require_one_length({name: settings[name][rows] for name in LENGTHS if name in settings.fields})
    chosen = [max(rows, key=score.__getitem__) for rows in rows_of]
    columns = {name: values[chosen] for name, values in settings.items()}
    columns["at_the_edge"] = np.array(list(map(bool, edges(settings, groups, columns))), bool)
    return SweepTable(columns, settings.fields)


def table_in(results: Any) -> SweepTable:
    """Return the table of a sweep, or a table as it is."""
    if not isinstance(results, SweepTable) and not hasattr(results, "table"):
        raise ValueError(
            f"`results` must be a sweep or its table; got {checks.brief(results)}. Give the result of `sweep`."
        )
    return results if isinstance(results, SweepTable) else results.table()


def require_one_length(lengths: Mapping[str, np.ndarray]) -> None:
    """Refuse runs that differ in one of these fields of the length, because their losses cannot be compared."""
    for name, lengths_of_runs in lengths.items():
        values = sorted(distinct(lengths_of_runs), key=sort_key)
        if len(values) > 1:
            raise ValueError(
                f"`{name}` differs ({', '.join(map(field_text, values))}), and results of runs of different length are "
                f"not compared. Group by it (--by {name}; in Python, `per`), select one "
                f"(--where {name}={field_text(values[0])}), or allow it (--any-length; `any_length=True`)."
            )


def is_larger_better(by: str, largest: bool | None = None) -> bool:
    """Tell whether a larger value of a column is better: as given, or as its name says."""
    if largest is not None:
        return largest
    larger_is_better = metric(by).larger_is_better
    if larger_is_better is None:
        raise ValueError(
            f"`largest` must be given for {by!r}: whether larger is better is known of losses, errors and accuracies. "
            "Give True or False (`--largest` or `--smallest`)."
        )
    return larger_is_better


def edges(settings: SweepTable, per: Sequence[str], chosen: Mapping[str, np.ndarray]) -> list[list[str]]:
    """Return, for the best setting of each group, the fields whose best number is the smallest or largest tried."""
    numeric = [name for name in settings.fields if name not in per and settings[name].dtype.kind in "iuf"]
    fields: list[list[str]] = []
    for group, rows in enumerate(rows_by(settings, per).values()):
        # A setting that a rule does not have is None.
        tried = {name: distinct(settings[name][rows]) - {None} for name in numeric}
        several = {name: values for name, values in tried.items() if len(values) > 1}
        fields.append([name for name, v in several.items() if chosen[name][group] in (min(v), max(v))])
    return fields


def csv_text(columns: Mapping[str, np.ndarray], cell: Callable[[str, Any], str]) -> str:
    """Return columns of one length as CSV, where `cell(name, value)` is the text of a value.

    Example:
        >>> csv_text({"workers": np.array([2, 4])}, lambda name, value: str(value))
        'workers\\n2\\n4\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    cells = ([cell(name, value) for value in column.tolist()] for name, column in columns.items())
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()
