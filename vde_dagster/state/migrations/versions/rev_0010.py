"""Up to which version consumers have taken a model's changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add a table; nobody has a cursor yet."""
    op.create_table(
        "vde_change_cursors",
        sa.Column("environment", sa.String(64), primary_key=True),
        sa.Column("model_namespace", sa.String(255), primary_key=True),
        sa.Column("model_name", sa.String(255), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("moved_at", sa.BigInteger(), nullable=False),
        sa.Column("moved_by", sa.String(255), nullable=False),
    )
