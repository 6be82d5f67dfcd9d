"""Predictions next to measurements: staleness, stability, traces, pipelines and rollouts."""
