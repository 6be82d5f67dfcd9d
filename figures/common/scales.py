"""The two scales: digits and a small net for a laptop, and the paper's own set-up on MNIST."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import asyncsim as asim
from asyncsim.checks import one_of
from asyncsim.delays import Delay, Gamma

UNTRAINED = math.log(10)  # loss of ten classes at even odds, where all runs begin
FAILED = UNTRAINED / 2  # a run that ends above has not learned
NEARLY_EQUAL = Gamma(mean=1.0, cv=0.3)  # compute times of machines of one kind
MOMENTUM = 0.9


@dataclass(frozen=True)
class Scale:
    """Sizes of the standard experiment, in which each worker makes `commits_per_worker` commits.

    Attributes:
        name: "quick" or "paper".
        task: What is learned, in words.
        commits_per_worker: Commits of each worker; one epoch of its own shuffle of the data at the paper's scale.
        batch_size: Examples in a mini-batch.
        learning_rate: η where nothing else is said.
        large_learning_rate: The misspecified η, twice too large.
        kappa_learning_rate: η where the proxy is amplified.
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
        ValueError: If there is none.
    """
    return SCALES[one_of("scale", name, tuple(SCALES))]


@lru_cache(maxsize=8)  # MNIST takes a second to read, and sharing the arrays shares the memory
def workload(scale: str, batch_size: int) -> asim.Workload:
    """What is learned at a scale."""
    if scale_of(scale).name == "quick":
        return asim.workloads.mlp(asim.datasets.digits(), hidden=(32,), batch_size=batch_size)
    return asim.workloads.convnet(asim.datasets.mnist(), batch_size=batch_size)


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
    """The standard experiment at a scale, with one thing or another changed.

    Args:
        scale: "quick" or "paper".
        rule: Update rule.
        workers: n.
        seed: Of the schedule, the first parameters and the mini-batches.
        compute: Law of the compute times.
        commits_per_worker: Commits of each worker on average.
        batch_size: Examples in a mini-batch.
        record: What is recorded beside the loss; by default nothing, or for GEM `gem_record`.
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
    """GEM as the authors' script has it."""
    return asim.rules.gem(learning_rate, momentum=MOMENTUM, kappa=kappa)


def gem_record(workers: int) -> dict[str, int | None]:
    """What GEM's runs record: figures that share runs must ask for the same.

    Medians once a worker step, energies five times.
    """
    often = max(1, workers // 5)
    return {
        "energy_central": often,
        "energy_proxy": often,
        "pi_median": workers,
        "pi_median_by_tensor": workers,
    }
