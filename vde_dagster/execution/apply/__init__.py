"""Applying plans: tables are filled and audited on branches, and published all or not at all.

`apply` works on models parents first (`worker_pool`); `fill_table` decides the ranges of one
table and their order, `fill_range` writes, audits and records one of them, and takes over what
a dead process left. `table_branches` moves `main`, under a lease, in one transaction with the
record of the fill. `skipping` leaves out models whose inputs hold nothing new: it tells a
table's state from Iceberg's metadata and from recorded digests. What fails is told by model,
with the line of the author's file (`failure_report`).
"""
