"""Add a column for the warehouse of the state's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Store the warehouse of the existing tables, if all of them are in the same warehouse."""
    op.add_column("vde_project", sa.Column("warehouse", sa.String(1000)))
    tables = op.get_bind().execute(
        sa.text(
            "SELECT t.table_id, i.metadata_location FROM vde_tables t JOIN iceberg_tables i "
            "ON i.table_namespace = t.namespace AND i.table_name = t.name"
        )
    )
    found: set[str] = set()
    for table_id, location in tables:
        parts = str(location).rsplit("/", 4)  # WAREHOUSE/namespace/name-ID/metadata/file
        if len(parts) == 5 and str(table_id) in parts[2]:
            found.add(parts[0])
    if len(found) == 1:
        warehouse = sa.text("UPDATE vde_project SET warehouse = :place")
        op.execute(warehouse.bindparams(place=found.pop()))
