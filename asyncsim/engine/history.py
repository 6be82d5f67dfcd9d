"""What a replay has measured so far, put together piece by piece."""

from collections.abc import Mapping
from typing import Any

import numpy as np


class History:
    """Loss and records of the commits done; arrays have the commits first and the seeds second.

    Args:
        strides: Name -> every how many commits it is recorded.
        seeds: Number of seeds.
    """

    def __init__(self, strides: Mapping[str, int], seeds: int) -> None:
        self.strides, self.seeds = dict(strides), seeds
        self.losses: list[np.ndarray] = []
        self.values: dict[str, list[np.ndarray]] = {name: [] for name in strides}
        self.at: dict[str, list[np.ndarray]] = {name: [] for name in strides}

    def add(self, start: int, stop: int, out: Mapping[str, Any]) -> None:
        """Take in what the compiled loop recorded of commits start to stop."""
        self.losses.append(np.asarray(out["loss"])[: stop - start])
        for name in self.strides.keys() & out.keys():
            due = np.flatnonzero(np.arange(start + 1, stop + 1) % self.strides[name] == 0)
            self.add_record(name, start + due, np.asarray(out[name])[due])

    def add_record(self, name: str, at: np.ndarray, values: np.ndarray) -> None:
        """Take in records of the commits `at`, values of shape (records, seeds, …)."""
        self.at[name].append(np.asarray(at, np.int64))
        self.values[name].append(values)

    def restore(self, loss: np.ndarray, records: Mapping[str, np.ndarray], at: Mapping[str, np.ndarray]) -> None:
        """Take in what an earlier run recorded, arrays with the seeds second."""
        self.losses.append(loss)
        for name in self.strides.keys() & records.keys():
            self.add_record(name, at[name], records[name])

    def loss(self) -> np.ndarray:
        """(commits, seeds)."""
        return np.concatenate(self.losses) if self.losses else np.zeros((0, self.seeds), np.float32)

    def records(self) -> dict[str, np.ndarray]:
        """Name -> (records, seeds, …)."""
        return {n: np.concatenate(v) if v else np.zeros((0, self.seeds)) for n, v in self.values.items()}

    def recorded_at(self) -> dict[str, np.ndarray]:
        """Name -> (records,) numbers of the commits."""
        return {name: np.concatenate([np.zeros(0, np.int64), *at]) for name, at in self.at.items()}
