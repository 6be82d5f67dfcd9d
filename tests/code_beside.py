"""A module that a function of the tests reads."""

DECAY = 0.0
