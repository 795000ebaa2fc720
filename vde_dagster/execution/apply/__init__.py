"""Application of plans: tables are filled and audited on branches, then published atomically.

`apply` processes models parents first (`worker_pool`); `fill_table` determines a table's ranges and
their order; `fill_range` writes, audits and records one range, and recovers ranges of a dead
process. `table_branches` moves the branch `main` under a lease, and records the fill in the same
transaction. `skipping` leaves out models without new input. `failure_report` reports failures by
model, with the line of the source file.
"""
