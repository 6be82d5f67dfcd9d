"""What the figures share: set-ups, kept runs, tables of numbers, claims, drawing, and the book that makes all of it."""

from .claims import Claim
from .runs import Outcome, Runs
from .tables import Table, columns_of, pack, stack, table, where

__all__ = ["Claim", "Outcome", "Runs", "Table", "columns_of", "pack", "stack", "table", "where"]
