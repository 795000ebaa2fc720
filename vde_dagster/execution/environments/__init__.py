"""Versions of environments: found, compared, audited, rolled back and frozen.

A version is read through its pins: the Iceberg snapshots that its tables had when it was
published. `environments` is the door's facet, which also freezes: it holds all of a version under
another name. `rollback` prepares an earlier version, `restore_data` decides which tables go back.
"""
