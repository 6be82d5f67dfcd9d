"""Stability: how large a step may be, where noise leaves x, and what momentum and GEM change."""
