"""Reading and writing of files for all other packages: whole or not at all, with an owner and a checksum.

Neighbours use `_atomic` (any file, and whether asyncsim wrote one), `_json` (JSON with an owner), `_npz` (arrays with a
format version, notes and checksums) and `_hash` (digests of contents). None of them imports JAX.
"""
