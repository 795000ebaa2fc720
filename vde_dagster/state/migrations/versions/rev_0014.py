"""Views of a catalog that mirrors environments: what each is to be, and what it is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the table of mirrored views."""
    op.create_table(
        "vde_mirrored_views",
        sa.Column("catalog_name", sa.String(255), primary_key=True),
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("environment", sa.String(64), nullable=False),
        sa.Column("wanted_hash", sa.String(64), nullable=True),
        sa.Column("definition", sa.Text(), nullable=True),
        sa.Column("behind_since", sa.BigInteger(), nullable=True),
        sa.Column("writer", sa.String(64), nullable=True),
        sa.Column("watched_until", sa.BigInteger(), nullable=True),
        sa.Column("failure", sa.String(1000), nullable=True),
    )
