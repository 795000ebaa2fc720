"""Environments that show tables as they were, and such as never change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add columns; what was published before shows its tables as they are."""
    op.add_column("vde_entries", sa.Column("held_schema_id", sa.Integer(), nullable=True))
    op.add_column("vde_entries", sa.Column("held_snapshot_id", sa.BigInteger(), nullable=True))
    op.add_column("vde_environment_versions", sa.Column("frozen", sa.String(255), nullable=True))
