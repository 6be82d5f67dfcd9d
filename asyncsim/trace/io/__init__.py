"""Traces in the formats of others: CSV for tables and logs, Chrome trace events for timelines."""
