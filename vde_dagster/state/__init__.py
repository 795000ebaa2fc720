"""The record of what was built and published, in SQL: tables, environments, plans, leases.

`StateStore` provides its parts by name over one `Database`. Every change also writes to the outbox
(`db.outbox`) in the same transaction; exporters and Dagster read it.
"""
