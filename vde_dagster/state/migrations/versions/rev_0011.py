"""What was filled in the tables of an environment when it was published, and what went back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_PINNED = """
    SELECT DISTINCT p.table_id FROM vde_pins p JOIN vde_heads h ON h.table_id = p.table_id
    WHERE p.valid_to IS NULL AND p.schema_id = h.schema_id
      AND COALESCE(p.iceberg_snapshot_id, -1) = COALESCE(h.iceberg_snapshot_id, -1)
"""
_RANGES = "SELECT start_at, end_at FROM vde_intervals WHERE table_id = :of ORDER BY start_at"
_WRITE = """
    UPDATE vde_pins SET filled = :filled WHERE table_id = :of AND valid_to IS NULL
      AND COALESCE(iceberg_snapshot_id, -1) = (
        SELECT COALESCE(h.iceberg_snapshot_id, -1) FROM vde_heads h WHERE h.table_id = :of)
"""


def upgrade() -> None:
    """Add columns; of pins that tables are at still, what is filled now is what was filled."""
    op.add_column("vde_fills", sa.Column("undone", sa.Boolean(), nullable=True))
    op.add_column("vde_pins", sa.Column("filled", sa.Text(), nullable=True))
    conn = op.get_bind()
    for (table_id,) in conn.execute(sa.text(_PINNED)).all():
        ranges = conn.execute(sa.text(_RANGES), {"of": table_id}).all()
        filled = ",".join(f"{start}-{end}" for start, end in ranges)
        conn.execute(sa.text(_WRITE), {"of": table_id, "filled": filled})
