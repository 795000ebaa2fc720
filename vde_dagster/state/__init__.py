"""The record of what was built and published, in SQL: tables, environments, plans, leases.

`StateStore` has one part per subject. Plans, fills and versions are also written to the outbox
(`db.outbox`) in the same transaction; exporters and Dagster read it.
"""
