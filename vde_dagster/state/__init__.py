"""The record of what was built and published, in SQL: tables, environments, plans, leases.

`StateStore` has its parts by name over one `Database`. Whoever changes something writes to the
outbox (`db.outbox`) in the same transaction, from which others are told.
"""

from __future__ import annotations

from vde_dagster.state.store import StateStore

__all__ = ["StateStore"]
