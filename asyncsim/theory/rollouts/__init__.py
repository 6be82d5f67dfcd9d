"""Asynchronous reinforcement learning: staleness, throughput and waste of rollouts with a trainer.

Symbols: C slots generate samples in G seconds. A group has S samples, a step takes b groups or B = b·S samples and
lasts T seconds. L is the lead, v the version. F = E max(G₁ … G_S)/E G, Λ = C/E G samples per second, ρ = Λ·T/B, so that
the trainer is the bottleneck where ρ > 1. Staleness τ counts versions from a sample's start to its step.

Neighbours use `_admission` (orders in which a step never waits for a certain group).
"""

import lazy_loader

# `__init__.pyi` lists the public names. Each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
