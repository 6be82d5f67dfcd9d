"""Staleness: how many commits pass between a worker's read and its own commit."""
