"""The record of what was built and published, in SQL: tables, environments, plans, leases.

`StateStore` provides its parts by name over one `Database`. Every change also writes to the outbox
(`db.outbox`) in the same transaction; exporters and Dagster read it.
"""

from __future__ import annotations

from vde_dagster.state.store import StateStore

__all__ = ["StateStore"]
