"""Add columns for how a fill computed its rows: from changed rows, or all rows again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    for table in ("vde_fills", "vde_pending_intervals"):
        op.add_column(table, sa.Column("refresh", sa.Text))
