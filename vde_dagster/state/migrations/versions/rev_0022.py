"""Add a column for the process that holds a lease."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.add_column("vde_leases", sa.Column("process", sa.String(255)))
