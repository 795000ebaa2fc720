"""Ranges that have to be computed again, since what they were made of was restated."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table of outdated ranges."""
    op.create_table(
        "vde_outdated",
        sa.Column("table_id", sa.String(length=64), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "start_at", "end_at"),
    )
