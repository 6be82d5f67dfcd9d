"""Asynchronous reinforcement learning: staleness, throughput and waste of rollouts with a trainer.

Symbols: C slots generate samples in G seconds. A group has S samples, a step takes b groups or B = b·S samples and
lasts T seconds. L is the lead, v the version. F = E max(G₁ … G_S)/E G, Λ = C/E G samples per second, ρ = Λ·T/B, so that
the trainer is the bottleneck where ρ > 1. Staleness τ counts versions from a sample's start to its step.

Neighbours use `_admission` (orders in which a step never waits for a certain group).
"""

from asyncsim.theory.rollouts._admission import (
    Split,
    ThroughputBounds,
    best_split,
    conserved_staleness,
    in_order_period,
    in_order_steps,
    largest_staleness,
    longest_over_mean,
    paused_period,
    split_period,
    staleness_bound,
    synchronous_period,
    throughput_bounds,
    token_lag,
    versions_per_sample,
)
from asyncsim.theory.rollouts._queue import (
    AgeCutoff,
    BoundedQueue,
    Fluid,
    UnboundedQueue,
    age_cutoff,
    bounded_queue,
    fluid,
    unbounded_queue,
)

__all__ = [
    "AgeCutoff",
    "BoundedQueue",
    "Fluid",
    "Split",
    "ThroughputBounds",
    "UnboundedQueue",
    "age_cutoff",
    "best_split",
    "bounded_queue",
    "conserved_staleness",
    "fluid",
    "in_order_period",
    "in_order_steps",
    "largest_staleness",
    "longest_over_mean",
    "paused_period",
    "split_period",
    "staleness_bound",
    "synchronous_period",
    "throughput_bounds",
    "token_lag",
    "unbounded_queue",
    "versions_per_sample",
]
