"""News for those who show what the store knows, and figures of fills and audits of their own."""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table of news with the store's own name, and add columns."""
    news = op.create_table(
        "vde_news",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(length=255), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("vde_news_number", "vde_news", ["number"], unique=True)
    op.create_index("vde_news_origin", "vde_news", ["origin", "number"], unique=False)
    store = {"number": 1, "kind": "store", "subject": uuid.uuid4().hex, "origin": "", "at": 0}
    op.bulk_insert(news, [store])
    for table in ("vde_fills", "vde_pending_intervals"):
        op.add_column(table, sa.Column("byte_count", sa.BigInteger(), nullable=True))
        op.add_column(table, sa.Column("seconds", sa.Float(), nullable=True))
    op.add_column("vde_audit_results", sa.Column("environment", sa.String(length=64)))
    op.add_column("vde_audit_results", sa.Column("version", sa.Integer()))
