"""The numbers that sum up a run: the name, unit, format and better direction of each, wherever it is shown.

`summary.json` and CSV files have the machine name, people read the label.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from asyncsim._checks import truncate

ABSENT = "–"
LEAST_WITHOUT_DIGITS, MOST_WRITTEN_OUT = 1e4, 1e9  # sizes of a number between which it is written as a whole number


class Metric(NamedTuple):
    """How a number is shown."""

    label: str  # for people: in tables, in reports and on axes
    kind: Literal["count", "number", "share", "switch", "commit"] = "number"
    unit: str = ""  # empty for a pure number
    larger_is_better: bool | None = None  # none where neither direction is better
    meaning: str = ""  # in a few words


METRICS = {
    "commits": Metric("commits", "count", "commits", None, "replayed"),
    "simulated_seconds": Metric("simulated seconds", "number", "s", None, "until the last of these commits"),
    "mean_staleness": Metric("mean staleness", "number", "versions", None, "versions from read to commit"),
    "bytes_up": Metric("bytes up", "count", "bytes", None, "of updates, or of models between workers"),
    "bytes_down": Metric("bytes down", "count", "bytes", None, "of parameters, from a server"),
    "initial_loss": Metric("initial loss", "number", "", None, "training loss at the initial parameters"),
    "final_loss": Metric("final loss", "number", "", False, "mean of each worker's last quarter, ≤ 50"),
    "test_loss": Metric("test loss", "number", "", False, "of the final central variable"),
    "test_accuracy": Metric("test accuracy", "share", "", True, "of the final central variable"),
    "diverged_at": Metric("diverged", "commit", "commit", None, "first loss or parameter not finite"),
    "stuck": Metric("stuck", "switch", "", None, "the loss fell by less than a twentieth"),
    "wall_seconds": Metric("wall seconds", "number", "s", None, "of the replay, with compilation"),
    "commits_per_second": Metric("commits per wall second", "number", "commits/s", None, "without compilation"),
}
COST_METRICS = {  # where somebody gives the power or the prices of a cluster
    "joules": Metric("energy", "number", "J", False, "of workers, server and network"),
    "money": Metric("money", "number", "", False, "for machines and traffic"),
}
VARIABLE_METRICS = {  # of several variables
    "consensus_distance": Metric("consensus distance", "number", "", None, "(1/n) Σ |x_i - x̄|² of the models"),
    "output_distance": Metric("output distance", "number", "", None, "the same of their outputs, on the test data"),
    "worst_test_loss": Metric("worst test loss", "number", "", False, "of the worst of the models"),
    "worst_test_accuracy": Metric("worst test accuracy", "share", "", True, "of the worst of the models"),
}
KEYS = tuple(METRICS)
NOTABLE = ("diverged_at", "stuck")  # which a table of many runs has only if one of them is so
SHORT = ("final_loss", "test_accuracy", *NOTABLE)  # of a summary, where there is little room
LONGEST = 60  # characters of the value of a field
# Word in the name of a metric of one's own -> whether larger is better.
_DIRECTIONS = {"accuracy": True, "loss": False, "perplexity": False, "error": False}


def metric(name: str) -> Metric:
    """Return how a number is shown: one of a summary, or a metric of one's own, whose name says as much as it can."""
    if name in (known := METRICS | COST_METRICS | VARIABLE_METRICS):
        return known[name]
    directions = {better for word, better in _DIRECTIONS.items() if word in name.lower()}
    kind = "share" if "accuracy" in name.lower() else "number"
    better = directions.pop() if len(directions) == 1 else None
    return Metric(spaced(name), kind, "", better, "by `evaluate` of the workload")


def metric_text(name: str, value: Any) -> str:
    """Return the value of a number as a person reads it."""
    kind = metric(name).kind
    if value is None or value != value:
        return "no" if kind == "commit" else ABSENT
    if kind == "commit":
        return f"at commit {int(value):,}"
    if kind == "count":
        return f"{int(value):,}"
    if kind == "switch" or isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "share" and isinstance(value, float) and 0 <= value <= 1:
        return f"{value:.2%}"
    return field_text(value)


def field_text(value: Any) -> str:
    """Return the value of a field of a scenario, or a dash for a number that does not exist."""
    if value is None or value != value:
        return ABSENT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        kind = [str(value["kind"]).rpartition(".")[2]] if "kind" in value else []
        entries = (f"{spaced(key)} {field_text(item)}" for key, item in value.items() if key != "kind")
        return ", ".join([*kind, *entries])
    if isinstance(value, (list, tuple)):
        texts = (f"({field_text(item)})" if isinstance(item, Mapping) else field_text(item) for item in value)
        return ", ".join(texts) or "none"
    return number(value) if isinstance(value, (int, float)) else str(value)


def sort_key(value: Any) -> tuple[bool, bool, Any]:
    """Return a key that sorts numbers, then those that do not exist, then texts."""
    absent = value != value
    return isinstance(value, str), absent, 0.0 if absent else value


def field_lines(values: Iterable[tuple[str, Any]], longest: int = LONGEST) -> list[tuple[str, str]]:
    """Return (name, value) of fields, from their paths and values, without entries such as "network: Network"."""
    lines = [(path.removesuffix(".number").removesuffix(".array"), field_text(value)) for path, value in values]
    return [(name, truncate(text, longest)) for name, text in lines if name.rpartition(".")[2] != text.lower()]


def number(value: float | None) -> str:
    """Return a number with four digits, a whole number in full, or a dash for None and NaN."""
    if value is None or value != value:
        return ABSENT
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if LEAST_WITHOUT_DIGITS <= abs(value) < MOST_WRITTEN_OUT else f"{value:,.4g}"


def percent(value: float | None) -> str:
    """Return a share in percent, or a dash for None and NaN."""
    return ABSENT if value is None or value != value else f"{value:.2%}"


def is_notable(name: str, value: Any) -> bool:
    """Return whether a table of many runs needs a column for this: a run has a value, has diverged or is stuck."""
    return metric_text(name, value) not in (ABSENT, "no" if name in NOTABLE else "")


def own_metrics(summaries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the metrics of the workloads' `evaluate` besides test loss and test accuracy."""
    return list(dict.fromkeys(name for summary in summaries for name in summary if name not in METRICS))


def spaced(name: str) -> str:
    """Return a name in words."""
    return name.replace("_", " ")


def counted(count: int, noun: str, form: str = "") -> str:
    """Return a number with its noun, as in "1 worker" and "2 workers"."""
    return f"{count:{form}} {noun}" + ("" if count == 1 else "s")
