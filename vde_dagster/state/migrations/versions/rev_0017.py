"""Add a table of partly filled intervals, such as the first half of a day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "vde_parts",
        sa.Column("table_id", sa.String(64), primary_key=True),
        sa.Column("start_at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("end_at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("unit", sa.String(16), primary_key=True),
        sa.Column("since", sa.BigInteger, nullable=False),
    )
