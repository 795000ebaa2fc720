"""What tables that are made whole were made without."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column to fills, recorded and waiting."""
    for table in ("vde_fills", "vde_pending_intervals"):
        op.add_column(table, sa.Column("lacks", sa.Text(), nullable=True))
