"""Versions of environments: found, compared, audited, rolled back and frozen.

A version is read through its pins: the Iceberg snapshots of its tables when it was published.
`environments` has the methods of `workspace.environments`; one of them, `freeze`, publishes a
version under another name. `rollback` prepares an earlier version; `restore_data` decides which
tables move back.
"""
