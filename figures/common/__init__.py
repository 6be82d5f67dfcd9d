"""What the figures share: set-ups, kept runs, tables of numbers, claims, drawing, and the book that makes all of it."""

from figures.common.claims import Claim
from figures.common.runs import Outcome, Runs
from figures.common.tables import Table, columns_of, pack, stack, table, where

__all__ = ["Claim", "Outcome", "Runs", "Table", "columns_of", "pack", "stack", "table", "where"]
