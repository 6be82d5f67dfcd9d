"""The numbers in summary.json."""

from collections.abc import Mapping
from typing import Any

KEYS = (
    "commits",
    "simulated_seconds",
    "mean_staleness",
    "initial_loss",
    "final_loss",
    "test_loss",
    "test_accuracy",
    "diverged_at",
    "stuck",
    "wall_seconds",
    "commits_per_second",
)


def own_metrics(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the workload's `evaluate` measures beside test loss and test accuracy.

    Example:
        >>> own_metrics({"commits": 8, "test_loss": 0.5, "train_accuracy": 0.9})
        {'train_accuracy': 0.9}
    """
    return {name: value for name, value in summary.items() if name not in KEYS}
