"""The two scales: a small network on digits for a laptop, and the paper's own experiments on MNIST."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import asyncsim as asim
from asyncsim._checks import require_one_of
from asyncsim.delays import Delay, Gamma

UNTRAINED = math.log(10)  # loss of ten classes at even odds, where all runs start
FAILED = UNTRAINED / 2  # a run that ends with a higher loss has not learned
NEARLY_EQUAL = Gamma(mean=1.0, cv=0.3)  # compute times of machines of one kind
MOMENTUM = 0.9


@dataclass(frozen=True)
class Scale:
    """Sizes of the standard experiment.

    Attributes:
        name: "quick" or "paper".
        task: What is learned, in words.
        commits_per_worker: Commits per worker on average; at the paper's scale, an epoch of each worker's own shuffle.
        batch_size: Examples in a mini-batch.
        learning_rate: η unless stated otherwise.
        large_learning_rate: The misspecified η, twice too large.
        kappa_learning_rate: η for amplified proxies.
    """

    name: str
    task: str
    commits_per_worker: int
    batch_size: int
    learning_rate: float
    large_learning_rate: float
    kappa_learning_rate: float


SCALES = {
    "quick": Scale("quick", "digits, one hidden layer of 32", 300, 16, 0.15, 0.3, 0.225),
    "paper": Scale("paper", "MNIST, the paper's network", 937, 64, 0.05, 0.1, 0.05),
}


def scale_of(name: str) -> Scale:
    """The scale of this name.

    Raises:
        ValueError: If there is no such scale.
    """
    return SCALES[require_one_of("scale", name, choices=tuple(SCALES))]


@lru_cache(maxsize=8)  # MNIST takes a second to read, and sharing the arrays shares the memory
def workload(scale: str, batch_size: int) -> asim.Workload:
    """The model and data that are learned at a scale."""
    if scale_of(scale).name == "quick":
        return asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=batch_size)
    return asim.workloads.ConvNet(asim.datasets.MNIST(), batch_size=batch_size)


def scenario(
    scale: str,
    rule: asim.Rule,
    workers: int,
    seed: int,
    *,
    compute: Delay = NEARLY_EQUAL,
    commits_per_worker: int | None = None,
    batch_size: int | None = None,
    record: Mapping[str, int | None] | None = None,
) -> asim.Scenario:
    """The standard experiment at a scale, with some arguments changed.

    Args:
        scale: "quick" or "paper".
        rule: Update rule.
        workers: Number of workers n.
        seed: Seed of the schedule, the initial parameters and the mini-batches.
        compute: Law of the compute times.
        commits_per_worker: Commits per worker on average; by default those of the scale.
        batch_size: Examples in a mini-batch; by default those of the scale.
        record: What is recorded besides the loss; by default `gem_record` for GEM, and otherwise nothing.
    """
    usual = scale_of(scale)
    if record is None:
        record = gem_record(workers) if rule.name == "gem" else {}
    return asim.Scenario(
        cluster=asim.Cluster(workers, compute),
        rule=rule,
        workload=workload(scale, batch_size or usual.batch_size),
        commits_per_worker=commits_per_worker or usual.commits_per_worker,
        seed=seed,
        record=record,
    )


def gem(learning_rate: float, kappa: float = 1.0) -> asim.Rule:
    """GEM as in the authors' script."""
    return asim.rules.GEM(learning_rate, momentum=MOMENTUM, kappa=kappa)


def gem_record(workers: int) -> dict[str, int | None]:
    """What GEM's runs record, the same for all figures, so that they can share runs.

    Medians once per commit of each worker, energies five times.
    """
    often = max(1, workers // 5)
    return {"energy_central": often, "energy_proxy": often, "pi_median": workers, "pi_median_by_tensor": workers}
