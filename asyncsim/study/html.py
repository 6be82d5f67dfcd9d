"""The interactive report of a result: report.html beside report.png."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from asyncsim.animation.report import report_page
from asyncsim.files import atomic_write
from asyncsim.reports.staleness import run_prediction
from asyncsim.study.run import Result, headline

LONGEST = 200  # characters of a value in a table


def write_html(result: Result, path: str | os.PathLike[str]) -> None:
    """Write the report of a result as one page: curves with values, the whole timeline, staleness and tables.

    Args:
        result: What `asyncsim.run` or `asyncsim.load` returned.
        path: The file.

    Raises:
        ValueError: If the run has no commits, or no time passes.
        OSError: If the file cannot be written; an existing file stays whole.
    """
    title, subtitle = headline(result.scenario)
    tables = {
        "Summary": [(name.replace("_", " "), _text(value)) for name, value in result.summary.items()],
        "Scenario": [*_leaves(result.scenario.describe())],
    }
    predicted = run_prediction(result.scenario.scheduled, result.trace)
    text = report_page(result.trace, result.run, title, subtitle, predicted=predicted, tables=tables)
    atomic_write(path, lambda file: file.write(text.encode()))


def _leaves(described: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """The values of a description with their paths."""
    for name, value in described.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{name}.")
        elif value is not None:
            yield f"{before}{name}", _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    if isinstance(value, int) or 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.4g}"
