"""The version, in a file of its own, so that the library need not import the package that lists its public names."""

__version__ = "0.2.0"

# Raised whenever a change of the library alters any number of a schedule or a replay. It is part of every digest, so
# that no stored result outlives the code that computed it; `tests/test_golden.py` notices when it was forgotten.
REVISION = 4
