"""The names of what leases lock."""

from __future__ import annotations

_TABLE = "table/"


def environment_lease(environment: str) -> str:
    """Name the lease of whoever changes an environment."""
    return f"environment/{environment}"


def table_lease(table_id: str) -> str:
    """Name the lease of whoever writes a physical table."""
    return f"{_TABLE}{table_id}"


def mirror_lease(catalog: str) -> str:
    """Name the lease of whoever writes the views of a catalog that mirrors environments."""
    return f"mirror/{catalog}"


def leased_table(lease: str) -> str | None:
    """Return the id of the physical table that a lease of this name locks, if it locks one."""
    return lease.removeprefix(_TABLE) if lease.startswith(_TABLE) else None
