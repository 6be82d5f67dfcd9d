"""Fault injection: `python -m tests.hostile`."""
