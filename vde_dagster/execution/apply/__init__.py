"""Application of plans: tables are filled and audited on branches, then published atomically.

`apply` processes models parents first (`worker_pool`); `fill_table` determines the ranges of one
table and their order; `fill_range` writes, audits and records one range, and recovers ranges of a
dead process. `table_branches` moves the branch `main`, under a lease, and records the fill in the
same transaction. `skipping` leaves out models without new input, by comparing table states from
Iceberg's metadata and recorded digests. Failures are reported by model, with the line of the
source file (`failure_report`).
"""
