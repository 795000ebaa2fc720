"""The project that the state belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the table of the one row; the next publication writes it."""
    op.create_table(
        "vde_project",
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("named", sa.Boolean(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
    )
