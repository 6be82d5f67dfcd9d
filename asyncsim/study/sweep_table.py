"""The table of a sweep: one row per scenario, the fields in which they differ, what came of them."""

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from asyncsim.cluster import Cluster
from asyncsim.files import atomic_write
from asyncsim.remember import once_for_each
from asyncsim.scenario import fingerprint
from asyncsim.scenario.components import (
    COMPRESSOR,
    RULE,
    STUDY_FIELDS,
    compressor_component,
    law_component,
    network_and_server_fields,
    protocol_component,
    rule_component,
    shown_name,
    workload_component,
)
from asyncsim.scenario.compression import without
from asyncsim.scenario.fingerprint import plain, with_infinity
from asyncsim.scenario.lanes import LANES, lanes_of
from asyncsim.scenario.scenario import Scenario
from asyncsim.study.store import DONE, FAILURE, Store, now
from asyncsim.study.summary import KEYS
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

STATUS, DIGEST, REASON = "status", "digest", "reason"


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
        return len(next(iter(self.values()), ()))

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The table as CSV with all digits, an empty cell where there is nothing; written to a file if one is given."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self)
        writer.writerows(zip(*([_cell(value) for value in column.tolist()] for column in self.values()), strict=True))
        if path is not None:
            atomic_write(path, lambda file: file.write(text.getvalue().encode()))
        return text.getvalue()

    def to_pandas(self) -> Any:
        """The table as a pandas.DataFrame.

        Raises:
            ImportError: If pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-not-found]
        except ImportError as error:
            raise ImportError("`to_pandas` needs pandas, which is not installed. Run: pip install pandas") from error
        return pandas.DataFrame(dict(self))


def asked_for(scenarios: Sequence[Scenario]) -> dict[str, Any]:
    """What was asked for, as plain data: "common" field -> value, the names of "fields" that differ, and "rows".

    A row is a digest and the values of the fields, in their order.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.quadratic([1.0])
        >>> base = asim.Scenario(cluster, rule, workload, commits=8)
        >>> told = asked_for(asim.grid(base, workers=[2, 4]))
        >>> told["fields"], [row[1:] for row in told["rows"]], told["common"]["learning_rate"]
        (['workers'], [[2], [4]], 0.1)
    """
    values = [values_of(scenario) for scenario in scenarios]
    names = list(dict.fromkeys(name for one in values for name in one))
    differ = [name for name in names if any(one.get(name) != values[0].get(name) for one in values)]
    return {
        "common": {name: values[0].get(name) for name in names if name not in differ},
        "fields": differ,
        "rows": [
            [scenario.digest, *(one.get(name) for name in differ)]
            for scenario, one in zip(scenarios, values, strict=True)
        ],
    }


def remember(store: Store, scenarios: Sequence[Scenario]) -> None:
    """Keep in a store what it was asked for."""
    description = asked_for(scenarios)
    store.write_sweep(fingerprint.digest(description["rows"]), {**description, "when": now()})


def values_of(scenario: Scenario) -> dict[str, Any]:
    """Field -> value, as plain data; as `Scenario.fields` has them, but a thousand times in half a second."""
    rule = {RULE.field: without(scenario.rule).name, **_shown(RULE.field, rule_component(scenario.rule).values)}
    compressor = compressor_component(scenario.rule)
    rule |= {COMPRESSOR.field: compressor.name, **_shown(COMPRESSOR.field, compressor.values)}
    study = {name: getattr(scenario, name) for name in STUDY_FIELDS}
    study["record"] = None if scenario.record is None else scenario.strides  # the default depends on the workers
    lanes = lanes_of(scenario)
    study |= {} if lanes is None else {LANES: lanes}
    cluster = {} if scenario.trace is not None else _of_cluster(scenario.cluster)
    return {**cluster, **plain(rule), **_of_workload(scenario.workload), **study}


@once_for_each
def _of_cluster(cluster: Cluster | Trace) -> dict[str, Any]:
    if isinstance(cluster, Trace):
        return {"workers": cluster.workers}
    law, protocol = law_component(cluster.compute), protocol_component(cluster.protocol)
    fields = [*law.fields(), *protocol.fields(), *network_and_server_fields(cluster)]
    return plain({"workers": cluster.workers, **{field.name: field.value for field in fields}})


@once_for_each
def _of_workload(workload: Workload) -> dict[str, Any]:
    return plain({field.name: field.value for field in workload_component(workload).fields()})


def _shown(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {shown_name(kind, name): value for name, value in values.items()}


def table_of(store: Store, sweeps: Sequence[Mapping[str, Any]]) -> SweepTable:
    """The table of what was asked for in one or several sweeps; a scenario of several of them has one row.

    Args:
        store: Where the results are.
        sweeps: As `asked_for` describes them.
    """
    rows: dict[str, dict[str, Any]] = {}
    for one in sweeps:
        for digest, *values in one["rows"]:
            row = {**one["common"], **dict(zip(one["fields"], values, strict=True))}
            rows.setdefault(digest, with_infinity(row))
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    first = next(iter(rows.values()), {})
    fields = [name for name in names if any(row.get(name) != first.get(name) for row in rows.values())]
    states = store.states(rows)
    found = {digest: store.summary(digest) if states[digest] == DONE else None for digest in rows}
    own = [name for summary in found.values() for name in summary or () if name not in KEYS]
    columns = {name: column([row.get(name) for row in rows.values()]) for name in fields}
    for name in (*KEYS, *dict.fromkeys(own)):
        columns[name] = column([(summary or {}).get(name) for summary in found.values()], numbers=True)
    if LANES not in fields and any(LANES in row for row in rows.values()):
        columns[LANES] = column([row.get(LANES) for row in rows.values()])
    columns[STATUS] = np.array(list(states.values()), np.str_)
    if FAILURE in states.values():
        failures = [store.failure(digest) or {} if states[digest] == FAILURE else {} for digest in rows]
        columns[REASON] = np.array([str(failure.get("reason", "")) for failure in failures], np.str_)
    columns[DIGEST] = np.array(list(rows), np.str_)
    return SweepTable(columns, fields)


def column(values: Sequence[Any], *, numbers: bool = False) -> np.ndarray:
    """Values as an array: whole numbers, switches, other numbers with NaN for None, or texts.

    With `numbers` they are numbers even if all of them are None.

    Example:
        >>> column([1, 2]), column([0.5, None]), column(["gem", None]), column([[64, 32], [64]])
        (array([1, 2]), array([0.5, nan]), array(['gem', ''], dtype='<U3'), array(['64,32', '64'], dtype='<U5'))
    """
    given = [value for value in values if value is not None]
    if len(given) == len(values):
        for kind in (bool, int):
            if given and all(type(value) is kind for value in given):
                return np.array(values)
    if numbers or (given and all(isinstance(value, (int, float)) for value in given)):
        return np.array([np.nan if value is None else value for value in values], float)
    return np.array([_text(value) for value in values], np.str_)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={every}" for name, every in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _cell(value: Any) -> str:
    return (
        "" if isinstance(value, float) and np.isnan(value) else repr(value) if isinstance(value, float) else str(value)
    )
