"""What a fill read and wrote, and that nothing was computed since nothing was new."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add columns, and an index for the latest fill of each table."""
    for table in ("vde_fills", "vde_pending_intervals"):
        for column in ("inputs", "output", "skipped"):
            op.add_column(table, sa.Column(column, sa.Text(), nullable=True))
    op.create_index("vde_fills_latest", "vde_fills", ["table_id", "recorded_at"], unique=False)
