"""Versions of environments: found, compared, audited, rolled back and frozen.

A version is read through its pins: the Iceberg snapshots that its tables had when it was
published. `restore_data` decides which tables a rollback takes back to them, and `freeze` holds
all of a version under another name.
"""
