"""Add columns for the login that holds a lease, and for the login that stored a view's types."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    for table in ("vde_leases", "vde_view_types"):
        op.add_column(table, sa.Column("db_user", sa.String(255)))
