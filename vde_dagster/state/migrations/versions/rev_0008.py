"""What the tables of an environment held when it was published."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add two tables; versions that were published before have no pins."""
    open_pins = sa.text("valid_to IS NULL")
    op.create_table(
        "vde_heads",
        sa.Column("table_id", sa.String(64), primary_key=True),
        sa.Column("metadata_location", sa.String(1000), nullable=False),
        sa.Column("iceberg_snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=True),
    )
    op.create_table(
        "vde_pins",
        sa.Column("environment", sa.String(64), primary_key=True),
        sa.Column("table_id", sa.String(64), primary_key=True),
        sa.Column("valid_from", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.Integer(), nullable=True),
        sa.Column("iceberg_snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=True),
        sa.Column("rows_added", sa.BigInteger(), nullable=True),
        sa.Column("rows_removed", sa.BigInteger(), nullable=True),
    )
    op.create_index(
        "vde_pins_open",
        "vde_pins",
        ["environment", "table_id"],
        unique=True,
        sqlite_where=open_pins,
        postgresql_where=open_pins,
    )
