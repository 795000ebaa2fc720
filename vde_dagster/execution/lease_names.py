"""The names of what leases lock."""

from __future__ import annotations


def environment_lease(environment: str) -> str:
    """Name the lease of whoever changes an environment."""
    return f"environment/{environment}"


def table_lease(table_id: str) -> str:
    """Name the lease of whoever writes a physical table."""
    return f"table/{table_id}"
