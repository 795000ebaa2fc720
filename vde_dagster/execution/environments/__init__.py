"""Versions of environments: found, compared, audited, rolled back and frozen.

A version is read through its pins: the Iceberg snapshots of its tables when it was published.
`environments` is the workspace's facet, including freezing, which publishes a version under another
name. `rollback` prepares an earlier version; `restore_data` decides which tables move back.
"""
