"""Predictions next to measurements: staleness, stability, traces, pipelines and rollouts.

Neighbours use `_trace` (a trace next to theory). The other modules are public.
"""
