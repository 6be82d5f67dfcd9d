"""The version, in a file of its own, so that the library need not import the package that names what it offers."""

__version__ = "0.1.0"
