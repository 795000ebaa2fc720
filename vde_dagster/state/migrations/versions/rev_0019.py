"""Add columns for the task time and the bytes read by each fill."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    for table in ("vde_fills", "vde_pending_intervals"):
        op.add_column(table, sa.Column("task_seconds", sa.Float))
        op.add_column(table, sa.Column("bytes_read", sa.BigInteger))
