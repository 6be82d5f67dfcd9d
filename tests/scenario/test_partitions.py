"""A scenario's data shared out to its workers: by description, by flag, following the number of workers."""

from typing import Any

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.components._description import NotRebuilt
from asyncsim.datasets import Partition, partition
from asyncsim.pool._parcels import Packer, unpack
from asyncsim.scenario._scenario import all_fields
from tests.problems import refusals
from tests.scenario.test_rebuild import through_json

DIGITS = asim.datasets.Digits()


def scenario(workers: int = 4, data: Any = None, workload: asim.Workload | None = None) -> asim.Scenario:
    data = partition(DIGITS, workers, alpha=0.3, least=8) if data is None else data
    cluster = asim.Cluster(workers, asim.delays.Constant(1.0))
    return asim.Scenario(cluster, asim.rules.Downpour(0.1), workload or asim.workloads.Softmax(data, 8), commits=8)


def shared(made: asim.Scenario) -> Partition:
    assert isinstance(made.workload.data, Partition)
    return made.workload.data


@pytest.mark.quick
def test_a_partition_is_rebuilt_from_its_description() -> None:
    made = scenario(data=partition(DIGITS, 4, by="labels", labels=4, weighting="sizes"))
    again = through_json(made)
    assert again == made
    assert shared(again).fingerprint == shared(made).fingerprint
    assert made not in (scenario(data=DIGITS), scenario(data=partition(DIGITS, 4, by="labels", labels=4)))
    many = scenario(workload=asim.workloads.Quadratic([1.0, 2.0], minima=np.arange(8.0).reshape(4, 2)))
    assert many.override(minima=np.ones((4, 2)).tolist()) != many


def test_a_partition_follows_the_number_of_workers() -> None:
    wider = through_json(scenario()).override(workers=9)
    assert wider == scenario(9)
    assert len(shared(wider)) == 9
    assert shared(scenario().override(batch_size=4)) is not None


def test_other_ways_by_name() -> None:
    base = scenario()
    labels = base.override(partition="labels", partition_labels=5)
    assert shared(labels).settings() == {"by": "labels", "labels": 5, "least": 8, "seed": 0, "weighting": "equal"}
    assert base.override(partition="none") == scenario(data=DIGITS)
    assert scenario(data=DIGITS).override(partition="dirichlet", partition_alpha=0.3, partition_least=8) == base
    other = base.override(workload="mlp", hidden=[4], partition_alpha=0.5)
    assert shared(other).alpha == 0.5
    assert (other.workload.name, other.workload.workers) == ("mlp", 4)
    recorded = asim.Scenario(asim.Trace.from_commits([0, 1, 2]), base.rule, asim.workloads.Softmax(DIGITS, 8))
    assert len(shared(recorded.override(partition="iid"))) == 3


def test_fields_show_what_is_there() -> None:
    fields = {field.name: field for field in scenario().fields()}
    assert (fields["partition"].value, fields["partition_alpha"].value) == ("dirichlet", 0.3)
    assert "partition_labels" not in fields
    assert fields["partition_seed"].parse("3") == 3
    every = {field.name: field for field in all_fields()}
    assert {f"partition_{name}" for name in ("alpha", "labels", "cv", "least", "weighting", "seed")} <= set(every)
    assert every["partition_alpha"].help.endswith("(dirichlet, mixture)")
    assert every["partition_least"].parse("16") == 16
    plain = [field.name for field in scenario(workload=asim.workloads.Quadratic([1.0])).fields()]
    assert not [name for name in plain if name.startswith("partition")]


def test_a_partition_travels_to_other_processes(tmp_path: Any) -> None:
    """Data and parts go as files named by their contents; the workload that arrives has the same parts."""
    made = scenario()
    name = Packer(tmp_path).pack(made)
    assert (tmp_path / f"{name}.bin").stat().st_size < 100_000
    again = unpack(tmp_path, name)
    assert again.digest == made.digest
    assert shared(again).fingerprint == shared(made).fingerprint


test_what_cannot_be_meant = refusals(
    (
        {"partition_labels": 3},
        "`partition_labels` is not a field of partition 'dirichlet', only of labels; 'dirichlet' has",
    ),
    ({"partition": "iid", "partition_alpha": 0.1}, "of partition 'iid', only of dirichlet, mixture"),
    ({"partition_alhpa": 0.1}, r"Did you mean `partition_alpha`\?"),
    ({"partition": "labls"}, r"`partition` must be one of .*Did you mean 'labels'\?"),
    ({"partition_alpha": -1.0}, "`partition_alpha` must be finite and positive; got -1.0"),
    ({"workers": 1500}, "`workers` must be at most 179 for 1438 training examples in parts of at least 8"),
    ({"workers": 0}, "`workers` must be an integer of at least 1; got 0"),
    ({"partition_least": 1, "workers": 100}, "`batch_size` must be at most the examples of the smallest part"),
    call=lambda changes: scenario().override(**changes),
)


def test_owners_of_ones_own() -> None:
    made = scenario(2, partition(DIGITS, 2, by=np.arange(1438) % 2))
    with pytest.raises(NotRebuilt, match=r"`workload\.data\.by` is an array of shape \[1438\]"):
        through_json(made)
    with pytest.raises(ValueError, match="`workers` cannot be 3 while who has which examples is of your own making"):
        made.override(workers=3)
    assert len(shared(made.override(workers=3, partition="iid"))) == 3
    assert made.override(commits=4).workload is made.workload


def test_a_workload_of_ones_own_is_told_apart_by_its_parts() -> None:
    def own(parts: Any, weights: Any = None) -> asim.Scenario:
        loss = asim.workloads.Quadratic([1.0]).loss
        workload = asim.Workload(start, loss, data=np.ones((4, 1)), parts=parts, weights=weights)
        return scenario(2, workload=workload)

    assert own([[0, 1], [2, 3]]) == own([[0, 1], [2, 3]])
    assert own([[0, 1], [2, 3]]) != own([[0, 2], [1, 3]])
    assert own([[0, 1], [2, 3]]) != own([[0, 1], [2, 3]], weights=[1, 2])


def start(key: Any) -> Any:
    return {"x": np.ones(1, np.float32)}
