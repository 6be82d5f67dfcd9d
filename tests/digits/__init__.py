"""Known cases whose numbers are hashed and compared with those of another revision; see `__main__`."""
