"""Predicted beside measured, in numbers: staleness, stability, traces."""
