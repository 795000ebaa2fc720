"""An index of which tables environments show now."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the index."""
    op.create_index(
        "vde_entries_shown",
        "vde_entries",
        ["table_id", "environment"],
        unique=False,
        sqlite_where=sa.text("valid_to IS NULL"),
        postgresql_where=sa.text("valid_to IS NULL"),
    )
