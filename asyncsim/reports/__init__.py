"""Predicted beside measured, in numbers: staleness, stability, traces; how long to warm up; what a trace reveals."""
